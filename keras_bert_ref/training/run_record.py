"""The record of a run: run.json, and vocab.txt, in its output_dir.

Whoever gets the folder knows what was trained, on which labels, how text is
lower-cased and cut, and with which flags and versions. A folder without it,
from TensorFlow 1 for instance, works too.
"""

import os
import platform
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_ref import files
from keras_bert_ref.commands import Options
from keras_bert_ref.version import __version__

RECORD_FILE = "run.json"
VOCAB_FILE = "vocab.txt"

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
        "gcp_project",
        "iterations_per_loop",
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
        "task_index",
        "tpu_name",
        "tpu_zone",
        "train_batch_sizes",
        "use_tpu",
        "verbose_logging",
        "verbosity",
        "worker_hosts",
    }
)


def effective_flags(options: Options) -> dict:
    """The flags that results depend on, with their values."""
    values = options.as_dict()
    return {k: values[k] for k in sorted(values) if k not in WITHOUT_EFFECT}


def write(
    output_dir: str, options: Options, *, task: str, labels: Sequence[str] = ()
) -> None:
    """Leaves run.json and, where the run knows it, vocab.txt.

    Call it when there is something to train, and not before: what a folder
    holds was trained with the flags of its record.

    Args:
        task: what was trained, such as "pretraining", "MRPC" or "squad".
        labels: classes, in the order of the model's outputs.
    """
    flags = effective_flags(options)
    before = read(output_dir)
    for name in ("vocab_file", "do_lower_case"):
        # A resumed run need not say again what is known.
        if before and flags.get(name) is None:
            flags[name] = before.get("flags", {}).get(name)
    record = {
        "task": task,
        "labels": list(labels),
        "do_lower_case": flags.get("do_lower_case"),
        "max_seq_length": flags.get("max_seq_length"),
        "flags": flags,
        "versions": versions(),
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


def versions() -> dict[str, str]:
    return {
        "keras": keras.__version__,
        "keras_bert_ref": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
    }
