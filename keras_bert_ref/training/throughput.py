"""How much of what the hardware could do a training run does."""

import time

import tensorflow as tf

from keras_bert_ref.config import BertConfig
from keras_bert_ref.training.distribution import num_workers

PEAK_SIZE = 1024
PEAK_TRIES = 5


def matmul_peak(dtype: str = "float32") -> float:
    """Floating-point operations a second in a large matmul on one device."""
    x = tf.cast(
        tf.random.stateless_normal((PEAK_SIZE, PEAK_SIZE), seed=(0, 0)), dtype
    )
    multiply = tf.function(lambda x: tf.matmul(x, x))
    multiply(x)
    seconds = []
    for _ in range(PEAK_TRIES):
        start = time.perf_counter()
        multiply(x).numpy()
        seconds.append(time.perf_counter() - start)
    return 2.0 * PEAK_SIZE**3 / min(seconds)


def total_peak(strategy: tf.distribute.Strategy, dtype: str) -> float | None:
    """The peak of all devices of a strategy together, in the precision of
    the model's matmuls.

    None where it cannot be told from here: on TPUs, and with several workers,
    who may share a machine or have unlike ones.
    """
    if (
        isinstance(strategy, tf.distribute.TPUStrategy)
        or num_workers(strategy) > 1
    ):
        return None
    # Logical CPUs are all the same CPU, which one matmul fills.
    gpus = tf.config.list_physical_devices("GPU")
    num_devices = strategy.num_replicas_in_sync if gpus else 1
    return num_devices * matmul_peak(dtype)


def train_flops_per_token(config: BertConfig, length: float) -> float:
    """Operations of matmuls with weights, and in attention, for one token.

    Forward and backward; the masked-LM head, which works on few tokens, and
    everything but matmuls are left out.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    weights = 4 * hidden * hidden + 2 * hidden * inner
    attention = 2 * length * hidden
    return 6.0 * config.num_hidden_layers * (weights + attention)
