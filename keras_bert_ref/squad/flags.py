"""Answers questions with spans of text: SQuAD v1.1 and v2.0."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared


def define() -> None:
    with shared.group(shared.ORIGINAL):
        shared.define_model_flags(max_seq_length=384)
        flags.DEFINE_string(
            "train_file",
            None,
            "Questions to train on: JSON in SQuAD's format; or tfds, or "
            "tfds: and a folder, for TensorFlow Datasets.",
        )
        flags.DEFINE_string(
            "predict_file", None, "Questions to answer, likewise."
        )
        flags.DEFINE_integer(
            "doc_stride",
            128,
            "Tokens from one window to the next.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "max_query_length", 64, "Longer questions are cut.", lower_bound=0
        )
        flags.DEFINE_integer(
            "n_best_size",
            20,
            "Answers to rank for each question.",
            lower_bound=1,
        )
        flags.DEFINE_integer(
            "max_answer_length",
            30,
            "Tokens of an answer, at most.",
            lower_bound=1,
        )
        flags.DEFINE_bool(
            "verbose_logging",
            False,
            "Log the answers whose text could not be recovered from their "
            "tokens and is given as whole words.",
        )
        flags.DEFINE_bool(
            "version_2_with_negative",
            False,
            "Some questions have no answer (v2.0).",
        )
        flags.DEFINE_float(
            "null_score_diff_threshold",
            0.0,
            "By how much `no answer` must be ahead of all others to be given.",
        )
        shared.define_fine_tuning_flags()
        shared.define_training_flags()
    with shared.group(shared.FURTHER):
        flags.DEFINE_bool(
            "best_null_threshold",
            False,
            "Use the threshold that has the highest F1 on --predict_file "
            "instead of --null_score_diff_threshold.",
        )
        flags.DEFINE_list(
            "ensemble_checkpoints",
            [],
            "Fine-tuned checkpoints that answer together: the mean of their "
            "logits counts. They share config and vocabulary.",
        )
        shared.define_watch_flags("--predict_file")
        shared.define_bilstm_flag()
        shared.define_engine_flags()
        shared.define_log_flags()
    # Padding takes part in the original's loss and in its choice of answers.
    shared.FLAGS.set_default("trim_batches", False)


def check(options: commands.Options) -> None:
    if not options.do_train and not options.do_predict:
        raise ValueError("Nothing to do: set --do_train, --do_predict or both.")
    for do, file in (
        ("do_train", "train_file"),
        ("do_predict", "predict_file"),
    ):
        if getattr(options, do) and not getattr(options, file):
            raise ValueError(f"--{do} needs questions; set --{file}.")
    if options.ensemble_checkpoints and options.do_train:
        raise ValueError(
            "--ensemble_checkpoints answers with models that are trained "
            "already; leave out --do_train."
        )
    shared.check_watch_flags(options, "do_predict")
    if options.max_seq_length <= options.max_query_length + 3:
        raise ValueError(
            f"--max_seq_length={options.max_seq_length} leaves no room for "
            "text beside a question of --max_query_length="
            f"{options.max_query_length} tokens, [CLS] and two [SEP]; raise "
            "the one or lower the other."
        )


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.squad.run", check)
