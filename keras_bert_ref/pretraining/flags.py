"""Flags of run_pretraining.py."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

DESCRIPTION = "Pre-trains a BERT on masked words and next sentences."


def define() -> None:
    with shared.group(shared.ORIGINAL):
        flags.DEFINE_string(
            "bert_config_file",
            None,
            "The architecture: a JSON file, or the name of a released model.",
        )
        flags.DEFINE_string(
            "input_file",
            None,
            "TFRecords of create_pretraining_data.py: comma-separated names or "
            "patterns; further names may follow the flags.",
        )
        flags.DEFINE_string(
            "output_dir", None, "Where checkpoints and results go."
        )
        flags.DEFINE_integer("max_seq_length", 128, "Tokens in a record.")
        flags.DEFINE_integer(
            "max_predictions_per_seq", 20, "Masked words in a record, at most."
        )
        flags.DEFINE_bool("do_eval", False, "Evaluate.")
        flags.DEFINE_integer(
            "eval_batch_size", 8, "Examples in an evaluation batch."
        )
        flags.DEFINE_integer("num_train_steps", 100000, "Steps to train.")
        flags.DEFINE_integer(
            "num_warmup_steps",
            10000,
            "Steps of the warm-up, counted within --num_train_steps.",
        )
        flags.DEFINE_integer("max_eval_steps", 100, "Batches to evaluate.")
        shared.define_training_flags()
        flags.mark_flags_as_required(
            ["bert_config_file", "input_file", "output_dir"]
        )
    with shared.group(shared.FURTHER):
        flags.DEFINE_string(
            "vocab_file",
            None,
            "The vocabulary the records were made with. It is not needed to "
            "train; it is kept in --output_dir with the model.",
        )
        flags.DEFINE_bool(
            "do_lower_case",
            None,
            "Whether the text of the records was lower-cased; kept likewise. "
            "By default, as the vocabulary shows.",
        )
        shared.define_engine_flags()
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    if not options.do_train and not options.do_eval:
        raise ValueError("Nothing to do: set --do_train, --do_eval or both.")


def command() -> None:
    commands.run(DESCRIPTION, define, "keras_bert_ref.pretraining.run", check)
