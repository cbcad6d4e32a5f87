"""What a TPU needs: the training step of every objective compiles under XLA
with static shapes, and equals the step that is not compiled."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs, pretraining_files
from keras_bert_ref import heads
from keras_bert_ref.ner.objective import TAGGING
from keras_bert_ref.optimization import AdamWeightDecay
from keras_bert_ref.pretraining import next_words, packing
from keras_bert_ref.pretraining.objective import PRETRAINING, WORDS
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.squad.objective import SPANS
from keras_bert_ref.training import loop
from keras_bert_ref.training.objective import CLASSIFICATION

LENGTH, ROWS = 16, 4
RNG = np.random.default_rng(0)
MASK = np.arange(LENGTH) < np.array([[LENGTH], [9], [5], [LENGTH]])
TEXT = {
    "input_ids": RNG.integers(1, 30, (ROWS, LENGTH)) * MASK,
    "input_mask": MASK.astype(int),
    "segment_ids": np.zeros((ROWS, LENGTH), int),
}
CHOICES = {k: np.stack([v, v[:, ::-1]], axis=1) for k, v in TEXT.items()}
CLASSES = {"label_ids": np.array([0, 2, 1, 1])}


def pretraining_batch() -> dict:
    rows = pretraining_files.examples(LENGTH, ROWS)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def packed_batch() -> dict:
    settings = Settings(
        {"[MASK]": 0}, max_seq_length=LENGTH, max_predictions_per_seq=2
    )
    return packing.pack(pretraining_batch(), settings)


def tensors(batch: dict) -> dict:
    return {
        name: tf.constant(
            value, tf.float32 if name.endswith("weights") else tf.int32
        )
        for name, value in batch.items()
    }


# Objective, model, its arguments, batch, direction.
CASES = {
    "pretraining": (
        (PRETRAINING, heads.BertPretraining, {}),
        pretraining_batch(),
        "bidi",
    ),
    "packed": (
        (PRETRAINING, heads.BertPretraining, {}),
        packed_batch(),
        "bidi",
    ),
    "left to right": (
        (WORDS["ltr"], heads.BertPretraining, {}),
        pretraining_batch(),
        "ltr",
    ),
    "classifier": (
        (CLASSIFICATION, heads.BertClassifier, {"num_labels": 3}),
        TEXT | CLASSES,
        "bidi",
    ),
    "left to right, BiLSTM": (
        (
            CLASSIFICATION,
            heads.BertClassifier,
            {"num_labels": 3, "bilstm_units": 5},
        ),
        TEXT | CLASSES,
        "ltr",
    ),
    "span": (
        (SPANS, heads.BertSpan, {}),
        TEXT
        | {
            "start_positions": np.array([1, 2, 0, 3]),
            "end_positions": np.array([1, 4, 0, 9]),
        },
        "bidi",
    ),
    "tagger": (
        (TAGGING, heads.BertTagger, {"num_labels": 3}),
        TEXT
        | {
            "tag_ids": RNG.integers(0, 3, (ROWS, LENGTH)),
            "tag_mask": TEXT["input_mask"] * RNG.integers(0, 2, (ROWS, LENGTH)),
        },
        "bidi",
    ),
    "choice": (
        (CLASSIFICATION, heads.BertMultipleChoice, {}),
        CHOICES | {"label_ids": np.array([0, 1, 1, 0])},
        "bidi",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_compiled_step_equals_the_other(case):
    (objective, model_class, kwargs), batch, direction = CASES[case]
    batch = tensors(batch)
    if model_class is heads.BertPretraining and direction != "bidi":
        batch = next_words.PREPARATIONS[direction](batch)
    config = configs.tiny(
        vocab_size=pretraining_files.VOCAB_SIZE,
        max_position_embeddings=LENGTH,
        directionality=direction,
        initializer_range=0.3,
        **configs.NO_DROPOUT,
    )
    ends = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(1)
        model = model_class(config, **kwargs)
        model.build()
        if hasattr(model, "dropout"):
            model.dropout.rate = 0.0
        before = model.get_weights()
        optimizer = AdamWeightDecay(1e-4)
        optimizer.build(model.trainable_variables)
        step = loop.make_train_step(
            model, optimizer, objective, jit_compile=jit_compile
        )
        (taken,) = loop.take_steps(
            tf.distribute.get_strategy(),
            step,
            tf.data.Dataset.from_tensors(batch),
            num_steps=1,
        )
        metrics = {k: v.numpy() for k, v in taken.metrics.items()}
        slots = {k: v.numpy() for k, v in optimizer.slots().items()}
        ends.append((metrics, slots, model.get_weights()))
    (metrics, slots, weights), (compiled, compiled_slots, after) = ends
    for name, value in metrics.items():
        np.testing.assert_allclose(
            compiled[name], value, rtol=1e-5, atol=1e-5, err_msg=name
        )
    for name, value in slots.items():  # a tenth of the gradient
        np.testing.assert_allclose(
            compiled_slots[name], value, rtol=0, atol=1e-6, err_msg=name
        )
    moved = 0
    for old, one, other in zip(before, weights, after, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5)
        moved += np.abs(one - old).max() > 1e-5
    assert moved > len(weights) / 2
