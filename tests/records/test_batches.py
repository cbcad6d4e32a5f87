"""The stream of examples: order, place, shares, trimming, damage."""

import dataclasses
import gzip
import itertools
import pathlib
import struct

import numpy as np
import pytest
import tensorflow as tf

from helpers import golden_training
from keras_bert_ref.pretraining.features import make_schema
from keras_bert_ref.records import batches, damage

LENGTH, WORDS, VOCAB_SIZE = 16, 3, 1000


def example(number: int, length: int = 7) -> dict:
    """An example known by its first id."""
    mask = np.arange(LENGTH) < length
    return {
        "input_ids": np.where(mask, number, 0),
        "input_mask": mask.astype(int),
        "segment_ids": np.zeros(LENGTH, int),
        "masked_lm_positions": np.array([1, 2, 0]),
        "masked_lm_ids": np.array([5, 6, 0]),
        "masked_lm_weights": np.array([1.0, 1.0, 0.0]),
        "next_sentence_labels": np.array([number % 2]),
    }


def find(*paths, vocab_size=VOCAB_SIZE) -> batches.Records:
    schema = make_schema(LENGTH, WORDS)
    return batches.find_records(list(map(str, paths)), schema, vocab_size)


@pytest.fixture
def records(tmp_path):
    """23 examples in three files, one of them compressed, one empty."""
    write = golden_training.write_records
    write(tmp_path / "a", [example(i) for i in range(1, 11)])
    write(tmp_path / "b.gz", [example(i) for i in range(11, 24)], "GZIP")
    write(tmp_path / "c", [])
    return find(*sorted(tmp_path.iterdir()))


def numbers(dataset: tf.data.Dataset, count: int) -> list[int]:
    """The first ids of the next `count` examples."""
    rows = (batch["input_ids"].numpy()[:, 0].tolist() for batch in dataset)
    return list(itertools.islice(itertools.chain.from_iterable(rows), count))


def test_every_feature_arrives(tmp_path):
    row = example(VOCAB_SIZE - 1)
    records = find(golden_training.write_records(tmp_path / "a", [row]))
    batch = next(iter(batches.stream_batches(records, 2)))
    assert batch.keys() == row.keys()
    for name, value in batch.items():
        expected = tf.float32 if name == "masked_lm_weights" else tf.int32
        assert value.dtype == expected, name
        np.testing.assert_array_equal(value, [row[name]] * 2, err_msg=name)


def test_in_order_without_shuffling(records):
    assert records.num_records == 23
    stream = batches.stream_batches(records, 4)
    assert numbers(stream, 60) == [*range(1, 24), *range(1, 24), *range(1, 15)]


def test_every_epoch_is_another_order_of_all(records):
    stream = batches.stream_batches(records, 5, seed=3, shuffle=True)
    seen = numbers(stream, 3 * 23)
    epochs = [tuple(seen[i : i + 23]) for i in range(0, 3 * 23, 23)]
    assert all(sorted(epoch) == list(range(1, 24)) for epoch in epochs)
    assert len({*epochs, tuple(range(1, 24))}) == 4


def test_shuffling_among_few(records):
    def first_file(shuffle_buffer):
        held = dataclasses.replace(records, shuffle_buffer=shuffle_buffer)
        stream = batches.stream_batches(held, 1, seed=3, shuffle=True)
        return [number for number in numbers(stream, 23) if number < 11]

    assert first_file(1) == list(range(1, 11)) != first_file(23)


def test_order_follows_from_the_seed_alone(records):
    def order(seed, process_seed):
        tf.random.set_seed(process_seed)
        stream = batches.stream_batches(records, 5, seed=seed, shuffle=True)
        return numbers(stream, 69)

    first = order(0, 1)
    assert order(0, 2) == first
    second = order(1, 1)
    assert second != first
    # Nor is the next seed's first epoch this one's second.
    assert second[:23] != first[23:46]


