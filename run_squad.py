"""Answers questions with spans of text: SQuAD (sections 4.2 and 4.3)."""

import math
import os
import random

from absl import flags, logging

from keras_bert_ref import flags as shared_flags
from keras_bert_ref import heads, precision
from keras_bert_ref.data import squad, squad_answers, squad_tfds
from keras_bert_ref.metrics import squad as metric
from keras_bert_ref.metrics.squad_thresholds import find_best_thresholds
from keras_bert_ref.training import (
    distribution,
    fine_tuning,
    progress,
    span_logits,
    state,
)
from keras_bert_ref.training import run as training_run

# After keras_bert_ref, which turns oneDNN on.
import tensorflow as tf  # isort: skip

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "train_file",
    None,
    "Questions to train on: JSON in SQuAD's format, or tfds, or tfds:/folder.",
)
flags.DEFINE_string("predict_file", None, "Questions to answer, likewise.")
flags.DEFINE_integer("doc_stride", 128, "Tokens from one window to the next.")
flags.DEFINE_integer("max_query_length", 64, "Longer questions are cut.")
flags.DEFINE_integer(
    "n_best_size", 20, "Answers to rank for each question.", lower_bound=1
)
flags.DEFINE_integer("max_answer_length", 30, "Tokens of an answer, at most.")
flags.DEFINE_bool(
    "verbose_logging",
    False,
    "Tell which answers are whole words for want of a way back from tokens.",
)
flags.DEFINE_bool(
    "version_2_with_negative", False, "Some questions have no answer (v2.0)."
)
flags.DEFINE_float(
    "null_score_diff_threshold",
    0.0,
    "By how much `no answer` must be ahead of all others to be given.",
)
flags.DEFINE_bool(
    "best_null_threshold",
    False,
    "Give the answers of the threshold that has the highest F1 on "
    "--predict_file, in place of --null_score_diff_threshold.",
)
shared_flags.define_training_flags()
shared_flags.define_model_flags(max_seq_length=384)
shared_flags.define_fine_tuning_flags()
shared_flags.define_engine_flags()
# Padding takes part in the original's loss and in its choice of answers.
FLAGS.set_default("trim_batches", False)

CURVES = ["loss", "start_accuracy", "end_accuracy"]
SHUFFLE_SEED = 12345  # of the original


def main(_):
    check_flags()
    config = shared_flags.read_config()
    tokenizer = shared_flags.read_tokenizer(config)
    policy = precision.choose_policy(FLAGS.dtype, FLAGS.use_tpu)
    # Before TensorFlow is at work: this may use other processes.
    train_data = prepare_training(tokenizer) if FLAGS.do_train else None
    questions = prepare_questions(tokenizer) if FLAGS.do_predict else None
    strategy = shared_flags.set_up()
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        state.keep_config(FLAGS.output_dir, config)
    with strategy.scope():
        model = heads.BertSpan(config, dtype=policy)
        model.build()
        if FLAGS.do_train:
            run_train(strategy, model, *train_data)
        if FLAGS.do_predict and is_chief:
            run_predict(model, *questions)


def check_flags():
    if not FLAGS.do_train and not FLAGS.do_predict:
        raise ValueError("Nothing to do: set --do_train, --do_predict or both.")
    for do, file in (
        ("do_train", "train_file"),
        ("do_predict", "predict_file"),
    ):
        if FLAGS[do].value and not FLAGS[file].value:
            raise ValueError(f"--{do} needs questions; set --{file}.")
    if FLAGS.max_seq_length <= FLAGS.max_query_length + 3:
        raise ValueError(
            f"--max_seq_length={FLAGS.max_seq_length} leaves no room for text "
            f"beside a question of --max_query_length={FLAGS.max_query_length} "
            "tokens, [CLS] and two [SEP]; raise the one or lower the other."
        )


