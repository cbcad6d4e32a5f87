"""Saving and resuming: checkpoints a kill at any moment leaves whole."""

import os
import re

import tensorflow as tf
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig

NAME = "model.ckpt"
RECORDS_SEEN = tf1.RESUME_PREFIX + "records_seen"
LOSS_SCALE = tf1.RESUME_PREFIX + "loss_scale"
GOOD_STEPS = tf1.RESUME_PREFIX + "loss_scale_good_steps"

# What makes an architecture; dropout, for one, may change between runs.
ARCHITECTURE = (
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)


def latest(output_dir: str) -> str | None:
    """The newest whole checkpoint of a folder.

    Usually the one the `checkpoint` file names; if that is gone or lacks a
    file, the one with the most steps that has all of its files.
    """
    named = tf.train.latest_checkpoint(output_dir)
    if named and _is_whole(named):
        return named
    whole = [prefix for prefix in _all(output_dir) if _is_whole(prefix)]
    return whole[-1] if whole else None


def step_of(prefix: str) -> int:
    """The step in a name such as model.ckpt-1000; 0 if there is none."""
    found = re.search(r"-(\d+)$", prefix)
    return int(found[1]) if found else 0


def save(
    output_dir: str, model, optimizer, extra: dict, keep: int | None
) -> str:
    """Writes model.ckpt-<step>; removes the oldest beyond `keep`.

    The data come first, the index makes them a checkpoint, and last the
    `checkpoint` file names it: each step replaces a whole file at once.
    """
    step = int(optimizer.iterations.numpy())
    prefix = os.path.join(output_dir, f"{NAME}-{step}")
    tf1.save(model, prefix, optimizer, extra)
    kept = [p for p in _all(output_dir) if step_of(p) <= step and _is_whole(p)]
    dropped = kept[:-keep] if keep else []
    kept = kept[len(dropped) :]
    _write_state_file(output_dir, prefix, kept)
    for old in dropped:
        # The index first: without it the rest is no checkpoint any more.
        for path in [old + ".index", *tf.io.gfile.glob(old + ".data-*")]:
            tf.io.gfile.remove(path)
    logging.info("Saved %s.", prefix)
    return prefix


def keep_config(output_dir: str, config: BertConfig) -> None:
    """Leaves bert_config.json in the folder, so that it loads by itself."""
    path = os.path.join(output_dir, "bert_config.json")
    if tf.io.gfile.exists(path):
        other = BertConfig.from_json_file(path).to_dict()
        ours = config.to_dict()
        different = [k for k in ARCHITECTURE if ours[k] != other.get(k)]
        if different and latest(output_dir):
            key = different[0]
            raise ValueError(
                f"{output_dir} holds checkpoints of another architecture: "
                f"{key} is {other.get(key)} there and {ours[key]} in "
                "--bert_config_file. Use another --output_dir or that config."
            )
    files.replace(path, config.to_json_string())


def _all(output_dir: str) -> list[str]:
    """Checkpoints of a folder, by the number of steps."""
    pattern = re.compile(rf"{re.escape(NAME)}-\d+\.index")
    if not tf.io.gfile.isdir(output_dir):
        return []
    names = [n for n in tf.io.gfile.listdir(output_dir) if pattern.fullmatch(n)]
    prefixes = [
        os.path.join(output_dir, name.removesuffix(".index")) for name in names
    ]
    return sorted(prefixes, key=step_of)


def _write_state_file(output_dir: str, newest: str, kept: list[str]) -> None:
    """Names the newest checkpoint and all others, as TensorFlow reads it."""
    lines = [f'model_checkpoint_path: "{os.path.basename(newest)}"\n']
    for prefix in kept:
        name = os.path.basename(prefix)
        lines.append(f'all_model_checkpoint_paths: "{name}"\n')
    files.replace(os.path.join(output_dir, "checkpoint"), "".join(lines))


def _is_whole(prefix: str) -> bool:
    return tf.io.gfile.exists(prefix + ".index") and bool(
        tf.io.gfile.glob(prefix + ".data-?????-of-?????")
    )
