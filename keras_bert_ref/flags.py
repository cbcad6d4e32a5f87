"""Flags that commands share: the original's, and those of the engine.

Definitions only, and quick to import: `--help` does not wait for TensorFlow.
"""

import contextlib
import math
from collections.abc import Callable, Iterator

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
# See optimization.py and lamb.py.
OPTIMIZERS = ("adamw", "lamb")
# What fine-tuning does, where asked to.
ACTIONS = ("train", "eval", "predict")
# What steps are counted up to, here and in the original.
MAX_STEPS = 2**31 - 1
# More processes than any machine has processors.
MAX_PROCESSES = 4096
# As random generators take them.
MAX_SEED = 2**32 - 1
# Floats that may be infinite; NaN is none of them.
MAY_BE_INFINITE = {"null_score_diff_threshold"}
# See training/distribution.py.
DISTRIBUTIONS = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


@contextlib.contextmanager
def group(title: str) -> Iterator[None]:
    """Flags defined within belong to one group of --help; their numbers must
    be numbers."""
    before = set(FLAGS)
    yield
    names = GROUPS.setdefault(title, [])
    names += [name for name in FLAGS if name not in before]
    for name in names:
        kind = FLAGS[name].flag_type()
        if name in MAY_BE_INFINITE:
            _validate(name, lambda x: not math.isnan(x), "a number")
        elif kind == "float":
            _validate(name, math.isfinite, "a finite number")
        elif kind == "int" and name != "random_seed":
            _validate(name, lambda x: abs(x) < 2**63, "a number of 64 bits")
    if "log_prefix" in names:
        names.append("verbosity")


def define_positive_float(name: str, default: float, text: str) -> None:
    flags.DEFINE_float(name, default, text)
    _validate(name, lambda x: 0 < x < math.inf, "a finite number above 0")


def define_numbers(name: str, kind: Callable[[str], float], text: str) -> None:
    """A list of numbers above 0."""

    def is_good(words: list[str]) -> bool:
        try:
            return all(0 < kind(word) <= MAX_STEPS for word in words)
        except ValueError:
            return False

    flags.DEFINE_list(name, [], text)
    what = "whole numbers" if kind is int else "finite numbers"
    _validate(name, is_good, f"{what} above 0, with commas between them")


def _validate(name: str, is_good: Callable, what: str) -> None:
    flags.register_validator(
        name,
        lambda value: value is None or is_good(value),
        f"--{name} must be {what}.",
    )


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
    define_positive_float("learning_rate", 5e-5, "The peak learning rate.")
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
    flags.DEFINE_float(
        "num_train_epochs",
        3.0,
        "Passes over the data.",
        lower_bound=0,
        upper_bound=MAX_STEPS,
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Fraction of the steps used for the warm-up.",
        lower_bound=0,
    )
    flags.mark_flag_as_required("output_dir")


def define_eval_flags() -> None:
    """The original's flags of evaluation in fine-tuning."""
    flags.DEFINE_bool("do_eval", False, "Evaluate on the dev set.")
    flags.DEFINE_integer(
        "eval_batch_size",
        8,
        "Examples in an evaluation batch.",
        lower_bound=1,
    )


def define_watch_flags(data: str) -> None:
    """Evaluation while training goes on, see training/evaluations.py.

    Args:
        data: what it evaluates on.
    """
    flags.DEFINE_integer(
        "eval_every_steps",
        None,
        f"While training, evaluate on {data} every so many steps and after "
        "the last; results go to evals.jsonl and curves.png.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "keep_best",
        False,
        "Keep the best checkpoint of --eval_every_steps in output_dir/best.",
    )


def check_watch_flags(options, needed: str) -> None:
    """Args: needed: the flag that says what to evaluate on."""
    if options.keep_best and not options.eval_every_steps:
        raise ValueError(
            "--keep_best compares checkpoints that are evaluated while "
            "training; set --eval_every_steps too."
        )
    if not options.eval_every_steps:
        return
    for flag in ("do_train", needed):
        if not getattr(options, flag):
            raise ValueError(
                f"--eval_every_steps={options.eval_every_steps} evaluates "
                f"while training, so it needs --do_train and --{needed}; set "
                f"--{flag}."
            )


def define_trial_flags() -> None:
    """Seeds and grids of fine-tuning, see training/trials.py."""
    flags.DEFINE_integer(
        "num_trials",
        1,
        "Number of trials, with consecutive seeds from --seed on.",
        lower_bound=1,
    )
    define_numbers(
        "learning_rates", float, "Rates to try; the best on dev is kept."
    )
    define_numbers("train_batch_sizes", int, "Batch sizes to try, likewise.")
    define_numbers("epochs_grid", float, "Numbers of epochs to try, likewise.")


def define_bilstm_flag() -> None:
    """What fine-tuning may put on top of the encoder, see bilstm.py."""
    flags.DEFINE_integer(
        "bilstm_units",
        0,
        "Put a bidirectional LSTM of this size, with random weights, between "
        "the encoder and the head; 0: none.",
        lower_bound=0,
    )


def chosen_actions(options) -> list[str]:
    """What --do_train, --do_eval and --do_predict ask for: one or more."""
    actions = [a for a in ACTIONS if getattr(options, f"do_{a}")]
    if not actions:
        raise ValueError(
            "Nothing to do: set --do_train, --do_eval or --do_predict."
        )
    return actions


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
        "task_index",
        0,
        "Which of --worker_hosts this process is.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "worker_timeout",
        600,
        "Seconds to wait for the other workers at the start.",
        lower_bound=1,
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
    flags.DEFINE_enum(
        "optimizer",
        "adamw",
        OPTIMIZERS,
        "The original's Adam with weight decay, or LAMB for large batches.",
    )
    flags.DEFINE_bool(
        "bias_correction",
        False,
        "Correct the averages of the optimizer for their start at zero; the "
        "original does not.",
    )
    flags.DEFINE_bool(
        "lamb_ratio_for_all",
        False,
        "Let LAMB scale the updates of all variables, not only of those with "
        "weight decay.",
    )
    flags.DEFINE_float(
        "decay_power",
        1.0,
        "The power of the decay of the learning rate; 1 is a straight line.",
        lower_bound=0.0,
    )
    flags.register_multi_flags_validator(
        ["optimizer", "lamb_ratio_for_all"],
        lambda f: f["optimizer"] == "lamb" or not f["lamb_ratio_for_all"],
        "--lamb_ratio_for_all is for --optimizer=lamb; Adam has no ratio.",
    )
    flags.DEFINE_integer(
        "seed",
        12345,
        "Seed of initial weights, data order and dropout.",
        lower_bound=0,
        upper_bound=MAX_SEED,
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
