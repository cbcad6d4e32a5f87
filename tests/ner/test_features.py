"""The feature-based half: layers on disk, the BiLSTM on them, refusals."""

import json
import shutil

import keras
import numpy as np
import pytest

from helpers import configs, model_folders, ner_files, runners
from keras_bert_ref import modeling
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.ner import rows, vectors
from keras_bert_ref.ner.feature_tagger import FeatureTagger
from keras_bert_ref.training import state

LENGTH = 16


@pytest.fixture(scope="module")
def run_ner():
    with runners.load_runner("run_ner") as runner:
        yield runner


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of four layers, and data."""
    folder = tmp_path_factory.mktemp("features")
    config = model_folders.write_untrained(folder, num_hidden_layers=4)
    keras.utils.set_random_seed(0)
    for name in ("one", "two"):
        tf1.save(modeling.BertModel(config), str(folder / f"{name}.ckpt"))
    ner_files.write_splits(folder, train=40, dev=9, test=6)
    return folder


@pytest.fixture
def arguments(folder, tmp_path):
    return [
        f"--vocab_file={folder}/vocab.txt",
        f"--bert_config_file={folder}/bert_config.json",
        f"--init_checkpoint={folder}/one.ckpt",
        f"--data_dir={folder}",
        f"--output_dir={tmp_path}/out",
        f"--max_seq_length={LENGTH}",
        "--train_batch_size=4",
        "--learning_rate=2e-2",
        "--num_train_epochs=3",
        "--lstm_units=8",
    ]


def test_layers():
    found = {row: rows.layers_of(row, 12) for row in rows.ROWS}
    assert found == {
        "embeddings": [0],
        "second_to_last": [11],
        "last": [12],
        "weighted_last_four": [9, 10, 11, 12],
        "concat_last_four": [9, 10, 11, 12],
        "weighted_all": list(range(1, 13)),
    }
    with pytest.raises(ValueError, match="needs 4 layers, but the model has 3"):
        rows.layers_of("concat_last_four", 3)


def test_weighted_sum():
    """As in ELMo: at first the mean of the layers, times 1."""
    config = configs.tiny()
    make = {"num_labels": 3, "units": 5}
    weighted = FeatureTagger(config, num_layers=4, is_weighted=True, **make)
    single = FeatureTagger(config, num_layers=1, is_weighted=False, **make)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 6, 4, 24)).astype(np.float16)
    mask = np.array([[1] * 6, [1, 1, 0, 0, 0, 0]], np.int32)
    first = weighted({"vectors": x, "input_mask": mask}).numpy()
    weights = {w.path.split("/", 1)[1]: w for w in weighted.weights}
    single.build()
    for weight in single.weights:
        weight.assign(weights[weight.path.split("/", 1)[1]])
    mean = x.astype(np.float32).mean(axis=2, keepdims=True)
    batch = {"vectors": mean, "input_mask": mask}
    np.testing.assert_allclose(first, single(batch).numpy(), atol=1e-5)
    # Padding changes nothing at real words.
    mean[1, 2:] = 7.0
    again = single({"vectors": mean, "input_mask": mask}).numpy()
    np.testing.assert_allclose(first[1, :2], again[1, :2], atol=1e-5)


@pytest.mark.slow
def test_command(run_ner, arguments, tmp_path, folder):
    """Several rows from one command; only the layers that are asked for are
    kept; and it resumes."""
    both = ["--do_train", "--do_eval"]
    config = json.loads((folder / "bert_config.json").read_text())

    def other_config(**changes) -> str:
        path = tmp_path / "other.json"
        path.write_text(json.dumps({**config, **changes}))
        return f"--bert_config_file={path}"

    # What was refused leaves nothing that the right command stumbles over.
    with pytest.raises(ValueError, match="=bidi, but the config .* has ltr"):
        runners.run(
            *(run_ner, *arguments, *both, "--features=embeddings"),
            other_config(directionality="ltr+rtl"),
        )
    runners.run(run_ner, *arguments, *both, "--features=embeddings")
    out = tmp_path / "out"
    assert kept_layers(out) == [0]
    before = (out / "features" / "dev.layer_0.npy").stat().st_mtime_ns
    # Another is added; what was there stays as it was.
    more = "--features=embeddings,weighted_all"
    runners.run(run_ner, *arguments, *both, "--do_predict", more)
    assert kept_layers(out) == [0, 1, 2, 3, 4]
    assert (out / "features/dev.layer_0.npy").stat().st_mtime_ns == before
    check_vectors(folder, out)
    lines = (out / "results.jsonl").read_text().splitlines()
    results = {json.loads(line)["run"]: json.loads(line) for line in lines}
    assert set(results) == {"features_embeddings", "features_weighted_all"}
    assert results["features_embeddings"]["metrics"]["eval_f1"] > 0.9
    table = (out / "results.txt").read_text()
    for row in ("embeddings", "weighted_all"):
        assert f"features {row} lr 0.02 batch 4 epochs 3" in table
    names = tf1.read(state.latest(str(out / "features_weighted_all")))
    assert names["layer_weights"].shape == (4,)
    assert not [name for name in names if name.startswith("bert/")]
    assert (out / "test_predictions.txt").exists()
    # A finished row is evaluated by itself.
    runners.run(run_ner, *arguments, "--do_eval", "--features=embeddings")

    other = other_config(hidden_act="relu")
    with pytest.raises(ValueError, match="with another --bert_config_file"):
        runners.run(run_ner, *arguments, *both, "--features=last", other)
    other = f"--init_checkpoint={folder}/two.ckpt"
    with pytest.raises(ValueError, match="by another checkpoint than --init"):
        runners.run(run_ner, *arguments, *both, "--features=last", other)
    with pytest.raises(
        ValueError, match="of other data, words or windows than"
    ):
        runners.run(
            *(run_ner, *arguments, *both, "--features=last"),
            "--context=document",
        )
    # What was trained is not taken for a model of other features, also where
    # these are gone.
    shutil.rmtree(out / "features")
    message = "trained in .* by another checkpoint .*use another --output_dir.$"
    for actions in (both, ["--do_eval"]):
        with pytest.raises(ValueError, match=message):
            runners.run(
                *(run_ner, *arguments, *actions, "--features=embeddings", other)
            )
    assert not (out / "features").exists()
    runners.run(run_ner, *arguments, "--do_eval", "--features=embeddings")
    assert kept_layers(out) == [0]
    (out / "features" / vectors.DIGESTS_FILE).unlink()
    with pytest.raises(ValueError, match="that no digests.json tells; use an"):
        runners.run(run_ner, *arguments, "--do_eval", "--features=embeddings")


def test_trained_elsewhere(tmp_path):
    """What was trained is known in output_dir, whoever made the features:
    several workers have folders of their own."""
    one, two = ({"checkpoint": x, "config": "c"} for x in ("one", "two"))
    vectors.check_trained(str(tmp_path), one)
    vectors.keep_encoder(str(tmp_path), two)
    vectors.check_trained(str(tmp_path), one)  # nothing was trained on them
    vectors.keep_encoder(str(tmp_path), one)
    trial = tmp_path / "features_last" / "trial_1"
    trial.mkdir(parents=True)
    (trial / "model.ckpt-8.index").touch()
    vectors.check_trained(str(tmp_path), one)
    with pytest.raises(ValueError, match="trained in .* by another checkpoint"):
        vectors.check_trained(str(tmp_path), two)


def test_room_is_taken_at_once(tmp_path):
    """A sparse file would end the process with SIGBUS on a full disk."""
    array = vectors.create_array(str(tmp_path / "x.npy"), (1000, 64))
    array[3] = 1
    array.flush()
    status = (tmp_path / "x.npy").stat()
    assert status.st_blocks * 512 >= status.st_size >= 1000 * 64 * 2
    assert np.load(tmp_path / "x.npy")[3:5].sum() == 64


def kept_layers(out) -> list[int]:
    found = (out / "features").glob("dev.layer_*.npy")
    return sorted(int(path.stem.split("_")[1]) for path in found)


def check_vectors(folder, out) -> None:
    """Each word has what the encoder gives at its first piece."""
    model = modeling.BertModel.from_checkpoint(str(folder / "one.ckpt"))
    vocabulary = (folder / "vocab.txt").read_text().splitlines()
    text = (folder / "dev.txt").read_text().split("\n\n")[1]
    words = [line.split()[0] for line in text.split("\n")]
    pieces = [p for word in words for p in (word[0], f"##{word[1]}")]
    tokens = ["[CLS]", *pieces, "[SEP]"]
    outputs = model(np.array([[vocabulary.index(token) for token in tokens]]))
    every = [outputs["embedding_output"], *outputs["all_encoder_layers"]]
    firsts = 1 + 2 * np.arange(len(words))
    for layer, expected in enumerate(every):
        kept = np.load(out / vectors.FOLDER / f"dev.layer_{layer}.npy")
        assert kept.dtype == np.float16
        np.testing.assert_allclose(
            kept[: len(words)], expected.numpy()[0, firsts], atol=2e-3
        )


def test_bad_flags(run_ner, arguments):
    with pytest.raises(
        ValueError, match="--features=first, but it must be some"
    ):
        runners.run(run_ner, *arguments, "--do_train", "--features=first")
    with pytest.raises(ValueError, match="--bilstm_units=4 is for encoders th"):
        runners.run(
            run_ner,
            *arguments,
            *("--do_train", "--features=last", "--bilstm_units=4"),
        )
    with pytest.raises(ValueError, match="--dtype=float16 is for encoders th"):
        runners.run(
            run_ner,
            *arguments,
            *("--do_train", "--features=last", "--dtype=float16"),
        )
    without = [a for a in arguments if "init_checkpoint" not in a]
    with pytest.raises(
        ValueError, match="pre-trained encoder; set --init_check"
    ):
        runners.run(run_ner, *without, "--do_train", "--features=last")


def test_remote_folders(tmp_path):
    with pytest.raises(
        ValueError, match="local disk, but --output_dir is gs://"
    ):
        vectors.prepare("gs://x", {}, {}, [1], None)
