"""Fine-tunes a BERT on sentences or pairs: GLUE, XNLI, tasks of one's own.

docs/GLUE.md tells how.
"""

import os

from absl import flags

from keras_bert_ref import flags as shared_flags
from keras_bert_ref import heads, precision
from keras_bert_ref.data import classifier_data, glue
from keras_bert_ref.training import (
    classification,
    distribution,
    fine_tuning,
    progress,
    state,
    trials,
)
from keras_bert_ref.training import run as training_run

# After keras_bert_ref, which turns oneDNN on.
import keras  # isort: skip
import tensorflow as tf  # isort: skip

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "data_dir",
    None,
    "The folder with the task's files; or tfds, or tfds: and a folder, for "
    "TensorFlow Datasets.",
)
flags.DEFINE_string(
    "task_name",
    None,
    f"One of {', '.join(glue.TASKS)}, XNLI; or tsv or jsonl for files of your "
    "own: train, dev and test.tsv or .jsonl.",
)
flags.DEFINE_bool("do_eval", False, "Evaluate on the dev set.")
flags.DEFINE_integer(
    "eval_batch_size", 8, "Examples in an evaluation batch.", lower_bound=1
)
shared_flags.define_model_flags(max_seq_length=128)
shared_flags.define_fine_tuning_flags()
shared_flags.define_training_flags()
shared_flags.define_engine_flags()
flags.mark_flags_as_required(["data_dir", "task_name"])

# Not in the original.
flags.DEFINE_string(
    "xnli_language", glue.DEFAULT_LANGUAGE, "The language of XNLI."
)
flags.DEFINE_string(
    "text_a_column",
    "text",
    "Of your own files: the sentence, or the first of a pair. The name from "
    "the header or key; of a tsv without header its number, from 0.",
)
flags.DEFINE_string("text_b_column", None, "Likewise: the second of a pair.")
flags.DEFINE_string("label_column", "label", "Likewise: the label.")
flags.DEFINE_bool("regression", False, "Of your own files: labels are scores.")
flags.DEFINE_integer(
    "num_trials", 1, "Runs with seeds from --seed on.", lower_bound=1
)
flags.DEFINE_list("learning_rates", [], "A grid to choose from on dev.")
flags.DEFINE_list("train_batch_sizes", [], "Likewise.")
flags.DEFINE_list("epochs_grid", [], "Likewise.")

ACTIONS = ("train", "eval", "predict")
# What a run's results depend on.
RECORDED = (
    "task_name",
    "data_dir",
    "xnli_language",
    "text_a_column",
    "text_b_column",
    "label_column",
    "regression",
    "bert_config_file",
    "init_checkpoint",
    "dtype",
    "do_lower_case",
    "max_seq_length",
    "learning_rate",
    "train_batch_size",
    "num_train_epochs",
    "warmup_proportion",
    "seed",
)


def main(_):
    actions = [name for name in ACTIONS if FLAGS[f"do_{name}"].value]
    if not actions:
        raise ValueError(
            "Nothing to do: set --do_train, --do_eval or --do_predict."
        )
    output_dir = FLAGS.output_dir
    runs = plan_runs()
    config = shared_flags.read_config()
    tokenizer = shared_flags.read_tokenizer(config)
    task = read_task()
    policy = precision.choose_policy(FLAGS.dtype, FLAGS.use_tpu)
    # Before TensorFlow is at work: this may use other processes.
    data = classifier_data.prepare(
        task,
        tokenizer,
        FLAGS.max_seq_length,
        FLAGS.data_dir,
        shared_flags.worker_dir(),
        actions,
    )
    strategy = shared_flags.set_up()
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        state.keep_config(output_dir, config)

    def train_and_evaluate(run):
        for name, value in run.flags.items():
            setattr(FLAGS, name, value)
        FLAGS.output_dir = run.folder(output_dir)
        model = build_model(strategy, config, task, policy)
        has_trained, results = False, None
        if FLAGS.do_train:
            has_trained = run_train(
                strategy, model, task, data["train"][0].records
            )
        if FLAGS.do_eval and is_chief:
            results = run_eval(model, task, data["eval"])
        return results if FLAGS.do_train else None, has_trained

    if FLAGS.do_train or FLAGS.do_eval:
        best = trials.compare(output_dir, task, runs, train_and_evaluate)
        FLAGS.output_dir = best.folder(output_dir)
    if FLAGS.do_predict and is_chief:
        # The other workers are not there to make variables with.
        model = build_model(tf.distribute.get_strategy(), config, task, policy)
        run_predict(model, task, data["predict"], output_dir)


