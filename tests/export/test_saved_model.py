"""SavedModels: text in, the model's own answers out."""

import json

import numpy as np
import pytest
import tensorflow as tf

from helpers import model_folders, runners
from keras_bert_ref import open_model
from keras_bert_ref.export import comparison, fresh_process
from keras_bert_ref.export.graphs import ServedModel, split_with_offsets
from keras_bert_ref.text.interfaces import find_inputs


@pytest.fixture(scope="module")
def export():
    with runners.load_runner("export") as runner:
        yield runner


@pytest.fixture(scope="module")
def folder(golden_dir, tmp_path_factory):
    return model_folders.make(
        "pairs", tmp_path_factory.mktemp("models"), golden_dir / "vocab.txt"
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", model_folders.KINDS)
def test_graph_gives_what_the_methods_give(kind, golden_dir, tmp_path):
    path = model_folders.make(kind, tmp_path, golden_dir / "vocab.txt")
    text_model = open_model(path)
    inputs = find_inputs(text_model, str(path))
    takes_pairs = kind in ("pairs", "score", "questions")
    assert inputs == (("text_a", "text_b") if takes_pairs else ("text_a",))
    served = ServedModel(text_model, inputs, top_k=3)
    answer = served.signatures()["serving_default"]
    rows = comparison.sample_rows(text_model, inputs)
    texts = {n: tf.constant([row[n] for row in rows]) for n in inputs}
    found = {
        name: np.array(fresh_process.decode(x.numpy().tolist()))
        for name, x in answer(**texts).items()
    }
    if kind == "questions":
        check_answers(found, rows)
        found = comparison.cut_words(found, rows)
    expected = comparison.expect_texts(text_model, rows, 3)
    assert comparison.measure(expected, found) < 1e-5
    # No texts, no answers.
    nothing = {name: tf.zeros([0], tf.string) for name in inputs}
    assert all(len(x) == 0 for x in answer(**nothing).values())


def check_answers(found, rows):
    for i, row in enumerate(rows):
        start, end = int(found["start"][i]), int(found["end"][i])
        text = row["text_b"].encode()[start:end].decode()
        assert found["answer"][i] == text
        assert bool(text) == bool(row["text_b"].strip())
        best = found["start_logits"][i][found["word_starts"][i] >= 0]
        assert found["score"][i] < 1e3 or not len(best)


def test_wrong_words_are_noticed():
    values = np.array([[0.6, 0.3]])
    words = np.array([["a", "b"]])
    expected = {"words": words, "probabilities": values}
    found = {"words": words[:, ::-1], "probabilities": values}
    with pytest.raises(ValueError, match="other words than the model"):
        comparison.measure(expected, found)
    tied = {**expected, "probabilities": np.array([[0.3, 0.3]])}
    assert comparison.measure(tied, {**tied, "words": words[:, ::-1]}) == 0


def test_offsets_are_bytes():
    text = "é  b\u202fc\td "
    words, starts, ends = split_with_offsets(tf.constant([text, "", "x"]))
    assert words.to_list() == [[b"\xc3\xa9", b"b", b"c", b"d"], [], [b"x"]]
    assert starts.to_list() == [[0, 4, 8, 10], [], [0]]
    assert ends.to_list() == [[2, 5, 9, 11], [], [1]]


@pytest.mark.slow
def test_versions(export, folder, tmp_path, monkeypatch):
    """Each export is the next version, checked in a process of its own; its
    variables are there once."""
    output = tmp_path / "served" / "name"
    (output / "7").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    runners.run(export, f"--model={folder}", "--output=served/name")
    assert sorted(p.name for p in output.iterdir()) == ["7", "8"]
    loaded = tf.saved_model.load(str(output / "8"))
    assert set(loaded.signatures) == {"serving_default", "ids"}
    answer = loaded.signatures["serving_default"](
        text_a=tf.constant(["a b"]), text_b=tf.constant(["c"])
    )
    classes = open_model(folder).classify("a b", "c")
    assert answer["label"].numpy() == [next(iter(classes)).encode()]
    values = answer["probabilities"].numpy()[0]
    np.testing.assert_allclose(values, [classes["no"], classes["yes"]], 1e-5)
    (data,) = (output / "8" / "variables").glob("variables.data*")
    size = sum(v.numpy().nbytes for v in loaded.weights)
    assert data.stat().st_size < 1.5 * size
    extra = output / "8" / "assets.extra"
    assert json.loads((extra / "config.json").read_text())["labels"] == [
        "no",
        "yes",
    ]
    assert (extra / "vocab.txt").exists()


@pytest.mark.slow
def test_nothing_is_left_of_an_export_that_differs(
    export, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(comparison, "TOLERANCE", -1.0)
    with pytest.raises(ValueError, match="within -1, but it differs by"):
        runners.run(export, f"--model={folder}", f"--output={tmp_path}/name")
    assert not list((tmp_path / "name").iterdir())


def test_flags_that_do_not_fit(export, folder, tmp_path):
    output = f"--output={tmp_path}/name"
    with pytest.raises(ValueError, match="--quantize goes with --format=onnx"):
        runners.run(export, f"--model={folder}", output, "--quantize")
    (tmp_path / "name").write_text("a file")
    with pytest.raises(ValueError, match=r"A new folder .*/name/1 must be"):
        runners.run(export, f"--model={folder}", output)
