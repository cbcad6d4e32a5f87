"""What is saved by taking many steps in one call (--iterations_per_loop).

    .venv/bin/python benchmarks/device_loop.py

On a toy, whose steps are so short that the way to Python and back must show.
Single steps and loops take turns, 200 steps a turn; prints milliseconds a
step, the median and the best of five turns.
"""

import statistics
import time

from keras_bert_ref import heads, optimization
from keras_bert_ref.config import BertConfig
from keras_bert_ref.training import loop, objective

STEPS = 200
STEPS_PER_CALL = (1, 50)
TURNS = 5


def make_batches(batch_size: int = 8, length: int = 32):
    import tensorflow as tf

    ids = tf.random.stateless_uniform(
        (batch_size, length), (0, 0), 1, 1000, tf.int32
    )
    batch = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
        "label_ids": ids[:, 0] % 2,
    }
    return tf.data.Dataset.from_tensors(batch).repeat()


def main():
    import tensorflow as tf

    config = BertConfig(
        vocab_size=1000,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=32,
    )
    model = heads.BertClassifier(config, num_labels=2)
    model.build()
    optimizer = optimization.create_optimizer(1e-4, 100_000, 10)
    optimizer.build(model.trainable_variables)
    step = loop.make_train_step(model, optimizer, objective.CLASSIFICATION)
    runs = {
        count: loop.take_steps(
            tf.distribute.get_strategy(),
            step,
            make_batches(),
            num_steps=10**9,
            steps_per_call=count,
        )
        for count in STEPS_PER_CALL
    }
    times = {count: [] for count in runs}
    for turn in range(TURNS + 1):
        for count, run in runs.items():
            start = time.perf_counter()
            for _ in range(STEPS // count):
                float(next(run).metrics["loss"])  # waits until the step is done
            if turn:  # the first compiles
                times[count].append((time.perf_counter() - start) / STEPS)
    for count, seconds in times.items():
        print(
            f"{count} steps a call: {statistics.median(seconds) * 1e3:.2f} "
            f"ms a step, at best {min(seconds) * 1e3:.2f}"
        )


if __name__ == "__main__":
    main()
