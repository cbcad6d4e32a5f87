"""Flags the runners share: the original's, and those of the engine."""

import io
import json
import os
import signal
import sys
from collections.abc import Sequence

import keras
import tensorflow as tf
from absl import app, flags, logging

from keras_bert_ref import casing, optimization
from keras_bert_ref.config import BertConfig
from keras_bert_ref.data.batches import Records
from keras_bert_ref.tokenization import FullTokenizer
from keras_bert_ref.training import distribution, loop, precision, progress
from keras_bert_ref.training import run as training_run

FLAGS = flags.FLAGS

# Trimmed batches have lengths that are multiples of these; under XLA of fewer
# sizes, since each compiles anew.
LENGTHS = 8
XLA_LENGTHS = 64


def define_training_flags() -> None:
    """The original's flags for training and TPUs."""
    flags.DEFINE_string(
        "init_checkpoint", None, "A checkpoint to start from, as its prefix."
    )
    flags.DEFINE_bool("do_train", False, "Train.")
    flags.DEFINE_integer(
        "train_batch_size",
        32,
        "Examples in a batch, of all replicas together.",
        lower_bound=1,
    )
    flags.DEFINE_float("learning_rate", 5e-5, "The highest learning rate.")
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
        "num_tpu_cores", 8, "Not needed any more: TensorFlow counts the cores."
    )


def define_model_flags(max_seq_length: int) -> None:
    """The original's flags for a model that reads text."""
    flags.DEFINE_string("bert_config_file", None, "The architecture, as JSON.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary of the model.")
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Lower-case the text: true for uncased models, false for cased ones.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        max_seq_length,
        "Tokens of an example, [CLS] and [SEP] included; longer text is cut.",
        lower_bound=3,
    )
    flags.mark_flags_as_required(["bert_config_file", "vocab_file"])


def define_fine_tuning_flags() -> None:
    """The original's flags that its two fine-tuning runners have both."""
    flags.DEFINE_string("output_dir", None, "Where checkpoints and results go.")
    flags.DEFINE_bool("do_predict", False, "Write predictions.")
    flags.DEFINE_integer(
        "predict_batch_size",
        8,
        "Examples in a prediction batch.",
        lower_bound=1,
    )
    flags.DEFINE_float("num_train_epochs", 3.0, "Passes through the data.")
    flags.DEFINE_float(
        "warmup_proportion", 0.1, "Share of the steps to warm up."
    )
    flags.mark_flag_as_required("output_dir")


def define_engine_flags() -> None:
    """What the original did not have."""
    flags.DEFINE_enum(
        "distribution",
        "auto",
        distribution.KINDS,
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
        list(precision.POLICIES),
        "Precision of the products; variables stay in float32.",
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
        "Parts that each replica's share of a batch is computed in, one after "
        "the other, to save memory.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "seed", 12345, "Of initial weights, order of examples and dropout."
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


def set_up() -> tf.distribute.Strategy:
    """Chooses devices and seeds; must come before TensorFlow does anything."""
    strategy = distribution.choose_strategy(
        distribution.Devices(
            kind=FLAGS.distribution,
            num_replicas=FLAGS.num_replicas,
            worker_hosts=tuple(FLAGS.worker_hosts),
            task_index=FLAGS.task_index,
            use_tpu=FLAGS.use_tpu,
            tpu_name=FLAGS.tpu_name,
            tpu_zone=FLAGS.tpu_zone,
            gcp_project=FLAGS.gcp_project,
            master=FLAGS.master,
        )
    )
    keras.utils.set_random_seed(FLAGS.seed)
    if FLAGS.deterministic:
        tf.config.experimental.enable_op_determinism()
    return strategy


def make_plan(
    strategy: tf.distribute.Strategy, num_train_steps: int
) -> training_run.Plan:
    """How to train, as the flags have it."""
    on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    share = FLAGS.train_batch_size // strategy.num_replicas_in_sync
    if share % FLAGS.gradient_accumulation_steps:
        raise ValueError(
            f"The {share} examples of a replica's batch cannot be shared by "
            "--gradient_accumulation_steps="
            f"{FLAGS.gradient_accumulation_steps} evenly; change it, or "
            f"--train_batch_size={FLAGS.train_batch_size}."
        )
    trim_to = XLA_LENGTHS if FLAGS.jit_compile else LENGTHS
    return training_run.Plan(
        output_dir=FLAGS.output_dir,
        num_train_steps=num_train_steps,
        batch_size=FLAGS.train_batch_size,
        seed=FLAGS.seed,
        shuffle=FLAGS.shuffle,
        trim_to=trim_to if FLAGS.trim_batches and not on_tpu else None,
        jit_compile=FLAGS.jit_compile,
        accumulation_steps=FLAGS.gradient_accumulation_steps,
        steps_per_call=FLAGS.iterations_per_loop if on_tpu else 1,
        save_steps=FLAGS.save_checkpoints_steps,
        keep_checkpoint_max=FLAGS.keep_checkpoint_max or None,
        log_steps=FLAGS.log_steps,
    )


def skips_padding() -> bool:
    """Whether encoders leave out padding. They do on CPUs only: elsewhere
    shapes that change with every batch cost more than they save."""
    accelerated = FLAGS.use_tpu or tf.config.list_physical_devices("GPU")
    return bool(
        FLAGS.trim_batches and not FLAGS.jit_compile and not accelerated
    )


def prediction_lengths() -> int | None:
    """What lengths of evaluation and prediction batches are multiples of;
    None: their padding stays."""
    return LENGTHS if FLAGS.trim_batches and not FLAGS.use_tpu else None


def read_config() -> BertConfig:
    """The architecture; --max_seq_length must fit it."""
    config = BertConfig.from_json_file(FLAGS.bert_config_file)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={FLAGS.max_seq_length} exceeds "
            f"max_position_embeddings={config.max_position_embeddings} of the "
            "model; lower it or use a model with more positions."
        )
    return config


