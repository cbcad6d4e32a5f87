"""Files, wherever TensorFlow can open them, that appear only when whole.

What this package writes goes through here: under another name first, under
its own when it is whole. So at any moment a file is there as it was before, or
there whole. Checkpoints (checkpoints/tf1.py) are whole once their index is
there; logs (metrics.jsonl, TensorBoard's events) grow line by line.

TensorFlow is imported when a file is opened, not before: processes that only
tokenize do without it.
"""

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Sequence


def unfinished_name(path: str) -> str:
    """A name beside `path` to write under: no pattern for finished files
    matches it, and no other process uses it."""
    folder, name = os.path.split(path.rstrip("/"))
    process = f"{socket.gethostname()}-{os.getpid()}"
    return os.path.join(folder, f".{name}.unfinished-{process}")


def remove_leftovers(path: str) -> None:
    """Removes what processes of this machine left of `path` when killed."""
    folder, name = os.path.split(path.rstrip("/"))
    prefix = f".{name}.unfinished-{socket.gethostname()}-"
    gfile = _gfile()
    if not gfile.isdir(folder or "."):
        return
    for other in gfile.listdir(folder or "."):
        other = other.rstrip("/")
        pid = other.removeprefix(prefix)
        if other.startswith(prefix) and pid.isdigit() and not _lives(int(pid)):
            leftover = os.path.join(folder, other)
            remove = gfile.rmtree if gfile.isdir(leftover) else gfile.remove
            remove(leftover)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextlib.contextmanager
def unfinished(
    paths: Sequence[str], must_be_new: bool = False
) -> Iterator[list[str]]:
    """Yields the names to write files under.

    Files get their own names when the block ends and all are whole. An error
    or an interruption removes them.

    Args:
        must_be_new: bool. Refuse to replace a file.

    Raises:
        ValueError: before any work is done, if a place cannot be written to.
    """
    gfile = _gfile()
    names = [unfinished_name(path) for path in paths]
    try:
        for path, name in zip(paths, names, strict=True):
            _check_place(path, name, must_be_new)
            remove_leftovers(path)
        yield names
        for path, name in zip(paths, names, strict=True):
            gfile.rename(name, path, overwrite=not must_be_new)
    finally:
        for name in filter(gfile.exists, names):
            gfile.remove(name)


def _check_place(path: str, name: str, must_be_new: bool) -> None:
    import tensorflow as tf

    if must_be_new and tf.io.gfile.exists(path):
        raise ValueError(
            f"The output must be a new file, but {path} exists; remove it or "
            "choose another name."
        )
    try:
        if tf.io.gfile.isdir(path):
            raise OSError("it is a folder")
        tf.io.gfile.makedirs(os.path.dirname(path) or ".")
        with tf.io.gfile.GFile(name, "w") as file:
            file.write("")
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"Every output file must be writable, but {path} is not "
            f"({error}); choose another place."
        ) from None


def replace(path: str, content: str | bytes) -> None:
    """Writes a whole file; makes its folder first if need be."""
    with unfinished([path]) as (name,):
        mode = "w" if isinstance(content, str) else "wb"
        with open_file(name, mode) as file:
            file.write(content)


def replace_json(path: str, values: dict) -> None:
    """Writes a JSON file with sorted keys."""
    replace(path, json.dumps(values, indent=2, sort_keys=True) + "\n")


def exists(*parts: str) -> bool:
    """Whether there is such a file or folder, below another perhaps."""
    return _gfile().exists(os.path.join(*parts))


def read(*parts: str) -> bytes:
    """The contents of a file, below a folder perhaps.

    Raises:
        FileNotFoundError: there is no such file.
    """
    path = os.path.join(*parts)
    if not exists(path):
        raise FileNotFoundError(
            f"There is no file {path}; check the path, or copy the file there."
        )
    with open_file(path, "rb") as file:
        return file.read()


def read_json(*parts: str) -> dict:
    """The object that a JSON file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not JSON, or holds something else.
    """
    path = os.path.join(*parts)
    try:
        values = json.loads(read(path))
    except ValueError as error:
        raise ValueError(
            f"{path} is not JSON ({error}); copy or download it again."
        ) from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} holds a JSON {type(values).__name__}; it has to hold "
            "keys and values."
        )
    return values


def read_json_lines(path: str) -> list[dict]:
    """The objects of a file that has one a line; none if it is not there.

    A last line that was cut short, by a kill for instance, is left out.
    """
    if not exists(path):
        return []
    lines = read(path).decode("utf-8").split("\n")
    return [json.loads(line) for line in lines if line.endswith("}")]


def glob(pattern: str) -> list[str]:
    """The files that a pattern matches."""
    return _gfile().glob(pattern)


def size(path: str) -> int:
    """In bytes."""
    return _gfile().stat(path).length


def open_file(path: str, mode: str):
    """For files that are read bit by bit."""
    return _gfile().GFile(path, mode)


def _gfile():
    import tensorflow as tf

    return tf.io.gfile
