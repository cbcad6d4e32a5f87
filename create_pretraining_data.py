"""Makes TFRecords of masked LM and next-sentence examples from text.

docs/PRETRAINING_DATA.md tells what is made, how, and in which order.
"""

import dataclasses
import io
import os
import signal
import sys

import tensorflow as tf
from absl import app, flags, logging

from keras_bert_ref.pretraining import exact, examples, sharded, text_files
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.records import files as records
from keras_bert_ref.tokenization import FullTokenizer

NUM_SHOWN = 3

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "input_file",
    None,
    "Text files, one sentence a line and a blank line between documents: "
    "comma-separated names or patterns.",
)
flags.DEFINE_string(
    "output_file",
    None,
    "TFRecord files to fill in turn, comma-separated; name@8 stands for eight "
    "numbered files, and a name ending in .gz for compressed ones.",
)
flags.DEFINE_string("vocab_file", None, "The WordPiece vocabulary.")
flags.DEFINE_bool(
    "do_lower_case", True, "Lower-case the text; must fit the vocabulary."
)
flags.DEFINE_bool(
    "do_whole_word_mask", False, "Mask all pieces of a word or none."
)
flags.DEFINE_integer("max_seq_length", 128, "Length of every example.")
flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Most masked positions in an example."
)
flags.DEFINE_integer("random_seed", 12345, "Seed of all random choices.")
flags.DEFINE_integer(
    "dupe_factor",
    10,
    "How often to go through the text, masking it anew.",
)
flags.DEFINE_float("masked_lm_prob", 0.15, "Share of masked positions.")
flags.DEFINE_float(
    "short_seq_prob",
    0.1,
    "Share of documents whose examples are made shorter than they could be.",
)

# Not in the original.
flags.DEFINE_integer(
    "num_workers",
    None,
    "Processes to work with; all processors by default. It does not change "
    "the result.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "sharded",
    False,
    "For text larger than memory: sample shards of it one by one. The "
    "examples are not those of the original, but drawn in the same way.",
)
flags.DEFINE_string(
    "beam_runner",
    None,
    "Make what --sharded makes in an Apache Beam pipeline on this runner, "
    "such as DirectRunner, DataflowRunner, FlinkRunner or SparkRunner.",
)
flags.DEFINE_multi_string(
    "beam_option",
    [],
    "An option of the Beam pipeline, such as --beam_option=--region=us-east1; "
    "may be repeated.",
)
flags.DEFINE_float("mask_prob", 0.8, "Share of masked tokens shown as [MASK].")
flags.DEFINE_float("keep_prob", 0.1, "Share of masked tokens left as they are.")
flags.DEFINE_bool(
    "next_sentence_pairs",
    True,
    "Make pairs of segments; otherwise examples of a single segment.",
)
flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])


def main(_):
    logging.set_verbosity(logging.INFO)
    paths = text_files.find_files(FLAGS.input_file)
    tokenizer = load_tokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    settings = make_settings(tokenizer.vocab)
    summary = Summary()
    make = run_beam if FLAGS.beam_runner else run_local
    make(paths, tokenizer, settings, summary)
    logging.info("Wrote %s:\n%s", FLAGS.output_file, summary.report(settings))
    if warning := summary.unknown_warning(settings, FLAGS.do_lower_case):
        logging.warning(warning)


def load_tokenizer(vocab_file: str, do_lower_case: bool) -> FullTokenizer:
    with tf.io.gfile.GFile(vocab_file, "rb") as file:
        return FullTokenizer(io.BytesIO(file.read()), do_lower_case)


def make_settings(vocab: dict[str, int]) -> Settings:
    """Takes all settings from the flags of the same names."""
    names = [field.name for field in dataclasses.fields(Settings)]
    names.remove("vocab")
    return Settings(vocab, **{name: FLAGS[name].value for name in names})


def run_local(
    paths: list[str],
    tokenizer: FullTokenizer,
    settings: Settings,
    summary: Summary,
) -> None:
    """Makes the examples on this machine and shows the first of them."""
    generate = sharded.generate if FLAGS.sharded else exact.generate
    shown = []
    outputs = records.expand_outputs(FLAGS.output_file)
    with records.open_outputs(outputs) as write:
        for batch in generate(
            paths,
            tokenizer,
            settings,
            FLAGS.num_workers or os.cpu_count(),
            summary,
        ):
            write(batch)
            shown += batch[: NUM_SHOWN - len(shown)]
    for record in shown:
        logging.info(
            "Example: %s", examples.describe(record, tokenizer.inv_vocab)
        )


def run_beam(
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
            f"--beam_runner={FLAGS.beam_runner} needs Apache Beam ({error}); "
            "pip install 'keras_bert_ref[beam]'."
        ) from error
    beam.run(
        paths,
        tokenizer,
        settings,
        FLAGS.output_file,
        [f"--runner={FLAGS.beam_runner}", *FLAGS.beam_option],
        summary,
    )


def run():
    """Starts from the command line."""
    # As Ctrl-C does, so that temporary files are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app.run(main)
    except KeyboardInterrupt:
        sys.exit("Interrupted: no output file was written.")


if __name__ == "__main__":
    run()
