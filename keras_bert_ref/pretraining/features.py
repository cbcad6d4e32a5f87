"""Instances -> padded arrays -> records, many at a time; and back.

Shapes: N instances, S = max_seq_length, P = max_predictions_per_seq.
"""

from collections.abc import Mapping

import numpy as np

from keras_bert_ref.pretraining import packing
from keras_bert_ref.pretraining.settings import KEEP, Settings
from keras_bert_ref.records.serialization import parse, serialize

# How many instances to serialize together: enough for NumPy to pay, few
# enough to stay in the processor's cache; fewer where records are long.
BATCH_SIZE = 1024
BATCH_VALUES = 1 << 22


def batch_size(settings: Settings) -> int:
    """How many instances to serialize together."""
    length = settings.max_seq_length + settings.max_predictions_per_seq
    return min(BATCH_SIZE, max(1, BATCH_VALUES // length))


def make_records(
    tokens: np.ndarray, settings: Settings, instances: np.ndarray
) -> list[bytes]:
    """Serializes instances; the arguments are those of `make_features`."""
    features = make_features(tokens, settings, instances)
    if settings.pack_sequences:
        features = packing.pack(features, settings)
    return serialize(features)


def make_features(
    tokens: np.ndarray, settings: Settings, instances: np.ndarray
) -> dict[str, np.ndarray]:
    """Lays out `[CLS] A [SEP] B [SEP]`, masked and padded with zeros.

    Args:
        tokens: the ids of the corpus.
        settings: what the instances were sampled with.
        instances: array [N] of `settings.instance_type()`, slices of `tokens`.

    Returns:
        dict from feature name to array: `input_ids`, `input_mask`,
        `segment_ids` [N, S]; `masked_lm_positions`, `masked_lm_ids`,
        `masked_lm_weights` (float) [N, P]; `next_sentence_labels` [N, 1].
    """
    rows = np.arange(len(instances))
    column = np.arange(settings.max_seq_length)
    first_sep = instances["a_length"] + 1  # [N]
    last_sep = first_sep + 1 + instances["b_length"]  # the same without a B

    input_mask = column <= last_sep[:, None]  # [N, S]
    segment_ids = input_mask & (column > first_sep[:, None])
    # Position 1 shows tokens[a_start], the one after [SEP] tokens[b_start].
    source = np.where(
        segment_ids,
        (instances["b_start"] - first_sep - 1)[:, None],
        (instances["a_start"] - 1)[:, None],
    )
    source += column
    # Special tokens and padding point anywhere for now: clipped, then set.
    input_ids = tokens.take(source, mode="clip").astype(np.int32)
    input_ids *= input_mask
    input_ids[:, 0] = settings.vocab["[CLS]"]
    input_ids[rows, first_sep] = settings.vocab["[SEP]"]
    input_ids[rows, last_sep] = settings.vocab["[SEP]"]

    positions = instances["masked_positions"].astype(np.int32)  # [N, P]
    replacements = instances["replacements"]
    is_used = np.arange(positions.shape[1]) < instances["num_masked"][:, None]
    # In ascending order, unused places last.
    order = np.where(is_used, positions, settings.max_seq_length).argsort(1)
    positions = np.take_along_axis(positions, order, 1)
    replacements = np.take_along_axis(replacements, order, 1)
    masked_ids = input_ids[rows[:, None], positions] * is_used
    row, place = np.nonzero(is_used & (replacements != KEEP))
    input_ids[row, positions[row, place]] = replacements[row, place]

    rest = settings.max_predictions_per_seq - settings.num_predictions

    def pad(values: np.ndarray) -> np.ndarray:
        return np.pad(values, [(0, 0), (0, rest)]) if rest else values

    return {
        "input_ids": input_ids,
        "input_mask": input_mask.astype(np.int32),
        "segment_ids": segment_ids.astype(np.int32),
        "masked_lm_positions": pad(positions),
        "masked_lm_ids": pad(masked_ids),
        "masked_lm_weights": pad(is_used.astype(np.float32)),
        "next_sentence_labels": instances["is_random_next"][:, None],
    }


def make_schema(
    max_seq_length: int,
    max_predictions_per_seq: int,
    sequences_per_row: int | None = None,
) -> dict:
    """What `tf.io.parse_example` must know of the records.

    Args:
        sequences_per_row: int. Of packed records, see packing.py.
    """
    import tensorflow as tf  # here: the generator needs none of it

    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    weights = tf.io.FixedLenFeature([max_predictions_per_seq], tf.float32)
    starts = tf.io.FixedLenFeature([sequences_per_row or 1], tf.int64)
    schema = {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": weights,
        "next_sentence_labels": starts,
    }
    if sequences_per_row is not None:
        schema["sequence_ids"] = sequence
        schema["cls_positions"] = starts
        schema["next_sentence_weights"] = tf.io.FixedLenFeature(
            [sequences_per_row], tf.float32
        )
    return schema


def describe(record: bytes, inv_vocab: Mapping[int, str]) -> str:
    """Shows a pre-training example, each label behind the token it masks."""
    features = parse(record)
    length = sum(features["input_mask"])
    tokens = [inv_vocab[index] for index in features["input_ids"][:length]]
    for position, label, weight in zip(
        *(features[f"masked_lm_{x}"] for x in ("positions", "ids", "weights")),
        strict=True,
    ):
        if weight:
            tokens[position] += f"({inv_vocab[label]})"
    labels = features["next_sentence_labels"]
    weights = features.get("next_sentence_weights", [1])  # packed: of each
    answers = ["yes" if x else "no" for x in labels[: int(sum(weights))]]
    return f"{' '.join(tokens)} [random next: {', '.join(answers)}]"
