"""Files, wherever TensorFlow can open them, that appear only when whole.

What this package writes goes through here: under another name first, under
its own when it is whole. So at any moment a file is there as it was before, or
there whole. Checkpoints (checkpoints/tf1.py) are whole once their index is
there; logs (metrics.jsonl, TensorBoard's events) grow line by line.

TensorFlow is imported for places other than disks, such as gs://, and not
before one is used: what needs nothing else of it starts in no time.
"""

import collections
import contextlib
import functools
import io
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from absl import logging

from keras_bert_ref import disk, interruptions


def unfinished_name(path: str) -> str:
    """A name beside `path` to write under: no pattern for finished files
    matches it, and nobody else uses it, neither another process nor another
    call."""
    folder, name = os.path.split(path.rstrip("/"))
    unique = f"{machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    return os.path.join(folder, f".{name}.unfinished-{unique}")


def remove_leftovers(path: str) -> None:
    """Removes what processes of this machine left of `path` when killed."""
    folder, name = os.path.split(path.rstrip("/"))
    leftover = re.compile(
        re.escape(f".{name}.unfinished-{machine()}-")
        + "([1-9][0-9]{0,9})-[0-9a-f]{8}"
    )
    place = _place(path)
    if not place.isdir(folder or "."):
        return
    for other in place.listdir(folder or "."):
        match = leftover.fullmatch(other.rstrip("/"))
        if match and not lives(int(match[1])):
            path = os.path.join(folder, match[0])
            remove = place.rmtree if place.isdir(path) else place.remove
            # Another run may be quicker, or another user's file stay.
            with contextlib.suppress(*_errors_of(path)):
                remove(path)
                logging.info("Removed %s: its run was killed.", path)


@functools.cache
def machine() -> str:
    """Where the number of a process says which one it is: a host, or a
    container, which has numbers of its own."""
    try:
        container = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        container = 0
    return f"{socket.gethostname()}-{container}"


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def check_apart(inputs: Iterable[str], outputs: Iterable[str]) -> None:
    """Refuses to replace an input by an output, whatever they are called."""
    inputs = list(inputs)
    for output in outputs:
        for path in inputs:
            if _is_same(path, output):
                raise ValueError(
                    f"There can be no output under the name of an input, but "
                    f"{output} is the input {path}, which would be lost; "
                    "choose another output."
                )


def _is_same(path: str, other: str) -> bool:
    """Whether two names are of one file: by spelling, links or hard links."""
    if not (is_local(path) and is_local(other)):
        return path == other
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    both_exist = os.path.exists(path) and os.path.exists(other)
    return both_exist and os.path.samefile(path, other)


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
    names = [unfinished_name(path) for path in paths]
    try:
        for path, name in zip(paths, names, strict=True):
            _check_place(path, name, must_be_new)
            remove_leftovers(path)
        yield names
        interruptions.check()
        with interruptions.deferred():
            for path, name in zip(paths, names, strict=True):
                _place(path).rename(name, path, overwrite=not must_be_new)
    finally:
        for name in names:
            remove(name)


@contextlib.contextmanager
def unfinished_folder(path: str) -> Iterator[str]:
    """Yields the name to make a new folder under. It gets its own name when
    the block ends; an error or an interruption removes it.

    Raises:
        ValueError: before any work is done, if the folder cannot be made.
    """
    import tensorflow as tf

    name = unfinished_name(path)
    gfile = tf.io.gfile
    remove_leftovers(path)
    try:
        gfile.makedirs(name)
    except tf.errors.OpError as error:
        raise ValueError(
            f"A new folder {path} must be possible, but it is not "
            f"({error.message}); choose another place."
        ) from None
    try:
        yield name
        interruptions.check()
        with interruptions.deferred():
            gfile.rename(name, path)
    finally:
        if gfile.exists(name):
            gfile.rmtree(name)


def _check_place(path: str, name: str, must_be_new: bool) -> None:
    place = _place(path)
    if must_be_new and place.exists(path):
        raise ValueError(
            f"The output must be a new file, but {path} exists; remove it or "
            "choose another name."
        )
    try:
        if place.isdir(path):
            raise OSError("it is a folder")
        place.makedirs(os.path.dirname(path) or ".")
        with open_file(name, "w") as file:
            file.write("")
    except _errors_of(path) as error:
        raise ValueError(
            f"Every output file must be writable, but {path} is not "
            f"({error}); choose another place."
        ) from None


