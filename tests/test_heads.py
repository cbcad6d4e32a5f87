"""Models with a head: names, shapes, initial values, dropout, files."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import heads, modeling, network
from keras_bert_ref.config import BertConfig

CONFIG = configs.tiny(initializer_range=0.5, **configs.NO_DROPOUT)
BATCH = {
    "input_ids": np.random.default_rng(0).integers(0, 50, size=(4, 9)),
    "input_mask": np.array([[1] * 9, [1] * 6 + [0] * 3] * 2),
    "segment_ids": np.array([[0] * 4 + [1] * 5] * 4),
    "masked_lm_positions": np.array([[1, 3], [2, 0], [8, 7], [5, 5]]),
}
MODELS = {
    "pretraining": lambda **kwargs: heads.BertPretraining(CONFIG, **kwargs),
    "classifier": lambda **kwargs: heads.BertClassifier(CONFIG, 3, **kwargs),
    "span": lambda **kwargs: heads.BertSpan(CONFIG, **kwargs),
}
HEAD_VARIABLES = {
    "pretraining": {
        "cls/predictions/transform/dense/kernel": (24, 24),
        "cls/predictions/transform/dense/bias": (24,),
        "cls/predictions/transform/LayerNorm/beta": (24,),
        "cls/predictions/transform/LayerNorm/gamma": (24,),
        "cls/predictions/output_bias": (50,),
        "cls/seq_relationship/output_weights": (2, 24),
        "cls/seq_relationship/output_bias": (2,),
    },
    "classifier": {"output_weights": (3, 24), "output_bias": (3,)},
    "span": {
        "cls/squad/output_weights": (2, 24),
        "cls/squad/output_bias": (2,),
    },
}


def outputs_of(outputs):
    return outputs if isinstance(outputs, dict) else {"logits": outputs}


@pytest.mark.parametrize("kind", MODELS)
def test_variables_have_the_originals_names(kind):
    encoder = modeling.BertModel(CONFIG)
    encoder.build()
    expected = {v.path: tuple(v.shape) for v in encoder.weights}
    model = MODELS[kind]()
    model.build()
    actual = {
        v.path.removeprefix(f"{model.name}/"): tuple(v.shape)
        for v in model.weights
    }
    assert actual == expected | HEAD_VARIABLES[kind]
    assert set(actual) == {network.original_name(v) for v in model.weights}


def test_shapes():
    pretraining = MODELS["pretraining"]()(BATCH)
    assert pretraining["masked_lm_logits"].shape == (4, 2, 50)
    assert pretraining["next_sentence_logits"].shape == (4, 2)
    assert MODELS["classifier"]()(BATCH).shape == (4, 3)
    assert heads.BertClassifier(CONFIG, num_labels=1)(BATCH).shape == (4, 1)
    span = MODELS["span"]()(BATCH)
    assert span["start_logits"].shape == span["end_logits"].shape == (4, 9)


def test_masked_lm_reads_its_positions_and_shares_the_embeddings():
    model = MODELS["pretraining"]()
    logits = model(BATCH)["masked_lm_logits"].numpy()
    # Moving a position moves its row of logits, whatever else is asked.
    moved = {**BATCH, "masked_lm_positions": np.array([[3], [0], [7], [5]])}
    np.testing.assert_allclose(
        model(moved)["masked_lm_logits"][:, 0], logits[:, 1], atol=1e-5
    )
    hidden = model.bert(
        BATCH["input_ids"], BATCH["input_mask"], BATCH["segment_ids"]
    )["sequence_output"].numpy()
    rows = hidden[np.arange(4)[:, None], BATCH["masked_lm_positions"]]
    head = model.predictions
    transformed = head.layer_norm(head.transform(rows)).numpy()
    table = model.bert.embeddings.word_embeddings.numpy()
    np.testing.assert_allclose(transformed @ table.T, logits, atol=1e-4)


@pytest.mark.parametrize("kind", ["classifier", "span"])
def test_fine_tuning_heads_always_start_from_002(kind):
    keras.utils.set_random_seed(0)
    config = BertConfig.from_dict(
        {**CONFIG.to_dict(), "hidden_size": 768, "num_attention_heads": 12}
    )
    if kind == "classifier":
        model = heads.BertClassifier(config, num_labels=3)
    else:
        model = heads.BertSpan(config)
    model.build()
    (weights,) = [v for v in model.weights if v.path.endswith("output_weights")]
    assert weights.numpy().std() == pytest.approx(0.02 * 0.88, rel=0.05)
    assert model.bert.pooler.dense.kernel.numpy().std() > 0.4


def test_classifier_drops_out_whatever_the_config_says():
    model = MODELS["classifier"]()
    assert CONFIG.hidden_dropout_prob == 0
    calm = model(BATCH).numpy()
    np.testing.assert_array_equal(model(BATCH), calm)
    first, second = model(BATCH, training=True), model(BATCH, training=True)
    assert np.abs(first - second).max() > 0
    assert model.dropout.rate == 0.1


@pytest.mark.parametrize("kind", ["pretraining", "span"])
def test_other_heads_have_no_dropout_of_their_own(kind):
    model = MODELS[kind]()
    calm = outputs_of(model(BATCH))
    for name, value in outputs_of(model(BATCH, training=True)).items():
        np.testing.assert_allclose(value, calm[name], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_keras_file_round_trip(kind, tmp_path):
    model = MODELS[kind]()
    expected = outputs_of(model(BATCH))
    model.save(tmp_path / "x.keras")
    again = keras.models.load_model(tmp_path / "x.keras")
    for name, value in outputs_of(again(BATCH)).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("kind", MODELS)
def test_half_precision_keeps_variables_in_float32(kind):
    model = MODELS[kind](dtype="mixed_bfloat16")
    for value in outputs_of(model(BATCH)).values():
        assert value.dtype == tf.bfloat16
    assert {v.dtype for v in model.weights} == {"float32"}


@pytest.mark.parametrize("kind", MODELS)
def test_graph_equals_eager(kind):
    model = MODELS[kind]()
    expected = outputs_of(model(BATCH))
    compiled = tf.function(lambda batch: model(batch), jit_compile=True)
    for name, value in outputs_of(compiled(BATCH)).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-4)


def test_batch_without_ids():
    with pytest.raises(ValueError, match=r"needs the key input_ids; .*\bids"):
        MODELS["classifier"]()({"ids": BATCH["input_ids"]})


def test_pretraining_batch_without_positions():
    batch = {"input_ids": BATCH["input_ids"]}
    with pytest.raises(ValueError, match="masked_lm_positions, which the bat"):
        MODELS["pretraining"]()(batch)


def test_no_labels():
    with pytest.raises(ValueError, match="num_labels=0: a classifier needs"):
        heads.BertClassifier(CONFIG, num_labels=0)


def test_span_does_not_skip_padding():
    """Its loss reads all positions; skipped ones would hold placeholders."""
    message = "BertSpan scores every position, .*skip_padding=True would"
    with pytest.raises(ValueError, match=message):
        heads.BertSpan(CONFIG, skip_padding=True)
    saved = heads.BertSpan(CONFIG, skip_padding=False).get_config()
    assert saved["skip_padding"] is False
    assert heads.BertSpan.from_config(saved).config == CONFIG
