"""The body of run_pretraining.py; docs/TRAINING.md tells how to use it."""

import dataclasses
import math
import os
from collections.abc import Sequence

from keras_bert_ref import casing, files, heads, text_files
from keras_bert_ref.commands import Options
from keras_bert_ref.config import BertConfig
from keras_bert_ref.pretraining.features import make_schema
from keras_bert_ref.pretraining.next_words import PREPARATIONS
from keras_bert_ref.pretraining.objective import PRETRAINING, WORDS
from keras_bert_ref.pretraining.packing import find_sequences_per_row
from keras_bert_ref.pretraining.settings import warn_of_padding
from keras_bert_ref.records import batches
from keras_bert_ref.tokenization import load_vocab
from keras_bert_ref.training import (
    distribution,
    loop,
    progress,
    report,
    resumable,
    setup,
    state,
)
from keras_bert_ref.training.evaluations import Evaluation


def main(options: Options, words: Sequence[str] = ()) -> None:
    policy = setup.choose_policy(options)
    config = setup.read_config(options)
    if options.vocab_file:
        options = check_vocabulary(options, config)
    lengths = options.max_seq_length, options.max_predictions_per_seq
    warn_of_padding(*lengths)
    strategy = setup.choose_devices(options)

    def find_records(pattern: str):
        paths = text_files.find_files(pattern)
        return batches.find_records(
            paths,
            make_schema(*lengths, find_sequences_per_row(paths)),
            config.vocab_size,
            config.type_vocab_size,
        )

    records = find_records(",".join([options.input_file, *words]))
    objective, records = choose_objective(options, config, records)
    eval_records = records
    if options.eval_input_file:
        eval_records = find_records(options.eval_input_file)
        _, eval_records = choose_objective(options, config, eval_records)
    if distribution.is_chief(strategy):
        state.keep_config(options.output_dir, config, options.do_train)
    with strategy.scope():
        model = heads.BertPretraining(
            config,
            dtype=policy,
            skip_padding=setup.skips_padding(options),
        )
        model.build()
        scored = options, strategy, model, objective, eval_records
        if options.do_train:
            setup.train_from_options(
                options,
                strategy,
                model,
                objective=objective,
                task="pretraining",
                records=records,
                num_train_steps=options.num_train_steps,
                num_warmup_steps=options.num_warmup_steps,
                stop_at_step=options.stop_at_step,
                evaluation=Evaluation(
                    lambda: evaluate(*scored), ("loss",), lower_is_better=True
                ),
            )
        if options.do_eval:
            run_eval(*scored)


def choose_objective(options: Options, config: BertConfig, records):
    """What is trained, and on what, by the direction of the model."""
    if config.direction in PREPARATIONS:
        prepare = PREPARATIONS[config.direction]
        records = dataclasses.replace(records, prepare=prepare)
        return WORDS[config.direction], records
    heads.check_pretrained_alone(config)
    return PRETRAINING if options.next_sentence_loss else WORDS["bidi"], records


def check_vocabulary(options: Options, config: BertConfig) -> Options:
    """The vocabulary is kept with the model, so it must be the model's; it
    says whether text is lower-cased, where the flags do not."""
    vocabulary = load_vocab(files.open_bytes(options.vocab_file))
    casing.check_vocabulary_size(vocabulary, config.vocab_size)
    if options.do_lower_case is None:
        return options.replace(
            do_lower_case=not casing.has_capitals(vocabulary)
        )
    casing.check_casing(
        options.do_lower_case, options.init_checkpoint, vocabulary
    )
    return options


def evaluate(options: Options, strategy, model, objective, records) -> dict:
    """The loss, the metrics of the objective, and the perplexity of words."""
    dataset = batches.distribute(
        strategy, records, options.eval_batch_size, options.max_eval_steps
    )
    with batches.readable_errors(records):
        results = loop.evaluate(
            strategy,
            model,
            objective,
            dataset,
            jit_compile=options.jit_compile,
        )
    results.pop("tokens")
    words = objective.curves[0].removesuffix("_accuracy")
    loss = results[f"{words}_loss"]  # from 710 on, exp is no number
    results[f"{words}_perplexity"] = math.exp(loss) if loss < 700 else math.inf
    return dict(sorted(results.items()))


def run_eval(options: Options, strategy, model, objective, records) -> None:
    """Writes eval_results.txt."""
    with distribution.readable_errors(strategy):
        distribution.wait_for_all(strategy)
        step = resumable.restore_for_eval(
            model, options.output_dir, options.init_checkpoint
        )
        results = evaluate(options, strategy, model, objective, records)
    if distribution.is_chief(strategy):
        progress.write_results(
            os.path.join(options.output_dir, "eval_results.txt"),
            {"global_step": step, **results},
        )
        report.write(options.output_dir)
