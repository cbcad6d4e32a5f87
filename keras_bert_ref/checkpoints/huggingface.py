"""Hugging Face folders, both ways, without PyTorch.

A folder has config.json, model.safetensors (or several such files and
model.safetensors.index.json) and vocab.txt. Names differ from the original's
in a regular way, and dense kernels are stored transposed:

    bert/encoder/layer_0/output/dense/kernel      [in, out]
    bert.encoder.layer.0.output.dense.weight      [out, in]
"""

import dataclasses
import os
import re
import reprlib
from collections.abc import Collection

import numpy as np
import safetensors
import tensorflow as tf
from absl import logging
from safetensors.numpy import save

from keras_bert_ref import files
from keras_bert_ref.checkpoints.compatibility import BILSTM_PREFIX
from keras_bert_ref.checkpoints.pretrained import (
    TAGGING,
    Pretrained,
    check_lower_case,
    read_vocabulary,
)
from keras_bert_ref.config import UNUSED_RELEASED_KEYS, BertConfig
from keras_bert_ref.heads import CLASSIFIER_DROPOUT
from keras_bert_ref.layers import LAYER_NORM_EPSILON

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
VOCAB_FILE = "vocab.txt"
TOKENIZER_FILE = "tokenizer_config.json"

# Their names of activations and ours; of several, we write the first.
ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
# Config keys that both know, and their defaults where they are not ours.
CONFIG_KEYS = UNUSED_RELEASED_KEYS | {
    field.name for field in dataclasses.fields(BertConfig)
}
CONFIG_DEFAULTS = {"vocab_size": 30522, "type_vocab_size": 2}
# What must be so, lest the numbers change; a missing key means just this.
CONFIG_MUST = {
    "model_type": "bert",
    "layer_norm_eps": LAYER_NORM_EPSILON,
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
    "pruned_heads": {},
}
# What is read of a config besides sizes.
TASK_KEYS = {
    "architectures",
    "id2label",
    "is_decoder",
    "label2id",
    "problem_type",
}

# Weights of heads, which have the same shape here and there.
HEAD_NAMES = {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}
ORIGINAL_HEAD_NAMES = {theirs: ours for ours, theirs in HEAD_NAMES.items()}
# The class with the head that a weight belongs to.
ARCHITECTURES = {
    "output_weights": "BertForSequenceClassification",
    "cls/squad/output_weights": "BertForQuestionAnswering",
    "cls/predictions/output_bias": "BertForMaskedLM",
    "cls/seq_relationship/output_weights": "BertForNextSentencePrediction",
}
TAGGER = "BertForTokenClassification"  # has the weights of a classifier
UNNAMED = "LABEL_{}"  # a class without a name
# Copies of a weight that the original has but once.
TIED_NAMES = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}
# Counters 0, 1, 2, ... and zeros, which old files have among the weights.
CONSTANTS = re.compile(r"(bert\.)?embeddings\.(position_ids|token_type_ids)")

FLOAT_TYPES = {
    "F32": np.float32,
    "F16": np.float16,
    "BF16": tf.bfloat16.as_numpy_dtype,
}


def read(folder: str) -> Pretrained:
    """Reads a Hugging Face folder.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: the model computes something else than the original BERT,
            or a file is damaged.
    """
    values = files.read_json(folder, CONFIG_FILE)
    config = config_from_dict(values, os.path.join(folder, CONFIG_FILE))
    arrays = _read_arrays(folder)
    names = {n: original_name_of(n) for n in arrays.keys() - TIED_NAMES.keys()}
    tensors = {
        ours: _transpose_kernel(ours, arrays[name])
        for name, ours in names.items()
        if ours is not None
    }
    for name in TIED_NAMES.keys() & arrays.keys():
        _check_tied(folder, name, arrays[name], tensors)
    record = {}
    if "output_weights" in tensors:
        record = make_record(values, len(tensors["output_weights"]), folder)
    _check_heads(config, tensors, record)
    pretrained = Pretrained(folder, config, tensors)
    pretrained.leave_out(
        "config keys",
        values.keys() - CONFIG_KEYS - CONFIG_MUST.keys() - TASK_KEYS,
    )
    pretrained.leave_out("tensors", {n for n in names if names[n] is None})
    pretrained.check_finite()
    pretrained.record = record
    pretrained.vocabulary = read_vocabulary(folder, VOCAB_FILE)
    if files.exists(folder, TOKENIZER_FILE):
        tokenizer = files.read_json(folder, TOKENIZER_FILE)
        pretrained.do_lower_case = check_lower_case(
            tokenizer.get("do_lower_case"),
            os.path.join(folder, TOKENIZER_FILE),
        )
    return pretrained


