"""Runs runners, mostly in this process: TensorFlow takes its time to start."""

import contextlib
import importlib.util
import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

from absl import flags

ROOT = pathlib.Path(__file__).parent.parent
FLAGS = flags.FLAGS


@contextlib.contextmanager
def load_runner(name: str) -> Iterator[ModuleType]:
    """Loads a runner. Afterwards its flags are gone, for others define the
    same ones."""
    before = set(FLAGS)
    spec = importlib.util.spec_from_file_location(name, ROOT / f"{name}.py")
    runner = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(runner)
        yield runner
    finally:
        FLAGS.unparse_flags()
        for flag in set(FLAGS) - before:
            delattr(FLAGS, flag)


def parse(*arguments) -> None:
    """Sets the flags as a command line would; all others to defaults."""
    FLAGS.unparse_flags()
    FLAGS(["runner", *map(str, arguments)])


def run(runner: ModuleType, *arguments) -> None:
    parse(*arguments)
    runner.main(["runner"])


def start(name: str, log_file: pathlib.Path, *arguments) -> subprocess.Popen:
    """Starts a runner in a process of its own, to be killed for instance."""
    with open(log_file, "a") as log:
        return subprocess.Popen(
            [sys.executable, ROOT / f"{name}.py", *map(str, arguments)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        )


def free_addresses(count: int) -> list[str]:
    """For workers on this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    addresses = [f"localhost:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def check_flags(table: str, count: int) -> None:
    """Compares flags with a table: name, type, default, required or -."""
    rows = [line.split() for line in table.strip().split("\n")]
    assert len(rows) == count
    for name, kind, default, required in rows:
        flag = FLAGS[name]
        assert (flag.flag_type(), str(flag.default)) == (kind, default), name
        is_required = any(
            "must have a value other than None" in validator.message
            for validator in flag.validators
        )
        assert is_required == (required == "required"), name
