"""Finds names in text, or tags words in other ways: CoNLL-2003, own data."""

from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared
from keras_bert_ref.ner.rows import ROWS

CONTEXTS = ("sentence", "document", "sentence_in_document")


def define() -> None:
    with shared.group("Flags as in run_classifier.py"):
        flags.DEFINE_string(
            "data_dir",
            None,
            "The folder with eng.train, eng.testa and eng.testb, or with "
            "train.txt, dev.txt and test.txt; or tfds, or tfds: and a folder, "
            "for TensorFlow Datasets.",
        )
        shared.define_model_flags(max_seq_length=128)
        shared.define_fine_tuning_flags()
        shared.define_eval_flags()
        shared.define_training_flags()
        flags.mark_flag_as_required("data_dir")
        shared.define_watch_flags("the dev set")
        shared.define_trial_flags()
        shared.define_bilstm_flag()
        shared.define_engine_flags()
    with shared.group("Flags of this command"):
        flags.DEFINE_enum(
            "context",
            "sentence",
            CONTEXTS,
            "What the model sees beside a sentence: nothing; its document; or "
            "its neighbours, in a window around each sentence.",
        )
        flags.DEFINE_integer(
            "doc_stride",
            128,
            "Pieces from one window to the next, where a sentence or document "
            "is longer than --max_seq_length.",
            lower_bound=1,
        )
        flags.DEFINE_bool(
            "eval_on_test",
            False,
            "With --do_eval, score on the test file too.",
        )
        flags.DEFINE_list(
            "features",
            [],
            "Train no encoder but a BiLSTM on features of a frozen one: some "
            f"of {', '.join(ROWS)}, one training for each. Empty: train the "
            "encoder.",
        )
        flags.DEFINE_integer(
            "lstm_units",
            768,
            "For --features: units of the BiLSTM in each direction.",
            lower_bound=1,
        )
        shared.define_log_flags()


def check(options: commands.Options) -> None:
    shared.chosen_actions(options)
    shared.check_watch_flags(options, "do_eval")
    for row in options.features:
        if row not in ROWS:
            raise ValueError(
                f"--features={row}, but it must be some of {', '.join(ROWS)}."
            )
    if options.features and options.bilstm_units:
        raise ValueError(
            f"--bilstm_units={options.bilstm_units} is for encoders that are "
            "trained; the BiLSTM on --features has --lstm_units."
        )
    if options.features and options.dtype != "float32":
        raise ValueError(
            f"--dtype={options.dtype} is for encoders that are trained; "
            "--features are computed, and the BiLSTM is trained, in float32."
        )
    if options.features and not options.init_checkpoint:
        raise ValueError(
            "--features are those of a pre-trained encoder; set "
            "--init_checkpoint."
        )


def command() -> None:
    commands.run(__doc__, define, "keras_bert_ref.ner.run", check)
