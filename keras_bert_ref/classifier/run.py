"""The body of run_classifier.py; docs/GLUE.md tells how to use it."""

import itertools

from keras_bert_ref import flags, heads
from keras_bert_ref.classifier import predictions, splits, tasks
from keras_bert_ref.classifier.objective import REGRESSION
from keras_bert_ref.commands import Options
from keras_bert_ref.training import (
    distribution,
    fine_tuning,
    report,
    run_record,
    setup,
    trials,
)
from keras_bert_ref.training.objective import CLASSIFICATION


def main(options: Options, _words=()) -> None:
    planned = trials.plan_from_options(options)
    policy = setup.choose_policy(options)
    config = setup.read_config(options)
    tokenizer = setup.read_tokenizer(options, config)
    task = read_task(options)
    # Before TensorFlow is at work: this may use other processes.
    data = splits.prepare(
        task,
        tokenizer,
        max_seq_length=options.max_seq_length,
        data_dir=options.data_dir,
        output_dir=setup.records_dir(options),
        names=flags.chosen_actions(options),
    )
    strategy = setup.choose_devices(options)
    has_found_labels = task.name in tasks.OWN_KINDS and task.labels
    if (
        options.do_train
        and has_found_labels
        and distribution.is_chief(strategy)
    ):
        folders = {trial.options.output_dir for trial in planned}
        for folder in folders | {options.output_dir}:
            splits.write_labels(folder, task.labels)

    def build(options: Options) -> heads.BertClassifier:
        model = heads.BertClassifier(
            config,
            num_labels=len(task.labels) or 1,
            dtype=policy,
            skip_padding=setup.skips_padding(options),
            bilstm_units=options.bilstm_units,
        )
        model.build()
        return model

    tuning = fine_tuning.FineTuning(
        task=task.name,
        labels=task.labels,
        ranking=predictions.make_ranking(task),
        objective=REGRESSION if task.is_regression else CLASSIFICATION,
        build=build,
        train_records=lambda _: data["train"][0].records,
        evaluate=lambda *arguments: run_eval(*arguments, task, data["eval"]),
        predict=lambda *arguments: run_predict(*arguments, task, data),
    )
    fine_tuning.run(tuning, options, planned, strategy, config)


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


def run_eval(model, options: Options, task: tasks.Task, splits):
    """Results, and examples for the report."""
    found = []
    results = predictions.evaluate(
        model,
        task,
        splits,
        batch_size=options.eval_batch_size,
        length_multiple=setup.length_multiple(options),
        jit_compile=options.jit_compile,
        keep=lambda *split: found.append(
            predictions.read_examples(task, *split)
        ),
    )
    return results, report.pick(itertools.chain(*found))


def run_predict(
    model, options: Options, output_dir: str, task: tasks.Task, data
) -> None:
    """Writes test_results.tsv and the files of a submission."""
    for split in data["predict"]:
        logits = predictions.predict(
            model,
            split,
            batch_size=options.predict_batch_size,
            length_multiple=setup.length_multiple(options),
            jit_compile=options.jit_compile,
        )
        predictions.write_predictions(output_dir, task, split, logits)
