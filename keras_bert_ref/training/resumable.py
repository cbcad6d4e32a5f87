"""Training that can be killed: where to start, when to save, when to end."""

import contextlib
import dataclasses
import signal
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.guard import Interrupted, watch_for_signals
from keras_bert_ref.records import batches as batches_lib
from keras_bert_ref.training import distribution, loop, state
from keras_bert_ref.training.evaluations import Evaluation, Evaluations
from keras_bert_ref.training.objective import Objective
from keras_bert_ref.training.step_reports import StepReports


@dataclasses.dataclass(frozen=True)
class Plan:
    """How to train.

    Attributes:
        output_dir: for checkpoints, metrics and curves.
        num_train_steps: the step to end at.
        batch_size: of all replicas together.
        length_multiple: cut batches to their longest sequence, rounded up to
            a multiple of this; None: leave all padding.
        steps_per_call: see loop.take_steps.
        save_steps: steps between checkpoints.
        keep_checkpoint_max: how many checkpoints to keep; None: all.
        log_steps: steps between reports.
        eval_steps: steps between evaluations; None: there are none.
        keep_best: keep the best checkpoint that was evaluated.
    """

    output_dir: str
    num_train_steps: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    length_multiple: int | None = 8
    jit_compile: bool = False
    accumulation_steps: int = 1
    steps_per_call: int = 1
    save_steps: int = 1000
    keep_checkpoint_max: int | None = 5
    log_steps: int = 100
    eval_steps: int | None = None
    keep_best: bool = False


def restore(model, optimizer, output_dir: str, init_checkpoint: str | None):
    """Fills a model from output_dir, else from init_checkpoint, else not.

    Returns:
        The checkpoint that is resumed, or None.
    """
    resumed = state.latest(output_dir)
    if resumed:
        logging.info("RESUMING from %s, the newest in output_dir.", resumed)
        if init_checkpoint:
            logging.info(
                "--init_checkpoint=%s is not used: a checkpoint in "
                "--output_dir wins over it.",
                init_checkpoint,
            )
        tf1.load(model, resumed, optimizer)
    elif init_checkpoint:
        logging.info("STARTING from --init_checkpoint=%s.", init_checkpoint)
        tf1.load(model, init_checkpoint)
    else:
        logging.info(
            "STARTING from random weights: no --init_checkpoint, and no "
            "checkpoint in %s.",
            output_dir,
        )
    return resumed


def restore_for_eval(
    model, output_dir: str, init_checkpoint: str | None
) -> int:
    """Fills a model with what there is to evaluate; returns its step."""
    newest = state.latest(output_dir)
    prefix = newest or init_checkpoint
    if not prefix:
        raise ValueError(
            f"There is nothing to evaluate: no checkpoint in {output_dir}, "
            "and no --init_checkpoint."
        )
    logging.info("USING the checkpoint %s.", prefix)
    missing = tf1.load(model, prefix).missing
    if missing:
        raise ValueError(
            f"A model is evaluated, or predicts, with weights that were "
            f"trained, but {prefix} lacks {len(missing)} of them: "
            f"{', '.join(missing)}. Set --do_train first, or --output_dir to "
            "where this task was trained."
        )
    return state.step_of(newest) if newest else 0


