"""Flags of the export."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

DESCRIPTION = (
    "Writes a trained model for TensorFlow Serving (text in), ONNX Runtime or "
    "LiteRT (ids in), and compares what was written with the model."
)
FORMATS = ("saved_model", "onnx", "litert")


def define_opening_flags() -> None:
    """Which model, and what is not beside it."""
    flags.DEFINE_string(
        "model",
        None,
        "An output_dir, a released folder, a TF1 checkpoint, a Hugging Face "
        "folder or a .keras file.",
    )
    flags.DEFINE_string(
        "vocab_file", None, "The vocabulary, if it is not beside the model."
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Whether text is lower-cased, if nothing beside the model says so.",
    )
    flags.DEFINE_list(
        "labels",
        [],
        "Names of the classes, in the order of the model's outputs, if no "
        "run.json has them.",
    )
    flags.DEFINE_integer(
        "max_seq_length",
        None,
        "Longer inputs are cut; as in training unless set.",
        lower_bound=3,
    )
    flags.DEFINE_bool(
        "pairs",
        None,
        "Whether a classifier takes pairs of texts; as in training unless set.",
    )
    flags.DEFINE_integer(
        "top_k", 5, "How many words are given for a [MASK].", lower_bound=1
    )
    flags.mark_flag_as_required("model")


def define() -> None:
    with shared.group("Flags"):
        define_opening_flags()
        flags.DEFINE_string(
            "output",
            None,
            "The folder of the served model, such as served/name; the export "
            "is its next version: served/name/1, served/name/2 and so on.",
        )
        flags.DEFINE_enum("format", FORMATS[0], FORMATS, "What to write.")
        flags.DEFINE_bool(
            "quantize",
            False,
            "ONNX only: weights of matmuls in 8 bits, a smaller file with "
            "results that differ.",
        )
        flags.mark_flag_as_required("output")
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    if options.quantize and options.format != "onnx":
        raise ValueError(
            f"--quantize goes with --format=onnx, not with "
            f"--format={options.format}; drop one of them."
        )


def command() -> None:
    commands.run(DESCRIPTION, define, "keras_bert_ref.export.run", check)
