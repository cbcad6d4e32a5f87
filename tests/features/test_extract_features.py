"""The command: golden values, formats, pooling, order, refusals."""

import json
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from helpers import runners
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig
from keras_bert_ref.features import files as feature_files
from keras_bert_ref.features import lines as feature_lines
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.records.lengths import compute_by_length
from keras_bert_ref.tokenization import FullTokenizer

# Name, type, default, required: all flags of the original.
ORIGINAL_FLAGS = """
input_file string None required
output_file string None required
layers string -1,-2,-3,-4 -
bert_config_file string None required
max_seq_length int 128 -
init_checkpoint string None required
vocab_file string None required
do_lower_case bool True -
batch_size int 32 -
use_tpu bool False -
master string None -
num_tpu_cores int 8 -
use_one_hot_embeddings bool False -
"""
TOLERANCE = 2e-6
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# Blank, single and double lines, of several lengths; no line end at the end.
LINES = [
    "w5 w6 w7",
    "",
    "w8 ||| w9 w10",
    "w5 ||| w6 ||| w7 w8 w9",
    "w5 w6 |||",
    " ".join(f"w{i}" for i in range(5, 60)),
    " ".join(["w5"] * 30) + " ||| " + " ".join(["w6"] * 40),
    "  w11\u2028w12 nothing-known \r",
    "w13",
]


@pytest.fixture(scope="module")
def extract_features():
    with runners.load_runner("extract_features") as runner:
        yield runner


@pytest.fixture(scope="module")
def golden(golden_dir, tmp_path_factory):
    """The golden model, a vocabulary of its size, text, and the flags."""
    folder = tmp_path_factory.mktemp("golden")
    config_file = golden_dir / "model/bert_config.json"
    config = BertConfig.from_json_file(str(config_file))
    words = [f"w{i}" for i in range(len(SPECIAL), config.vocab_size)]
    vocab = "".join(f"{word}\n" for word in SPECIAL + words)
    (folder / "vocab.txt").write_text(vocab)
    (folder / "lines.txt").write_text("\n".join(LINES), newline="")
    checkpoint = f"{golden_dir}/model/bert_model.ckpt"
    model = BertModel(config)
    tf1.load(model, checkpoint)
    layers = [-1, 0, -config.num_hidden_layers]
    flags = [
        f"--input_file={folder}/lines.txt",
        f"--vocab_file={folder}/vocab.txt",
        f"--bert_config_file={config_file}",
        f"--init_checkpoint={checkpoint}",
        f"--layers={','.join(map(str, layers))}",
        f"--max_seq_length={config.max_position_embeddings}",
        "--batch_size=4",
    ]
    return model, layers, flags


def call_directly(model, layers) -> list[tuple[list[str], np.ndarray]]:
    """Tokens and values [T, J, D] of each line, by the book."""
    size = model.config.max_position_embeddings
    results = []
    for line in LINES:
        a, mark, b = line.rpartition(" ||| ")
        a, b = (a.split(), b.split()) if mark else (line.split(), [])
        if b:
            while len(a) + len(b) > size - 3:
                (a if len(a) > len(b) else b).pop()
            b = [*b, "[SEP]"]
        a = ["[CLS]", *a[: size - 2 if not b else None], "[SEP]"]
        known = {"nothing-known": ["[UNK]"] * 3, "|||": ["[UNK]"] * 3}
        tokens = [t for word in a + b for t in known.get(word, [word])]
        ids = [SPECIAL.index(t) if t in SPECIAL else int(t[1:]) for t in tokens]
        segments = [0] * (len(tokens) - len(b)) + [1] * len(b)
        outputs = model(np.array([ids]), segment_ids=np.array([segments]))
        chosen = [outputs["all_encoder_layers"][i][0] for i in layers]
        results.append((tokens, np.stack(chosen, axis=1)))
    return results


