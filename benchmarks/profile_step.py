"""Where a training step spends its time, by kind of operation.

    taskset -c 0 python benchmarks/profile_step.py \
        --bert_config_file=/tmp/glue_bench/minilm/tf1/bert_config.json \
        --records=/tmp/glue_bench/MRPC_0_ours/train.tf_record

A classifier with two labels on the first examples of the records, which
run_classifier.py wrote, cut to lengths as it does. On one core, operations do
not overlap.
"""

import argparse
import collections
import pathlib
import tempfile

import keras_bert_ref  # noqa: F401, first: it sets how TensorFlow starts
from keras_bert_ref import heads, optimization
from keras_bert_ref.classifier import features as classifier_features
from keras_bert_ref.config import BertConfig
from keras_bert_ref.records import batches
from keras_bert_ref.training import loop, objective
from keras_bert_ref.training.setup import LENGTH_MULTIPLE

import tensorflow as tf  # isort: skip
from tensorflow.tsl.profiler.protobuf import xplane_pb2  # isort: skip

MAX_SEQ_LENGTH = 128
BATCH_SIZE = 32
WARM_UP, STEPS = 3, 6
NUM_SHOWN = 12


def read_batches(path: str, vocab_size: int) -> list[dict]:
    schema = classifier_features.make_schema(MAX_SEQ_LENGTH, False)
    records = batches.Records([path], schema, 0, vocab_size)
    stream = batches.batches_in_order(records, BATCH_SIZE, LENGTH_MULTIPLE)
    return list(stream.take(WARM_UP + STEPS))


def profile(step, inputs: list[dict], folder: str) -> collections.Counter:
    """Seconds of each kind of operation."""
    for batch in inputs[:WARM_UP]:
        step(batch)
    tf.profiler.experimental.start(folder)
    for batch in inputs[WARM_UP:]:
        step(batch)
    tf.test.experimental.sync_devices()
    tf.profiler.experimental.stop()
    space = xplane_pb2.XSpace()
    path = next(pathlib.Path(folder).rglob("*.xplane.pb"))
    space.ParseFromString(path.read_bytes())
    seconds = collections.Counter()
    for plane in space.planes:
        for line in plane.lines:
            if "tf_Compute" not in line.name:
                continue
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                if ":" in name and "::" not in name:  # an operation: its kind
                    kind = name.rsplit(":", 1)[1]
                    seconds[kind] += event.duration_ps / 1e12
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bert_config_file", required=True)
    parser.add_argument("--records", required=True)
    flags = parser.parse_args()
    config = BertConfig.from_json_file(flags.bert_config_file)
    model = heads.BertClassifier(config, num_labels=2, skip_padding=True)
    model.build()
    optimizer = optimization.create_optimizer(5e-5, 100, 10)
    optimizer.build(model.trainable_variables)
    step = tf.function(
        loop.make_train_step(model, optimizer, objective.CLASSIFICATION),
        reduce_retracing=True,
    )
    inputs = read_batches(flags.records, config.vocab_size)
    padded = [tf.size(x["input_mask"]).numpy() for x in inputs]
    real = [tf.reduce_sum(x["input_mask"]).numpy() for x in inputs]
    print(f"Tokens with padding / without: {sum(padded) / sum(real):.2f}")
    with tempfile.TemporaryDirectory() as folder:
        seconds = profile(step, inputs, folder)
    total = sum(seconds.values())
    print(f"{1000 * total / STEPS:.0f} ms a step")
    for kind, value in seconds.most_common(NUM_SHOWN):
        print(f"{value / total:6.1%} {kind}")


if __name__ == "__main__":
    main()
