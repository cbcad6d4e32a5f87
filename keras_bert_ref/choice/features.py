"""Questions with choices -> features -> records.

Shapes: N questions, C choices, T tokens.

Each choice makes a sequence of its own, `[CLS] question [SEP] choice [SEP]`;
a question is C of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_ref.choice.files import ChoiceExample
from keras_bert_ref.records.batches import Records
from keras_bert_ref.records.files import open_outputs
from keras_bert_ref.records.serialization import pad_rows, serialize
from keras_bert_ref.sentence_pairs import encode_pair
from keras_bert_ref.tokenization import FullTokenizer

QUESTIONS_PER_WRITE = 1024


class EncodedChoice(NamedTuple):
    """A question with one of its choices, as numbers."""

    input_ids: list[int]
    segment_ids: list[int]


def write_records(
    path: str,
    examples: Sequence[ChoiceExample],
    tokenizer: FullTokenizer,
    max_seq_length: int,
) -> Records:
    """Writes the features of all examples, in order."""
    with open_outputs([path]) as write:
        for first in range(0, len(examples), QUESTIONS_PER_WRITE):
            part = examples[first : first + QUESTIONS_PER_WRITE]
            batch = make_features(part, tokenizer, max_seq_length)
            flat = {k: v.reshape(len(part), -1) for k, v in batch.items()}
            write(serialize(flat))
    count = len(examples)
    return Records(
        [path],
        make_schema(len(examples[0].texts_b), max_seq_length),
        count,
        vocab_size=1 + max(tokenizer.vocab.values()),
        num_labels=len(examples[0].texts_b),
        shuffle_buffer=count,
    )


def make_features(
    examples: Sequence[ChoiceExample],
    tokenizer: FullTokenizer,
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Makes a batch: int32 [N, C, T] each, and `label_ids` [N]."""
    rows = [
        EncodedChoice(*encode_pair(e.text_a, text, max_seq_length, tokenizer))
        for e in examples
        for text in e.texts_b
    ]
    shape = len(examples), -1, max_seq_length
    padded = pad_rows(rows, max_seq_length)
    batch = {name: value.reshape(shape) for name, value in padded.items()}
    batch["label_ids"] = np.array([e.label for e in examples], np.int32)
    return batch


def make_schema(num_choices: int, max_seq_length: int) -> dict:
    """What `tf.io.parse_example` must know of the records."""
    sequences = tf.io.FixedLenFeature([num_choices, max_seq_length], tf.int64)
    names = "input_ids", "input_mask", "segment_ids"
    label = tf.io.FixedLenFeature([], tf.int64)
    return {**dict.fromkeys(names, sequences), "label_ids": label}