def test_leaves_the_seed_of_the_process_alone(records):
    def draw(is_between):
        tf.random.set_seed(5)
        if is_between:
            numbers(batches.stream_batches(records, 5, shuffle=True), 5)
        return float(tf.random.uniform([]))

    assert draw(True) == draw(False)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("seen", [1, 22, 23, 24, 57])
def test_goes_on_where_it_was(records, shuffle, seen):
    whole = batches.stream_batches(records, 1, seed=7, shuffle=shuffle)
    rest = batches.stream_batches(
        records, 3, seed=7, shuffle=shuffle, records_seen=seen
    )
    assert numbers(rest, 40) == numbers(whole, seen + 40)[seen:]


def test_replicas_share_the_stream(records):
    whole = numbers(batches.stream_batches(records, 6, 1, True), 72)
    shares = [
        batches.stream_batches(
            records, 2, 1, True, parts=3, own_parts=range(first, last)
        )
        for first, last in [(0, 1), (1, 3)]
    ]
    first, others = numbers(shares[0], 24), numbers(shares[1], 48)
    for i in range(12):
        assert whole[6 * i : 6 * i + 6] == (
            first[2 * i : 2 * i + 2] + others[4 * i : 4 * i + 4]
        )


def test_distributes_whole_batches(records, logical_cpus):
    strategy = tf.distribute.MirroredStrategy(logical_cpus(2))
    dataset = batches.distribute(strategy, records, 4, num_batches=7)
    seen = []
    for batch in dataset:
        parts = strategy.experimental_local_results(batch["input_ids"])
        assert [part.shape[0] for part in parts] == [2, 2]
        seen += np.concatenate(parts)[:, 0].tolist()
    assert seen == [*range(1, 24), *range(1, 6)]
    with pytest.raises(ValueError, match="batch of 5 .* evenly by 2 replicas"):
        batches.distribute(strategy, records, 5)


@pytest.mark.parametrize(
    "lengths, expected", [([3, 7], 8), ([8, 2], 8), ([9], 16), ([16], 16)]
)
def test_trims_to_the_longest(tmp_path, lengths, expected):
    rows = [example(i + 1, length) for i, length in enumerate(lengths)]
    records = find(golden_training.write_records(tmp_path / "a", rows))
    dataset = batches.stream_batches(records, len(rows), length_multiple=8)
    batch = next(iter(dataset))
    for name in ("input_ids", "input_mask", "segment_ids"):
        assert batch[name].shape == (len(rows), expected), name
    assert batch["masked_lm_ids"].shape == (len(rows), WORDS)
    assert batch["input_mask"].numpy().sum(axis=1).tolist() == lengths


def test_trims_nothing_that_counts():
    """Neither tokens behind a gap in the mask nor masked positions."""
    row = {k: np.int32(v)[None] for k, v in example(1, 2).items()}
    row["input_mask"][0, 8] = 1
    assert batches.trim(row, 4)["input_ids"].shape[1] == 12
    row["masked_lm_positions"][0, 0] = 13
    assert batches.trim(row, 4)["input_ids"].shape[1] == 16
    assert batches.trim(row, 6)["input_ids"].shape[1] == LENGTH
    assert batches.trim(row, None) is row


def read_all(records: batches.Records) -> None:
    with batches.readable_errors(records):
        stream = batches.stream_batches(records, 1, shuffle=True)
        numbers(stream, records.num_records)


def starts(path: pathlib.Path) -> list[int]:
    """Where each record of a file begins."""
    data, places = path.read_bytes(), [0]
    while places[-1] < len(data):
        (length,) = struct.unpack_from("<Q", data, places[-1])
        places.append(places[-1] + 8 + 4 + length + 4)
    return places[:-1]


@pytest.fixture
def path(tmp_path):
    """A file of five examples."""
    rows = [example(i) for i in range(1, 6)]
    return pathlib.Path(golden_training.write_records(tmp_path / "a", rows))


