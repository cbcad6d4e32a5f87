"""Windows -> TFRecords, and what reading these back must know."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_bert_ref.ner.windows import TaggedWindow
from keras_bert_ref.records.batches import Records
from keras_bert_ref.records.files import open_outputs
from keras_bert_ref.records.serialization import pad_rows, serialize

WINDOWS_PER_WRITE = 1024


def write_records(
    path: str,
    windows: Sequence[TaggedWindow],
    label_ids: np.ndarray,
    *,
    max_seq_length: int,
    vocab_size: int,
) -> Records:
    """Writes windows, in order.

    Args:
        label_ids: int [words of the file]; the class of each.
    """
    with open_outputs([path]) as write:
        for first in range(0, len(windows), WINDOWS_PER_WRITE):
            part = windows[first : first + WINDOWS_PER_WRITE]
            write(serialize(pad_windows(part, label_ids, max_seq_length)))
    count = len(windows)
    schema = make_schema(max_seq_length)
    return Records(
        [path],
        schema,
        count,
        vocab_size,
        num_labels=1 + int(label_ids.max(initial=0)),
        shuffle_buffer=count,
    )


def pad_windows(
    windows: Sequence[TaggedWindow], label_ids: np.ndarray, max_seq_length: int
) -> dict[str, np.ndarray]:
    """Makes a batch: int32 [N, max_seq_length] each. `tag_mask` is 1 at the
    first pieces of the words to predict, where `tag_ids` has their class."""
    batch = pad_rows(windows, max_seq_length)
    for name in ("tag_ids", "tag_mask"):
        batch[name] = np.zeros_like(batch["input_ids"])
    for i, window in enumerate(windows):
        batch["tag_ids"][i, window.positions] = label_ids[window.words]
        batch["tag_mask"][i, window.positions] = 1
    return batch


def make_schema(max_seq_length: int) -> dict[str, tf.io.FixedLenFeature]:
    """What `tf.io.parse_example` must know of the records."""
    names = "input_ids", "input_mask", "segment_ids", "tag_ids", "tag_mask"
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    return dict.fromkeys(names, sequence)
