"""Files of this machine, without TensorFlow, whose import takes seconds.

The functions have the names and arguments of those in `tf.io.gfile`, which
serves all other places, such as gs://; see files.py.
"""

import fnmatch
import os
import shutil

exists = os.path.exists
isdir = os.path.isdir
listdir = os.listdir
remove = os.remove
rmtree = shutil.rmtree


def makedirs(path: str) -> None:
    os.makedirs(path, exist_ok=True)


def rename(path: str, new: str, overwrite: bool = False) -> None:
    if not overwrite and exists(new):
        raise FileExistsError(f"{new} exists already")
    os.replace(path, new)


def glob(pattern: str) -> list[str]:
    """The paths that a pattern matches. `*` and `?` match any characters but
    /, a dot in front as well; [^a] is [!a]."""
    folder, name = os.path.split(pattern.replace("[^", "[!"))
    if not name:
        return []
    folders = glob(folder) if _is_pattern(folder) else [folder]
    return sorted(
        os.path.join(folder, entry)
        for folder in folders
        if isdir(folder or ".")
        for entry in listdir(folder or ".")
        if fnmatch.fnmatchcase(entry, name)
    )


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")
