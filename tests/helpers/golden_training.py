"""The golden training run as tests of the engine need it: batches, files."""

import pathlib

import numpy as np
import tensorflow as tf


def load(golden_dir: pathlib.Path) -> dict[str, np.ndarray]:
    """The arrays of training.npz by name."""
    with np.load(golden_dir / "model" / "training.npz") as file:
        return dict(file)


def batches(golden_dir: pathlib.Path) -> list[dict[str, np.ndarray]]:
    """The batches of the run in order."""
    arrays = load(golden_dir)
    return [
        {
            name.removeprefix(f"batch{i}/"): value
            for name, value in arrays.items()
            if name.startswith(f"batch{i}/")
        }
        for i in range(len(arrays["losses"]))
    ]


def examples(golden_dir: pathlib.Path) -> list[dict[str, np.ndarray]]:
    """The examples of all batches in order."""
    return [
        {name: value[row] for name, value in batch.items()}
        for batch in batches(golden_dir)
        for row in range(len(batch["input_ids"]))
    ]


def write_records(path, rows, compression: str | None = None) -> str:
    """Writes examples as the original does; returns the path."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for row in rows:
            writer.write(serialize(row))
    return str(path)


def serialize(row: dict[str, np.ndarray]) -> bytes:
    """One example, made by protocol buffers themselves."""
    features = {}
    for name, values in row.items():
        values = np.asarray(values)
        if values.dtype.kind == "f":
            feature = tf.train.Feature(
                float_list=tf.train.FloatList(value=values)
            )
        else:
            feature = tf.train.Feature(
                int64_list=tf.train.Int64List(value=values)
            )
        features[name] = feature
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString()
