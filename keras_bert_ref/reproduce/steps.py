"""Steps: a command that a user could type, run once and to its end."""

import contextlib
import dataclasses
import fcntl
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.reproduce.catalogue import RUNNERS

# They have flags for the files they write.
WITHOUT_OUTPUT_DIR = ("create_pretraining_data", "extract_features")
DONE_FILE = "step.json"
LOG_FILE = "log.txt"
LOCK_FILE = ".lock"
LOCK_SECONDS = 60.0
LAST_LINES = 15
# The command ends with the process that started it, even if that is killed.
# It saves its state when it is asked to end (SIGTERM).
CODE = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != {parent}:
        sys.exit("The process that started this one is gone.")
from keras_bert_ref.{module} import command
command()
"""


@dataclasses.dataclass(frozen=True)
class Step:
    """A command.

    Attributes:
        runner: its name, without .py.
        words: its flags, but for --output_dir.
        folder: where its log goes.
        output_dir: by default the same folder.
    """

    runner: str
    words: Sequence[str]
    folder: str
    output_dir: str = ""

    def command_line(self) -> str:
        """As one would type it."""
        return f"python {self.runner}.py {shlex.join(self.all_words())}"

    def all_words(self) -> list[str]:
        if self.runner in WITHOUT_OUTPUT_DIR:
            return list(self.words)
        return [*self.words, f"--output_dir={self.output_dir or self.folder}"]


def run_step(step: Step, lock_file) -> None:
    """Runs a command unless it is finished; it resumes what was interrupted.

    Raises:
        ChildProcessError: it failed; with its last words.
        ValueError: other flags were used before.
    """
    done = os.path.join(step.folder, DONE_FILE)
    if os.path.exists(done):
        before = files.read_json(done)["words"]
        if before != list(step.words):
            changed = sorted(set(before) ^ set(step.words))
            raise ValueError(
                f"{step.folder} was made with other flags "
                f"({', '.join(changed)}); use another --output_dir."
            )
        return
    os.makedirs(step.folder, exist_ok=True)
    code = CODE.format(parent=os.getpid(), module=RUNNERS[step.runner])
    log_path = os.path.join(step.folder, LOG_FILE)
    print(f"$ {step.command_line()}\n  its log: {log_path}", flush=True)
    start = time.perf_counter()
    with open(log_path, "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *step.all_words()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[lock_file.fileno()],  # it holds the lock, too
        )
        try:
            status = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status:
        with open(log_path, encoding="utf-8", errors="replace") as log:
            last = "".join(log.readlines()[-LAST_LINES:])
        raise ChildProcessError(
            f"{step.runner}.py ended with code {status}; the end of "
            f"{log_path}:\n{last}"
        )
    seconds = time.perf_counter() - start
    files.replace_json(done, {"words": list(step.words), "seconds": seconds})


@contextlib.contextmanager
def hold_lock(folder: str) -> Iterator:
    """Keeps others out of a folder; commands that still run hold it, too."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, LOCK_FILE), "w") as file:
        start, is_waiting = time.monotonic(), False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not is_waiting:
                    is_waiting = True
                    logging.info(
                        "Another process is at work in %s, or still ending; "
                        "waiting for %g s.",
                        folder,
                        LOCK_SECONDS,
                    )
                if time.monotonic() > start + LOCK_SECONDS:
                    raise ValueError(
                        f"Another process is at work in {folder}; wait for "
                        "it, end it, or use another --output_dir."
                    ) from None
                time.sleep(0.2)
        yield file