def prepare_training(tokenizer):
    """Returns the windows to train on, and how many steps to take."""
    is_v2 = FLAGS.version_2_with_negative
    articles = squad_tfds.read_articles(FLAGS.train_file, "train", is_v2)
    examples = squad.make_examples(articles, True, is_v2, FLAGS.train_file)
    random.Random(SHUFFLE_SEED).shuffle(examples)
    num_steps = int(
        len(examples) / FLAGS.train_batch_size * FLAGS.num_train_epochs
    )
    records = write_records("train.tf_record", examples, tokenizer, True)
    if num_steps < 1 or not records.num_records:
        raise ValueError(
            f"Training needs one batch or more, but {FLAGS.train_file} has "
            f"{len(examples)} questions with {records.num_records} windows of "
            f"text, for --train_batch_size={FLAGS.train_batch_size} and "
            f"--num_train_epochs={FLAGS.num_train_epochs}; lower the one or "
            "raise the other."
        )
    return records, num_steps


def prepare_questions(tokenizer):
    """Returns articles, their questions, and the windows of these."""
    is_v2 = FLAGS.version_2_with_negative
    articles = squad_tfds.read_articles(FLAGS.predict_file, "validation", is_v2)
    examples = squad.make_examples(articles, False, source=FLAGS.predict_file)
    if not examples:
        raise ValueError(f"There is no question in {FLAGS.predict_file}.")
    can_score = metric.has_gold_answers(articles, is_v2)
    if FLAGS.best_null_threshold and not (is_v2 and can_score):
        raise ValueError(
            "--best_null_threshold weighs answers against none, so it needs "
            "--version_2_with_negative and a --predict_file with the right "
            "answers; drop it, or set --null_score_diff_threshold."
        )
    features = []
    records = write_records(
        "eval.tf_record", examples, tokenizer, False, features.append
    )
    return articles, examples, features, records


def write_records(name, examples, tokenizer, is_training, keep=None):
    return squad.write_records(
        os.path.join(shared_flags.worker_dir(), name),
        examples,
        tokenizer,
        FLAGS.max_seq_length,
        FLAGS.doc_stride,
        FLAGS.max_query_length,
        is_training,
        keep,
    )


def run_train(strategy, model, records, num_steps):
    num_warmup_steps = int(num_steps * FLAGS.warmup_proportion)
    shared_flags.train(
        strategy,
        model,
        fine_tuning.SPANS,
        records,
        num_steps,
        num_warmup_steps,
        CURVES,
    )


def run_predict(model, articles, examples, features, records):
    step = training_run.restore_for_eval(
        model, FLAGS.output_dir, FLAGS.init_checkpoint
    )
    predictions = squad_answers.write_predictions(
        examples,
        features,
        span_logits.predict(
            model,
            records,
            FLAGS.predict_batch_size,
            shared_flags.prediction_lengths(),
        ),
        FLAGS.n_best_size,
        FLAGS.max_answer_length,
        FLAGS.do_lower_case,
        output_path("predictions.json"),
        output_path("nbest_predictions.json"),
        output_path("null_odds.json"),
        FLAGS.version_2_with_negative,
        FLAGS.null_score_diff_threshold,
        FLAGS.verbose_logging,
    )
    logging.info("%d answers, in %s", len(examples), FLAGS.output_dir)
    if not FLAGS.version_2_with_negative:
        remove("null_odds.json")
    if metric.has_gold_answers(articles, FLAGS.version_2_with_negative):
        results = {"global_step": step, **score(articles, predictions)}
        progress.write_results(output_path("eval_results.txt"), results)
    else:
        logging.info("No scores: --predict_file lacks right answers.")
        remove("eval_results.txt")


def score(articles, predictions):
    """The official scores; may choose other answers first."""
    answers, nbest, null_odds = predictions
    if not FLAGS.version_2_with_negative:
        return metric.evaluate_v1(articles, answers)
    always = squad_answers.choose_answers(nbest, null_odds, math.inf)
    scores = metric.score_questions(articles, always)
    best = find_best_thresholds(scores, always, null_odds)
    if FLAGS.best_null_threshold:
        threshold = best["best_f1_thresh"]
        answers = squad_answers.choose_answers(nbest, null_odds, threshold)
        squad_answers.write_json(output_path("predictions.json"), answers)
    return {**metric.evaluate_v2(articles, answers), **best}


def remove(name):
    """Removes what belongs to answers that are no longer there."""
    if tf.io.gfile.exists(output_path(name)):
        logging.info("%s was of other answers and is removed", name)
        tf.io.gfile.remove(output_path(name))


def output_path(name):
    return os.path.join(FLAGS.output_dir, name)


def run():
    shared_flags.run(main)


if __name__ == "__main__":
    run()
