"""Whether a training step compiled by XLA is the step that is not."""

import keras
import numpy as np
import tensorflow as tf

from keras_bert_ref.optimization import create_optimizer
from keras_bert_ref.training import loop


def check_step(make_model, objective, batch: dict) -> None:
    """Takes two steps either way, with shapes that are known; losses and
    weights agree within 1e-5.

    Args:
        make_model: makes the model, without dropout.
        batch: arrays by name.
    """
    batch = {name: tf.constant(value) for name, value in batch.items()}
    results = []
    for jit_compile in (False, True):
        keras.utils.set_random_seed(1)
        model = make_model()
        if not model.built:
            model.build()
        step = loop.make_train_step(
            model,
            create_optimizer(1e-3, 10, 0),
            objective,
            jit_compile=jit_compile,
        )
        run = tf.function(step)
        losses = [float(run(batch)["loss"]) for _ in range(2)]
        weights = [w.numpy() for w in model.trainable_variables]
        results.append((losses, weights))
    (losses, weights), (compiled_losses, compiled_weights) = results
    assert losses[0] != losses[1]
    np.testing.assert_allclose(compiled_losses, losses, atol=1e-5)
    for a, b in zip(weights, compiled_weights, strict=True):
        np.testing.assert_allclose(b, a, atol=1e-5)