def write(folder: str, pretrained: Pretrained) -> None:
    """Writes a folder that `from_pretrained` of transformers takes."""
    names = {ours: name_of(ours) for ours in pretrained.tensors}
    homeless = sorted(ours for ours in names if names[ours] is None)
    if homeless:
        logging.warning("No place in %s for %s", folder, ", ".join(homeless))
    arrays = {
        name: _transpose_kernel(ours, pretrained.tensors[ours])
        for ours, name in names.items()
        if name is not None
    }
    values = config_to_dict(
        pretrained.config, pretrained.tensors, pretrained.record
    )
    files.replace_json(os.path.join(folder, CONFIG_FILE), values)
    files.replace(
        os.path.join(folder, WEIGHTS_FILE), save(arrays, {"format": "pt"})
    )
    if pretrained.vocabulary is not None:
        files.replace(os.path.join(folder, VOCAB_FILE), pretrained.vocabulary)
        tokenizer = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": pretrained.lower_cases(),
            "model_max_length": pretrained.config.max_position_embeddings,
        }
        files.replace_json(os.path.join(folder, TOKENIZER_FILE), tokenizer)


def name_of(original: str) -> str | None:
    """Their name of a weight; None if their BERT has no such weight."""
    if original in HEAD_NAMES:
        return HEAD_NAMES[original]
    if not original.startswith(("bert/", "cls/predictions/transform/")):
        return None
    scope, leaf = original.rsplit("/", 1)
    scope = re.sub(r"/layer_(\d+)", r"/layer/\1", scope)
    if leaf.endswith("_embeddings"):
        scope, leaf = f"{scope}/{leaf}", "weight"
    elif leaf in ("kernel", "gamma"):
        leaf = "weight"
    elif leaf in ("bias", "beta"):
        leaf = "bias"
    else:
        return None
    return f"{scope}/{leaf}".replace("/", ".")


def original_name_of(name: str) -> str | None:
    """The original's name of a weight; None if it has no such weight."""
    if name in ORIGINAL_HEAD_NAMES:
        return ORIGINAL_HEAD_NAMES[name]
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"  # a bare BertModel has no prefix
    if not name.startswith(("bert.", "cls.predictions.transform.")):
        return None
    scope, leaf = name.rsplit(".", 1)
    scope = re.sub(r"\.layer\.(\d+)", r".layer_\1", scope).replace(".", "/")
    if leaf not in ("weight", "bias", "gamma", "beta"):
        return None
    if scope.endswith("_embeddings"):
        return scope
    if scope.endswith("/LayerNorm"):  # old files say gamma and beta
        leaf = {"weight": "gamma", "bias": "beta"}.get(leaf, leaf)
    elif leaf == "weight":
        leaf = "kernel"
    return f"{scope}/{leaf}"


