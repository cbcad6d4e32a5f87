"""Serialized examples, output names, and files that appear whole."""

import gzip
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert_ref.records import files, framing
from keras_bert_ref.records.files import (
    expand_outputs,
    open_outputs,
    read_records,
    split_output,
)
from keras_bert_ref.records.serialization import parse, serialize


def serialize_with_protobuf(features: dict[str, np.ndarray]) -> list[bytes]:
    """The slow way: one message, one feature, one value after the other."""
    examples = []
    for row in range(len(next(iter(features.values())))):
        example = tf.train.Example()
        for name, values in features.items():
            feature = example.features.feature[name]
            if values.dtype.kind == "f":
                feature.float_list.value.extend(values[row].tolist())
            else:
                feature.int64_list.value.extend(values[row].tolist())
        examples.append(example.SerializeToString(deterministic=True))
    return examples


@settings(deadline=None)
@given(
    # Of one length: some versions of protobuf sort "ab" before "a".
    names=st.sets(st.text(min_size=3, max_size=3), min_size=1, max_size=4),
    count=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_bytes_are_those_of_protobuf(names, count, seed):
    rng = np.random.default_rng(seed)
    features = {}
    for name in names:
        shape = count, rng.integers(1, 300)
        if rng.random() < 0.3:
            features[name] = rng.normal(size=shape).astype(np.float32)
        else:
            # Varints of every length, up to what an int32 holds.
            bits = rng.integers(0, 32, shape)
            features[name] = (rng.random(shape) * 2.0**bits).astype(np.int32)
    records = serialize(features)
    assert records == serialize_with_protobuf(features)
    for row, record in enumerate(records):
        assert parse(record) == {
            name: values[row].tolist() for name, values in features.items()
        }


@pytest.mark.parametrize("bits", [0, 7, 14, 21, 28])
def test_lengths_of_varints(bits):
    features = {"x": np.array([[2**bits - 1, 2**bits, 0]])}
    assert serialize(features) == serialize_with_protobuf(features)


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        ("a.tfrecord", ["a.tfrecord"]),
        ("a.tfrecord, b/c.gz", ["a.tfrecord", "b/c.gz"]),
        (
            "out.tfrecord@2",
            ["out.tfrecord-00000-of-00002", "out.tfrecord-00001-of-00002"],
        ),
        ("out@1.gz", ["out-00000-of-00001.gz"]),
        ("out.gz@1", ["out-00000-of-00001.gz"]),
        ("x,gs://me@home/y@1", ["x", "gs://me@home/y-00000-of-00001"]),
        ("me@home/y", ["me@home/y"]),
    ],
)
def test_expand_outputs(names, paths):
    assert expand_outputs(names) == paths


def test_expand_many_outputs():
    paths = expand_outputs("name@32")
    assert len(paths) == 32
    assert paths[-1] == "name-00031-of-00032"


def test_split_output():
    assert split_output("dir/name.tfrecord@12.gz") == (
        "dir/name.tfrecord",
        12,
        ".gz",
    )
    assert split_output("name.gz") == ("name", 0, ".gz")


def test_outputs_must_differ():
    with pytest.raises(ValueError, match=r"names a 2 times"):
        expand_outputs("a,b,a")


def test_zero_files_are_refused():
    with pytest.raises(ValueError, match=r"name@0 .* 0 files"):
        expand_outputs("name@0")


def write_numbers(paths: list[str], count: int) -> None:
    with open_outputs(paths) as write:
        write(str(i).encode() for i in range(count))


def test_files_are_filled_in_turn_and_read_in_order(tmp_path):
    paths = [str(tmp_path / name) for name in ("a", "b.gz", "c")]
    write_numbers(paths, 8)
    assert list(read_records(paths).as_numpy_iterator()) == [
        b"0", b"3", b"6", b"1", b"4", b"7", b"2", b"5",
    ]  # fmt: skip


def test_gz_means_gzip(tmp_path):
    path = tmp_path / "a.tfrecord.gz"
    write_numbers([str(path)], 3)
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    plain = tf.data.TFRecordDataset(str(path), compression_type="GZIP")
    assert len(list(plain)) == 3


def test_framing_is_that_of_tensorflow(tmp_path):
    """Records of all lengths, more than fit into one batch."""
    rng = np.random.default_rng(7)
    records = [b"", *(rng.bytes(n) for n in rng.integers(1, 400, 1500))]
    names = "a", "b.gz"
    paths = {
        module: [str(tmp_path / folder / name) for name in names]
        for module, folder in ((framing, "x"), (files, "y"))
    }
    for module, outputs in paths.items():
        with module.open_outputs(outputs) as write:
            write(records[:3])
            write(records[3:])
    (ours, ours_gz), (theirs, theirs_gz) = paths.values()
    assert pathlib.Path(ours).read_bytes() == pathlib.Path(theirs).read_bytes()
    with gzip.open(ours_gz) as a, gzip.open(theirs_gz) as b:
        assert a.read() == b.read()


def test_files_get_their_names_when_whole(tmp_path):
    paths = [tmp_path / "a", tmp_path / "new" / "b"]
    paths[0].write_text("what was there before")
    with open_outputs(list(map(str, paths))) as write:
        write([b"record"])
        assert paths[0].read_text() == "what was there before"
        assert not paths[1].exists()
        assert not tf.io.gfile.glob(str(tmp_path / "a?*"))
    assert len(list(read_records([str(paths[0])]))) == 1
    assert list_files(tmp_path) == paths


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_nothing_remains_of_an_interrupted_run(tmp_path, error):
    with pytest.raises(error), open_outputs([str(tmp_path / "a")]) as write:
        write([b"record"])
        raise error
    assert list_files(tmp_path) == []


def test_unwritable_output_is_noticed_first(tmp_path):
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "a")
    with (
        pytest.raises(ValueError, match=r"must be writable, but .*file/a"),
        open_outputs([str(tmp_path / "good"), path]),
    ):
        pytest.fail("should not get here")
    assert list_files(tmp_path) == [tmp_path / "file"]


def test_a_folder_is_no_output(tmp_path):
    with (
        pytest.raises(ValueError, match="it is a folder"),
        open_outputs([str(tmp_path)]),
    ):
        pytest.fail("should not get here")


def list_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
