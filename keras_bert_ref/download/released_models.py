"""Is a folder the model of its name? Config, vocabulary, variables."""

import json
import os
import re

from keras_bert_ref import commands, files
from keras_bert_ref.config import find_model

PREFIX = "bert_model.ckpt"
EMBEDDINGS = "bert/embeddings/word_embeddings"
FILES = ("bert_config.json", "vocab.txt", f"{PREFIX}.index")


def check(folder: str, name: str) -> None:
    """Raises unless a folder holds the model of this name.

    Args:
        name: such as uncased_L-12_H-768_A-12.
    """
    for file in FILES:
        if not os.path.exists(os.path.join(folder, file)):
            _refuse(name, f"it has no {file}")
    with open(find_model(name), encoding="utf-8") as file:
        expected = json.load(file)
    found = files.read_json(folder, "bert_config.json")
    for key, value in expected.items():
        if found.get(key, value) != value:
            _refuse(name, f"its config has {key}={found[key]}, not {value}")
    if lacking := sorted(expected.keys() - found.keys()):
        _refuse(name, f"its config lacks {', '.join(lacking)}")
    text = files.read(folder, "vocab.txt").decode("utf-8")
    count = len(text.rstrip("\n").split("\n"))
    if count != expected["vocab_size"]:
        _refuse(
            name,
            f"its vocab.txt has {count} lines, not {expected['vocab_size']}",
        )
    _check_variables(os.path.join(folder, PREFIX), name, expected)


def _check_variables(prefix: str, name: str, config: dict) -> None:
    with commands.quiet_start():  # only now: a list of models needs none of it
        import tensorflow as tf

    try:
        variables = dict(tf.train.list_variables(prefix))
        tf.train.load_variable(prefix, EMBEDDINGS)
    except (tf.errors.OpError, ValueError, KeyError) as error:
        message = str(error).split("\n")[0]
        _refuse(name, f"its checkpoint cannot be read ({message})")
    shape = [config["vocab_size"], config["hidden_size"]]
    if list(variables[EMBEDDINGS]) != shape:
        _refuse(name, f"{EMBEDDINGS} is {variables[EMBEDDINGS]}, not {shape}")
    layers = {
        int(match[1])
        for match in map(re.compile(r".*/layer_(\d+)/").match, variables)
        if match
    }
    if layers != set(range(config["num_hidden_layers"])):
        _refuse(
            name,
            f"its checkpoint has {len(layers)} layers, not "
            f"{config['num_hidden_layers']}",
        )


def _refuse(name: str, reason: str):
    raise ValueError(
        f"This is not {name}: {reason}. Download it again, or look where it "
        "came from."
    )
