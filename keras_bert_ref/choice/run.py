"""The body of run_multiple_choice.py; docs/MULTIPLE_CHOICE.md tells how to
use it."""

import os

import numpy as np

from keras_bert_ref import flags, heads
from keras_bert_ref.choice import features, files, predictions, tasks
from keras_bert_ref.commands import Options
from keras_bert_ref.training import fine_tuning, report, setup, trials
from keras_bert_ref.training.objective import CLASSIFICATION

SPLITS = {"train": "train", "eval": "dev", "predict": "test"}


def main(options: Options, _words=()) -> None:
    planned = trials.plan_from_options(options)
    policy = setup.choose_policy(options)
    config = setup.read_config(options)
    tokenizer = setup.read_tokenizer(options, config)
    task = tasks.from_options(options)
    actions = flags.chosen_actions(options)
    examples = {
        action: files.read_examples(task, SPLITS[action], options.data_dir)
        for action in actions
    }
    records = {
        action: features.write_records(
            os.path.join(setup.records_dir(options), f"{action}.tf_record"),
            examples[action],
            tokenizer,
            options.max_seq_length,
        )
        for action in actions
    }
    strategy = setup.choose_devices(options)

    def build(options: Options) -> heads.BertMultipleChoice:
        model = heads.BertMultipleChoice(
            config,
            dtype=policy,
            skip_padding=setup.skips_padding(options),
            bilstm_units=options.bilstm_units,
        )
        model.build()
        return model

    def compute(model, options: Options, action: str, batch_size: int):
        return predictions.predict(
            model,
            records[action],
            batch_size=batch_size,
            length_multiple=setup.length_multiple(options),
            jit_compile=options.jit_compile,
        )

    def evaluate(model, options: Options):
        log_probs = compute(model, options, "eval", options.eval_batch_size)
        labels = np.array([example.label for example in examples["eval"]])
        shown = predictions.read_examples(examples["eval"], log_probs)
        return predictions.score(log_probs, labels), report.pick(shown)

    def predict(model, options: Options, output_dir: str) -> None:
        predictions.write_predictions(
            output_dir,
            compute(model, options, "predict", options.predict_batch_size),
        )

    tuning = fine_tuning.FineTuning(
        task=task.name,
        labels=(),
        ranking=predictions.make_ranking(task.name),
        objective=CLASSIFICATION,
        build=build,
        train_records=lambda _: records["train"],
        evaluate=evaluate,
        predict=predict,
    )
    fine_tuning.run(tuning, options, planned, strategy, config)
