"""Makes a page that shows what a BERT does with a text."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared


def define() -> None:
    with shared.group("Flags"):
        flags.DEFINE_string(
            "model",
            None,
            "The model: a released folder, an output folder of a command, or "
            "a Hugging Face folder.",
            required=True,
        )
        flags.DEFINE_string(
            "compare", None, "A second model, shown beside the first."
        )
        flags.DEFINE_string(
            "text",
            None,
            "The text to look at, or the first of a pair; for a model that "
            "answers questions, the question.",
            required=True,
        )
        flags.DEFINE_string(
            "text_b", None, "The second text of a pair, or the passage."
        )
        flags.DEFINE_string(
            "output", "view.html", "The page to write; opens in any browser."
        )
        shared.define_log_flags()


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.view.run")
