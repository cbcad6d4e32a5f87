"""Chooses the right one of several texts: SWAG, OpenBookQA, own questions."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared
from keras_bert_ref.choice import tasks


def define() -> None:
    with shared.group("Flags as in run_classifier.py"):
        flags.DEFINE_string(
            "data_dir", None, "The folder with the task's files."
        )
        flags.DEFINE_string(
            "task_name",
            None,
            f"One of {', '.join(tasks.TASKS)}; or "
            f"{', '.join(tasks.OWN_KINDS)} for files of your own: train, dev "
            "and test with that ending.",
        )
        shared.define_model_flags(max_seq_length=128)
        shared.define_fine_tuning_flags()
        shared.define_eval_flags()
        shared.define_training_flags()
        flags.mark_flags_as_required(["data_dir", "task_name"])
        shared.define_watch_flags("the dev set")
        shared.define_trial_flags()
        shared.define_bilstm_flag()
        shared.define_engine_flags()
    with shared.group("Flags of this command, for your own files"):
        flags.DEFINE_string(
            "text_a_column", "question", "The column of the question."
        )
        flags.DEFINE_string(
            "text_b_column",
            None,
            "The column of a text that every choice begins with.",
        )
        flags.DEFINE_list("choice_columns", [], "The columns of the choices.")
        flags.DEFINE_string(
            "label_column",
            "label",
            "The column of the right choice: its number from 0, or the name "
            "of its column.",
        )
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    shared.chosen_actions(options)
    shared.check_watch_flags(options, "do_eval")
    tasks.from_options(options)


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.choice.run", check)
