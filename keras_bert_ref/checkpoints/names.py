"""What a name that leads to no model could mean."""

import os

import tensorflow as tf

from keras_bert_ref.tokenization import CASED_MODELS, LOWER_CASED_MODELS

SIZES = {
    "tiny": "L-2_H-128_A-2",
    "mini": "L-4_H-256_A-4",
    "small": "L-4_H-512_A-8",
    "medium": "L-8_H-512_A-8",
    "base": "L-12_H-768_A-12",
    "large": "L-24_H-1024_A-16",
}
KINDS = ("multi_cased", "multilingual", "chinese", "uncased", "cased")


def suggest(path: str) -> str:
    """A sentence or two on what `path` could mean."""
    return f"{_suggest_released(path)} {_suggest_folders(path)}".strip()


def _suggest_released(path: str) -> str:
    words = os.path.basename(path.rstrip("/")).lower().replace("-", "_")
    kind = next((kind for kind in KINDS if kind in words), None)
    size = next((s for name, s in SIZES.items() if name in words), None)
    if kind in ("multi_cased", "multilingual", "chinese"):
        size = SIZES["base"]
        if kind == "multilingual" and "_cased" in words:
            kind = "multi_cased"
    name = f"{kind}_{size}"
    if name not in LOWER_CASED_MODELS + CASED_MODELS:
        return ""
    return f"The released model of that description is {name}."


def _suggest_folders(path: str) -> str:
    parent = os.path.dirname(path.rstrip("/")) or "."
    configs = tf.io.gfile.glob(os.path.join(parent, "*", "bert_config.json"))
    folders = sorted(map(os.path.dirname, configs))
    if not folders:
        return "Give the folder of a model, with bert_config.json in it."
    return f"Folders with a model there: {', '.join(folders[:5])}."
