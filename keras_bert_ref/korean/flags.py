"""Lays out Korean data sets for run_classifier.py and run_squad.py."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared


def define() -> None:
    with shared.group("Flags"):
        flags.DEFINE_string(
            "data_dir",
            None,
            "The folder with the data sets as published: nsmc, korsts and "
            "korquad, or some of them.",
            required=True,
        )
        flags.DEFINE_string(
            "output_dir", None, "Where the files go.", required=True
        )
        flags.DEFINE_integer(
            "num_dev",
            10000,
            "NSMC has no dev set: reviews of its training set to hold out.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "dev_articles",
            28,
            "KorQuAD has only its dev set here: articles of it to evaluate "
            "on; the others become the training set.",
            lower_bound=1,
        )
        shared.define_log_flags()


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.korean.prepare")