def config_from_dict(values: dict, path: str) -> BertConfig:
    """Our config for a config.json; refuses what we would not compute."""
    for key, needed in CONFIG_MUST.items():
        value = values.get(key, needed)
        if value != needed:
            raise ValueError(
                f"{path} has {key}={value!r}; the original BERT computes with "
                f"{needed!r} alone, so the numbers could not be kept. Take a "
                "model that has this value."
            )
    hidden_act = values.get("hidden_act", "gelu")
    if not isinstance(hidden_act, str) or hidden_act not in ACTIVATIONS:
        raise ValueError(
            f"{path} has hidden_act={hidden_act!r}, so the numbers "
            "could not be kept. Take a model that has one of "
            f"{', '.join(ACTIVATIONS)}."
        )
    ours = {**CONFIG_DEFAULTS, **_known(values)}
    ours["hidden_act"] = ACTIVATIONS[hidden_act]
    if values.get("is_decoder", False):  # attends to the tokens before it
        ours["directionality"] = "ltr"
    elif "directionality" in ours:  # which they do not read
        ours["directionality"] = "bidi"
    try:
        return BertConfig.from_dict(ours)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def make_record(values: dict, num_labels: int, folder: str) -> dict:
    """What a config.json says of a classifier's task, see Pretrained."""
    record = {}
    if TAGGER in (values.get("architectures") or ()):
        record["task"] = TAGGING
    if values.get("problem_type") is not None:
        record["problem_type"] = values["problem_type"]
    names = values.get("id2label")
    if names is None or num_labels == 1:  # a score is no class
        return record
    labels = []
    if isinstance(names, dict) and len(names) == num_labels:
        labels = [names.get(str(i)) for i in range(num_labels)]
    are_names = all(isinstance(label, str) for label in labels)
    if not are_names or len(set(labels)) < num_labels:
        raise ValueError(
            f"id2label must give each of {num_labels} classes a name of its "
            f"own, from 0 on, but {os.path.join(folder, CONFIG_FILE)} has "
            f"{reprlib.repr(names)}; correct it, or remove it."
        )
    if labels != _unnamed(num_labels):
        record["labels"] = labels
    return record


def _check_heads(
    config: BertConfig, tensors: Collection[str], record: dict
) -> None:
    """Refuses what heads of the other side would compute otherwise."""
    pools = "output_weights" in tensors and record.get("task") != TAGGING
    if config.direction == "ltr" and pools:
        raise ValueError(
            "The classifier of a left-to-right model reads the last token, "
            "Hugging Face's the first, so the numbers could not be kept; "
            "convert the pre-trained checkpoint instead. Taggers can be "
            "converted if run.json or config.json says that they are taggers."
        )
    if any(name.startswith(BILSTM_PREFIX) for name in tensors):
        raise ValueError(
            "The model has a BiLSTM between encoder and head, for which "
            "Hugging Face's BERT has no place, so the numbers could not be "
            "kept; convert the pre-trained checkpoint, or a model without "
            "--bilstm_units."
        )


def config_to_dict(
    config: BertConfig, tensors: dict, record: dict | None = None
) -> dict:
    """The config.json of a model with these tensors.

    Args:
        record: what is known of its training, see Pretrained.
    """
    record = record or {}
    if config.direction not in ("bidi", "ltr"):
        raise ValueError(
            f"The model has directionality={config.direction}; Hugging Face's "
            "BERT reads both ways or, as a decoder, from left to right, so the "
            "numbers could not be kept."
        )
    _check_heads(config, tensors, record)
    values = _known(config.to_dict())
    values["hidden_act"] = next(
        theirs
        for theirs, ours in ACTIVATIONS.items()
        if ours == config.hidden_act
    )
    values["model_type"] = CONFIG_MUST["model_type"]
    values["layer_norm_eps"] = CONFIG_MUST["layer_norm_eps"]
    values["architectures"] = [_architecture(tensors)]
    if config.direction == "ltr":
        values["is_decoder"] = True
        if "cls/predictions/output_bias" in tensors:
            values["architectures"] = ["BertLMHeadModel"]
    if "output_weights" in tensors:
        unnamed = _unnamed(len(tensors["output_weights"]))
        labels = record.get("labels") or unnamed
        if record.get("task") == TAGGING:
            values["architectures"] = [TAGGER]
        if "problem_type" in record:
            values["problem_type"] = record["problem_type"]
        values["id2label"] = dict(enumerate(labels))
        values["label2id"] = {label: i for i, label in enumerate(labels)}
        values["classifier_dropout"] = CLASSIFIER_DROPOUT
    return values


