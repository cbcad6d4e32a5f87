"""The head and the command: scores, training, trials, predictions."""

import json
import re

import numpy as np
import pytest

from helpers import configs, model_folders, runners
from keras_bert_ref import heads
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.training import evaluations, run_record

LENGTH = 16


def make_batch(seed=0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    mask = np.ones((3, 4, 8), np.int32)
    mask[0, 1, 5:] = 0
    return {
        "input_ids": rng.integers(0, 50, (3, 4, 8)).astype(np.int32),
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, (3, 4, 8)).astype(np.int32),
        "label_ids": rng.integers(0, 4, 3).astype(np.int32),
    }


@pytest.mark.parametrize("skip_padding", [False, True])
def test_permuting_choices_permutes_scores(skip_padding):
    model = heads.BertMultipleChoice(configs.tiny(), skip_padding=skip_padding)
    batch = make_batch()
    scores = model(batch).numpy()
    assert scores.shape == (3, 4)
    order = [2, 0, 3, 1]
    permuted = {
        name: value[:, order] if value.ndim == 3 else value
        for name, value in batch.items()
    }
    np.testing.assert_allclose(
        model(permuted).numpy(), scores[:, order], atol=1e-6
    )


def test_weights_are_a_classifiers(tmp_path):
    """With one label; each choice alone has the score it has among others."""
    config = configs.tiny()
    classifier = heads.BertClassifier(config, num_labels=1)
    tf1.save(classifier, str(tmp_path / "model.ckpt"))
    model = heads.BertMultipleChoice(config)
    tf1.load(model, str(tmp_path / "model.ckpt"))
    batch = make_batch()
    second = {n: v[:, 1] for n, v in batch.items() if v.ndim == 3}
    np.testing.assert_allclose(
        model(batch).numpy()[:, 1], classifier(second).numpy()[:, 0], atol=1e-6
    )
    again = heads.BertMultipleChoice.from_config(model.get_config())
    assert again.num_labels == 1


@pytest.fixture(scope="module")
def run_multiple_choice():
    with runners.load_runner("run_multiple_choice") as runner:
        yield runner


@pytest.fixture
def arguments(tmp_path):
    """A tiny model, and questions whose answer begins with the letter r."""
    model_folders.write_untrained(tmp_path, max_position_embeddings=LENGTH)
    rng = np.random.default_rng(0)
    for name, count in (("train", 48), ("dev", 12), ("test", 5)):
        lines = ["question,x,y,z,label"]
        for _ in range(count):
            label = rng.integers(3)
            choices = ["r a" if i == label else "w a" for i in range(3)]
            lines.append(",".join(["q", *choices, str(label)]))
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return [
        f"--vocab_file={tmp_path}/vocab.txt",
        f"--bert_config_file={tmp_path}/bert_config.json",
        f"--data_dir={tmp_path}",
        "--task_name=csv",
        "--choice_columns=x,y,z",
        f"--output_dir={tmp_path}/out",
        f"--max_seq_length={LENGTH}",
        "--train_batch_size=4",
        "--learning_rate=1e-2",
        "--num_train_epochs=3",
    ]


@pytest.mark.slow
def test_learns(run_multiple_choice, arguments, tmp_path):
    """Two trials; the better one predicts."""
    everything = ["--do_train", "--do_eval", "--do_predict", "--num_trials=2"]
    everything.append("--eval_every_steps=4")
    runners.run(run_multiple_choice, *arguments, *everything)
    out = tmp_path / "out"
    lines = (out / "results.jsonl").read_text().splitlines()
    results = [json.loads(line)["metrics"] for line in lines]
    assert len(results) == 2
    assert max(r["eval_accuracy"] for r in results) == 1
    table = (out / "results.txt").read_text()
    assert re.search(r"epochs 3 +accuracy +2 ", table)
    text = (out / "test_predictions.tsv").read_text()
    head, *rows = [line.split("\t") for line in text.splitlines()]
    assert head == ["index", "prediction"] + [
        f"probability_{i}" for i in range(3)
    ]
    expected = (tmp_path / "test.csv").read_text().splitlines()[1:]
    assert [row[1] for row in rows] == [line[-1] for line in expected]
    probabilities = np.array([row[2:] for row in rows], float)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    for trial, result in zip(("trial_0", "trial_1"), results, strict=True):
        assert run_record.read(str(out / trial))["task"] == "csv"
        *_, last = evaluations.read_evals(str(out / trial))
        assert last["eval_accuracy"] == result["eval_accuracy"]
        assert "chosen, right" in (out / trial / "report.html").read_text()
    assert 'href="trial_1/report.html"' in (out / "report.html").read_text()


def test_flagfiles(run_multiple_choice):
    runners.check_flagfiles("swag_*.flags", 2)


def test_bad_flags(run_multiple_choice, arguments):
    with pytest.raises(ValueError, match="Nothing to do: set --do_train"):
        runners.run(run_multiple_choice, *arguments)
    with pytest.raises(ValueError, match="no task 'glue'; --task_name must be"):
        runners.run(
            run_multiple_choice, *arguments, "--task_name=glue", "--do_train"
        )
