"""The body of run_squad.py; docs/SQUAD.md tells how to use it."""

import os

import tensorflow as tf
from absl import logging

from keras_bert_ref import heads
from keras_bert_ref.commands import Options
from keras_bert_ref.squad import answer_files, answers, logits, marks, metrics
from keras_bert_ref.squad.objective import SPANS
from keras_bert_ref.squad.preparation import prepare_questions, prepare_training
from keras_bert_ref.squad.published import published_scores
from keras_bert_ref.squad.scores import score
from keras_bert_ref.training import (
    distribution,
    progress,
    report,
    setup,
    state,
    trials,
)
from keras_bert_ref.training.evaluations import Evaluation


def main(options: Options, _words=()) -> None:
    policy = setup.choose_policy(options)
    config = setup.read_config(options)
    tokenizer = setup.read_tokenizer(options, config)
    # Before TensorFlow is at work: this may use other processes.
    folder = setup.records_dir(options)
    if options.do_train:
        train_records, num_steps = prepare_training(options, tokenizer, folder)
    if options.do_predict:
        questions = prepare_questions(options, tokenizer, folder)
    strategy = setup.choose_devices(options)
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        state.keep_config(options.output_dir, config, options.do_train)
    with strategy.scope():
        model = heads.BertSpan(
            config, dtype=policy, bilstm_units=options.bilstm_units
        )
        model.build()
        ranking = make_ranking(options.version_2_with_negative)

        def evaluate() -> dict:
            return run_eval(options, model, *questions) if is_chief else {}

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
                evaluation=Evaluation(evaluate, ranking.best_by),
                ranking=ranking,
            )
        if options.do_predict and is_chief:
            run_predict(options, model, ranking, *questions)


def make_ranking(is_v2: bool) -> trials.Ranking:
    """What checkpoints are compared by, and with what."""
    exact = "exact" if is_v2 else "exact_match"
    return trials.Ranking(
        title="SQuAD v2.0" if is_v2 else "SQuAD v1.1",
        best_by=("f1",),
        shown={exact: "exact match", "f1": "F1"},
        published=lambda name: published_scores(is_v2, name),
        to_percent=1.0,
    )


def rank_options(options: Options) -> dict:
    """How answers are found among the logits."""
    return {
        "n_best_size": options.n_best_size,
        "max_answer_length": options.max_answer_length,
        "do_lower_case": options.do_lower_case,
        "version_2_with_negative": options.version_2_with_negative,
        "null_score_diff_threshold": options.null_score_diff_threshold,
    }


def predict_options(options: Options) -> dict:
    """How logits are computed."""
    return {
        "batch_size": options.predict_batch_size,
        "length_multiple": setup.length_multiple(options),
        "jit_compile": options.jit_compile,
    }


def run_eval(
    options: Options, model, articles, questions, features, windows
) -> dict:
    """The scores of a model while it trains; writes nothing."""
    results = logits.predict(model, windows, **predict_options(options))
    found = answers.answer_questions(
        questions, features, results, **rank_options(options)
    )
    return score(options, articles, found)[0]


def run_predict(
    options: Options, model, ranking, articles, questions, features, windows
) -> None:
    """Writes answers and, where the right ones are known, their scores and a
    report."""
    output_dir, is_v2 = options.output_dir, options.version_2_with_negative
    results, step = logits.restore_and_predict(
        model,
        windows,
        output_dir=output_dir,
        init_checkpoint=options.init_checkpoint,
        ensemble_checkpoints=options.ensemble_checkpoints,
        **predict_options(options),
    )
    predictions = answers.write_predictions(
        questions,
        features,
        results,
        output_prediction_file=os.path.join(output_dir, "predictions.json"),
        output_nbest_file=os.path.join(output_dir, "nbest_predictions.json"),
        output_null_log_odds_file=os.path.join(output_dir, "null_odds.json"),
        verbose_logging=options.verbose_logging,
        **rank_options(options),
    )
    logging.info(
        "Answers to %d questions, in %s/predictions.json.",
        len(questions),
        output_dir,
    )
    if not is_v2:
        remove(output_dir, "null_odds.json")
    if not metrics.has_gold_answers(articles, is_v2):
        logging.info("No scores: --predict_file lacks right answers.")
        remove(output_dir, "eval_results.txt")
        remove(output_dir, report.EXAMPLES_FILE)
        report.write(output_dir, ranking)
        return
    results, chosen = score(options, articles, predictions)
    if chosen != predictions.answers:
        path = os.path.join(output_dir, "predictions.json")
        answer_files.write_json(path, chosen)
    progress.write_results(
        os.path.join(output_dir, "eval_results.txt"),
        {"global_step": step, **results},
    )
    examples = (
        report.Example(*example)
        for example in marks.mark_answers(articles, chosen)
    )
    report.write(output_dir, ranking, report.pick(examples))


def remove(output_dir: str, name: str) -> None:
    """Removes what belongs to answers that are no longer there."""
    path = os.path.join(output_dir, name)
    if tf.io.gfile.exists(path):
        logging.info("Removed %s: it belonged to other answers.", path)
        tf.io.gfile.remove(path)
