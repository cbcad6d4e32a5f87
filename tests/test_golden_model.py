"""The model and its training against the original's numbers.

What is compared, and with which sizes and seeds, comes from the golden
folder alone.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref import heads, losses, optimization
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig

TOLERANCE = 1e-5


@pytest.fixture
def folder(golden_dir):
    return golden_dir / "model"


@pytest.fixture
def model(folder):
    config = BertConfig.from_json_file(str(folder / "bert_config.json"))
    model = heads.BertPretraining(config)
    report = tf1.load(model, str(folder / "bert_model.ckpt"))
    assert not report.missing
    return model


def assert_close(actual, expected, name):
    np.testing.assert_allclose(
        np.asarray(actual), expected, rtol=0, atol=TOLERANCE, err_msg=name
    )


def test_golden_forward(folder, model):
    golden = np.load(folder / "forward.npz")
    batch = {
        name.removeprefix("in/"): golden[name]
        for name in golden.files
        if name.startswith("in/")
    }
    expected = {
        name.removeprefix("out/"): golden[name]
        for name in golden.files
        if name.startswith("out/")
    }
    encoded = model.bert(
        batch["input_ids"], batch["input_mask"], batch["segment_ids"]
    )
    outputs = model(batch)
    _, masked_lm, next_sentence = losses.pretraining_losses(outputs, batch)
    masked_lm_logits = tf.reshape(
        outputs["masked_lm_logits"], [-1, model.config.vocab_size]
    )
    actual = {
        "embedding_output": encoded["embedding_output"],
        "sequence_output": encoded["sequence_output"],
        "pooled_output": encoded["pooled_output"],
        "masked_lm_loss": masked_lm,
        "masked_lm_log_probs": tf.nn.log_softmax(masked_lm_logits),
        "masked_lm_example_loss": losses.cross_entropy(
            masked_lm_logits, batch["masked_lm_ids"].reshape(-1)
        ),
        "next_sentence_loss": next_sentence,
        "next_sentence_log_probs": tf.nn.log_softmax(
            outputs["next_sentence_logits"]
        ),
        "next_sentence_example_loss": losses.cross_entropy(
            outputs["next_sentence_logits"],
            batch["next_sentence_labels"].reshape(-1),
        ),
    }
    for i, layer in enumerate(encoded["all_encoder_layers"]):
        actual[f"layer_{i}"] = layer
    assert actual.keys() == expected.keys()
    for name in expected:
        assert_close(actual[name], expected[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_golden_training(folder, model, jit_compile):
    golden = np.load(folder / "training.npz")
    optimizer = optimization.create_optimizer(
        float(golden["learning_rate"]),
        int(golden["num_train_steps"]),
        int(golden["num_warmup_steps"]),
    )
    optimizer.build(model.trainable_variables)

    @tf.function(jit_compile=jit_compile)
    def forward_backward(batch):
        with tf.GradientTape() as tape:
            step_losses = losses.pretraining_losses(
                model(batch, training=True), batch
            )
        grads = tape.gradient(step_losses[0], model.trainable_variables)
        return step_losses, grads

    for step, expected in enumerate(golden["losses"]):
        prefix = f"batch{step}/"
        batch = {
            name.removeprefix(prefix): golden[name]
            for name in golden.files
            if name.startswith(prefix)
        }
        step_losses, grads = forward_backward(batch)
        optimizer.apply(grads, model.trainable_variables)
        assert_close(tf.stack(step_losses), expected, f"losses of step {step}")

    expected = tf1.read(str(folder / f"model.ckpt-{len(golden['losses'])}"))
    assert int(optimizer.iterations) == expected.pop("global_step")
    actual = {
        **{optimization.original_name(v): v for v in model.weights},
        **optimizer.slots(),
    }
    assert actual.keys() == expected.keys()
    for name in expected:
        assert_close(actual[name], expected[name], name)


def test_golden_checkpoint_round_trip(folder, model, tmp_path):
    (source,) = folder.glob("model.ckpt-*.index")
    source = str(source).removesuffix(".index")
    optimizer = optimization.AdamWeightDecay()
    report = tf1.load(model, source, optimizer)
    assert not report.missing and not report.unused
    tf1.save(model, str(tmp_path / "again.ckpt"), optimizer)
    before, after = tf1.read(source), tf1.read(str(tmp_path / "again.ckpt"))
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert value.dtype == after[name].dtype, name
        assert value.tobytes() == after[name].tobytes(), name


def test_golden_keras_file_round_trip(folder, model, tmp_path):
    golden = np.load(folder / "forward.npz")
    batch = {
        name.removeprefix("in/"): golden[name]
        for name in golden.files
        if name.startswith("in/")
    }
    before = model(batch)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert [v.path for v in again.weights] == [v.path for v in model.weights]
    for name, value in again(batch).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
