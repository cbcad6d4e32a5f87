"""From the flags of a command to what they stand for: devices, config,
tokenizer, and training as they have it."""

import contextlib
import os
from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bert_ref import casing, files, lock, precision, workers
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.commands import Options
from keras_bert_ref.config import BertConfig, find_model
from keras_bert_ref.flags import MAX_STEPS
from keras_bert_ref.lamb import Lamb
from keras_bert_ref.optimization import (
    AdamWeightDecay,
    LossScale,
    WarmupLinearDecay,
)
from keras_bert_ref.records.batches import Records
from keras_bert_ref.tokenization import FullTokenizer
from keras_bert_ref.training import (
    curves,
    distribution,
    report,
    resumable,
    run_record,
    state,
)
from keras_bert_ref.training.evaluations import Evaluation
from keras_bert_ref.training.objective import Objective
from keras_bert_ref.training.trials import Ranking

# Lengths of trimmed batches are multiples of these; under XLA of a larger
# one, since each length compiles anew.
LENGTH_MULTIPLE = 8
XLA_LENGTH_MULTIPLE = 64


def choose_devices(options: Options) -> tf.distribute.Strategy:
    """Chooses devices and seeds; must come before TensorFlow does anything."""
    devices = distribution.Devices(
        kind=options.distribution,
        num_replicas=options.num_replicas,
        worker_hosts=tuple(options.worker_hosts),
        task_index=options.task_index,
        use_tpu=options.use_tpu,
        tpu_name=options.tpu_name,
        tpu_zone=options.tpu_zone,
        gcp_project=options.gcp_project,
        master=options.master,
    )
    cluster = workers.read_cluster(options)
    kind, _ = distribution.choose_kind(devices)
    if kind == "multi_worker" and cluster:
        flags = workers.shared_flags(options)
        workers.meet(cluster, flags, options.worker_timeout)
    strategy = distribution.choose_strategy(devices)
    keras.utils.set_random_seed(options.seed)
    if options.deterministic:
        tf.config.experimental.enable_op_determinism()
    return strategy


def choose_policy(options: Options) -> str:
    """The Keras policy of --dtype; must come before TensorFlow does anything,
    since it may have to set how oneDNN starts."""
    return precision.choose_policy(options.dtype, wants_tpu(options))


def wants_tpu(options: Options) -> bool:
    """Whether training is to run on a TPU."""
    return options.use_tpu or options.distribution == "tpu"


def read_config(options: Options) -> BertConfig:
    """The architecture; --max_seq_length and --init_checkpoint must fit it."""
    path = find_model(options.bert_config_file)
    config = BertConfig.from_json_file(path)
    if options.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length={options.max_seq_length} exceeds "
            f"max_position_embeddings={config.max_position_embeddings} of the "
            "model; lower it or use a model with more positions."
        )
    if options.init_checkpoint:
        tf1.check_direction(options.init_checkpoint, config)
    return config


def read_tokenizer(options: Options, config: BertConfig) -> FullTokenizer:
    """The tokenizer; vocabulary and casing must fit the model."""
    vocabulary = files.open_bytes(options.vocab_file)
    tokenizer = FullTokenizer(vocabulary, options.do_lower_case)
    casing.check_vocabulary_size(tokenizer.vocab, config.vocab_size)
    casing.check_casing(
        options.do_lower_case, options.init_checkpoint, tokenizer.vocab
    )
    return tokenizer


def worker_dir(options: Options) -> str:
    """Where a worker puts what each worker makes for itself: output_dir, or
    if there are several of them a folder in it."""
    cluster = workers.read_cluster(options)
    name = cluster.names[cluster.index] if cluster else ""
    return os.path.join(options.output_dir, name)


def records_dir(options: Options) -> str:
    """Where the records of examples go. Those of a command that does not
    train have a folder of their own: it may run beside a training that reads
    its own again and again."""
    name = "" if options.do_train else "evaluation"
    return os.path.join(worker_dir(options), name)


def skips_padding(options: Options) -> bool:
    """Whether encoders leave out padding. They do on CPUs only: elsewhere
    shapes that change with every batch cost more than they save."""
    accelerated = wants_tpu(options) or tf.config.list_physical_devices("GPU")
    return bool(
        options.trim_batches and not options.jit_compile and not accelerated
    )


def length_multiple(options: Options) -> int | None:
    """What lengths of batches are multiples of; None: their padding stays."""
    if not options.trim_batches or wants_tpu(options):
        return None
    return XLA_LENGTH_MULTIPLE if options.jit_compile else LENGTH_MULTIPLE


