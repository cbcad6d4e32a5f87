"""The encoder without padding computes what it computes with padding."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_ref import heads, modeling, unpadding
from keras_bert_ref.config import BertConfig

CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=12,
)


def test_the_drawn_example():
    """The one in the docstring of the module."""
    tokens = unpadding.RealTokens(tf.constant([[1, 1, 0, 0], [1, 1, 1, 0]]))
    x = tf.strings.bytes_split(["ab..", "cde."]).to_tensor()[..., None]
    packed = tokens.pack(x)
    assert b"".join(packed.numpy().ravel()) == b"abcde"
    rows = tokens.unpack(packed).numpy()[..., 0]
    assert [b"".join(row) for row in rows] == [b"abbb", b"cdee"]


def test_real_tokens_there_and_back():
    mask = tf.constant([[1, 1, 0, 0], [1, 0, 1, 1], [1, 0, 0, 0]])
    tokens = unpadding.RealTokens(mask)
    x = tf.reshape(tf.range(24.0), (3, 4, 2))
    packed = tokens.pack(x)
    np.testing.assert_array_equal(packed, x.numpy()[mask.numpy() == 1])
    back = tokens.unpack(packed).numpy()
    np.testing.assert_array_equal(
        back[mask.numpy() == 1], x.numpy()[mask.numpy() == 1]
    )


def batch_with_padding():
    random = np.random.default_rng(1)
    lengths = np.array([12, 3, 7, 1])
    mask = (np.arange(12) < lengths[:, None]).astype("int32")
    ids = random.integers(1, 30, (4, 12)) * mask
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.constant(random.integers(0, 2, (4, 12)), tf.int32),
    }


def test_without_padding_all_is_the_same():
    batch = batch_with_padding()
    results = []
    for skip_padding in (False, True):
        keras.utils.set_random_seed(0)
        model = heads.BertClassifier(
            CONFIG, num_labels=3, skip_padding=skip_padding
        )
        model.build()
        with tf.GradientTape() as tape:
            logits = model(batch)
            loss = tf.reduce_sum(tf.sin(logits))
        grads = tape.gradient(loss, model.trainable_variables)
        results.append([logits, *map(tf.convert_to_tensor, grads)])
    for full, skipping in zip(*results, strict=True):
        np.testing.assert_allclose(skipping, full, rtol=1e-4, atol=1e-6)


def test_padding_is_skipped():
    """The blocks see the 23 real tokens, not all 48."""
    batch = batch_with_padding()
    tokens = unpadding.RealTokens(batch["input_mask"])
    bert = modeling.BertModel(CONFIG)
    bert.build()
    x = bert.embeddings(batch["input_ids"], batch["segment_ids"], tokens=tokens)
    layers, _ = bert.encoder(x, tokens=tokens)
    assert [layer.shape for layer in layers] == [(23, 16), (23, 16)]
