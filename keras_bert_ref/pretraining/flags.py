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
        flags.DEFINE_integer(
            "max_seq_length", 128, "Tokens in a record.", lower_bound=1
        )
        flags.DEFINE_integer(
            "max_predictions_per_seq",
            20,
            "Masked words in a record, at most.",
            lower_bound=1,
        )
        flags.DEFINE_bool("do_eval", False, "Evaluate.")
        flags.DEFINE_integer(
            "eval_batch_size",
            8,
            "Examples in an evaluation batch.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "num_train_steps",
            100000,
            "Steps to train.",
            lower_bound=1,
            upper_bound=shared.MAX_STEPS,
        )
        flags.DEFINE_integer(
            "num_warmup_steps",
            10000,
            "Steps of the warm-up, counted within --num_train_steps.",
            lower_bound=0,
            upper_bound=shared.MAX_STEPS,
        )
        flags.DEFINE_integer(
            "max_eval_steps",
            100,
            "Batches to evaluate.",
            lower_bound=1,
            upper_bound=shared.MAX_STEPS,
        )
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
        flags.DEFINE_bool(
            "next_sentence_loss",
            True,
            "Train on next sentences too; --nonext_sentence_loss leaves only "
            "the loss of words, on the same pairs.",
        )
        flags.DEFINE_integer(
            "stop_at_step",
            None,
            "End this run at this step, before --num_train_steps, where the "
            "learning rate is zero. The next run goes on from there.",
            lower_bound=1,
        )
        flags.DEFINE_string(
            "eval_input_file",
            None,
            "TFRecords to evaluate on, as --input_file names them, while "
            "training and with --do_eval; by default --do_eval uses "
            "--input_file.",
        )
        shared.define_watch_flags("--eval_input_file")
        shared.define_engine_flags()
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    if not options.do_train and not options.do_eval:
        raise ValueError("Nothing to do: set --do_train, --do_eval or both.")
    shared.check_watch_flags(options, "eval_input_file")
    if (options.stop_at_step or 0) > options.num_train_steps:
        raise ValueError(
            f"--stop_at_step={options.stop_at_step} lies beyond the end of the "
            f"schedule, --num_train_steps={options.num_train_steps}; lower it "
            "or leave it out."
        )


def command() -> None:
    commands.run(
        DESCRIPTION,
        define,
        "keras_bert_ref.pretraining.run",
        check,
        takes_words=True,
    )
