"""Files of a folder, wherever TensorFlow can open it."""

import json
import os

import tensorflow as tf


def exists(folder: str, name: str) -> bool:
    """Whether a folder has a file."""
    return tf.io.gfile.exists(os.path.join(folder, name))


def read(folder: str, name: str) -> bytes:
    """The contents of a file.

    Raises:
        FileNotFoundError: the folder has no such file.
    """
    if not exists(folder, name):
        raise FileNotFoundError(f"{folder} has no {name}; copy that file too.")
    with tf.io.gfile.GFile(os.path.join(folder, name), "rb") as file:
        return file.read()


def read_json(folder: str, name: str) -> dict:
    """The object that a JSON file holds.

    Raises:
        FileNotFoundError: the folder has no such file.
        ValueError: the file is not JSON, or holds something else.
    """
    try:
        values = json.loads(read(folder, name))
    except ValueError as error:
        raise ValueError(
            f"{os.path.join(folder, name)} is not JSON ({error}); copy or "
            "download it again."
        ) from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{os.path.join(folder, name)} holds a JSON "
            f"{type(values).__name__}; it has to hold keys and values."
        )
    return values


def write(folder: str, name: str, data: bytes) -> None:
    """Writes a file; makes its folder first if need be."""
    path = os.path.join(folder, name)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def write_json(folder: str, name: str, values: dict) -> None:
    """Writes a JSON file with sorted keys."""
    text = json.dumps(values, indent=2, sort_keys=True) + "\n"
    write(folder, name, text.encode("utf-8"))