def train_from_options(
    options: Options,
    strategy: tf.distribute.Strategy,
    model,
    *,
    objective: Objective,
    records: Records,
    task: str,
    labels: Sequence[str] = (),
    num_train_steps: int,
    num_warmup_steps: int,
    starts_from_checkpoint: bool = True,
    stop_at_step: int | None = None,
    evaluation: Evaluation | None = None,
    ranking: Ranking | None = None,
) -> bool:
    """Trains as the flags have it; leaves a record of the run, curves and a
    report.

    Args:
        task, labels: for the record, see run_record.py.
        starts_from_checkpoint: bool. --init_checkpoint is of this model, not
            of one that made its input.
        num_train_steps: where the schedule of the learning rate ends.
        stop_at_step: where to end this run; None: with the schedule.
        evaluation: for --eval_every_steps.
        ranking: for the report, what results are compared with.

    Returns:
        Whether there was anything left to do.
    """
    optimizer = make_optimizer(options, num_train_steps, num_warmup_steps)
    optimizer.build(model.trainable_variables)
    is_chief = distribution.is_chief(strategy)
    output_dir = options.output_dir
    start = options.init_checkpoint if starts_from_checkpoint else None

    def leave_record() -> None:
        if is_chief:
            state.keep_config(output_dir, model.config)
            step = int(optimizer.iterations.numpy())
            run_record.write(
                output_dir,
                options,
                task=task,
                labels=labels,
                step=step,
                num_examples=records.num_records,
            )

    def redraw() -> None:
        shown = ("loss", *objective.curves)
        if evaluation:
            shown += evaluation.best_by
        with report.unbroken(output_dir):
            curves.draw_curves(output_dir, shown)
        report.write(output_dir, ranking)

    with lock.hold(output_dir) if is_chief else contextlib.nullcontext():
        has_trained = resumable.train_resumably(
            strategy,
            model,
            optimizer,
            objective=objective,
            records=records,
            plan=make_plan(options, strategy, stop_at_step or num_train_steps),
            init_checkpoint=start,
            before_training=leave_record,
            loss_scale=LossScale() if options.dtype == "float16" else None,
            evaluation=evaluation,
            redraw=redraw,
        )
    if is_chief:
        if not has_trained:
            run_record.warn_of_no_effect(output_dir, options)
        redraw()
    return has_trained


def make_optimizer(
    options: Options, num_train_steps: int, num_warmup_steps: int
) -> AdamWeightDecay:
    """The optimizer and its schedule, as the flags have it."""
    schedule = WarmupLinearDecay(
        options.learning_rate,
        num_train_steps,
        num_warmup_steps,
        power=options.decay_power,
    )
    if options.optimizer == "lamb":
        return Lamb(
            schedule,
            ratio_for_all=options.lamb_ratio_for_all,
            bias_correction=options.bias_correction,
        )
    return AdamWeightDecay(schedule, bias_correction=options.bias_correction)


def make_plan(
    options: Options, strategy: tf.distribute.Strategy, num_train_steps: int
) -> resumable.Plan:
    """How to train, as the flags have it."""
    if num_train_steps > MAX_STEPS:
        raise ValueError(
            f"Training would take {num_train_steps} steps, but they count up "
            f"to {MAX_STEPS}; lower --num_train_epochs or --num_train_steps."
        )
    on_tpu = wants_tpu(options)
    share = options.train_batch_size // strategy.num_replicas_in_sync
    if share % options.gradient_accumulation_steps:
        raise ValueError(
            f"The {share} examples of a replica's batch cannot be shared by "
            "--gradient_accumulation_steps="
            f"{options.gradient_accumulation_steps} evenly; change it, or "
            f"--train_batch_size={options.train_batch_size}."
        )
    return resumable.Plan(
        output_dir=options.output_dir,
        num_train_steps=num_train_steps,
        batch_size=options.train_batch_size,
        seed=options.seed,
        shuffle=options.shuffle,
        length_multiple=length_multiple(options),
        jit_compile=options.jit_compile,
        accumulation_steps=options.gradient_accumulation_steps,
        steps_per_call=options.iterations_per_loop if on_tpu else 1,
        save_steps=options.save_checkpoints_steps,
        keep_checkpoint_max=options.keep_checkpoint_max or None,
        log_steps=options.log_steps,
        eval_steps=options.eval_every_steps,
        keep_best=options.keep_best,
    )