def plan_runs() -> list[trials.Run]:
    """One run; or all of a grid, with all seeds."""
    grid = {
        "learning_rate": map(float, FLAGS.learning_rates),
        "train_batch_size": map(int, FLAGS.train_batch_sizes),
        "num_train_epochs": map(float, FLAGS.epochs_grid),
    }
    runs = trials.plan_runs(
        {name: FLAGS[name].value for name in RECORDED},
        {name: list(values) for name, values in grid.items()},
        FLAGS.num_trials,
    )
    if len(runs) > 1 and not (FLAGS.do_train and FLAGS.do_eval):
        raise ValueError(
            f"{len(runs)} runs are compared by their results; set --do_train "
            "and --do_eval."
        )
    return runs


def read_task() -> glue.Task:
    """A task of the table or, as the flags have it, one's own."""
    kind = FLAGS.task_name.lower()
    if kind not in glue.OWN_KINDS:
        return glue.get_task(FLAGS.task_name, FLAGS.xnli_language)
    columns = FLAGS.text_a_column, FLAGS.text_b_column, FLAGS.label_column
    return classifier_data.make_own_task(
        kind,
        columns,
        FLAGS.regression,
        FLAGS.data_dir,
        FLAGS.output_dir,
        FLAGS.do_train,
    )


def build_model(strategy, config, task, policy) -> heads.BertClassifier:
    keras.utils.set_random_seed(FLAGS.seed)
    with strategy.scope():
        model = heads.BertClassifier(
            config,
            num_labels=len(task.labels) or 1,
            dtype=policy,
            skip_padding=shared_flags.skips_padding(),
        )
        model.build()
    return model


def run_train(strategy, model, task, records) -> bool:
    """Trains; returns whether there was anything left to do."""
    if task.name in glue.OWN_KINDS and task.labels:
        classifier_data.keep_labels(FLAGS.output_dir, task.labels)
    share = records.num_records / FLAGS.train_batch_size
    num_steps = int(share * FLAGS.num_train_epochs)
    if not num_steps:
        raise ValueError(
            f"{records.num_records} examples for --num_train_epochs="
            f"{FLAGS.num_train_epochs} do not fill one batch; lower "
            f"--train_batch_size={FLAGS.train_batch_size}."
        )
    num_warmup_steps = int(num_steps * FLAGS.warmup_proportion)
    kind, curve = fine_tuning.CLASSIFICATION, "accuracy"
    if task.is_regression:
        kind, curve = fine_tuning.REGRESSION, "absolute_error"
    with strategy.scope():
        return shared_flags.train(
            strategy,
            model,
            kind,
            records,
            num_steps,
            num_warmup_steps,
            ["loss", curve],
        )


def run_eval(model, task, data) -> dict:
    """Writes eval_results.txt."""
    trials.check_for_model(FLAGS.output_dir, task)
    step = training_run.restore_for_eval(
        model, FLAGS.output_dir, FLAGS.init_checkpoint
    )
    results = classification.evaluate(
        model,
        task,
        data,
        FLAGS.eval_batch_size,
        shared_flags.prediction_lengths(),
    )
    results["global_step"] = step
    progress.write_results(
        os.path.join(FLAGS.output_dir, "eval_results.txt"), results
    )
    return results


def run_predict(model, task, data, output_dir) -> None:
    """Writes test_results.tsv and the files of a submission."""
    trials.check_for_model(FLAGS.output_dir, task)
    training_run.restore_for_eval(
        model, FLAGS.output_dir, FLAGS.init_checkpoint
    )
    for split in data:
        logits = classification.predict(
            model,
            split,
            FLAGS.predict_batch_size,
            shared_flags.prediction_lengths(),
        )
        classification.write_predictions(output_dir, task, split, logits)


def run():
    shared_flags.run(main)


if __name__ == "__main__":
    run()
