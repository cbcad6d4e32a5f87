"""Fetches files over HTTP, and goes on after a failure where it stopped.

What has arrived lies beside the file, under a name of its own; the file
appears when it has as many bytes as the server announced.
"""

import errno
import fcntl
import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request

from absl import logging

from keras_bert_ref import bars

CHUNK = 1 << 20
TIMEOUT = 60.0
# Seconds before the first retry; the next waits twice as long, and so on.
FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0


class Interruption(Exception):
    """The transfer stopped before its end; it may be resumed."""


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from an encrypted address to an open one."""

    def redirect_request(self, request, file, code, message, headers, url):
        before = urllib.parse.urlsplit(request.full_url).scheme
        if before == "https" and urllib.parse.urlsplit(url).scheme != "https":
            raise ValueError(
                f"{request.full_url} redirects to {url}, which is not "
                "encrypted; use --mirror."
            )
        return super().redirect_request(
            request, file, code, message, headers, url
        )


def fetch(address: str, path: str, retries: int = 5) -> None:
    """Downloads a file unless it is there.

    Raises:
        ValueError: there is no such file, or it does not arrive.
    """
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = part_name(path)
    wait = FIRST_WAIT
    with open(part, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"Another process downloads {path}; wait for it, or end it."
            ) from None
        for attempt in range(retries + 1):
            try:
                _go_on(address, file, part)
                break
            except Interruption as interruption:
                arrived = file.tell()
                if attempt == retries:
                    raise ValueError(
                        f"{address} does not arrive ({interruption}; "
                        f"{retries + 1} attempts). {arrived:,} bytes are kept "
                        "in "
                        f"{part}; the same command goes on from there."
                    ) from None
                logging.warning(
                    "%s: %s. Going on after %g s.", path, interruption, wait
                )
                time.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
    os.replace(part, path)
    os.remove(_state_name(part))


def part_name(path: str) -> str:
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.part")


def _state_name(part: str) -> str:
    return f"{part}.json"


def _go_on(address: str, file, part: str) -> None:
    """Appends what is missing of a file.

    Raises:
        Interruption: not all of it came.
    """
    file.seek(0, os.SEEK_END)
    state = _read_state(part)
    if not state or state["address"] != address:
        _empty(file)
        state = None
    start = file.tell()
    headers = {"User-Agent": "keras_bert_ref", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if state["version"]:
            headers["If-Range"] = state["version"]
    opener = urllib.request.build_opener(_SafeRedirects)
    request = urllib.request.Request(address, headers=headers)
    try:
        with opener.open(request, timeout=TIMEOUT) as response:
            size = _prepare(response, file, start, state, address, part)
            _copy(response, file, size, os.path.basename(part))
    except urllib.error.HTTPError as error:
        if error.code == 416:  # more than there is: begin again
            _empty(file)
            raise Interruption("the server has less than was there") from None
        if error.code >= 500 or error.code == 429:
            raise Interruption(f"the server says {error.code}") from None
        raise ValueError(
            f"{address} cannot be had: the server says {error.code} "
            f"({error.reason}); look at the address, or use --mirror."
        ) from None
    except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise Interruption(_describe(error)) from None
    except urllib.error.URLError as error:
        raise Interruption(_describe(error.reason)) from None


def _prepare(response, file, start: int, state, address, part) -> int | None:
    """Where the bytes of a response belong; returns the size of the whole."""
    length = response.headers.get("Content-Length")
    size = int(length) if length and length.isdigit() else None
    version = response.headers.get("ETag") or ""
    if version.startswith("W/"):
        version = ""
    version = version or response.headers.get("Last-Modified") or ""
    if response.status == 206:
        span = response.headers.get("Content-Range") or ""
        match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", span)
        if not match or int(match[1]) != start:
            _empty(file)
            raise Interruption(f"the server sent {span!r} from byte {start} on")
        size = int(match[3])
        if state["size"] is not None and state["size"] != size:
            _empty(file)
            raise Interruption(
                f"the file has changed from {state['size']:,} to {size:,} bytes"
            )
    else:
        _empty(file)  # the server knows no ranges, or the file has changed
    free = shutil.disk_usage(os.path.dirname(part) or ".").free
    missing = (size or 0) - file.tell()
    if missing > free:
        raise ValueError(
            f"{address} needs {missing / 1e9:.2f} GB more, but "
            f"{free / 1e9:.2f} GB are free; make room, or choose another "
            "folder."
        )
    with open(_state_name(part), "w", encoding="utf-8") as sidecar:
        json.dump(
            {"address": address, "version": version, "size": size}, sidecar
        )
    return size


def _copy(response, file, size: int | None, name: str) -> None:
    """Copies a response's bytes to the end of a file."""
    bar = bars.progress_bar(
        desc=name.removeprefix(".").removesuffix(".part"),
        unit="B",
        total=size,
        unit_scale=True,
    )
    try:
        with bar:
            bar.update(file.tell())
            while data := response.read1(CHUNK):
                file.write(data)
                bar.update(len(data))
        file.flush()
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ValueError(
                f"The disk is full: {file.name} has {file.tell():,} bytes; "
                "make room, and the same command goes on from there."
            ) from None
        raise
    if size is not None and file.tell() != size:
        raise Interruption(
            f"it broke off after {file.tell():,} of {size:,} bytes"
        )


def _empty(file) -> None:
    """Begins again."""
    file.seek(0)
    file.truncate()


def _read_state(part: str) -> dict | None:
    try:
        with open(_state_name(part), encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, ValueError):
        return None


def _describe(error) -> str:
    return str(error) or type(error).__name__