def _unnamed(num_labels: int) -> list[str]:
    return [UNNAMED.format(i) for i in range(num_labels)]


def _known(values: dict) -> dict:
    return {key: values[key] for key in values.keys() & CONFIG_KEYS}


def _architecture(tensors: dict) -> str:
    found = [name for head, name in ARCHITECTURES.items() if head in tensors]
    if found == ["BertForMaskedLM", "BertForNextSentencePrediction"]:
        return "BertForPreTraining"
    return found[0] if found else "BertModel"


def _transpose_kernel(original: str, value: np.ndarray) -> np.ndarray:
    """[in, out] <-> [out, in] for dense kernels; others stay as they are."""
    if original.endswith("/kernel"):
        value = value.T
    # safetensors stores memory as it lies, so it has to lie in order.
    return np.ascontiguousarray(value, dtype=np.float32)


def _check_tied(folder: str, name: str, copy, tensors: dict) -> None:
    """Sees that a copy is equal; if there is only the copy, takes it."""
    ours = TIED_NAMES[name]
    if ours not in tensors:
        tensors[ours] = np.ascontiguousarray(copy, dtype=np.float32)
    elif not np.array_equal(tensors[ours], copy):
        raise ValueError(
            f"{name} differs from {name_of(ours)} in {folder}; the original "
            "BERT has one array for both, so the masked-word head cannot be "
            "converted. Save the model without it, as a BertModel."
        )


def _read_arrays(folder: str) -> dict[str, np.ndarray]:
    arrays = {}
    for file in _weight_files(folder):
        path = os.path.join(folder, file)
        try:
            entries = safetensors.deserialize(files.read(folder, file))
        except safetensors.SafetensorError as error:
            raise ValueError(
                f"{path} is damaged or cut short ({error}); copy or download "
                "it again."
            ) from error
        for name, entry in entries:
            if not CONSTANTS.fullmatch(name):
                arrays[name] = _array(path, name, entry)
    return arrays


def _weight_files(folder: str) -> list[str]:
    if files.exists(folder, WEIGHTS_FILE):
        return [WEIGHTS_FILE]
    if files.exists(folder, INDEX_FILE):
        path = os.path.join(folder, INDEX_FILE)
        return _files_of_index(files.read_json(path), path)
    raise FileNotFoundError(
        f"{folder} has no {WEIGHTS_FILE}. If it has pytorch_model.bin or "
        "tf_model.h5, load it with transformers and write it again with "
        "save_pretrained, which makes that file."
    )


def _files_of_index(index: dict, path: str) -> list[str]:
    """The files that an index names; all stand beside it."""
    weight_map = index.get("weight_map")
    names = weight_map.values() if isinstance(weight_map, dict) else [None]
    for name in names:
        is_name = isinstance(name, str) and name not in ("", ".", "..")
        if not is_name or set(name) & set("/\\"):
            raise ValueError(
                "An index must have a `weight_map` of files in its own folder, "
                f"but {path} has {reprlib.repr(name)} there; download the "
                "model again from a source you trust."
            )
    return sorted(set(names))


def _array(path: str, name: str, entry: dict) -> np.ndarray:
    if entry["dtype"] not in FLOAT_TYPES:
        raise ValueError(
            f"{name} in {path} has the type {entry['dtype']}; weights have to "
            f"be {', '.join(FLOAT_TYPES)}. Save the model in float32."
        )
    flat = np.frombuffer(entry["data"], FLOAT_TYPES[entry["dtype"]])
    return flat.reshape(entry["shape"])
