"""Saving and resuming: checkpoints a kill at any moment leaves whole."""

import os
import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig

NAME = "model.ckpt"
# TensorFlow leaves it where a run is killed while it saves.
LEFTOVER = re.compile(r"\.(index|data-\d{5}-of-\d{5})\.tempstate\d+$")
RECORDS_SEEN = tf1.RESUME_PREFIX + "records_seen"
# Which records these were, see Records.fingerprint.
INPUT = tf1.RESUME_PREFIX + "input"
LOSS_SCALE = tf1.RESUME_PREFIX + "loss_scale"
GOOD_STEPS = tf1.RESUME_PREFIX + "loss_scale_good_steps"

# What makes an architecture; dropout, for one, may change between runs.
ARCHITECTURE = (
    "direction",
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
    named = tf1.named_checkpoint(output_dir)
    if named and _is_whole(named):
        return named
    whole = [prefix for prefix in _all(output_dir) if _is_whole(prefix)]
    if not whole:
        return None
    if files.exists(output_dir, "checkpoint"):
        logging.warning(
            "The file %s/checkpoint names no whole checkpoint; the one with "
            "the most steps is used, %s.",
            *(output_dir, os.path.basename(whole[-1])),
        )
    return whole[-1]


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
    for path in files.starting_with(os.path.join(output_dir, f"{NAME}-")):
        if LEFTOVER.search(path):
            files.remove(path)
    kept = [p for p in _all(output_dir) if step_of(p) <= step and _is_whole(p)]
    dropped = kept[:-keep] if keep else []
    kept = kept[len(dropped) :]
    _write_state_file(output_dir, prefix, kept)
    for old in dropped:
        _remove(old)
    logging.info("Saved %s.", prefix)
    return prefix


def keep_only(output_dir: str, prefix: str) -> None:
    """Removes all checkpoints of a folder but one."""
    _write_state_file(output_dir, prefix, [prefix])
    for other in _all(output_dir):
        if other != prefix:
            _remove(other)


def _remove(prefix: str) -> None:
    # The index first: without it the rest is no checkpoint any more.
    for path in [prefix + ".index", *files.starting_with(prefix + ".data-")]:
        tf.io.gfile.remove(path)


def make_weights_check(output_dir: str, model, optimizer) -> Callable[[], None]:
    """Returns a function that raises where weights are not fit to be saved.

    It looks at the norm of each variable, on the device, and fetches one
    number.
    """
    variables = {
        name: variable
        for name, variable in tf1.named_variables(model, optimizer).items()
        if name != tf1.GLOBAL_STEP
    }

    @tf.function
    def are_finite():
        norms = [tf.nn.l2_loss(tf.identity(v)) for v in variables.values()]
        return tf.reduce_all(tf.math.is_finite(tf.stack(norms)))

    def check() -> None:
        if are_finite():
            return
        bad = [n for n, v in variables.items() if not _has_norm(v.numpy())]
        good = latest(output_dir)
        raise FloatingPointError(
            f"The weights are not finite, or far too large, at step "
            f"{int(optimizer.iterations.numpy())}: {bad[0]} and "
            f"{len(bad) - 1} others. They are not saved. "
            + (
                f"The last good checkpoint is {good}; go on from there with a "
                "lower --learning_rate or a longer warm-up."
                if good
                else "Training has not begun: check --init_checkpoint."
            )
        )

    return check


def _has_norm(value) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.square(value, dtype=np.float32).sum()))


def keep_config(
    output_dir: str, config: BertConfig, is_training: bool = True
) -> None:
    """Leaves bert_config.json in a folder that is trained in, so that it
    loads by itself; raises if its checkpoints are of another architecture."""
    path = os.path.join(output_dir, "bert_config.json")
    if tf.io.gfile.exists(path):
        other = BertConfig.from_json_file(path)
        different = [
            key
            for key in ARCHITECTURE
            if getattr(config, key) != getattr(other, key)
        ]
        if different and tf1.prefixes_in_folder(output_dir):
            key = different[0]
            raise ValueError(
                f"{output_dir} holds checkpoints of another architecture: "
                f"{key} is {getattr(other, key)} there and "
                f"{getattr(config, key)} in "
                "--bert_config_file. Use another --output_dir or that config."
            )
    if is_training:
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
    data = re.compile(re.escape(prefix) + r"\.data-\d{5}-of-\d{5}")
    return tf.io.gfile.exists(prefix + ".index") and any(
        map(data.fullmatch, files.starting_with(prefix + ".data-"))
    )