def train_resumably(
    strategy: tf.distribute.Strategy,
    model,
    optimizer,
    *,
    objective: Objective,
    records: batches_lib.Records,
    plan: Plan,
    init_checkpoint: str | None = None,
    before_training: Callable[[], None] = lambda: None,
    loss_scale=None,
    evaluation: Evaluation | None = None,
    redraw: Callable[[], None] = lambda: None,
) -> bool:
    """Trains up to plan.num_train_steps, from wherever it stopped before;
    saves checkpoints and reports on the way.

    Args:
        before_training: called if there is something left to do.
        evaluation: what to do every plan.eval_steps, and after the last.
        redraw: called after each evaluation.

    Returns:
        Whether there was anything left to do.
    """
    resumed = restore(model, optimizer, plan.output_dir, init_checkpoint)
    records_seen = _restore_extra(resumed, records, loss_scale)
    step = int(optimizer.iterations.numpy())
    if step >= plan.num_train_steps:
        logging.info(
            "NOTHING TO TRAIN: %s is at step %d, num_train_steps is %d.",
            resumed,
            step,
            plan.num_train_steps,
        )
        return False
    before_training()
    epochs = plan.num_train_steps * plan.batch_size / records.num_records
    logging.info(
        "Training on %d examples: %d steps of %d are %.2f epochs.",
        records.num_records,
        plan.num_train_steps,
        plan.batch_size,
        epochs,
    )

    check_weights = state.make_weights_check(plan.output_dir, model, optimizer)

    def save() -> None:
        check_weights()
        if loss_scale is not None:
            loss_scale.check()
        if distribution.is_chief(strategy):
            save_to(plan.output_dir, plan.keep_checkpoint_max)

    def save_to(folder: str, keep: int | None = None) -> None:
        extra = _extra(records_seen, records, loss_scale)
        state.save(folder, model, optimizer, extra, keep)

    def evaluate() -> None:
        reports.flush()
        check_weights()
        evaluations.add(step, save_to)
        reports.restart_clock()

    if not resumed:
        save()
    train_step = loop.make_train_step(
        model,
        optimizer,
        objective,
        seed=plan.seed,
        jit_compile=plan.jit_compile,
        accumulation_steps=plan.accumulation_steps,
        loss_scale=loss_scale,
    )
    batches = batches_lib.distribute(
        strategy,
        records,
        plan.batch_size,
        seed=plan.seed,
        shuffle=plan.shuffle,
        records_seen=records_seen,
        length_multiple=plan.length_multiple,
    )
    # With loss scaling a gradient may overflow: that step is left out.
    finite = ("loss",) if loss_scale else ("loss", "gradient_norm")
    reports = StepReports(
        strategy,
        model,
        plan.output_dir,
        first_step=step,
        num_steps=plan.num_train_steps,
        batch_size=plan.batch_size,
        log_steps=plan.log_steps,
        finite=finite,
    )
    evaluations = None
    if plan.eval_steps and evaluation:
        evaluations = Evaluations(
            evaluation,
            plan.output_dir if distribution.is_chief(strategy) else None,
            every_steps=plan.eval_steps,
            keep_best=plan.keep_best,
            first_step=step,
            redraw=redraw,
        )
    with (
        contextlib.closing(reports),
        watch_for_signals() as signals,
        distribution.readable_errors(strategy),
        batches_lib.readable_errors(records),
    ):
        if evaluations and evaluations.starts:
            evaluate()
        steps = loop.take_steps(
            strategy,
            train_step,
            batches,
            num_steps=plan.num_train_steps - step,
            steps_per_call=plan.steps_per_call,
            wants_to_stop=lambda: bool(signals),
        )
        for taken in steps:
            before, step = step, step + taken.count
            records_seen += taken.count * plan.batch_size
            reports.add(step, taken)
            is_last = step == plan.num_train_steps
            # Before it is saved: what is saved has been evaluated, unless
            # there is no time for it.
            if evaluations and (
                is_last
                or (evaluations.is_due(before, step) and not taken.is_stopping)
            ):
                evaluate()
            is_due = step // plan.save_steps > before // plan.save_steps
            if is_due or is_last or taken.is_stopping:
                reports.flush()
                save()
            if taken.is_stopping and not is_last:
                raise Interrupted(
                    f"Asked to end at step {step} of {plan.num_train_steps}; "
                    "all is saved, and the same command goes on from there.",
                    signals[0] if signals else signal.SIGTERM,
                )
    if signals:
        raise Interrupted(
            f"Asked to end at step {step}, the last; all is saved, and the "
            "same command does what comes after training.",
            signals[0],
        )
    return True


def _extra(records_seen: int, records, loss_scale) -> dict:
    """What a checkpoint holds besides the original's variables."""
    extra = {
        state.RECORDS_SEEN: np.int64(records_seen),
        state.INPUT: np.int64(records.fingerprint()),
    }
    if loss_scale is not None:
        extra[state.LOSS_SCALE] = loss_scale.value.numpy()
        extra[state.GOOD_STEPS] = loss_scale.good_steps.numpy()
    return extra


def _restore_extra(resumed: str | None, records, loss_scale) -> int:
    """Reads that again; returns how many of these records were seen."""
    reader = tf1.open_reader(resumed) if resumed else None
    if (
        loss_scale is not None
        and reader
        and reader.has_tensor(state.LOSS_SCALE)
    ):
        loss_scale.value.assign(reader.get_tensor(state.LOSS_SCALE))
        loss_scale.good_steps.assign(reader.get_tensor(state.GOOD_STEPS))
    if (
        reader
        and reader.has_tensor(state.INPUT)
        and reader.get_tensor(state.INPUT) != records.fingerprint()
    ):
        logging.info(
            "THE INPUT IS NEW: %s was trained on other records; these are "
            "read from the start.",
            resumed,
        )
        return 0
    if reader and reader.has_tensor(state.RECORDS_SEEN):
        return int(reader.get_tensor(state.RECORDS_SEEN))
    return 0
