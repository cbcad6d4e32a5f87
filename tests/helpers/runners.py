"""Runs runners, mostly in this process: TensorFlow takes its time to start."""

import contextlib
import importlib
import os
import pathlib
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
from absl import flags

from keras_bert_ref import commands
from keras_bert_ref import flags as shared_flags

ROOT = pathlib.Path(__file__).parent.parent.parent
FLAGS = flags.FLAGS


FLAG_MODULES = {
    "create_pretraining_data": "pretraining.create_data_flags",
    "run_pretraining": "pretraining.flags",
    "run_classifier": "classifier.flags",
    "run_squad": "squad.flags",
    "run_ner": "ner.flags",
    "run_multiple_choice": "choice.flags",
    "extract_features": "features.flags",
    "export": "export.flags",
}
BODIES = {
    "create_pretraining_data": "pretraining.create_data",
    "run_pretraining": "pretraining.run",
    "run_classifier": "classifier.run",
    "run_squad": "squad.run",
    "run_ner": "ner.run",
    "run_multiple_choice": "choice.run",
    "extract_features": "features.run",
    "export": "export.run",
}


class Runner:
    """A command, to be run in this process."""

    def __init__(self, name: str):
        self.flags = _import(FLAG_MODULES[name])
        self.body = _import(BODIES[name])


def _import(name: str) -> ModuleType:
    return importlib.import_module(f"keras_bert_ref.{name}")


@contextlib.contextmanager
def load_runner(name: str) -> Iterator[Runner]:
    """Loads a command. Afterwards its flags are gone, for others define the
    same ones."""
    runner = Runner(name)
    before = set(FLAGS)
    try:
        runner.flags.define()
        yield runner
    finally:
        FLAGS.unparse_flags()
        for flag in set(FLAGS) - before:
            delattr(FLAGS, flag)
        shared_flags.GROUPS.clear()


def parse(*arguments) -> None:
    """Sets the flags as a command line would; all others to defaults."""
    FLAGS.unparse_flags()
    FLAGS(["runner", *map(str, arguments)])


def run(runner: Runner, *arguments) -> None:
    parse(*arguments)
    options = commands.read_options()
    check = getattr(runner.flags, "check", lambda options: None)
    check(options)
    runner.body.main(options)


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


def check_flagfiles(pattern: str, count: int) -> None:
    """Every one parses, is complete but for the paths its command shows, and
    says what was published."""
    paths = sorted((ROOT / "configs/runs").glob(pattern))
    assert len(paths) == count
    for path in paths:
        lines = path.read_text().split("\n")
        text = "\n".join(line for line in lines if line.startswith("#"))
        assert f"--flagfile=configs/runs/{path.name}" in text, path
        assert "Published: " in text and "Not run here" in text, path
        names = re.findall(r"(--\w+)=\$", text)
        parse(f"--flagfile={path}", *(f"{name}=x" for name in names))
        assert FLAGS.do_train and FLAGS.do_eval


def read_results(output_dir: pathlib.Path) -> dict[str, float]:
    """What eval_results.txt holds: whole lines, sorted."""
    lines = (output_dir / "eval_results.txt").read_text().split("\n")
    assert lines.pop() == "" and lines == sorted(lines)
    return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


def check_refused(main: Callable[[], None], capsys, message: str) -> None:
    """A command without flags of absl ends with code 1 and a sentence."""
    with pytest.raises(SystemExit, match="^1$"):
        main()
    assert re.search(message, capsys.readouterr().err)
