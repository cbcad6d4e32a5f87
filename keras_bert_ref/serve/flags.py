"""Flags of the server."""

import re

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared
from keras_bert_ref.export.flags import define_opening_flags

DESCRIPTION = (
    "Serves a trained model over HTTP, text in, in the format of TensorFlow "
    "Serving."
)


def define() -> None:
    with shared.group("Flags"):
        define_opening_flags()
        flags.DEFINE_string("name", "model", "The model's name in addresses.")
        flags.DEFINE_string("host", "127.0.0.1", "The address to listen on.")
        flags.DEFINE_integer(
            "port", 8501, "The port to listen on.", 0, 2**16 - 1
        )
        flags.DEFINE_integer(
            "max_batch_size",
            32,
            "Texts, of one request or of several, that are computed together.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "max_waiting",
            1024,
            "Requests that may wait; more are refused with 503.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "max_body_bytes",
            1 << 20,
            "Larger requests are refused with 413.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "max_texts",
            1024,
            "Requests with more texts, or pairs, are refused with 413.",
            lower_bound=1,
        )
        shared.define_positive_float(
            "body_timeout", 10.0, "Seconds a client may take to send a request."
        )
        shared.define_positive_float(
            "request_timeout", 60.0, "Seconds a request may wait for answers."
        )
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", options.name):
        raise ValueError(
            "A name has letters, digits, dots, - and _ only, but "
            f"--name={options.name}; choose another."
        )


def command() -> None:
    commands.run(DESCRIPTION, define, "keras_bert_ref.serve.run", check)
