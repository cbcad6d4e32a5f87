"""What is done to commands, and what must hold afterwards.

Every attack raises Lost where something was lost, silent, or hung.
"""

import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping

import numpy as np

from chaos.subjects import Process, Subject
from keras_bert_ref.checkpoints import tf1

DYING = str(pathlib.Path(__file__).with_name("dying.py"))
TIMEOUT = 600.0  # a command that takes longer hangs
END_SECONDS = 90.0  # from a signal, or the death of a worker, to the end
LAST_PART = 0.25  # of the time a command takes
SIGNALS = {signal.SIGTERM: 143, signal.SIGINT: 130}
CHECKSUMMED = (".tfrecord", ".gz", ".index", ".data-00000-of-00001")


class Lost(Exception):
    """What went wrong."""


@dataclasses.dataclass
class Trial:
    """One attack on one command.

    Attributes:
        expected: the folder of the undisturbed output.
        seconds: how long the undisturbed command took.
        output: the folder to write to.
    """

    subject: Subject
    inputs: Mapping[str, str]
    expected: pathlib.Path
    seconds: float
    output: pathlib.Path
    random: random.Random

    def start(self, **kwargs) -> list[Process]:
        return self.subject.start(self.inputs, self.output, **kwargs)

    def finish(self) -> None:
        """Runs the command to its end and compares what comes out."""
        if self.subject.refuses_old and is_equal(self):
            return
        processes = self.start()
        for process in processes:
            code = wait(process)
            if code:
                raise Lost(f"the same command again ended with {code}")
            check_log(process)
        check_equal(self)
        check_leftovers(self)


def kill_at_random(trial: Trial) -> None:
    """kill -9 at any moment."""
    processes = trial.start()
    sleep_while_running(processes, trial)
    processes[0].popen.kill()
    wait_for_orphans(processes)
    check_whole_files(trial.output)
    trial.finish()


def kill_at_a_file(trial: Trial) -> None:
    """kill -9 before or after a file gets its name, or within a checkpoint."""
    moments = ["before", "after"]
    if trial.subject.trains:
        moments.append("within")
    moment = trial.random.choice(moments)
    number = trial.random.randint(1, 12 if trial.subject.trains else 2)
    processes = trial.start(before=[DYING, moment, str(number)])
    for process in processes:
        wait(process)
    wait_for_orphans(processes)
    check_whole_files(trial.output)
    trial.finish()


def send_signal(trial: Trial) -> None:
    """SIGTERM, as a scheduler sends it, or Ctrl-C to the whole group."""
    number = trial.random.choice(list(SIGNALS))
    processes = trial.start()
    sleep_while_running(processes, trial)
    processes = [p for p in processes if p.popen.poll() is None]
    for process in processes:
        if number == signal.SIGINT:
            os.killpg(process.popen.pid, number)
        else:
            process.popen.send_signal(number)
    start = time.monotonic()
    for process in processes:
        code = wait(process, END_SECONDS)
        # Who is about to end may do so.
        waited = time.monotonic() - start
        is_over = code == 0 and waited < LAST_PART * trial.seconds
        if is_importing(process.log):
            continue
        # Before Python has set its handlers a signal ends a process as such.
        if not is_over and code not in (SIGNALS[number], -number):
            raise Lost(f"{number.name} ended with {code}")
        check_log(process)
    wait_for_orphans(processes)
    check_whole_files(trial.output)
    trial.finish()


def fill_the_disk(trial: Trial) -> None:
    """No file can grow beyond a size."""
    largest = max(path.stat().st_size for path in files_in(trial.expected))
    size = int(trial.random.uniform(0, 1.1 * largest))
    (process,) = trial.start(max_file_size=size)
    code = wait(process)
    if code < 0:
        raise Lost(f"a full disk ended the process with {code}")
    check_log(process)
    if code == 0:
        check_equal(trial)
    check_whole_files(trial.output)
    trial.finish()


def damage_an_input(trial: Trial) -> None:
    """Bytes of an input are changed, cut off or added."""
    name = trial.random.choice(sorted(trial.inputs))
    path = pathlib.Path(trial.inputs[name])
    copies = trial.output.with_name(f"{trial.output.name}.inputs")
    # Files of one folder belong together, as those of a checkpoint do.
    shutil.copytree(path.parent, copies, ignore=_ignore_folders)
    content = damage(path.read_bytes(), trial.random)
    (copies / path.name).write_bytes(content)
    inputs = {
        other: str(copies / os.path.basename(value))
        if os.path.dirname(value) == str(path.parent)
        else value
        for other, value in trial.inputs.items()
    }
    for process in trial.subject.start(inputs, trial.output):
        code = wait(process)
        check_log(process)
        if code < 0:
            raise Lost(f"a damaged {name} ended the process with {code}")
        stem = path.name.split(".index")[0].split(".data-")[0]
        # An empty corpus is named by its flag: it may be many files.
        is_named = stem in process.log or "--input_file" in process.log
        # A file of no bytes is one of no records, which is no damage.
        is_empty = f"{path.name} is EMPTY" in process.log
        if code == 0 and path.name.endswith(CHECKSUMMED) and not is_empty:
            check_equal(trial)
        if code and not is_named:
            raise Lost(f"the error does not name the damaged {name}")
    check_whole_files(trial.output)


def _ignore_folders(folder: str, names: list[str]) -> list[str]:
    return [n for n in names if os.path.isdir(os.path.join(folder, n))]


