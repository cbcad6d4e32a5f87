"""keras-hub's (formerly keras-nlp's) BertBackbone, both ways.

Its layers have other names and its attention kernels are split by heads:
[D, N, H] where the original has [D, N*H]. A backbone is the encoder with its
pooler; the heads of keras-hub are not converted. In files it is a preset, the
folder that `save_to_preset` makes.

Shapes: N heads, H head size, D = N*H hidden.
"""

import os
import re

import numpy as np
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.checkpoints.pretrained import (
    Pretrained,
    check_lower_case,
    read_vocabulary,
)
from keras_bert_ref.config import BertConfig

CONFIG_FILE = "config.json"
TASK_FILE = "task.json"
TOKENIZER_FILE = "tokenizer.json"
VOCAB_FILE = "assets/tokenizer/vocabulary.txt"

# Scopes of variables: theirs and the original's.
SCOPES = {
    "token_embedding": "bert/embeddings/word_embeddings",
    "position_embedding": "bert/embeddings/position_embeddings",
    "segment_embedding": "bert/embeddings/token_type_embeddings",
    "embeddings_layer_norm": "bert/embeddings/LayerNorm",
    "pooled_dense": "bert/pooler/dense",
}
# The same below transformer_layer_<i> and bert/encoder/layer_<i>.
LAYER_SCOPES = {
    "self_attention_layer/query": "attention/self/query",
    "self_attention_layer/key": "attention/self/key",
    "self_attention_layer/value": "attention/self/value",
    "self_attention_layer/attention_output": "attention/output/dense",
    "self_attention_layer_norm": "attention/output/LayerNorm",
    "feedforward_intermediate_dense": "intermediate/dense",
    "feedforward_output_dense": "output/dense",
    "feedforward_layer_norm": "output/LayerNorm",
}
# Sizes: keras-hub's argument and our key.
SIZES = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "hidden_dim": "hidden_size",
    "intermediate_dim": "intermediate_size",
    "max_sequence_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
# What a backbone has without being asked.
INITIALIZER_RANGE = 0.02


def from_backbone(backbone) -> Pretrained:
    """Takes config and weights of a keras-hub BertBackbone."""
    sizes = {ours: getattr(backbone, arg) for arg, ours in SIZES.items()}
    config = BertConfig(
        **sizes,
        hidden_act="gelu",
        hidden_dropout_prob=backbone.dropout,
        attention_probs_dropout_prob=backbone.dropout,
        initializer_range=INITIALIZER_RANGE,
    )
    tensors = {}
    for variable in backbone.weights:
        value = np.asarray(variable.numpy(), dtype=np.float32)
        name = original_name_of(variable.path)
        tensors[name] = _merge_heads(name, value)
    return Pretrained(f"the backbone {backbone.name}", config, tensors)


def to_backbone(pretrained: Pretrained):
    """Makes a keras-hub BertBackbone with these weights.

    Weights of heads are left out, with a warning. Dropout has one rate
    there, hidden_dropout_prob; the computed numbers do not depend on it.

    Raises:
        ValueError: keras-hub cannot compute this model's numbers.
    """
    import keras_hub

    config = pretrained.config
    if config.direction != "bidi":
        raise ValueError(
            f"{pretrained.source} has directionality={config.direction}, but "
            "keras-hub's BertBackbone attends to all tokens. Hugging Face "
            "files can hold a model with ltr."
        )
    if config.hidden_act != "gelu":
        raise ValueError(
            f"{pretrained.source} has hidden_act={config.hidden_act!r}, but "
            "keras-hub's BertBackbone has the tanh form of GELU alone, so the "
            "numbers could not be kept. If slightly different ones will do, "
            'convert it to TF1, write "gelu" into its bert_config.json, and '
            "convert that."
        )
    sizes = {arg: getattr(config, ours) for arg, ours in SIZES.items()}
    backbone = keras_hub.models.BertBackbone(
        **sizes, dropout=config.hidden_dropout_prob, dtype="float32"
    )
    wanted = from_backbone(backbone).tensors
    missing = pretrained.check({n: v.shape for n, v in wanted.items()})
    if missing:
        raise ValueError(
            f"{pretrained.source} lacks {', '.join(missing)}; keras-hub's "
            "BertBackbone cannot do without. Take a checkpoint that is whole."
        )
    homeless = sorted(pretrained.tensors.keys() - wanted.keys())
    if homeless:
        logging.warning("No place in a backbone for %s", ", ".join(homeless))
    for variable in backbone.weights:
        value = pretrained.tensors[original_name_of(variable.path)]
        variable.assign(value.reshape(variable.shape))  # splits the heads
    return backbone


