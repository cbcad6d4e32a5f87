"""Flags of create_pretraining_data.py."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

DESCRIPTION = (
    "Makes TFRecords of masked-LM and next-sentence examples from text."
)


def define() -> None:
    with shared.group(shared.ORIGINAL):
        flags.DEFINE_string(
            "input_file",
            None,
            "Text files, one sentence a line and a blank line between "
            "documents: comma-separated names or patterns.",
        )
        flags.DEFINE_string(
            "output_file",
            None,
            "TFRecord files to fill in turn, comma-separated; name@8 stands "
            "for eight numbered files, and a name ending in .gz for compressed "
            "ones.",
        )
        flags.DEFINE_string("vocab_file", None, "The WordPiece vocabulary.")
        flags.DEFINE_bool(
            "do_lower_case",
            True,
            "Lower-case the text; must fit the vocabulary.",
        )
        flags.DEFINE_bool(
            "do_whole_word_mask", False, "Mask all pieces of a word or none."
        )
        flags.DEFINE_integer("max_seq_length", 128, "Length of every example.")
        flags.DEFINE_integer(
            "max_predictions_per_seq",
            20,
            "Most masked positions in an example.",
        )
        flags.DEFINE_integer(
            "random_seed", 12345, "Seed of all random choices."
        )
        flags.DEFINE_integer(
            "dupe_factor",
            10,
            "How often to go through the text, masking it anew.",
        )
        flags.DEFINE_float("masked_lm_prob", 0.15, "Share of masked positions.")
        flags.DEFINE_float(
            "short_seq_prob",
            0.1,
            "Share of documents whose examples are made shorter than they "
            "could be.",
        )
        flags.mark_flags_as_required(
            ["input_file", "output_file", "vocab_file"]
        )
    with shared.group(shared.FURTHER):
        flags.DEFINE_integer(
            "num_workers",
            None,
            "Processes to work with; all processors by default. It does not "
            "change the result.",
            lower_bound=1,
            upper_bound=shared.MAX_PROCESSES,
        )
        flags.DEFINE_bool(
            "sharded",
            False,
            "For text larger than memory: sample shards of it one by one. The "
            "examples are not those of the original, but drawn in the same "
            "way.",
        )
        flags.DEFINE_string(
            "beam_runner",
            None,
            "Make what --sharded makes in an Apache Beam pipeline on this "
            "runner, such as DirectRunner, DataflowRunner, FlinkRunner or "
            "SparkRunner.",
        )
        flags.DEFINE_multi_string(
            "beam_option",
            [],
            "An option of the Beam pipeline, such as "
            "--beam_option=--region=us-east1; may be repeated.",
        )
        flags.DEFINE_float(
            "mask_prob", 0.8, "Share of masked tokens shown as [MASK]."
        )
        flags.DEFINE_float(
            "keep_prob", 0.1, "Share of masked tokens left as they are."
        )
        flags.DEFINE_bool(
            "next_sentence_pairs",
            True,
            "Make pairs of segments; otherwise examples of a single segment.",
        )
        flags.DEFINE_bool(
            "pack_sequences",
            False,
            "Put several sequences into one example, in a format of our own: "
            "for devices that want examples of one length without padding.",
        )
        shared.define_log_flags()


def command() -> None:
    commands.run(DESCRIPTION, define, "keras_bert_ref.pretraining.create_data")
