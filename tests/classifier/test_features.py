"""Examples -> features -> records, against the original's."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_ref import sentence_pairs
from keras_bert_ref.classifier import features as classifier_features
from keras_bert_ref.classifier import files as classifier_files
from keras_bert_ref.classifier import tasks as glue
from keras_bert_ref.tokenization import FullTokenizer


def check_golden(features_file, data_dir, tokenizer, max_seq_length=None):
    with gzip.open(features_file, "rt") as file:
        expected = [json.loads(line) for line in file]
    task = glue.get_task(data_dir.name)
    actual = []
    for split in (*task.train, *task.dev, *task.test):
        for example in classifier_files.read_examples(
            task, split, str(data_dir)
        ):
            row = expected[len(actual)]
            features = classifier_features.convert_single_example(
                example,
                task.labels,
                row.pop("max_seq_length", max_seq_length),
                tokenizer,
            )
            actual.append(
                {
                    "split": split.name,
                    "guid": example.guid,
                    "text_a": example.text_a,
                    "text_b": example.text_b,
                    "label": example.label,
                    **features._asdict(),
                }
            )
    assert actual == expected


@pytest.mark.parametrize("name", ["mrpc", "cola"])
def test_golden_features(golden_dir, name):
    check_golden(
        golden_dir / f"{name}_features.jsonl.gz",
        golden_dir / name,
        FullTokenizer(golden_dir / "vocab.txt"),
    )


@pytest.mark.parametrize("name", ["mrpc", "cola"])
def test_golden_features_of_real_text(shared_dir, name):
    folder = shared_dir / "golden" / "real" / "classifier"
    vocab = shared_dir / "data" / "vocab" / "bert-base-uncased-vocab.txt"
    files = list(folder.glob(f"{name}_S*_features.jsonl.gz"))
    assert files
    for file in files:
        length = int(file.name.split("_")[1].removeprefix("S"))
        check_golden(file, folder / name, FullTokenizer(vocab), length)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 30))
def test_truncation(length_a, length_b, max_length):
    a, b = list(range(length_a)), list(range(length_b))
    sentence_pairs.truncate_pair(a, b, max_length)
    # As the original does it, one token after the other.
    while length_a + length_b > max_length:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    assert (a, b) == (list(range(length_a)), list(range(length_b)))


@pytest.fixture(scope="module")
def tokenizer():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    return FullTokenizer(words)


@pytest.mark.parametrize(
    ("labels", "values"),
    [(("no", "yes"), ["yes", "no", "yes"]), ((), [2.5, 0.0, 5.0])],
)
@pytest.mark.parametrize("num_copies", [1, 1000])
def test_records(tmp_path, tokenizer, monkeypatch, labels, values, num_copies):
    """The same in one process and in many."""
    monkeypatch.setattr(classifier_features, "MIN_PARALLEL_EXAMPLES", 3000)
    texts = [("a", "b b"), ("a a a a a a a a", None), ("b", "\u00ad")]
    examples = [
        classifier_files.InputExample(f"{i}", *pair, value)
        for i, (pair, value) in enumerate(zip(texts, values, strict=True))
    ] * num_copies
    path = str(tmp_path / "train.tf_record")
    found = classifier_features.file_based_convert_examples_to_features(
        examples, labels, 8, tokenizer, path
    )
    expected = [1, 0, 1] if labels else values
    assert found.tolist() == expected * num_copies
    schema = classifier_features.make_schema(8, not labels)
    schema["is_real_example"] = tf.io.FixedLenFeature([], tf.int64)
    serialized = list(tf.data.TFRecordDataset(path))
    assert len(serialized) == len(examples)
    batch = tf.io.parse_example(serialized, schema)
    ids = [
        [2, 5, 3, 6, 6, 3, 0, 0],
        [2, 5, 5, 5, 5, 5, 5, 3],
        [2, 6, 3, 0, 0, 0, 0, 0],  # a second text without tokens
    ] * num_copies
    segments = np.zeros_like(ids)
    segments[::3, 3:6] = 1
    np.testing.assert_array_equal(batch["input_ids"], ids)
    np.testing.assert_array_equal(batch["input_mask"], np.array(ids) > 0)
    np.testing.assert_array_equal(batch["segment_ids"], segments)
    np.testing.assert_array_equal(batch["label_ids"], expected * num_copies)
    assert set(batch["is_real_example"].numpy()) == {1}
