"""The whole life of a small BERT, with the commands a user would type."""

import os

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared


def define() -> None:
    with shared.group("Flags"):
        flags.DEFINE_string(
            "output_dir", "demo_output", "Where everything goes; must be new."
        )
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    if os.path.exists(options.output_dir):
        raise ValueError(
            f"{options.output_dir} exists already; remove it, or choose "
            "another place with --output_dir."
        )


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.demo.story", check)
