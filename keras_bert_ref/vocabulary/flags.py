"""Learns a WordPiece vocabulary from text."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

# With so many unused entries [UNK] to [MASK] get the ids 100 to 103 that they
# have in the released files.
NUM_UNUSED = 99


def define() -> None:
    with shared.group("Flags"):
        flags.DEFINE_string(
            "input_file",
            None,
            "Text files: comma-separated names or patterns.",
            required=True,
        )
        flags.DEFINE_string(
            "output_file",
            None,
            "Where the vocabulary goes; must not exist.",
            required=True,
        )
        flags.DEFINE_integer(
            "vocab_size",
            None,
            "Number of tokens, special ones included.",
            lower_bound=1,
            required=True,
        )
        flags.DEFINE_bool(
            "do_lower_case", True, "Lower-case the text and strip accents."
        )
        flags.DEFINE_integer(
            "num_unused",
            NUM_UNUSED,
            "Number of [unused] tokens, to be renamed when the need arises.",
            lower_bound=0,
        )
        flags.DEFINE_integer(
            "num_workers",
            None,
            "Processes to count words with; all processors by default. It "
            "does not change the result.",
            lower_bound=1,
            upper_bound=shared.MAX_PROCESSES,
        )
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    if options.num_unused >= options.vocab_size:
        raise ValueError(
            f"--num_unused={options.num_unused} leaves no room for words in a "
            f"vocabulary of --vocab_size={options.vocab_size}; lower the one "
            "or raise the other."
        )


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.vocabulary.learning", check)