@pytest.mark.parametrize("rest", [1, 5, 11, 12, 40])
def test_cut_short(path, rest):
    """Within the length, its checksum, the record."""
    begin = starts(path)[3]
    path.write_bytes(path.read_bytes()[: begin + rest])
    message = f"record 3, at byte {begin} of {path}: it is damaged or cut short"
    with pytest.raises(ValueError, match=message):
        find(path)


def test_large_files_are_read_in_pieces(path, monkeypatch):
    monkeypatch.setattr(damage, "CHUNK", 100)
    assert damage.count_records(str(path)) == 5
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=f"at byte {starts(path)[-1]} of"):
        damage.count_records(str(path))


@pytest.mark.parametrize("place", [0, 3])
def test_damaged_record(path, place):
    """A flipped bit does not change the frame, only the checksum tells."""
    begin = starts(path)[place]
    data = bytearray(path.read_bytes())
    data[begin + 30] ^= 1
    path.write_bytes(data)
    message = f"record {place}, at byte {begin} of {path}: it is damaged"
    with pytest.raises(ValueError, match=message):
        read_all(find(path))


def test_damaged_length(path):
    """It hides how many records there are, and cannot be passed over."""
    begin = starts(path)[2]
    data = bytearray(path.read_bytes())
    data[begin + 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"record 2, at byte {begin}"):
        read_all(find(path))


@pytest.mark.parametrize("is_cut", [False, True])
def test_damaged_compressed_file(tmp_path, is_cut):
    path = tmp_path / "a.gz"
    rows = [example(i) for i in range(1, 40)]
    golden_training.write_records(path, rows, "GZIP")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data[: len(data) // 2] if is_cut else data)
    with pytest.raises(ValueError, match=f"{path} is cut short or damaged"):
        read_all(find(path))


def test_compressed_file_that_ends_within_a_record(path, tmp_path):
    compressed = tmp_path / "a.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()[:-3]))
    with pytest.raises(
        ValueError, match=f"record 4, at byte {starts(path)[4]}"
    ):
        find(compressed)


def test_other_lengths(path):
    with pytest.raises(ValueError) as error:
        batches.find_records([str(path)], make_schema(32, WORDS), 1000)
    message = str(error.value)
    assert f"input_ids has 16 values in {path}" in message
    assert "the flags ask for 32; set --max_seq_length" in message
    with pytest.raises(ValueError, match="masked_lm_positions has 3 values"):
        batches.find_records([str(path)], make_schema(LENGTH, 4), 1000)


def test_other_features(tmp_path):
    row = {"input_ids": [1] * LENGTH, "label_ids": [0]}
    path = golden_training.write_records(tmp_path / "a", [row])
    message = "have no feature input_mask; they have input_ids, label_ids"
    with pytest.raises(ValueError, match=message):
        find(path)


@pytest.mark.parametrize("name", ["input_ids", "next_sentence_labels"])
def test_other_features_later_in_a_file(tmp_path, name):
    row = example(1)
    row[name] = np.append(row[name], 1)
    path = golden_training.write_records(tmp_path / "a", [example(1), row])
    with pytest.raises(ValueError, match=f"unlike the first .*Key: {name}"):
        read_all(find(path))


def test_feature_of_another_type(tmp_path):
    row = {**example(1), "masked_lm_weights": np.array([1, 1, 0])}
    path = golden_training.write_records(tmp_path / "a", [row])
    with pytest.raises(ValueError, match="Key: masked_lm_weights"):
        read_all(find(path))


@pytest.mark.parametrize("name", ["input_ids", "masked_lm_ids"])
@pytest.mark.parametrize("number", [1000, 2**32])
def test_ids_beyond_the_vocabulary(tmp_path, name, number):
    row = example(1)
    row[name] = row[name].astype(np.int64)
    row[name][1] = number
    path = golden_training.write_records(tmp_path / "a", [example(1), row])
    message = f"record 1 of {path} has {name}={number}, where .* 0 to 999"
    with pytest.raises(ValueError, match=message):
        read_all(find(path))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input_ids", -1),
        ("input_mask", 2),
        ("input_mask", -1),
        ("segment_ids", 2),
        ("segment_ids", -(2**40)),
        ("masked_lm_positions", LENGTH),
        ("masked_lm_positions", -1),
        ("masked_lm_ids", -5),
        ("masked_lm_weights", np.nan),
        ("next_sentence_labels", 2),
    ],
)
def test_values_out_of_range(tmp_path, name, value):
    row = example(1)
    row[name][0] = value
    rows = [example(1), example(2), row]
    path = golden_training.write_records(tmp_path / "a.gz", rows, "GZIP")
    with pytest.raises(ValueError, match=f"record 2 of {path} has {name}="):
        read_all(find(path))


