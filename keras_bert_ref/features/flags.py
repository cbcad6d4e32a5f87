"""Flags of extract_features.py."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

DESCRIPTION = "Writes a BERT's vectors of each token, or of each line of text."


def define() -> None:
    with shared.group(shared.ORIGINAL):
        flags.DEFINE_string(
            "input_file",
            None,
            "Text with one example a line; `a ||| b` is a pair.",
        )
        flags.DEFINE_string("output_file", None, "Where the features go.")
        shared.define_model_flags(max_seq_length=128)
        flags.DEFINE_string(
            "init_checkpoint",
            None,
            "The checkpoint: its path without .index, or a folder.",
        )
        flags.DEFINE_string(
            "layers", "-1,-2,-3,-4", "Layers to write; -1 is the last."
        )
        flags.DEFINE_integer(
            "batch_size", 32, "Lines in a batch.", lower_bound=1
        )
        flags.DEFINE_bool("use_tpu", False, "Not supported any more.")
        flags.DEFINE_string("master", None, "Accepted and ignored.")
        flags.DEFINE_integer("num_tpu_cores", 8, "Accepted and ignored.")
        flags.DEFINE_bool(
            "use_one_hot_embeddings",
            False,
            "Accepted and ignored: look-ups are fast.",
        )
        flags.mark_flags_as_required(
            ["input_file", "init_checkpoint", "output_file"]
        )
    with shared.group(shared.FURTHER):
        flags.DEFINE_enum(
            "output_format",
            "json",
            ["json", "npz", "tfrecord"],
            "JSON lines as in the original, NumPy arrays, or "
            "tf.train.Examples.",
        )
        flags.DEFINE_enum(
            "pooling",
            "none",
            ["none", "cls", "mean"],
            "One vector a line: that of [CLS], or the mean of all its tokens, "
            "[CLS] and [SEP] included. none: a vector for each token.",
        )
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    if options.use_tpu:
        raise ValueError(
            "--use_tpu=True, but features are computed on the GPU or CPU of "
            "this machine; drop the flag."
        )


def command() -> None:
    commands.run(DESCRIPTION, define, "keras_bert_ref.features.run", check)
