"""Fine-tunes a BERT on sentences or pairs: GLUE, XNLI, tasks of your own."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared
from keras_bert_ref.classifier import tasks


def define() -> None:
    with shared.group(shared.ORIGINAL):
        flags.DEFINE_string(
            "data_dir",
            None,
            "The folder with the task's files; or tfds, or tfds: and a "
            "folder, for TensorFlow Datasets.",
        )
        flags.DEFINE_string(
            "task_name",
            None,
            f"One of {', '.join(tasks.TASKS)}, XNLI; or tsv or jsonl for "
            "files of your own: train, dev and test.tsv or .jsonl.",
        )
        shared.define_model_flags(max_seq_length=128)
        shared.define_fine_tuning_flags()
        shared.define_eval_flags()
        shared.define_training_flags()
        flags.mark_flags_as_required(["data_dir", "task_name"])
    with shared.group(shared.FURTHER):
        flags.DEFINE_string(
            "xnli_language", tasks.DEFAULT_LANGUAGE, "The language of XNLI."
        )
        flags.DEFINE_string(
            "text_a_column",
            "text",
            "For your own files: the column of the sentence, or of the first "
            "of a pair: its name in the header, its JSON key or, in a tsv "
            "without a header, its number from 0.",
        )
        flags.DEFINE_string(
            "text_b_column", None, "Likewise, of the second of a pair."
        )
        flags.DEFINE_string("label_column", "label", "Likewise, of the label.")
        flags.DEFINE_bool(
            "regression",
            False,
            "For your own files: labels are scores, not classes.",
        )
        shared.define_watch_flags("the dev set")
        shared.define_trial_flags()
        shared.define_bilstm_flag()
        shared.define_engine_flags()
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    shared.chosen_actions(options)
    shared.check_watch_flags(options, "do_eval")


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.classifier.run", check)