@contextlib.contextmanager
def temporary_folder(name: str) -> Iterator[str]:
    """A folder on the local disk that is removed at the end of the block; if
    the process is killed, by the next one that wants such a folder."""
    path = os.path.join(tempfile.gettempdir(), name)
    remove_leftovers(path)
    folder = unfinished_name(path)
    os.mkdir(folder, mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


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
    path = os.path.join(*parts)
    return _place(path).exists(path)


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


def open_bytes(*parts: str) -> io.BytesIO:
    """A file's contents, to be read like the file; `name` is its path."""
    content = io.BytesIO(read(*parts))
    content.name = os.path.join(*parts)
    return content


def read_json(*parts: str) -> dict:
    """The object that a JSON file holds.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not JSON, or holds something else.
    """
    path = os.path.join(*parts)
    values = parse_json(read(path), path)
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} holds a JSON {type(values).__name__}; it has to hold "
            "keys and values."
        )
    return values


def read_json_lines(path: str, keys: Sequence[str] = ()) -> list[dict]:
    """The objects of a file that has one a line; none if it is not there.

    A last line that was cut short, by a kill for instance, is left out.

    Args:
        keys: what every object must have.
    """
    if not exists(path):
        return []
    *lines, _ = read(path).split(b"\n")
    rows = []
    for number, line in enumerate(lines, 1):
        where = f"line {number} of {path}"
        row = parse_json(line, where)
        if not isinstance(row, dict) or any(key not in row for key in keys):
            raise ValueError(
                f"A line must be a JSON object with the keys "
                f"{', '.join(keys)}, but {where} is not; correct or remove it."
            )
        rows.append(row)
    return rows


def parse_json(
    content: bytes,
    source: str,
    fix: str = "correct it, or copy or download it again",
) -> Any:
    """The value of a JSON text.

    Args:
        content: the text, in UTF-8.
        source: where it comes from, such as a path.
        fix: what to do if it cannot be read.

    Raises:
        ValueError: it is not JSON, not UTF-8, or has a key twice, of which
            nobody knows which one counts.
    """
    try:
        return json.loads(
            content.decode("utf-8-sig"), object_pairs_hook=_without_duplicates
        )
    except RecursionError:
        reason = "lists or objects within each other, too deep to read"
    except ValueError as error:
        reason = str(error)
    raise ValueError(
        f"{source} is not JSON that can be read ({reason}); {fix}."
    )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict:
    values = dict(pairs)
    if len(values) < len(pairs):
        counts = collections.Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return values


def glob(pattern: str) -> list[str]:
    """The files that a pattern matches; one of that very name wins."""
    return [pattern] if exists(pattern) else _place(pattern).glob(pattern)


def remove(path: str) -> None:
    """Removes a file that may be gone already."""
    if exists(path):
        _place(path).remove(path)


def starting_with(prefix: str) -> list[str]:
    """The files whose paths begin so, whatever characters are in them."""
    folder, start = os.path.split(prefix)
    place = _place(prefix)
    if not place.isdir(folder or "."):
        return []
    names = [name.rstrip("/") for name in place.listdir(folder or ".")]
    return sorted(os.path.join(folder, n) for n in names if n.startswith(start))


def size(path: str) -> int:
    """In bytes."""
    if is_local(path):
        return os.path.getsize(path)
    return _place(path).stat(path).length


def open_file(path: str, mode: str):
    """For files that are read or written bit by bit. Text is UTF-8."""
    if not is_local(path):
        return _place(path).GFile(path, mode)
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="\n")


def _errors_of(path: str) -> tuple[type[Exception], ...]:
    """What goes wrong where a file is."""
    if is_local(path):
        return (OSError,)
    import tensorflow as tf

    return OSError, tf.errors.OpError


def _place(path: str):
    """What opens, lists and removes files where this one is."""
    if is_local(path):
        return disk
    import tensorflow as tf

    return tf.io.gfile


def is_local(path: str) -> bool:
    """Whether a path is one of this machine's file system."""
    return "://" not in os.fspath(path)
