"""Workers: results in order, and an end with their parent, whatever ends it."""

import os
import signal
import subprocess
import sys
import time

import pytest

from keras_bert_ref.records.parallel import map_in_order

START = """
import os, signal, sys, time
from keras_bert_ref.interruptions import discard_on_signals
from keras_bert_ref.records.parallel import map_in_order

def work(item):
    time.sleep(0.05)
    return item

@discard_on_signals()
def main():
    print(os.getpid(), flush=True)
    for result in map_in_order(work, range(1000), 3):
        print(result, flush=True)
"""


def start(script: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", START + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def assert_group_ends(group: int) -> None:
    """No process of a group is left, after a little while."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError(f"processes of {group} go on")


@pytest.mark.parametrize("num_workers", [1, 3])
def test_results_in_order(num_workers):
    assert list(map_in_order(abs, range(-20, 0), num_workers)) == list(
        range(20, 0, -1)
    )


def test_errors_come_through():
    with pytest.raises(ValueError, match="invalid literal"):
        list(map_in_order(int, ["1", "x"], 2))


def test_dead_worker_is_told():
    with pytest.raises(ChildProcessError, match="ended before its work"):
        list(map_in_order(os._exit, [3], 2))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_while_workers_start(number):
    """Where Python drops the exceptions that signals raise."""
    hook = f"lambda: os.kill(os.getpid(), {int(number)})"
    process = start(f"os.register_at_fork(after_in_parent={hook})\nmain()\n")
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number, errors
    assert "Interrupted" in errors
    assert len(output.split()) < 10
    assert_group_ends(process.pid)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
)
def test_workers_end_with_their_parent(number):
    process = start("main()\n")
    process.stdout.readline()
    assert process.stdout.readline() == "0\n"  # all are at work
    process.send_signal(number)
    process.communicate(timeout=60)
    expected = -number if number == signal.SIGKILL else 128 + number
    assert process.returncode == expected
    assert_group_ends(process.pid)
