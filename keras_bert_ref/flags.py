"""Flags that commands share: the original's, and those of the engine.

Definitions only, and quick to import: `--help` does not wait for TensorFlow.
"""

import contextlib
from collections.abc import Iterator

from absl import flags

from keras_bert_ref.precision import POLICIES

FLAGS = flags.FLAGS

ORIGINAL = "Flags of the original release"
FURTHER = "Further flags"
# Names of flags by group, in the order in which --help shows them.
GROUPS: dict[str, list[str]] = {}
# What absl's own help texts leave unclear.
HELP = {
    "verbosity": "How much to log: -1 warnings, 0 progress (the default), 1 "
    "everything, with TensorFlow's messages and tracebacks.",
}
# See training/distribution.py.
DISTRIBUTIONS = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


@contextlib.contextmanager
def group(title: str) -> Iterator[None]:
    """Flags defined within belong to one group of --help."""
    before = set(FLAGS)
    yield
    names = GROUPS.setdefault(title, [])
    names += [name for name in FLAGS if name not in before]
    if "log_prefix" in names:
        names.append("verbosity")


def define_training_flags() -> None:
    """The original's flags for training and TPUs."""
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "The checkpoint to start from: its path without .index, or a folder.",
    )
    flags.DEFINE_bool("do_train", False, "Train.")
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Examples in a batch, over all replicas.",
        lower_bound=1,
    )
    flags.DEFINE_float("learning_rate", 5e-5, "The peak learning rate.")
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "Steps between checkpoints.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Steps that run on a TPU before it reports; elsewhere every step does.",
        lower_bound=1,
    )
    flags.DEFINE_bool("use_tpu", False, "Train on a TPU.")
    flags.DEFINE_string("tpu_name", None, "The TPU; `local` is this machine's.")
    flags.DEFINE_string("tpu_zone", None, "The zone of the TPU.")
    flags.DEFINE_string("gcp_project", None, "The project of the TPU.")
    flags.DEFINE_string("master", None, "The address of the TPU.")
    flags.DEFINE_integer(
        "num_tpu_cores", 8, "Accepted and ignored: TensorFlow counts the cores."
    )


def define_model_flags(max_seq_length: int) -> None:
    """The original's flags for a model that reads text."""
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "The architecture: a JSON file, or the name of a released model.",
    )
    flags.DEFINE_string("vocab_file", None, "The vocabulary of the model.")
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case the text: on for uncased models, off for cased ones.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        max_seq_length,
        "Tokens of an example, [CLS] and [SEP] included; longer text is cut.",
        lower_bound=3,
    )
    flags.mark_flags_as_required(["bert_config_file", "vocab_file"])


def define_fine_tuning_flags() -> None:
    """The original's flags that both its fine-tuning commands have."""
    flags.DEFINE_string("output_dir", None, "Where checkpoints and results go.")
    flags.DEFINE_bool("do_predict", False, "Write predictions.")
    flags.DEFINE_integer(
        "predict_batch_size",
        8,
        "Examples in a prediction batch.",
        lower_bound=1,
    )
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the data.")
    flags.DEFINE_float(
        "warmup_proportion", 0.1, "Fraction of the steps used for the warm-up."
    )
    flags.mark_flag_as_required("output_dir")


def define_engine_flags() -> None:
    """What the original did not have."""
    flags.DEFINE_enum(
        "distribution",
        "auto",
        DISTRIBUTIONS,
        "The devices to train on; auto takes a TPU if asked for, the workers "
        "of --worker_hosts or TF_CONFIG, else all GPUs of this machine.",
    )
    flags.DEFINE_integer(
        "num_replicas",
        None,
        "GPUs to use; without GPUs, logical devices of the CPU, to try it out.",
        lower_bound=1,
    )
    flags.DEFINE_list(
        "worker_hosts", [], "host:port of every worker, the chief first."
    )
    flags.DEFINE_integer(
        "task_index", 0, "Which of --worker_hosts this process is."
    )
    flags.DEFINE_enum(
        "dtype",
        "float32",
        list(POLICIES),
        "Precision of matmuls; variables stay in float32.",
    )
    flags.DEFINE_bool(
        "jit_compile",
        False,
        "Compile each replica's forward and backward pass with XLA; no faster "
        "where it was measured, docs/BENCHMARK_STEP.md.",
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Compute each replica's share of a batch in so many parts, one after "
        "the other, to save memory.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "seed", 12345, "Seed of initial weights, data order and dropout."
    )
    flags.DEFINE_bool(
        "deterministic",
        False,
        "Use only operations that give the same bits every time.",
    )
    flags.DEFINE_bool("shuffle", True, "Shuffle the training examples.")
    flags.DEFINE_bool(
        "trim_batches",
        True,
        "Cut off padding that all examples of a batch share and, on CPUs, "
        "spend no work on the rest; never on a TPU.",
    )
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        5,
        "Checkpoints to keep; 0 keeps all.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "log_steps", 100, "Steps between progress reports.", lower_bound=1
    )


def define_log_flags() -> None:
    """Of every command, beside absl's own --verbosity; the last to define."""
    flags.DEFINE_bool(
        "log_prefix",
        False,
        "Put time, process and source line in front of log lines.",
    )
