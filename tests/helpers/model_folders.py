"""Small models in folders, as runs of ours leave them."""

import json
import pathlib
import shutil

import keras

from helpers import configs, glue_files
from keras_bert_ref import (
    BertClassifier,
    BertModel,
    BertPretraining,
    BertSpan,
    BertTagger,
    save_checkpoint,
)
from keras_bert_ref.config import BertConfig

# Head, its arguments, and what run.json says.
KINDS = {
    "masked": (BertPretraining, {}, {"task": "pretraining"}),
    "pairs": (
        BertClassifier,
        {"num_labels": 2},
        {"task": "MRPC", "labels": ["no", "yes"]},
    ),
    "sentences": (
        BertClassifier,
        {"num_labels": 2},
        {"task": "SST-2", "labels": ["0", "1"]},
    ),
    "score": (BertClassifier, {"num_labels": 1}, {"task": "STS-B"}),
    "questions": (BertSpan, {}, {"task": "squad"}),
    "tags": (
        BertTagger,
        {"num_labels": 3},
        {"task": "ner", "labels": ["O", "B-X", "I-X"]},
    ),
    "vectors": (BertModel, {}, {"task": "encoder"}),
}


def write_untrained(folder: pathlib.Path, **changes) -> BertConfig:
    """Writes a vocabulary of letters and a config, with no checkpoint."""
    size = glue_files.write_vocabulary(folder / "vocab.txt")
    config = configs.tiny(vocab_size=size, **changes)
    config.to_json_file(str(folder / "bert_config.json"))
    return config


def make(kind: str, folder: pathlib.Path, vocab: pathlib.Path) -> pathlib.Path:
    """Writes a model with random weights."""
    head, arguments, record = KINDS[kind]
    keras.utils.set_random_seed(3)
    config = configs.tiny(
        vocab_size=len(vocab.read_text().split("\n")) - 1,
        num_hidden_layers=2,
        initializer_range=0.5,
        max_position_embeddings=64,
    )
    model = head(config, **arguments)
    model.build()
    path = folder / kind
    path.mkdir()
    save_checkpoint(model, str(path / "model.ckpt-3"))
    config.to_json_file(str(path / "bert_config.json"))
    shutil.copy(vocab, path / "vocab.txt")
    record = {
        "do_lower_case": True,
        "flags": {},
        "max_seq_length": 32,
        **record,
    }
    (path / "run.json").write_text(json.dumps(record))
    return path
