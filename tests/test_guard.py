"""How commands end: sentences instead of tracebacks, signals."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref import guard, interruptions
from keras_bert_ref.guard import Interrupted


def fail(error):
    raise error


def sentence(call, caplog) -> str:
    """What a command says that fails so, and nothing else."""
    caplog.clear()
    with pytest.raises(SystemExit) as end:
        guard.guard(call)
    assert end.value.code == 1
    (message,) = caplog.messages
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a"),
        OSError("b"),
        FloatingPointError("c"),
        OverflowError("d"),
        ImportError("e"),
    ],
)
def test_errors_of_users_come_without_traceback(error, caplog):
    assert sentence(lambda: fail(error), caplog) == str(error)


def test_errors_of_ours_keep_their_traceback():
    with pytest.raises(KeyError):
        guard.guard(lambda: fail(KeyError("bug")))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted(caplog, number):
    with pytest.raises(SystemExit) as end:
        guard.guard(lambda: fail(Interrupted("all is saved", number)))
    assert end.value.code == 128 + number
    assert caplog.messages == ["all is saved"]


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        RuntimeError(  # as pybind11 puts it
            "pybind11::error_already_set: MISMATCH of original and normalized "
            "active exception types: ORIGINAL UnavailableError REPLACED BY "
            "KeyboardInterrupt: <EMPTY MESSAGE>"
        ),
    ],
)
def test_ctrl_c(error, caplog):
    with pytest.raises(SystemExit) as end:
        guard.guard(lambda: fail(error))
    assert end.value.code == 130
    assert caplog.messages == ["Interrupted: asked to end by Ctrl-C."]


def write(path) -> None:
    with tf.io.gfile.GFile(str(path), "w") as file:
        file.write("x" * 100_000)


def save(prefix) -> None:
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=["a"],
        shape_and_slices=[""],
        tensors=[tf.zeros([1 << 16])],
    )


def test_what_tensorflow_says_of_files(caplog, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    below, folder = tmp_path / "file" / "x", tmp_path / "folder"
    for call, expected in [
        (lambda: write("/dev/full"), "There is no room for a file (/dev/full"),
        (lambda: write(folder), "A folder stands where a file is wanted"),
        (lambda: write(below), "A file stands where a folder is wanted"),
        (lambda: save(below), "A file stands where a folder is wanted"),
        (lambda: tf.io.gfile.makedirs(str(below)), "A file stands where a"),
        (lambda: tf.io.gfile.listdir(str(below)), "A file"),
        (lambda: write("/proc/none/x"), "A file or folder is not there"),
        (lambda: folder.read_text(), "A folder stands where a file is wanted"),
    ]:
        message = sentence(call, caplog)
        assert message.startswith(expected)
        assert message.endswith(".")
        assert "[Op:" not in message


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_what_may_not_be_written(caplog, number):
    error = PermissionError(number, os.strerror(number), "/some/where")
    message = sentence(lambda: fail(error), caplog)
    assert message.startswith("A file or folder may not be read or written")
    assert "/some/where" in message
    error = tf.errors.PermissionDeniedError(
        None, None, f"/some/where; {os.strerror(number)}"
    )
    assert "may not be read" in sentence(lambda: fail(error), caplog)


def test_sizes_no_memory_holds(caplog):
    expected = "Memory does not hold this "
    for call in (
        lambda: tf.zeros([1 << 26, 1 << 26]),
        lambda: np.zeros([1 << 50]),
        lambda: fail(MemoryError()),
    ):
        message = sentence(call, caplog)
        assert message.startswith(expected)
        assert "lower the batch size" in message


def test_other_errors_of_tensorflow(caplog):
    message = sentence(lambda: tf.reshape([1, 2], [3]), caplog)
    assert message.startswith("TensorFlow cannot go on: ")
    assert message.endswith(
        "(InvalidArgumentError). --verbosity=1 shows where."
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_heard_and_handed_back(number):
    before = signal.getsignal(number)
    with guard.watch_for_signals() as received:
        assert not received
        os.kill(os.getpid(), number)
        assert received == [number]
    assert signal.getsignal(number) == before


@pytest.fixture
def ignored_ctrl_c():
    """As in the background jobs of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ignored_ctrl_c")
def test_ignored_signals_stay_ignored():
    with guard.watch_for_signals() as received:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    with interruptions.discard_on_signals():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_ctrl_c_gets_an_action_for_a_while(before):
    """Unless it is ignored, which stays."""

    def action(*_):
        pass

    outside = signal.signal(signal.SIGINT, before)
    try:
        with guard.ended_by_ctrl_c(action):
            wanted = before if before is signal.SIG_IGN else action
            assert signal.getsignal(signal.SIGINT) is wanted
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, outside)


def test_a_second_ctrl_c_ends_at_once():
    """Even while Python does not get a word in."""
    code = """
import ctypes
from keras_bert_ref import guard
with guard.watch_for_signals() as received:
    print("ready", flush=True)
    # Gives way to threads, not to signals.
    for _ in range(100):
        ctypes.CDLL(None).usleep(900_000)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.5)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < 45  # the loop takes 90 s
    assert process.returncode == 130
    assert "Ctrl-C again ends at once" in errors
    assert "Traceback" not in errors
