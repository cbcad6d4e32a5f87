"""The body of run_squad.py; docs/SQUAD.md tells how to use it."""

import math
import os
import random

import tensorflow as tf
from absl import logging

from keras_bert_ref import heads
from keras_bert_ref.commands import Options
from keras_bert_ref.squad import answers, examples, logits, metrics, records
from keras_bert_ref.squad.objective import SPANS
from keras_bert_ref.squad.tfds import read_articles
from keras_bert_ref.squad.thresholds import find_best_thresholds
from keras_bert_ref.training import (
    distribution,
    progress,
    resumable,
    setup,
    state,
)

SHUFFLE_SEED = 12345  # of the original


def main(options: Options, _words=()) -> None:
    policy = setup.choose_policy(options)
    config = setup.read_config(options)
    tokenizer = setup.read_tokenizer(options, config)
    # Before TensorFlow is at work: this may use other processes.
    if options.do_train:
        train_records, num_steps = prepare_training(options, tokenizer)
    if options.do_predict:
        questions = prepare_questions(options, tokenizer)
    strategy = setup.choose_devices(options)
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        state.keep_config(options.output_dir, config)
    with strategy.scope():
        model = heads.BertSpan(config, dtype=policy)
        model.build()
        if options.do_train:
            setup.train_from_options(
                options,
                strategy,
                model,
                objective=SPANS,
                task="squad",
                records=train_records,
                num_train_steps=num_steps,
                num_warmup_steps=int(num_steps * options.warmup_proportion),
            )
        if options.do_predict and is_chief:
            run_predict(options, model, *questions)


def prepare_training(options: Options, tokenizer):
    """Returns the windows to train on, and how many steps to take."""
    is_v2 = options.version_2_with_negative
    articles = read_articles(options.train_file, "train", is_v2)
    questions = examples.make_examples(
        articles, True, is_v2, source=options.train_file
    )
    random.Random(SHUFFLE_SEED).shuffle(questions)
    num_steps = int(
        len(questions) / options.train_batch_size * options.num_train_epochs
    )
    windows = write_records(
        options, "train.tf_record", questions, tokenizer, is_training=True
    )
    if num_steps < 1 or not windows.num_records:
        raise ValueError(
            f"Training needs one batch or more, but {options.train_file} has "
            f"{len(questions)} questions with {windows.num_records} windows of "
            f"text, for --train_batch_size={options.train_batch_size} and "
            f"--num_train_epochs={options.num_train_epochs}; lower the one or "
            "raise the other."
        )
    return windows, num_steps


def prepare_questions(options: Options, tokenizer):
    """Returns articles, their questions, and the windows of these."""
    is_v2 = options.version_2_with_negative
    articles = read_articles(options.predict_file, "validation", is_v2)
    questions = examples.make_examples(
        articles, False, source=options.predict_file
    )
    if not questions:
        raise ValueError(f"There is no question in {options.predict_file}.")
    can_score = metrics.has_gold_answers(articles, is_v2)
    if options.best_null_threshold and not (is_v2 and can_score):
        raise ValueError(
            "--best_null_threshold weighs answers against none, so it needs "
            "--version_2_with_negative and a --predict_file with the right "
            "answers; drop it, or set --null_score_diff_threshold."
        )
    features = []
    windows = write_records(
        options,
        "eval.tf_record",
        questions,
        tokenizer,
        is_training=False,
        keep=features.append,
    )
    return articles, questions, features, windows


def write_records(options: Options, name, questions, tokenizer, **kwargs):
    return records.write_records(
        os.path.join(setup.worker_dir(options), name),
        questions,
        tokenizer,
        max_seq_length=options.max_seq_length,
        doc_stride=options.doc_stride,
        max_query_length=options.max_query_length,
        **kwargs,
    )


def run_predict(
    options: Options, model, articles, questions, features, windows
) -> None:
    """Writes answers and, where the right ones are known, their scores."""
    output_dir, is_v2 = options.output_dir, options.version_2_with_negative
    step = resumable.restore_for_eval(
        model, output_dir, options.init_checkpoint
    )
    predictions = answers.write_predictions(
        questions,
        features,
        logits.predict(
            model,
            windows,
            batch_size=options.predict_batch_size,
            length_multiple=setup.length_multiple(options),
            jit_compile=options.jit_compile,
        ),
        n_best_size=options.n_best_size,
        max_answer_length=options.max_answer_length,
        do_lower_case=options.do_lower_case,
        output_prediction_file=os.path.join(output_dir, "predictions.json"),
        output_nbest_file=os.path.join(output_dir, "nbest_predictions.json"),
        output_null_log_odds_file=os.path.join(output_dir, "null_odds.json"),
        version_2_with_negative=is_v2,
        null_score_diff_threshold=options.null_score_diff_threshold,
        verbose_logging=options.verbose_logging,
    )
    logging.info(
        "Answers to %d questions, in %s/predictions.json.",
        len(questions),
        output_dir,
    )
    if not is_v2:
        remove(output_dir, "null_odds.json")
    if metrics.has_gold_answers(articles, is_v2):
        results = {"global_step": step, **score(options, articles, predictions)}
        progress.write_results(
            os.path.join(output_dir, "eval_results.txt"), results
        )
    else:
        logging.info("No scores: --predict_file lacks right answers.")
        remove(output_dir, "eval_results.txt")


def score(options: Options, articles, predictions) -> dict:
    """The official scores; may choose other answers first."""
    chosen, nbest, null_odds = predictions
    if not options.version_2_with_negative:
        return metrics.evaluate_v1(articles, chosen)
    always = answers.choose_answers(nbest, null_odds, math.inf)
    scores = metrics.score_questions(articles, always)
    best = find_best_thresholds(scores, always, null_odds)
    if options.best_null_threshold:
        threshold = best["best_f1_thresh"]
        chosen = answers.choose_answers(nbest, null_odds, threshold)
        path = os.path.join(options.output_dir, "predictions.json")
        answers.write_json(path, chosen)
    return {**metrics.evaluate_v2(articles, chosen), **best}


def remove(output_dir: str, name: str) -> None:
    """Removes what belongs to answers that are no longer there."""
    path = os.path.join(output_dir, name)
    if tf.io.gfile.exists(path):
        logging.info("Removed %s: it belonged to other answers.", path)
        tf.io.gfile.remove(path)
