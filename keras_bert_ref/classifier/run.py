"""The body of run_classifier.py; docs/GLUE.md tells how to use it."""

import os

import keras
import tensorflow as tf

from keras_bert_ref import heads
from keras_bert_ref.classifier import objective, predictions, splits, tasks
from keras_bert_ref.classifier.flags import ACTIONS
from keras_bert_ref.commands import Options
from keras_bert_ref.training import (
    distribution,
    progress,
    resumable,
    run_record,
    setup,
    state,
    trials,
)


def main(options: Options, _words=()) -> None:
    actions = [name for name in ACTIONS if getattr(options, f"do_{name}")]
    planned = trials.plan_from_options(options)
    setup.choose_policy(options)
    config = setup.read_config(options)
    tokenizer = setup.read_tokenizer(options, config)
    task = read_task(options)
    # Before TensorFlow is at work: this may use other processes.
    data = splits.prepare(
        task,
        tokenizer,
        max_seq_length=options.max_seq_length,
        data_dir=options.data_dir,
        output_dir=setup.worker_dir(options),
        names=actions,
    )
    strategy = setup.choose_devices(options)
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        state.keep_config(options.output_dir, config)
        if options.do_train and task.name in tasks.OWN_KINDS and task.labels:
            folders = {trial.options.output_dir for trial in planned}
            for folder in folders | {options.output_dir}:
                splits.write_labels(folder, task.labels)

    def train_and_evaluate(options: Options) -> tuple[dict | None, bool]:
        model = build_model(options, strategy, config, task)
        has_trained, results = False, None
        if options.do_train:
            (train,) = data["train"]
            has_trained = run_train(options, strategy, model, task, train)
        if options.do_eval and is_chief:
            results = run_eval(options, model, task, data["eval"])
        return results if options.do_train else None, has_trained

    if options.do_train or options.do_eval:
        best = trials.compare(
            options.output_dir,
            predictions.make_ranking(task),
            planned,
            train_and_evaluate,
        )
    else:
        (best,) = planned
    if options.do_predict and is_chief:
        # The other workers are not there to make variables with.
        alone = tf.distribute.get_strategy()
        model = build_model(best.options, alone, config, task)
        run_predict(
            best.options, model, task, data["predict"], options.output_dir
        )


def read_task(options: Options) -> tasks.Task:
    """A task of the table or, as the flags have it, one's own."""
    kind = options.task_name.lower()
    if kind not in tasks.OWN_KINDS:
        return tasks.get_task(options.task_name, options.xnli_language)
    output_dir = options.output_dir
    kept = read_record(options)
    return splits.make_own_task(
        kind,
        columns=(
            options.text_a_column,
            options.text_b_column,
            options.label_column,
        ),
        is_regression=options.regression,
        data_dir=options.data_dir,
        output_dir=output_dir,
        kept_labels=kept.get("labels") or splits.read_labels(output_dir),
        is_training=options.do_train,
    )


def read_record(options: Options) -> dict:
    """What was trained in output_dir before, if anything; it must have been
    of the same kind, classes or scores."""
    kept = run_record.read(options.output_dir) or {}
    before = kept.get("flags", {}).get("regression", options.regression)
    if before != options.regression:
        raise ValueError(
            f"The model in {options.output_dir} was trained with --regression="
            f"{before}; set the same, or use another --output_dir."
        )
    return kept


def build_model(options, strategy, config, task) -> heads.BertClassifier:
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        model = heads.BertClassifier(
            config,
            num_labels=len(task.labels) or 1,
            dtype=setup.choose_policy(options),
            skip_padding=setup.skips_padding(options),
        )
        model.build()
    return model


def run_train(options, strategy, model, task, data: splits.PreparedSplit):
    """Trains; returns whether there was anything left to do."""
    num_examples = data.records.num_records
    share = num_examples / options.train_batch_size
    num_steps = int(share * options.num_train_epochs)
    if not num_steps:
        raise ValueError(
            f"{num_examples} examples for --num_train_epochs="
            f"{options.num_train_epochs} do not fill one batch; lower "
            f"--train_batch_size={options.train_batch_size}."
        )
    kind = objective.CLASSIFICATION
    if task.is_regression:
        kind = objective.REGRESSION
    with strategy.scope():
        return setup.train_from_options(
            options,
            strategy,
            model,
            objective=kind,
            task=task.name,
            labels=task.labels,
            records=data.records,
            num_train_steps=num_steps,
            num_warmup_steps=int(num_steps * options.warmup_proportion),
        )


def run_eval(options, model, task, data) -> dict:
    """Writes eval_results.txt."""
    step = restore(options, model, task)
    results = predictions.evaluate(
        model,
        task,
        data,
        batch_size=options.eval_batch_size,
        length_multiple=setup.length_multiple(options),
        jit_compile=options.jit_compile,
    )
    results["global_step"] = step
    progress.write_results(
        os.path.join(options.output_dir, "eval_results.txt"), results
    )
    return results


def run_predict(options, model, task, data, output_dir: str) -> None:
    """Writes test_results.tsv and the files of a submission."""
    restore(options, model, task)
    for split in data:
        logits = predictions.predict(
            model,
            split,
            batch_size=options.predict_batch_size,
            length_multiple=setup.length_multiple(options),
            jit_compile=options.jit_compile,
        )
        predictions.write_predictions(output_dir, task, split, logits)


def restore(options, model, task) -> int:
    """Fills a model with what was trained; returns its step."""
    trials.check_for_model(options.output_dir, predictions.make_ranking(task))
    return resumable.restore_for_eval(
        model, options.output_dir, options.init_checkpoint
    )
