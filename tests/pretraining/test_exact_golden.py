"""The exact generator makes the original's files, record for record."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref.pretraining import exact
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.records.files import open_outputs
from keras_bert_ref.tokenization import FullTokenizer

SETTING_NAMES = (
    "max_seq_length",
    "max_predictions_per_seq",
    "masked_lm_prob",
    "short_seq_prob",
    "do_whole_word_mask",
    "random_seed",
    "dupe_factor",
)


def check_cases(
    folder: pathlib.Path,
    vocab_file: pathlib.Path,
    tmp_path: pathlib.Path,
    num_workers: int,
) -> None:
    cases = json.loads((folder / "pretraining_cases.json").read_text())
    assert cases
    for case in cases:
        golden = np.load(folder / f"pretraining_{case['name']}.npz")
        inputs = case.get("inputs", ["pretraining_text.txt"])
        outputs = [
            str(tmp_path / f"{case['name']}_{index}.tfrecord")
            for index in range(case["num_output_files"])
        ]
        tokenizer = FullTokenizer(vocab_file, case["do_lower_case"])
        with open_outputs(outputs) as write:
            for batch in exact.generate(
                [str(folder / name) for name in inputs],
                tokenizer,
                Settings(
                    tokenizer.vocab,
                    **{name: case[name] for name in SETTING_NAMES},
                ),
                num_workers,
                Summary(),
            ):
                write(batch)
        columns = read_columns(outputs, case)
        assert len(columns["file_index"]) == case["instances"]
        assert columns.keys() == set(golden)
        for name, values in columns.items():
            np.testing.assert_array_equal(
                values, golden[name], err_msg=f"{case['name']}: {name}"
            )


def read_columns(outputs: list[str], case: dict) -> dict[str, np.ndarray]:
    """Reads files with nothing but TensorFlow and the published schema."""
    length, num_predictions = (
        case["max_seq_length"],
        case["max_predictions_per_seq"],
    )
    schema = {
        "input_ids": tf.io.FixedLenFeature([length], tf.int64),
        "input_mask": tf.io.FixedLenFeature([length], tf.int64),
        "segment_ids": tf.io.FixedLenFeature([length], tf.int64),
        "masked_lm_positions": tf.io.FixedLenFeature(
            [num_predictions], tf.int64
        ),
        "masked_lm_ids": tf.io.FixedLenFeature([num_predictions], tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature(
            [num_predictions], tf.float32
        ),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }
    columns = {name: [] for name in ("file_index", *schema)}
    for index, path in enumerate(outputs):
        serialized = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
        parsed = tf.io.parse_example(serialized, schema)
        columns["file_index"].append(np.full(len(serialized), index))
        for name in schema:
            columns[name].append(parsed[name].numpy())
    return {name: np.concatenate(parts) for name, parts in columns.items()}


@pytest.mark.parametrize("num_workers", [1, 2, 3])
def test_golden_files(golden_dir, tmp_path, num_workers):
    check_cases(golden_dir, golden_dir / "vocab.txt", tmp_path, num_workers)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_golden_files_of_real_text(shared_dir, tmp_path, num_workers):
    check_cases(
        shared_dir / "golden" / "real",
        shared_dir / "data" / "vocab" / "bert-base-uncased-vocab.txt",
        tmp_path,
        num_workers,
    )
