"""A last block that computes only what is read computes the same."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import heads, modeling

SETTINGS = {"initializer_range": 0.3, **configs.NO_DROPOUT}
CONFIG = configs.tiny(num_hidden_layers=2, **SETTINGS)
IDS = np.random.default_rng(0).integers(1, 50, size=(4, 9)).astype("int32")
MASK = np.array([[1] * 9, [1] * 6 + [0] * 3, [1] * 2 + [0] * 7, [1] * 9])
# Repeated ones, and zeros, as in the unused places of masked_lm_positions.
POSITIONS = np.array([[0, 3, 8, 3], [0, 5, 2, 0], [0, 1, 0, 0], [0, 7, 1, 4]])
BATCH = {
    "input_ids": IDS,
    "input_mask": MASK,
    "masked_lm_positions": POSITIONS[:, 1:],
}


@pytest.fixture
def model():
    return make_model(CONFIG)


def make_model(config):
    keras.utils.set_random_seed(1)
    model = modeling.BertModel(config)
    model.build()
    return model


def rows_at(x, positions=POSITIONS):
    return tf.gather(x, positions, batch_dims=1)


def value_and_gradients(function, weights, jit_compile=False):
    """Of a loss in which each number has its own weight."""

    @tf.function(jit_compile=jit_compile)
    def run():
        with tf.GradientTape() as tape:
            y = function()
            places = tf.range(tf.size(y), dtype=y.dtype)
            loss = tf.reduce_sum(tf.sin(y) * tf.reshape(places, tf.shape(y)))
        grads = tape.gradient(
            loss, [v.value for v in weights], unconnected_gradients="zero"
        )
        return y, [tf.convert_to_tensor(grad) for grad in grads]

    return run()


@pytest.mark.parametrize(
    ("skip_padding", "jit_compile"),
    [(False, False), (True, False), (False, True)],
)
def test_rows_and_gradients_are_those_of_the_whole_block(
    skip_padding, jit_compile
):
    model = make_model(configs.tiny(**SETTINGS))  # one block

    def whole():
        return rows_at(model(IDS, MASK)["sequence_output"])

    def ours():
        return model(
            IDS, MASK, skip_padding=skip_padding, read_positions=POSITIONS
        )["read_output"]

    rows, grads = value_and_gradients(whole, model.weights)
    our_rows, our_grads = value_and_gradients(ours, model.weights, jit_compile)
    np.testing.assert_allclose(our_rows, rows, atol=1e-5)
    for ours, full, weight in zip(our_grads, grads, model.weights, strict=True):
        np.testing.assert_allclose(
            ours, full, rtol=1e-3, atol=1e-3, err_msg=weight.path
        )


@pytest.mark.parametrize("skip_padding", [False, True])
def test_the_last_block_computes_only_what_is_read(model, skip_padding):
    outputs = model(
        IDS,
        MASK,
        skip_padding=skip_padding,
        read_positions=POSITIONS[:, :2],
        return_attention_probs=True,
        return_queries_and_keys=True,
    )
    assert outputs["read_output"].shape == (4, 2, 24)
    assert "sequence_output" not in outputs
    assert "all_encoder_layers" not in outputs
    shapes = {
        name: [tuple(x.shape) for x in outputs[name]]
        for name in ("attention_probs", "queries", "keys")
    }
    assert shapes == {
        "attention_probs": [(4, 3, 9, 9), (4, 3, 2, 9)],
        "queries": [(4, 3, 9, 8), (4, 3, 2, 8)],
        "keys": [(4, 3, 9, 8)] * 2,
    }


def test_the_first_position_is_pooled(model):
    """[CLS] unless told otherwise; the last token, say, if asked for it."""
    outputs = model(IDS, MASK)
    last = MASK.sum(axis=1, keepdims=True) - 1
    rows = rows_at(outputs["sequence_output"], last)
    np.testing.assert_allclose(
        model(IDS, MASK, read_positions=last)["pooled_output"],
        model.pooler(rows),
        atol=1e-5,
    )
    np.testing.assert_allclose(
        model(IDS, MASK, read_positions=POSITIONS)["pooled_output"],
        outputs["pooled_output"],
        atol=1e-5,
    )


def test_a_bias_of_every_query(model):
    """Such as a causal one: each row read keeps its own."""
    x = model.embeddings(IDS, np.zeros_like(IDS))
    is_later = np.triu(np.ones((9, 9), "float32"), 1)
    bias = np.tile(is_later * modeling.MASK_BIAS, (4, 1, 1, 1))  # [B, 1, T, T]
    block = model.encoder.blocks[-1]
    whole, _ = block(x, bias)
    rows, attention = block(x, bias, read_positions=POSITIONS)
    np.testing.assert_allclose(rows, rows_at(whole), atol=1e-5)
    is_seen = np.arange(9) <= POSITIONS[:, :, None]  # [B, R, T]
    np.testing.assert_array_equal(
        attention["probs"].numpy().min(axis=1) > 0, is_seen
    )


def test_queries_and_keys_give_the_attention(model):
    outputs = model(
        IDS, return_attention_probs=True, return_queries_and_keys=True
    )
    for probs, queries, keys in zip(
        outputs["attention_probs"],
        outputs["queries"],
        outputs["keys"],
        strict=True,
    ):
        scores = tf.matmul(queries, keys, transpose_b=True) / np.sqrt(8)
        np.testing.assert_allclose(tf.nn.softmax(scores), probs, atol=1e-5)
    assert not {"queries", "keys"} & set(model(IDS))


def test_half_precision(model):
    half = modeling.BertModel(CONFIG, dtype="mixed_bfloat16")
    half.build()
    half.set_weights(model.get_weights())
    whole = half(IDS, MASK, skip_padding=True)["sequence_output"]
    rows = half(IDS, MASK, skip_padding=True, read_positions=POSITIONS)
    assert rows["pooled_output"].dtype == "bfloat16"
    np.testing.assert_allclose(
        tf.cast(rows["read_output"], "float32"),
        tf.cast(rows_at(whole), "float32"),
        atol=0.1,
    )


@pytest.mark.parametrize(
    ("make_head", "num_read"),
    [
        (lambda: heads.BertClassifier(CONFIG, num_labels=3), 1),
        (lambda: heads.BertPretraining(CONFIG), 4),
    ],
    ids=["classifier", "pretraining"],
)
def test_heads_read_what_they_need(make_head, num_read):
    head = make_head()
    head.build()
    assert not head.reads_all
    assert head.encode(BATCH, False)["read_output"].shape == (4, num_read, 24)


def test_span_reads_all():
    head = heads.BertSpan(CONFIG)
    head.build()
    assert head.reads_all
    outputs = head.encode(BATCH, False)
    assert outputs["sequence_output"].shape == (4, 9, 24)


@pytest.mark.parametrize("skip_padding", [False, True])
def test_a_position_beyond_the_sequence(model, skip_padding):
    with pytest.raises(tf.errors.InvalidArgumentError, match="= 9 is not in"):
        model(IDS, MASK, skip_padding=skip_padding, read_positions=[[9]] * 4)
