"""The BiLSTM on sentences of CoNLL-2003: ours, without work on padding, beside
Keras' LSTM, forward and backward.

    python benchmarks/bilstm.py
"""

import argparse
import statistics
import time

import numpy as np
import tensorflow as tf
from data import describe_machine
from measuring import SHARED_DATA

from keras_bert_ref.bilstm import BiLSTM
from keras_bert_ref.config import BertConfig
from keras_bert_ref.ner import files

BATCHES = 4


def make_batches(path: str, batch_size: int, size: int):
    """Random vectors for words, in batches as a training has them."""
    rng = np.random.default_rng(0)
    lengths = [len(x.words) for x in files.read_file(path).sentences]
    for _ in range(BATCHES):
        chosen = rng.choice(lengths, batch_size)
        mask = np.arange(max(chosen)) < chosen[:, None]
        x = rng.normal(size=(*mask.shape, size)).astype(np.float32)
        yield tf.constant(x), tf.constant(mask, tf.int32)


def make_step(layer: BiLSTM):
    @tf.function(reduce_retracing=True)
    def step(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, _ = layer(x, mask)
            loss = tf.reduce_sum(y * tf.cast(mask, tf.float32)[..., None])
        return loss, tape.gradient(loss, [x, *layer.trainable_variables])

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default=SHARED_DATA / "conll2003/eng.train")
    parser.add_argument("--units", type=int, default=256)
    parser.add_argument("--input_size", type=int, default=384)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    flags = parser.parse_args()
    batches = list(
        make_batches(str(flags.file), flags.batch_size, flags.input_size)
    )
    steps = {}
    for name, skip_padding in (("Keras", False), ("ours", True)):
        layer = BiLSTM(
            BertConfig(vocab_size=1),
            flags.units,
            input_size=flags.input_size,
            skip_padding=skip_padding,
        )
        layer.build()
        steps[name] = make_step(layer)
        for batch in batches:
            steps[name](*batch)
    seconds = {name: [] for name in steps}
    for _ in range(flags.rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            for batch in batches:
                step(*batch)[0].numpy()
            seconds[name].append((time.perf_counter() - start) / BATCHES)
    print(describe_machine())
    medians = {name: statistics.median(x) for name, x in seconds.items()}
    for name, value in medians.items():
        print(f"{name}: {1000 * value:.0f} ms a step")
    print(f"Keras / ours: {medians['Keras'] / medians['ours']:.2f}")


if __name__ == "__main__":
    main()
