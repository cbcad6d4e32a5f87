"""The body of run_pretraining.py; docs/TRAINING.md tells how to use it."""

import io
import os
from collections.abc import Sequence

from keras_bert_ref import casing, files, heads, text_files
from keras_bert_ref.commands import Options
from keras_bert_ref.config import BertConfig
from keras_bert_ref.pretraining.features import make_schema
from keras_bert_ref.pretraining.objective import PRETRAINING
from keras_bert_ref.records import batches
from keras_bert_ref.tokenization import load_vocab
from keras_bert_ref.training import (
    distribution,
    loop,
    progress,
    resumable,
    setup,
    state,
)

EVAL_KEYS = (
    "loss",
    "masked_lm_accuracy",
    "masked_lm_loss",
    "next_sentence_accuracy",
    "next_sentence_loss",
)


def main(options: Options, words: Sequence[str] = ()) -> None:
    policy = setup.choose_policy(options)
    config = setup.read_config(options)
    if options.vocab_file:
        options = check_vocabulary(options, config)
    strategy = setup.choose_devices(options)
    records = batches.find_records(
        text_files.find_files(",".join([options.input_file, *words])),
        make_schema(options.max_seq_length, options.max_predictions_per_seq),
        config.vocab_size,
    )
    is_chief = distribution.is_chief(strategy)
    if is_chief:
        state.keep_config(options.output_dir, config)
    with strategy.scope():
        model = heads.BertPretraining(
            config,
            dtype=policy,
            skip_padding=setup.skips_padding(options),
        )
        model.build()
        if options.do_train:
            setup.train_from_options(
                options,
                strategy,
                model,
                objective=PRETRAINING,
                task="pretraining",
                records=records,
                num_train_steps=options.num_train_steps,
                num_warmup_steps=options.num_warmup_steps,
            )
        if options.do_eval:
            run_eval(options, strategy, model, records)


def check_vocabulary(options: Options, config: BertConfig) -> Options:
    """The vocabulary is kept with the model, so it must be the model's; it
    says whether text is lower-cased, where the flags do not."""
    vocabulary = load_vocab(io.BytesIO(files.read(options.vocab_file)))
    casing.check_vocabulary_size(vocabulary, config.vocab_size)
    if options.do_lower_case is None:
        return options.replace(
            do_lower_case=not casing.has_capitals(vocabulary)
        )
    casing.check_casing(
        options.do_lower_case, options.init_checkpoint, vocabulary
    )
    return options


def run_eval(options: Options, strategy, model, records) -> None:
    """Writes eval_results.txt."""
    step = resumable.restore_for_eval(
        model, options.output_dir, options.init_checkpoint
    )
    dataset = batches.distribute(
        strategy, records, options.eval_batch_size, options.max_eval_steps
    )
    with batches.readable_errors(records):
        results = loop.evaluate(
            strategy,
            model,
            PRETRAINING,
            dataset,
            jit_compile=options.jit_compile,
        )
    results = {"global_step": step, **{k: results[k] for k in EVAL_KEYS}}
    if distribution.is_chief(strategy):
        progress.write_results(
            os.path.join(options.output_dir, "eval_results.txt"), results
        )
