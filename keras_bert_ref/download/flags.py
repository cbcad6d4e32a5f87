"""Downloads released models and data, checks them and unpacks them."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared

DESCRIPTION = f"""{__doc__}

Names, or patterns, follow the flags: uncased_L-24_H-1024_A-16,
2018_10_18/uncased_L-12_H-768_A-12, '2020_02_20/*', squad, xnli, glue,
glue/mrpc, conll2003. Without a name it shows what there is."""


def define() -> None:
    with shared.group("Flags"):
        flags.DEFINE_string(
            "models_dir", "models", "Where models go: date/name."
        )
        flags.DEFINE_string(
            "data_dir", "data", "Where data goes: squad, xnli, tfds."
        )
        flags.DEFINE_string(
            "mirror",
            None,
            "A folder, or an address, to take files from instead: "
            "2018_10_18/cased_L-12_H-768_A-12.zip, squad/train-v1.1.json and "
            "so on. The environment variable BERT_MIRROR does the same.",
        )
        flags.DEFINE_integer(
            "retries", 5, "How often to go on after a failure.", lower_bound=0
        )
        flags.DEFINE_bool(
            "keep_zips", False, "Keep zips after they are unpacked."
        )
        shared.define_log_flags()


def command() -> None:
    commands.run(
        DESCRIPTION, define, "keras_bert_ref.download.run", takes_words=True
    )
