"""Fine-tuning, whatever the task: train, evaluate, predict, in one trial or
in many that are compared."""

import dataclasses
import os
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from keras_bert_ref.commands import Options
from keras_bert_ref.config import BertConfig
from keras_bert_ref.records.batches import Records
from keras_bert_ref.training import (
    distribution,
    progress,
    report,
    resumable,
    setup,
    state,
    trials,
)
from keras_bert_ref.training.evaluations import Evaluation
from keras_bert_ref.training.objective import Objective


@dataclasses.dataclass(frozen=True)
class FineTuning:
    """What the runner of a task has to say; functions get a trial's options.

    Attributes:
        task: its name, for the record of a run.
        labels: classes, in the order of the model's outputs.
        ranking: what trials are compared by.
        objective: what is trained.
        build: options -> the model, built.
        train_records: options -> what to train on.
        evaluate: model, options -> results on the dev set, and examples for
            the report.
        predict: model, options, output_dir; writes predictions.
        starts_from_checkpoint: bool. --init_checkpoint has weights of the
            model that is trained.
    """

    task: str
    labels: Sequence[str]
    ranking: trials.Ranking
    objective: Objective
    build: Callable
    train_records: Callable[[Options], Records]
    evaluate: Callable[..., tuple[dict, list[report.Example]]]
    predict: Callable[..., None]
    starts_from_checkpoint: bool = True


def run(
    tuning: FineTuning,
    options: Options,
    planned: Sequence[trials.Trial],
    strategy: tf.distribute.Strategy,
    config: BertConfig,
) -> None:
    """Does what --do_train, --do_eval and --do_predict ask for.

    Predictions are those of the trial that is best on the dev set.
    """
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        state.keep_config(options.output_dir, config, options.do_train)

    def train_and_evaluate(options: Options) -> tuple[dict | None, bool]:
        model = _build(tuning, options, strategy)
        has_trained, results = False, None
        if options.do_train:
            has_trained = _train(tuning, options, strategy, model)
        if options.do_eval and is_chief:
            results = _evaluate(tuning, options, model)
        return results if options.do_train else None, has_trained

    if options.do_train or options.do_eval:
        best = trials.compare(
            options.output_dir, tuning.ranking, planned, train_and_evaluate
        )
        if len(planned) > 1 and is_chief:
            report.write_trials(options.output_dir, tuning.ranking)
    else:
        (best,) = planned
    if options.do_predict and is_chief:
        # The other workers are not there to make variables with.
        alone = tf.distribute.get_strategy()
        model = _build(tuning, best.options, alone)
        _restore(tuning, best.options, model)
        tuning.predict(model, best.options, options.output_dir)


def _build(tuning: FineTuning, options: Options, strategy):
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        return tuning.build(options)


def _train(tuning: FineTuning, options: Options, strategy, model) -> bool:
    """Trains; returns whether there was anything left to do."""
    records = tuning.train_records(options)
    share = records.num_records / options.train_batch_size
    num_steps = int(share * options.num_train_epochs)
    if not num_steps:
        raise ValueError(
            f"{records.num_records} examples for --num_train_epochs="
            f"{options.num_train_epochs} do not fill one batch; raise "
            "that, or lower --train_batch_size="
            f"{options.train_batch_size}."
        )

    def evaluate() -> dict:
        is_chief = distribution.is_chief(strategy)
        return tuning.evaluate(model, options)[0] if is_chief else {}

    with strategy.scope():
        return setup.train_from_options(
            options,
            strategy,
            model,
            objective=tuning.objective,
            task=tuning.task,
            labels=tuning.labels,
            records=records,
            num_train_steps=num_steps,
            num_warmup_steps=int(num_steps * options.warmup_proportion),
            starts_from_checkpoint=tuning.starts_from_checkpoint,
            evaluation=Evaluation(evaluate, tuning.ranking.best_by),
            ranking=tuning.ranking,
        )


def _evaluate(tuning: FineTuning, options: Options, model) -> dict:
    """Writes eval_results.txt, and its part of the report."""
    step = _restore(tuning, options, model)
    results, examples = tuning.evaluate(model, options)
    results = {**results, "global_step": step}
    progress.write_results(
        os.path.join(options.output_dir, "eval_results.txt"), results
    )
    report.write(options.output_dir, tuning.ranking, examples)
    return results


def _restore(tuning: FineTuning, options: Options, model) -> int:
    """Fills a model with what was trained; returns its step."""
    trials.check_for_model(options.output_dir, tuning.ranking)
    start = options.init_checkpoint if tuning.starts_from_checkpoint else None
    return resumable.restore_for_eval(model, options.output_dir, start)
