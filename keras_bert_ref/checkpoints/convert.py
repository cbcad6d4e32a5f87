"""Converts a BERT between TF1, Hugging Face and keras-hub files."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

# See READERS and WRITERS in conversion.py.
FORMATS = ("tf1", "huggingface", "keras_hub")


def define() -> None:
    with shared.group("Flags"):
        flags.DEFINE_string(
            "source",
            None,
            "Folder of a TF1, Hugging Face or keras-hub model, or the path of "
            "a TF1 checkpoint without .index.",
            required=True,
        )
        flags.DEFINE_string(
            "target", None, "Folder to make; it must not exist.", required=True
        )
        flags.DEFINE_string(
            "right_to_left",
            None,
            "A right-to-left model to join with the left-to-right one of "
            "--source; the target, in TF1 format, has both encoders.",
        )
        flags.DEFINE_enum(
            "target_format", "tf1", FORMATS, "The format to write."
        )
        shared.define_log_flags()


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.checkpoints.conversion")


if __name__ == "__main__":
    command()