def assert_close(actual, expected) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def read_json(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def test_flags(extract_features):
    runners.check_flags(ORIGINAL_FLAGS, 13)


@pytest.mark.slow
def test_golden_json(extract_features, golden, tmp_path):
    """Names, order and rounding of the original; values of the model."""
    model, layers, flags = golden
    path = tmp_path / "out.jsonl"
    runners.run(extract_features, *flags, f"--output_file={path}")
    rows = read_json(path)
    assert [row["linex_index"] for row in rows] == list(range(len(LINES)))
    for row, (tokens, values) in zip(
        rows, call_directly(model, layers), strict=True
    ):
        assert list(row) == ["linex_index", "features"]
        assert [f["token"] for f in row["features"]] == tokens
        for feature, expected in zip(row["features"], values, strict=True):
            assert list(feature) == ["token", "layers"]
            assert [list(x) for x in feature["layers"]] == (
                [["index", "values"]] * len(layers)
            )
            assert [x["index"] for x in feature["layers"]] == layers
            assert_close([x["values"] for x in feature["layers"]], expected)
    first = rows[0]["features"][0]["layers"][0]["values"]
    assert first == [round(value, 6) for value in first]


@pytest.mark.slow
def test_golden_other_formats(extract_features, golden, tmp_path):
    model, layers, flags = golden
    expected = call_directly(model, layers)
    values = [v for _, v in expected]
    pooled = {
        "cls": np.stack([v[0] for v in values]),
        "mean": np.stack([v.mean(axis=0) for v in values]),
    }

    def run(output_format, pooling):
        path = tmp_path / f"{output_format}_{pooling}"
        runners.run(
            extract_features,
            *flags,
            f"--output_file={path}",
            f"--output_format={output_format}",
            f"--pooling={pooling}",
        )
        return path

    with np.load(run("npz", "none")) as arrays:
        assert arrays["layers"].tolist() == layers
        assert_close(arrays["values"], np.concatenate(values))
        offsets = arrays["offsets"]
        assert np.diff(offsets).tolist() == [len(v) for v in values]
        assert len(arrays["input_ids"]) == offsets[-1]
        assert arrays["input_ids"][: offsets[1]].tolist() == [2, 5, 6, 7, 3]
    with np.load(run("npz", "mean")) as arrays:
        assert sorted(arrays) == ["layers", "values"]
        assert_close(arrays["values"], pooled["mean"])
    for row, vectors in zip(
        read_json(run("json", "cls")), pooled["cls"], strict=True
    ):
        assert list(row) == ["linex_index", "layers"]
        assert [x["index"] for x in row["layers"]] == layers
        assert_close([x["values"] for x in row["layers"]], vectors)
    for pooling, results in (("none", values), ("mean", pooled["mean"])):
        path = str(run("tfrecord", pooling))
        records = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        for i, (record, result) in enumerate(
            zip(records, results, strict=True)
        ):
            feature = tf.train.Example.FromString(record).features.feature
            assert feature["linex_index"].int64_list.value == [i]
            assert len(feature["input_ids"].int64_list.value) == len(values[i])
            for j, index in enumerate(layers):
                floats = feature[f"layer_{index}"].float_list.value
                assert_close(floats, result[..., j, :].ravel())
    assert len(list(tmp_path.iterdir())) == 5  # nothing unfinished


def test_no_batch_is_longer_than_allowed():
    line = feature_lines.EncodedLine([1] * 58, [0] * 58)
    for limit, length in ((60, 60), (512, 64)):
        shapes = []

        def compute(batch, shapes=shapes):
            shapes.append(batch["input_ids"].shape)
            return [None]

        compute_by_length([line], compute, batch_size=4, max_length=limit)
        assert shapes == [(1, length)]


def test_rounding_is_exact(tmp_path):
    """np.round gives what the original's round() gives, ties included."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000) * 10.0 ** rng.integers(-7, 3, 20_000)
    ties = (2 * np.arange(-64, 64) + 1) / 128
    values = np.concatenate([values, ties]).astype(np.float32)
    path = tmp_path / "out.jsonl"
    with feature_files.open_json(str(path), [-1], tokenizer=None) as write:
        write([], values[None])
    (row,) = read_json(path)
    expected = [round(float(value), 6) for value in values]
    assert row["layers"][0]["values"] == expected


@pytest.mark.parametrize("output_format", ["json", "tfrecord", "npz"])
def test_memory_does_not_grow_with_lines(tmp_path, output_format):
    """Lines are read, and values written, a few at a time."""
    tokenizer = FullTokenizer([*SPECIAL, "a"])
    num_lines, tokens, size = 400, 6, 64
    (tmp_path / "in.txt").write_text("a a a a\n" * num_lines)
    open_output = {
        "json": lambda path: feature_files.open_json(path, [-1], tokenizer),
        "tfrecord": lambda path: feature_files.open_tfrecord(path, [-1]),
        "npz": lambda path: feature_files.open_npz(
            path, [-1], (num_lines * tokens, 1, size)
        ),
    }[output_format]
    lines = feature_lines.encode_lines(str(tmp_path / "in.txt"), tokenizer, 8)
    values = np.ones((tokens, 1, size), np.float32)
    tracemalloc.start()
    with open_output(str(tmp_path / "out")) as write:
        for line in lines:
            write(line.input_ids, values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < num_lines * values.nbytes / 4


def test_output_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    for writer in (
        feature_files.open_json(str(path), [-1], FullTokenizer(SPECIAL)),
        feature_files.open_tfrecord(str(path), [-1]),
        feature_files.open_npz(str(path), [-1], (2, 1, 1)),
    ):
        with pytest.raises(RuntimeError), writer as write:
            write([2], np.ones((1, 1, 1), np.float32))
            raise RuntimeError
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--layers=-1,9999", r"--layers=-1,9999, but .* from -\d+ to \d+"),
        ("--layers=last", "--layers=last, but layers are numbers"),
        ("--use_tpu", "--use_tpu=True, but .* GPU or CPU"),
        ("--max_seq_length=9999", "max_seq_length=9999 exceeds"),
        ("--output_file=/dev/null/out", "must be writable, but /dev/null/out"),
    ],
)
def test_refusals(extract_features, golden, tmp_path, flag, message):
    _, _, flags = golden
    flags = [*flags, f"--output_file={tmp_path}/out", flag]
    with pytest.raises(ValueError, match=message):
        runners.run(extract_features, *flags)


def test_input_is_no_output(extract_features, golden):
    _, _, flags = golden
    path = next(f for f in flags if f.startswith("--input_file=")).split("=")[1]
    with pytest.raises(ValueError, match=f"no output .* {path} is the input"):
        runners.run(extract_features, *flags, f"--output_file={path}")


def test_vocabulary_of_another_model(extract_features, golden, tmp_path):
    _, _, flags = golden
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL))
    flags = [*flags, f"--vocab_file={tmp_path}/vocab.txt"]
    with pytest.raises(ValueError, match="has 5 entries, but the model's"):
        runners.run(extract_features, *flags, f"--output_file={tmp_path}/out")


def test_old_flags_are_told(extract_features, golden, tmp_path, caplog):
    _, _, flags = golden
    (tmp_path / "in.txt").write_text("")
    runners.run(
        *(extract_features, *flags, "--use_one_hot_embeddings"),
        *(f"--input_file={tmp_path}/in.txt", f"--output_file={tmp_path}/out"),
    )
    assert "--use_one_hot_embeddings has no effect" in caplog.text
    assert (tmp_path / "out").read_text() == ""
