"""Makes published results of BERT again, and shows ours beside them."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

DESCRIPTION = f"""{__doc__}

Names of results, or patterns, follow the flags: table1/mrpc/base, 'table7/*',
or '*' for all that can be made with the models and data at hand. Without a
name, or with --list, it shows what there is."""


def define() -> None:
    with shared.group("Flags"):
        flags.DEFINE_bool(
            "list", False, "Show the results, and what each of them lacks."
        )
        flags.DEFINE_bool(
            "dry_run", False, "Show the commands, and run nothing."
        )
        flags.DEFINE_string(
            "output_dir",
            "reproduced",
            "Where everything goes. What is finished there is not done again.",
        )
        flags.DEFINE_string(
            "models_dir",
            "models",
            "The released models, as keras_bert_ref.download leaves them.",
        )
        flags.DEFINE_string(
            "data_dir",
            "data",
            "The data: glue/MRPC, squad/train-v1.1.json and so on.",
        )
        flags.DEFINE_string(
            "wheels_dir",
            ".wheels",
            "The wheels with trained models, as `make wheels` leaves them.",
        )
        flags.DEFINE_string(
            "catalogue", None, "Another file like catalogue.json."
        )
        flags.DEFINE_list(
            "more_flags",
            [],
            "Flags for every training besides the row's own, separated by "
            "commas, such as --dtype=bfloat16.",
        )
        shared.define_log_flags()


def command() -> None:
    commands.run(
        DESCRIPTION, define, "keras_bert_ref.reproduce.run", takes_words=True
    )