def damage(content: bytes, rng: random.Random) -> bytes:
    """The same file, but not quite."""
    at = rng.randrange(len(content))
    kind = rng.choice(["flip", "cut", "zero", "insert", "empty"])
    if kind == "flip":
        changed = bytes([content[at] ^ (1 << rng.randrange(8))])
        return content[:at] + changed + content[at + 1 :]
    if kind == "cut":
        return content[:at]
    if kind == "zero":
        length = min(rng.choice([1, 16, 512]), len(content) - at)
        return content[:at] + bytes(length) + content[at + length :]
    if kind == "insert":
        return content[:at] + rng.randbytes(8) + content[at:]
    return b""


def start_twice(trial: Trial) -> None:
    """The same command at the same time, with the same output."""
    processes = [*trial.start(), *trial.start()]
    codes = [wait(process) for process in processes]
    for process in processes:
        check_log(process)
    if 0 not in codes:
        raise Lost(f"neither of two ended well: {codes}")
    check_equal(trial)
    trial.finish()


def kill_a_worker(trial: Trial) -> None:
    """kill -9 of one of several workers; the others end soon after."""
    processes = trial.start()
    sleep_while_running(processes, trial)
    victim = trial.random.choice(processes)
    was_running = victim.popen.poll() is None
    victim.popen.kill()
    for process in processes:
        code = wait(process, END_SECONDS)
        if process is not victim:
            check_log(process)
            if code < 0 or (code == 0 and was_running and not is_equal(trial)):
                raise Lost(f"a worker whose peer died ended with {code}")
    check_whole_files(trial.output)
    trial.finish()


def is_possible(attack: Callable, subject: Subject) -> bool:
    """Whether an attack makes sense for a command."""
    if subject.num_workers > 1:
        return attack in (kill_a_worker, send_signal)
    return attack is not kill_a_worker


ATTACKS = (
    kill_at_random,
    kill_at_a_file,
    send_signal,
    fill_the_disk,
    damage_an_input,
    start_twice,
    kill_a_worker,
)


def sleep_while_running(processes: list[Process], trial: Trial) -> None:
    """Until some moment of the undisturbed run."""
    end = time.monotonic() + trial.random.uniform(0.0, trial.seconds)
    while time.monotonic() < end:
        if all(p.popen.poll() is not None for p in processes):
            return
        time.sleep(0.01)


def wait(process: Process, seconds: float = TIMEOUT) -> int:
    end = time.monotonic() + seconds
    while (code := process.popen.poll()) is None:
        if time.monotonic() > end:
            os.killpg(process.popen.pid, signal.SIGKILL)
            process.popen.wait()
            raise Lost(f"hangs; ended after {seconds:.0f} s")
        time.sleep(0.02)
    return code


def wait_for_orphans(processes: list[Process], seconds: float = 20.0) -> None:
    """Workers end when their parent does."""
    for process in processes:
        process.popen.wait()
        end = time.monotonic() + seconds
        while True:
            try:
                os.killpg(process.popen.pid, 0)
            except ProcessLookupError:
                break
            if time.monotonic() > end:
                os.killpg(process.popen.pid, signal.SIGKILL)
                raise Lost("its workers outlive it")
            time.sleep(0.05)


def check_log(process: Process) -> None:
    log = process.log
    if "Traceback (most recent call last)" in log:
        raise Lost("a traceback")
    # A signal before Python is at work leaves nothing, and needs not.
    if process.popen.returncode > 0 and not log.strip():
        raise Lost("ended without a word")


def is_importing(log: str) -> bool:
    """Whether Ctrl-C came before the command's first line: while Python
    starts and imports it, Python answers, with a traceback."""
    return "KeyboardInterrupt" in log and "command()" not in log


def files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def check_whole_files(output: pathlib.Path) -> None:
    """What has a final name is whole."""
    import tensorflow as tf

    for path in files_in(output):
        if path.name.startswith(".") or "tempstate" in path.name:
            continue
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".index":
                tf1.read(str(path.with_suffix("")))
            elif path.name.endswith(".gz"):
                list(tf.data.TFRecordDataset(str(path), "GZIP"))
            elif "tf_record" in path.name or "tfrecord" in path.name:
                list(tf.data.TFRecordDataset(str(path)))
        except Exception as error:
            raise Lost(f"{path.name} is not whole: {error}") from error


def check_leftovers(trial: Trial) -> None:
    """Nothing of dead runs lies about once a run has ended well."""
    temporary = trial.output.with_name(f"{trial.output.name}.tmp")
    left = [
        path.name
        for path in files_in(trial.output)
        if path.name.startswith(".") or "tempstate" in path.name
    ]
    # TensorFlow's own files of generated code outlive a kill.
    left += [
        path.name
        for path in files_in(temporary)
        if not path.name.startswith("__autograph_generated_file")
    ]
    if left:
        raise Lost(f"left behind: {', '.join(sorted(left)[:3])}")


def is_equal(trial: Trial) -> bool:
    try:
        check_equal(trial)
    except Lost:
        return False
    return True


def check_equal(trial: Trial) -> None:
    """Compares with the undisturbed run, to the bit."""
    for name in trial.subject.compared:
        ours, theirs = trial.output / name, trial.expected / name
        if name.endswith("*"):
            if not _same_arrays(str(ours)[:-1], str(theirs)[:-1]):
                raise Lost(f"{name} differs from the undisturbed run")
        elif not ours.exists():
            raise Lost(f"{name} is missing")
        elif ours.read_bytes() != theirs.read_bytes():
            raise Lost(f"{name} differs from the undisturbed run")


def _same_arrays(prefix: str, other: str) -> bool:
    try:
        ours, theirs = tf1.read(prefix), tf1.read(other)
    except (OSError, ValueError) as error:
        raise Lost(str(error)) from error
    return ours.keys() == theirs.keys() and all(
        np.asarray(ours[n]).tobytes() == np.asarray(theirs[n]).tobytes()
        for n in ours
    )
