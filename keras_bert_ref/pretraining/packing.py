"""Several sequences in one row, for devices that want rows of one length.

Shapes: N sequences, M rows, T = max_seq_length, P = max_predictions_per_seq,
S = the most sequences in a row.

A packed row holds sequences one behind the other. Its features are those of
an unpacked one, but that positions count from the start of the row, P is for
all its sequences together, and S takes the place of one sequence:

    sequence_ids           int [T]    1, 2, ... for each sequence, 0 padding
    cls_positions          int [S]    where each begins; 0 beyond the last
    next_sentence_labels   int [S]    of each
    next_sentence_weights  float [S]  1 for each sequence, 0 beyond the last
"""

import heapq
from collections.abc import Sequence

import numpy as np

from keras_bert_ref.pretraining.settings import Settings

# S is T divided by this: enough for sequences that are this long on average.
SHORT_SEQUENCE = 16
PER_TOKEN = ("input_ids", "segment_ids")
PER_PREDICTION = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")


def max_sequences(max_seq_length: int) -> int:
    """S, the most sequences in a row."""
    return max(2, max_seq_length // SHORT_SEQUENCE)


def plan_rows(
    lengths: np.ndarray, num_masked: np.ndarray, settings: Settings
) -> list[list[int]]:
    """Chooses which sequences share a row: the longest first, each into the
    row with most room, or into a new one.

    Args:
        lengths, num_masked: int [N]. Tokens and masked words of sequences.

    Returns:
        The numbers of the sequences of each row.
    """
    limit = max_sequences(settings.max_seq_length)
    rows, masked = [], []
    heap = []  # (-room, row) of the rows that may take more
    for index in np.argsort(-lengths, kind="stable").tolist():
        length, words = int(lengths[index]), int(num_masked[index])
        if heap and -heap[0][0] >= length:
            room, row = -heap[0][0], heap[0][1]
            is_full = len(rows[row]) == limit
            if is_full or masked[row] + words > (
                settings.max_predictions_per_seq
            ):
                heapq.heappop(heap)
            else:
                rows[row].append(index)
                masked[row] += words
                heapq.heapreplace(heap, (length - room, row))
                continue
        heapq.heappush(heap, (length - settings.max_seq_length, len(rows)))
        rows.append([index])
        masked.append(words)
    return rows


def pack(features: dict, settings: Settings) -> dict[str, np.ndarray]:
    """Packs the features of sequences into those of rows, in random order."""
    lengths = features["input_mask"].sum(axis=1)
    num_masked = features["masked_lm_weights"].sum(axis=1).astype(int)
    rows = plan_rows(lengths, num_masked, settings)
    order = np.random.default_rng([settings.random_seed, len(rows)])
    rows = [rows[i] for i in order.permutation(len(rows))]
    size, length = len(rows), settings.max_seq_length
    limit = max_sequences(length)
    packed = {
        name: np.zeros((size, values.shape[1]), values.dtype)
        for name, values in features.items()
        if name != "next_sentence_labels"
    }
    packed["sequence_ids"] = np.zeros((size, length), np.int32)
    packed["cls_positions"] = np.zeros((size, limit), np.int32)
    packed["next_sentence_labels"] = np.zeros((size, limit), np.int32)
    packed["next_sentence_weights"] = np.zeros((size, limit), np.float32)
    for row, members in enumerate(rows):
        start = first_word = 0
        for place, index in enumerate(members):
            end = start + lengths[index]
            last_word = first_word + num_masked[index]
            for name in PER_TOKEN:
                packed[name][row, start:end] = features[name][
                    index, : lengths[index]
                ]
            for name in PER_PREDICTION:
                packed[name][row, first_word:last_word] = features[name][
                    index, : num_masked[index]
                ]
            packed["masked_lm_positions"][row, first_word:last_word] += start
            packed["input_mask"][row, start:end] = 1
            packed["sequence_ids"][row, start:end] = place + 1
            packed["cls_positions"][row, place] = start
            packed["next_sentence_labels"][row, place] = features[
                "next_sentence_labels"
            ][index, 0]
            packed["next_sentence_weights"][row, place] = 1
            start, first_word = end, last_word
    return packed


def find_sequences_per_row(paths: Sequence[str]) -> int | None:
    """S of packed records; None if they are not packed.

    Raises:
        ValueError: some files are packed and others are not, or one is
            damaged.
    """
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    from keras_bert_ref.records import damage
    from keras_bert_ref.records.files import open_file

    found = {}
    for path in paths:
        try:
            records = list(open_file(tf.constant(path)).take(1))
        except tf.errors.DataLossError as error:
            raise damage.make_error([path]) from error
        for record in records:
            try:
                example = tf.train.Example.FromString(record.numpy())
            except DecodeError as error:
                raise ValueError(
                    f"The first record of {path} is no tf.train.Example; make "
                    "the file again with create_pretraining_data.py."
                ) from error
            starts = example.features.feature["cls_positions"].int64_list
            found[path] = len(starts.value) or None
    kinds = {is_packed: path for path, is_packed in found.items()}
    if len(kinds) > 1:
        described = ", ".join(
            f"{path} ({f'{count} sequences a row' if count else 'not packed'})"
            for count, path in kinds.items()
        )
        raise ValueError(
            "Records made with --pack_sequences cannot be mixed with others, "
            f"but there are both: {described}. Train on files of one kind."
        )
    return next(iter(kinds), None)
