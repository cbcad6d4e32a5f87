"""Unpacks zips from elsewhere: nothing leaves the folder, nothing fills the
disk, and the folder appears when it is whole."""

import os
import pathlib
import posixpath
import shutil
import stat
import zipfile
from collections.abc import Callable

from keras_bert_ref import files

CHUNK = 1 << 20
# Weights hardly shrink, and text to a third; a bomb grows a thousandfold.
LARGEST_RATIO = 100
NOISE = ("__MACOSX/", ".DS_Store")


def unpack(
    path: str,
    target: str,
    check: Callable[[str], None] = lambda folder: None,
    strip: str = "",
) -> None:
    """Unpacks a zip into a new folder.

    Args:
        check: looks at the folder before it gets its name; raises if it is
            not what it should be.
        strip: a folder at the top of the zip that is left out; it need not
            be there.

    Raises:
        ValueError: the zip is broken, or not safe.
    """
    unfinished = files.unfinished_name(target)
    files.remove_leftovers(target)
    try:
        with zipfile.ZipFile(path) as archive:
            members = _check_members(archive, path, os.path.dirname(target))
            for member in members:
                name = member.filename.removeprefix(f"{strip}/")
                _extract(archive, member, os.path.join(unfinished, name))
        check(unfinished)
        os.rename(unfinished, target)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise ValueError(
            f"{path} is not a whole zip ({error}); it has to be downloaded "
            "again."
        ) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _check_members(archive, path: str, folder: str) -> list[zipfile.ZipInfo]:
    """The files of a zip, without directories; raises unless all are safe."""
    members, names = [], set()
    for member in archive.infolist():
        name = member.filename
        if name.startswith(NOISE[0]) or name.endswith((*NOISE[1:], "/")):
            continue
        parts = pathlib.PurePosixPath(name).parts
        kind = member.external_attr >> 16
        if (
            name.startswith("/")
            or "\\" in name
            or ":" in name
            or ".." in parts
            or posixpath.normpath(name) != name
        ):
            _refuse(path, f"{name!r} would not stay in its folder")
        if stat.S_IFMT(kind) not in (0, stat.S_IFREG):
            _refuse(path, f"{name!r} is a link or a device")
        if member.flag_bits & 1:
            _refuse(path, f"{name!r} is encrypted")
        if name.lower() in names:
            _refuse(path, f"{name!r} is there twice")
        names.add(name.lower())
        members.append(member)
    if not members:
        _refuse(path, "there is no file in it")
    total = sum(member.file_size for member in members)
    packed = os.path.getsize(path)
    if total > LARGEST_RATIO * packed:
        _refuse(path, f"{packed:,} bytes would become {total:,}")
    free = shutil.disk_usage(folder or ".").free
    if total > free:
        raise ValueError(
            f"{path} unpacks to {total / 1e9:.2f} GB, but {free / 1e9:.2f} GB "
            "are free; make room, or choose another folder."
        )
    return members


def _refuse(path: str, reason: str):
    raise ValueError(
        f"{path} is not unpacked: {reason}. No released file does this; look "
        "where it came from."
    )


def _extract(archive, member: zipfile.ZipInfo, path: str) -> None:
    """Copies a file; zipfile compares its CRC at the end, and never reads
    more than the size that was announced."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with archive.open(member) as source, open(path, "xb") as target:
        shutil.copyfileobj(source, target, CHUNK)