def read(folder: str) -> Pretrained:
    """Reads the preset of a BertBackbone."""
    import keras_hub

    preset = files.read_json(folder, CONFIG_FILE)
    if preset.get("class_name") != "BertBackbone":
        raise ValueError(
            f"{os.path.join(folder, CONFIG_FILE)} describes "
            f"{preset.get('class_name')!r}; only the preset of a BertBackbone "
            "can be converted."
        )
    if "://" not in folder:
        # keras-hub would take a bare name for a preset to be downloaded.
        folder = os.path.abspath(folder)
    backbone = keras_hub.models.BertBackbone.from_preset(
        folder, dtype="float32"
    )
    pretrained = from_backbone(backbone)
    pretrained.source = folder
    if files.exists(folder, TASK_FILE):
        pretrained.leave_out("heads", [TASK_FILE])
    pretrained.check_finite()
    pretrained.vocabulary = read_vocabulary(folder, VOCAB_FILE)
    if pretrained.vocabulary is not None:
        tokenizer = files.read_json(folder, TOKENIZER_FILE)
        config = tokenizer.get("config")
        pretrained.do_lower_case = check_lower_case(
            config.get("lowercase") if isinstance(config, dict) else config,
            os.path.join(folder, TOKENIZER_FILE),
        )
    return pretrained


def write(folder: str, pretrained: Pretrained) -> None:
    """Writes the preset of a BertBackbone, and of a BertTokenizer."""
    import keras_hub

    backbone = to_backbone(pretrained)
    # keras-hub writes to local disks only.
    with files.temporary_folder("keras-hub-preset") as local:
        backbone.save_to_preset(local)
        vocab_file = os.path.join(local, VOCAB_FILE)
        if pretrained.vocabulary is not None:
            files.replace(vocab_file, pretrained.vocabulary)
            lower = pretrained.lower_cases()
            tokenizer = keras_hub.models.BertTokenizer(
                os.path.join(local, VOCAB_FILE),
                lowercase=lower,
                strip_accents=lower,
            )
            tokenizer.save_to_preset(local)
            # Once more, since keras-hub strips the words it writes.
            files.replace(vocab_file, pretrained.vocabulary)
        for parent, _, names in os.walk(local):
            for name in names:
                data = files.read(parent, name)
                path = os.path.relpath(os.path.join(parent, name), local)
                files.replace(os.path.join(folder, path), data)


def original_name_of(path: str) -> str:
    """The original's name of a variable of a BertBackbone."""
    scope, leaf = path.rsplit("/", 1)
    match = re.fullmatch(r"transformer_layer_(\d+)/(.+)", scope)
    if match:
        layer, scope = match.groups()
        return f"bert/encoder/layer_{layer}/{LAYER_SCOPES[scope]}/{leaf}"
    if leaf == "embeddings":
        return SCOPES[scope]
    return f"{SCOPES[scope]}/{leaf}"


def _merge_heads(name: str, value: np.ndarray) -> np.ndarray:
    """Gives attention weights the shape they have in the original."""
    if name.endswith("/bias"):
        return value.reshape(-1)  # [N, H] -> [N*H]
    if value.ndim == 3 and name.endswith("/output/dense/kernel"):
        return value.reshape(-1, value.shape[-1])  # [N, H, D] -> [N*H, D]
    if value.ndim == 3:
        return value.reshape(len(value), -1)  # [D, N, H] -> [D, N*H]
    return value
