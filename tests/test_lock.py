"""One process at a time trains in an output_dir."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from keras_bert_ref import files, lock
from keras_bert_ref.commands import Options

HOLD = """
import os, sys, time
from keras_bert_ref import lock
with lock.hold(sys.argv[1]):
    if os.fork() == 0:
        time.sleep(20)  # a child may outlive its parent
        os._exit(0)
    print("held", flush=True)
    time.sleep(60)
"""


def refuse(message: str, held) -> None:
    with pytest.raises(ValueError, match=message), held:
        pytest.fail("both have it")


@pytest.fixture
def other(tmp_path):
    """Another process that trains in tmp_path."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_another_process_is_named(other, tmp_path):
    message = rf"in {tmp_path}, and process {other.pid} on \S+, since 20.* UTC,"
    for folder in (tmp_path, tmp_path / ".." / tmp_path.name):
        refuse("One process at a time trains", lock.hold(str(folder)))
    refuse(message, lock.hold(str(tmp_path)))
    with lock.hold(str(tmp_path / "trial_0")):
        pass


def test_the_dead_do_not_hold_it(other, tmp_path, caplog):
    """Nor do their children."""
    other.kill()
    other.wait()
    assert (tmp_path / lock.NAME).exists()
    with caplog.at_level("INFO", logger="absl"), lock.hold(str(tmp_path)):
        written = json.loads((tmp_path / lock.NAME).read_text())
    assert written["pid"] == os.getpid()
    assert f"process {other.pid}" in caplog.text and "is gone" in caplog.text
    assert not (tmp_path / lock.NAME).exists()


def test_only_training_needs_it(other, tmp_path):
    values = {"output_dir": str(tmp_path), "worker_hosts": [], "task_index": 0}
    with lock.hold_for(Options({**values, "do_train": False})):
        pass
    with lock.hold_for(Options({})):
        pass
    hosts = {"worker_hosts": ["a:1", "b:2"], "task_index": 1}
    with lock.hold_for(Options({**values, **hosts, "do_train": True})):
        pass  # the chief has it
    training = lock.hold_for(Options({**values, "do_train": True}))
    refuse("--do_eval and --do_predict alone", training)


def test_one_process_may_hold_it_twice(tmp_path):
    folder = str(tmp_path / "new")
    with lock.hold(folder):
        with lock.hold(folder):
            pass
        assert os.path.exists(os.path.join(folder, lock.NAME))
    assert os.listdir(folder) == []


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_process_of_another_host(tmp_path, monkeypatch, scheme):
    """It lives if it writes; clocks need not agree."""
    monkeypatch.setattr(lock, "PATIENCE", 0.5)
    folder, path = scheme + str(tmp_path), tmp_path / lock.NAME
    theirs = {"host": "far", "machine": "far-1", "pid": 7, "since": "1970"}
    path.write_text(json.dumps(theirs))
    start = time.monotonic()
    with lock.hold(folder):
        assert time.monotonic() - start > 0.4
        assert json.loads(path.read_text())["machine"] == files.machine()
    assert not path.exists()

    path.write_text(json.dumps(theirs))
    beat = json.dumps({**theirs, "beat": 1})
    timer = threading.Timer(0.2, path.write_text, [beat])
    timer.start()
    refuse("process 7 on far, since 1970, does", lock.hold(folder))
    timer.join()
    assert json.loads(path.read_text())["machine"] == "far-1"


def test_without_locks_of_the_system(tmp_path):
    """Processes of this machine are known by their numbers."""
    path = tmp_path / lock.NAME
    for pid, is_alive in ((os.getppid(), True), (2**22 + 1, False)):
        path.write_text(json.dumps({"machine": files.machine(), "pid": pid}))
        if is_alive:
            refuse(f"process {pid} on", lock.hold(f"file://{tmp_path}"))
        else:
            with lock.hold(f"file://{tmp_path}"):
                pass


def test_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.01)
    path = tmp_path / lock.NAME
    with lock.hold(str(tmp_path)):
        first = path.read_text()
        end = time.monotonic() + 20
        while path.read_text() == first:
            assert time.monotonic() < end
        json.loads(path.read_text())


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "\0"])
def test_nonsense_is_no_lock(tmp_path, content):
    (tmp_path / lock.NAME).write_text(content)
    with lock.hold(str(tmp_path)):
        pass