def read_tokenizer(config: BertConfig) -> FullTokenizer:
    """The tokenizer; vocabulary and casing must fit the model."""
    with tf.io.gfile.GFile(FLAGS.vocab_file, "rb") as file:
        tokenizer = FullTokenizer(io.BytesIO(file.read()), FLAGS.do_lower_case)
    casing.check_vocabulary_size(tokenizer.vocab, config.vocab_size)
    casing.check_casing(
        FLAGS.do_lower_case, FLAGS.init_checkpoint, tokenizer.vocab
    )
    return tokenizer


def worker_dir() -> str:
    """Where a worker puts what each worker makes for itself: output_dir, or
    if there are several of them a folder in it."""
    worker = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task")
    if FLAGS.worker_hosts:
        worker = {"type": "worker", "index": FLAGS.task_index}
    name = "{type}_{index}".format(**worker) if worker else ""
    return os.path.join(FLAGS.output_dir, name)


def train(
    strategy: tf.distribute.Strategy,
    model,
    task: loop.Task,
    records: Records,
    num_train_steps: int,
    num_warmup_steps: int,
    curves: Sequence[str],
) -> bool:
    """Trains as the flags have it; draws the curves of some metrics.

    Returns:
        Whether there was anything left to do.
    """
    optimizer = optimization.create_optimizer(
        FLAGS.learning_rate, num_train_steps, num_warmup_steps
    )
    optimizer.build(model.trainable_variables)
    has_trained = training_run.train(
        strategy,
        model,
        optimizer,
        task,
        records,
        make_plan(strategy, num_train_steps),
        FLAGS.init_checkpoint,
        precision.LossScale() if FLAGS.dtype == "float16" else None,
    )
    if distribution.is_chief(strategy):
        progress.draw_curves(FLAGS.output_dir, curves)
    return has_trained


def run(main) -> None:
    """Runs a runner. Errors that a user can mend come without a traceback;
    --verbosity=1 shows it."""

    def guarded(argv):
        if FLAGS.verbosity < 0:
            logging.set_verbosity(logging.INFO)
        try:
            return main(argv)
        except training_run.Interrupted as interrupted:
            logging.warning("%s", interrupted)
            sys.exit(128 + signal.SIGTERM)
        except (
            ValueError,
            OSError,
            FloatingPointError,
            tf.errors.NotFoundError,
        ) as error:
            logging.debug("The whole story:", exc_info=True)
            logging.error("%s", error)
            sys.exit(1)

    FLAGS.set_gnu_getopt(True)
    app.run(guarded)