@pytest.mark.parametrize(
    ("name", "value"),
    [("label_ids", 3), ("label_ids", -1), ("end_positions", LENGTH)],
)
def test_values_of_other_tasks(tmp_path, name, value):
    names = ("input_ids", "input_mask", "segment_ids")
    row = {k: example(1)[k] for k in names} | {name: np.array([value])}
    path = golden_training.write_records(tmp_path / "a", [row])
    sequence = tf.io.FixedLenFeature([LENGTH], tf.int64)
    schema = dict.fromkeys(names, sequence)
    schema[name] = tf.io.FixedLenFeature([], tf.int64)
    records = batches.Records([path], schema, 1, VOCAB_SIZE, num_labels=3)
    with pytest.raises(
        ValueError, match=f"record 0 of {path} has {name}={value}"
    ):
        read_all(records)


def test_no_record(tmp_path):
    path = golden_training.write_records(tmp_path / "a", [])
    with pytest.raises(ValueError, match=f"no record in {path}"):
        find(path)


def test_a_file_without_a_record_is_named(path, tmp_path, caplog):
    """A generator with more files than instances leaves some empty."""
    empty = golden_training.write_records(tmp_path / "empty", [])
    assert find(path, empty).num_records == find(path).num_records
    assert caplog.messages == [f"{empty} is EMPTY: it holds no record."]


def test_not_records(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Some text, no records at all.")
    with pytest.raises(ValueError, match="record 0, at byte 0 of .*damaged"):
        find(path)


def test_in_order_all_once_with_a_smaller_last_batch(records):
    dataset = batches.batches_in_order(records, 5, length_multiple=4)
    assert numbers(dataset, 100) == list(range(1, 24))
    shapes = [batch["input_ids"].shape for batch in dataset]
    assert shapes == [(5, 8)] * 4 + [(3, 8)]


@pytest.mark.parametrize("multiple", [None, 8])
def test_no_more_predictions_than_tokens(multiple):
    """What --max_predictions_per_seq has beyond is not computed."""
    batch = {
        "input_ids": tf.ones([2, 16], tf.int32),
        "input_mask": tf.ones([2, 16], tf.int32),
        "masked_lm_positions": tf.zeros([2, 1000], tf.int32),
        "masked_lm_weights": tf.ones([2, 1000]),
    }
    cut = batches.trim(batch, multiple)
    assert cut["masked_lm_positions"].shape == (2, 16)
    assert cut["masked_lm_weights"].shape == (2, 16)


def test_batches_no_memory_holds(records):
    strategy = tf.distribute.get_strategy()
    with pytest.raises(ValueError, match=r"A batch of 10{12} .* lower the bat"):
        batches.distribute(strategy, records, 10**12)


@pytest.mark.parametrize(
    "make",
    [
        lambda records: batches.stream_batches(records, 2),
        lambda records: batches.batches_in_order(records, 2),
        lambda records: batches.batches_by_length(records, 2, 8),
    ],
)
def test_nobody_waits_for_the_tuner(records, make):
    """TensorFlow's would delay the end of a run by half a minute."""
    assert make(records).options().autotune.enabled is False
