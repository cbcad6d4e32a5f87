"""Files of questions -> windows on disk, ready to train on or to answer."""

import os
import random

from keras_bert_ref.commands import Options
from keras_bert_ref.squad import examples, metrics, records
from keras_bert_ref.squad.tfds import read_articles

SHUFFLE_SEED = 12345  # of the original


def prepare_training(options: Options, tokenizer, folder: str):
    """Writes train.tf_record into a folder; returns the windows to train on,
    and how many steps to take."""
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
        options,
        os.path.join(folder, "train.tf_record"),
        questions,
        tokenizer,
        is_training=True,
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


def prepare_questions(options: Options, tokenizer, folder: str):
    """Writes eval.tf_record into a folder; returns articles, their
    questions, and the windows of these."""
    is_v2 = options.version_2_with_negative
    articles = read_articles(options.predict_file, "validation", is_v2)
    questions = examples.make_examples(
        articles, False, source=options.predict_file
    )
    if not questions:
        raise ValueError(f"There is no question in {options.predict_file}.")
    can_score = metrics.has_gold_answers(articles, is_v2)
    if options.eval_every_steps and not can_score:
        raise ValueError(
            f"--eval_every_steps={options.eval_every_steps} scores answers "
            f"while training, but {options.predict_file} lacks right ones; "
            "drop it, or set --predict_file to a dev set."
        )
    if options.best_null_threshold and not (is_v2 and can_score):
        raise ValueError(
            "--best_null_threshold weighs answers against none, so it needs "
            "--version_2_with_negative and a --predict_file with the right "
            "answers; drop it, or set --null_score_diff_threshold."
        )
    features = []
    windows = write_records(
        options,
        os.path.join(folder, "eval.tf_record"),
        questions,
        tokenizer,
        is_training=False,
        keep=features.append,
    )
    return articles, questions, features, windows


def write_records(options: Options, path, questions, tokenizer, **kwargs):
    return records.write_records(
        path,
        questions,
        tokenizer,
        max_seq_length=options.max_seq_length,
        doc_stride=options.doc_stride,
        max_query_length=options.max_query_length,
        **kwargs,
    )
