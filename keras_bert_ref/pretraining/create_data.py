"""The body of create_pretraining_data.py.

docs/PRETRAINING_DATA.md tells what is made, how, and in which order.
"""

import dataclasses
import os

from absl import logging

from keras_bert_ref import files, text_files
from keras_bert_ref.commands import Options
from keras_bert_ref.interruptions import discard_on_signals
from keras_bert_ref.pretraining import exact, features, sharded
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.records.files import expand_outputs
from keras_bert_ref.records.framing import open_outputs
from keras_bert_ref.tokenization import FullTokenizer

NUM_SHOWN = 3


@discard_on_signals()
def main(options: Options, _words=()) -> None:
    paths = text_files.find_files(options.input_file)
    files.check_apart(
        [*paths, options.vocab_file], expand_outputs(options.output_file)
    )
    vocabulary = files.open_bytes(options.vocab_file)
    tokenizer = FullTokenizer(vocabulary, options.do_lower_case)
    settings = make_settings(options, tokenizer.vocab)
    summary = Summary()
    make = run_beam if options.beam_runner else run_local
    make(options, paths, tokenizer, settings, summary)
    logging.info("Wrote %s:\n%s", options.output_file, summary.report(settings))
    if warning := summary.unknown_warning(settings, options.do_lower_case):
        logging.warning(warning)


def make_settings(options: Options, vocab: dict[str, int]) -> Settings:
    """Takes all settings from the flags of the same names."""
    names = [field.name for field in dataclasses.fields(Settings)]
    names.remove("vocab")
    return Settings(vocab, **{name: getattr(options, name) for name in names})


def run_local(
    options: Options,
    paths: list[str],
    tokenizer: FullTokenizer,
    settings: Settings,
    summary: Summary,
) -> None:
    """Makes the examples on this machine and shows the first of them."""
    generate = sharded.generate if options.sharded else exact.generate
    shown = []
    outputs = expand_outputs(options.output_file)
    with open_outputs(outputs) as write:
        for batch in generate(
            paths,
            tokenizer,
            settings,
            num_workers=options.num_workers or os.cpu_count(),
            summary=summary,
        ):
            write(batch)
            shown += batch[: NUM_SHOWN - len(shown)]
    for record in shown:
        logging.info(
            "Example: %s", features.describe(record, tokenizer.inv_vocab)
        )


def run_beam(
    options: Options,
    paths: list[str],
    tokenizer: FullTokenizer,
    settings: Settings,
    summary: Summary,
) -> None:
    """Makes the examples in an Apache Beam pipeline."""
    try:
        from keras_bert_ref.pretraining import beam
    except ImportError as error:
        raise ValueError(
            f"--beam_runner={options.beam_runner} needs Apache Beam ({error}); "
            "pip install 'keras_bert_ref[beam]'."
        ) from error
    beam.run(
        paths,
        tokenizer,
        settings,
        output=options.output_file,
        options=[f"--runner={options.beam_runner}", *options.beam_option],
        summary=summary,
    )
