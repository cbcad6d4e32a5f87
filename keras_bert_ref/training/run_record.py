"""The record of a run: run.json, and vocab.txt, in its output_dir.

Whoever gets the folder knows what was trained, on which labels, how text is
lower-cased and cut, and with which flags and versions. A folder without it,
from TensorFlow 1 for instance, works too.
"""

import os
import platform
import re
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.checkpoints.pretrained import RECORD_FILE
from keras_bert_ref.commands import Options
from keras_bert_ref.version import __version__

VOCAB_FILE = "vocab.txt"
CPU_FILE = "/proc/cpuinfo"

# Flags that say where, when or how loudly, not what is computed. All others
# count: a new flag counts unless it is put here.
WITHOUT_EFFECT = frozenset(
    {
        "distribution",
        "do_eval",
        "do_predict",
        "do_train",
        "epochs_grid",
        "eval_batch_size",
        "eval_every_steps",
        "eval_input_file",
        "gcp_project",
        "iterations_per_loop",
        "keep_best",
        "keep_checkpoint_max",
        "learning_rates",
        "log_prefix",
        "log_steps",
        "master",
        "num_replicas",
        "num_tpu_cores",
        "num_trials",
        "output_dir",
        "predict_batch_size",
        "save_checkpoints_steps",
        "stop_at_step",
        "task_index",
        "tpu_name",
        "tpu_zone",
        "train_batch_sizes",
        "use_tpu",
        "verbose_logging",
        "verbosity",
        "worker_hosts",
        "worker_timeout",
    }
)


def effective_flags(options: Options) -> dict:
    """The flags that results depend on, with their values."""
    values = options.as_dict()
    return {k: values[k] for k in sorted(values) if k not in WITHOUT_EFFECT}


def write(
    output_dir: str,
    options: Options,
    *,
    task: str,
    labels: Sequence[str] = (),
    step: int = 0,
    num_examples: int | None = None,
) -> None:
    """Leaves run.json and, where the run knows it, vocab.txt.

    Call it when there is something to train, and not before: what a folder
    holds was trained with the flags of its record.

    Args:
        task: what was trained, such as "pretraining", "MRPC" or "squad".
        labels: classes, in the order of the model's outputs.
        step: where training goes on. Flags that are others from there are
            named in a warning, and kept with those of before as `changes`.
        num_examples: how many there are to train on.
    """
    before = read(output_dir) or {}
    flags = _complete(options, before)
    changes = before.get("changes", []) if step else []
    different = _differences(flags, before) if step else {}
    if different:
        logging.warning(
            "RESUMING WITH OTHER FLAGS from step %d on: %s.",
            step,
            _describe(different),
        )
        changes = [*changes, {"step": step, "flags": different}]
    record = {
        "task": task,
        "labels": list(labels),
        "do_lower_case": flags.get("do_lower_case"),
        "max_seq_length": flags.get("max_seq_length"),
        "num_examples": num_examples,
        "flags": flags,
        "versions": versions(),
        "machine": machine(),
        **({"changes": changes} if changes else {}),
    }
    files.replace_json(os.path.join(output_dir, RECORD_FILE), record)
    vocab_file = getattr(options, "vocab_file", None)
    if vocab_file:
        path = os.path.join(output_dir, VOCAB_FILE)
        files.replace(path, files.read(vocab_file))


def read(output_dir: str) -> dict | None:
    """What `write` left; None if there is nothing."""
    path = os.path.join(output_dir, RECORD_FILE)
    return files.read_json(path) if files.exists(path) else None


def warn_of_no_effect(output_dir: str, options: Options) -> None:
    """Names the flags that a training which is over was not made with."""
    before = read(output_dir) or {}
    different = _differences(_complete(options, before), before)
    if different:
        logging.warning(
            "NO EFFECT: the training in %s is finished, and was made with "
            "other flags: %s. Results are those of the flags before; use "
            "another --output_dir to train with the new ones.",
            output_dir,
            _describe(different),
        )


def trained_with(options: Options) -> dict:
    """For results: the flags that the model in --output_dir was trained with
    and, where they were changed on the way, how."""
    record = read(options.output_dir) or {}
    flags = record.get("flags") or effective_flags(options)
    changes = record.get("changes")
    return {"flags": flags, **({"changes": changes} if changes else {})}


def _complete(options: Options, before: dict) -> dict:
    """A resumed run need not say again what is known."""
    flags = effective_flags(options)
    for name in ("vocab_file", "do_lower_case"):
        if before and flags.get(name) is None:
            flags[name] = before.get("flags", {}).get(name)
    return flags


def _differences(flags: dict, before: dict) -> dict[str, list]:
    """Flags with the values before and now. Only what was recorded counts:
    older records have fewer."""
    recorded = before.get("flags", {})
    return {
        name: [recorded[name], value]
        for name, value in flags.items()
        if name in recorded and recorded[name] != value
    }


def _describe(different: dict[str, list]) -> str:
    return ", ".join(
        f"--{name} was {before} and is {now}"
        for name, (before, now) in different.items()
    )


def machine() -> str:
    """Processor, cores and system."""
    name = platform.processor() or platform.machine()
    if os.path.exists(CPU_FILE):
        with open(CPU_FILE, encoding="utf-8") as file:
            found = re.search(r"model name\s*:\s*(.*)", file.read())
        name = found[1] if found else name
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def versions() -> dict[str, str]:
    return {
        "keras": keras.__version__,
        "keras_bert_ref": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }
