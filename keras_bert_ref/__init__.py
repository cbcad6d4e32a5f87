"""BERT as released in 2018, on current TensorFlow and Keras 3.

The names below are loaded when first used, so that the tokenizer, for one,
works without TensorFlow.
"""

import importlib
import os
import sys

from keras_bert_ref.version import __version__

# TensorFlow leaves oneDNN off on some processors where it is much faster
# (docs/BENCHMARK_STEP.md), and looks at this once, when it is imported. There
# is no better place: any module of this package may be the first to import it.
# Whoever has imported TensorFlow before us keeps what it chose; results are
# the same up to rounding. Our commands always come this way first.
if "tensorflow" not in sys.modules:
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

_HOMES = {
    "BertConfig": "config",
    "FullTokenizer": "tokenization",
    "BertModel": "modeling",
    "BertPretraining": "heads",
    "BertClassifier": "heads",
    "BertMultipleChoice": "heads",
    "BertSpan": "heads",
    "BertTagger": "heads",
    "BertPreprocessor": "text.preprocessor",
    "TextModel": "text.text_model",
    "open_model": "text.loading",
    "load_model": "text.loading",
    "make_batch": "sentence_pairs",
    "AdamWeightDecay": "optimization",
    "WarmupLinearDecay": "optimization",
    "create_optimizer": "optimization",
    "load_checkpoint": "checkpoints.tf1:load",
    "save_checkpoint": "checkpoints.tf1:save",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    home = importlib.import_module(f"{__name__}.{module}")
    return getattr(home, attribute or name)


def __dir__() -> list[str]:
    return sorted(__all__)
