"""The choice of devices: what, why, and what cannot be."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time

import pytest
import tensorflow as tf

from helpers import runners
from keras_bert_ref.training import distribution
from keras_bert_ref.training.distribution import Devices

HAS_GPU = bool(tf.config.list_physical_devices("GPU"))
without_gpu = pytest.mark.skipif(HAS_GPU, reason="this machine has a GPU")


def set_workers(monkeypatch, task_type="worker", index=0, **cluster):
    config = {
        "cluster": cluster,
        "task": {"type": task_type, "index": index},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@without_gpu
@pytest.mark.parametrize(
    "devices, kind, reason",
    [
        (Devices(), "one_device", "no GPU found"),
        (Devices(num_replicas=1), "one_device", "no GPU found"),
        (Devices(num_replicas=2), "mirrored", "--num_replicas=2"),
        (Devices(worker_hosts=("a:1", "b:2")), "multi_worker", "2 --worker_ho"),
        (Devices(use_tpu=True, num_replicas=2), "tpu", "--use_tpu"),
        (Devices("one_device", 2), "one_device", "--distribution=one_device"),
        (Devices("tpu"), "tpu", "--distribution=tpu"),
    ],
)
def test_choice(devices, kind, reason):
    chosen, why = distribution.choose_kind(devices)
    assert chosen == kind
    assert why.startswith(reason)


def test_choice_from_environment(monkeypatch):
    set_workers(monkeypatch, chief=["a:1"], worker=["b:2", "c:3"])
    chosen, why = distribution.choose_kind(Devices())
    assert (chosen, why) == ("multi_worker", "TF_CONFIG names 3 workers")
    set_workers(monkeypatch, worker=["a:1"])
    assert distribution.choose_kind(Devices())[0] != "multi_worker"


def test_one_device():
    strategy = distribution.choose_strategy(Devices("one_device"))
    assert strategy.num_replicas_in_sync == 1
    assert distribution.is_chief(strategy)


@without_gpu
def test_logical_replicas(caplog):
    with caplog.at_level("INFO", logger="absl"):
        strategy = distribution.choose_strategy(Devices(num_replicas=2))
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == 2
    assert distribution.is_chief(strategy)
    assert "2 replicas (mirrored: --num_replicas=2)" in caplog.text


@pytest.mark.parametrize(
    "devices, message",
    [
        (Devices("cluster"), "--distribution=cluster is not known; use one of"),
        (Devices("multi_worker"), "needs to know the workers: set --worker_h"),
        (
            Devices(worker_hosts=("a:1", "b:2"), task_index=2),
            "--task_index=2 is not the place of one of the 2 --worker_hosts",
        ),
        (Devices(use_tpu=True), "--use_tpu needs --tpu_name"),
    ],
)
def test_errors(devices, message):
    with pytest.raises(ValueError, match=message):
        distribution.choose_strategy(devices)


@without_gpu
def test_errors_without_gpu():
    with pytest.raises(ValueError, match="all GPUs, and TensorFlow sees none"):
        distribution.choose_strategy(Devices("mirrored"))
    count = len(tf.config.list_logical_devices("CPU")) + 1
    message = f"--num_replicas={count}, but TensorFlow was started with"
    with pytest.raises(ValueError, match=message):
        distribution.choose_strategy(Devices(num_replicas=count))


class FakeStrategy:
    """All that `is_chief` asks of a strategy that needs a cluster."""

    def __init__(self):
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        self.cluster_resolver = resolver


@pytest.mark.parametrize(
    "task_type, index, has_chief, expected",
    [
        ("worker", 0, False, True),
        ("worker", 1, False, False),
        ("worker", 0, True, False),
        ("chief", 0, True, True),
    ],
)
def test_one_worker_is_chief(
    monkeypatch, task_type, index, has_chief, expected
):
    cluster = {"worker": ["b:2", "c:3"]}
    if has_chief:
        cluster["chief"] = ["a:1"]
    set_workers(monkeypatch, task_type, index, **cluster)
    assert distribution.is_chief(FakeStrategy()) == expected


MEETING = """
import os, signal, sys, time
from contextlib import nullcontext
from keras_bert_ref import guard, lock

with guard.hold_sigterm():  # as commands.py does
    from keras_bert_ref.training import distribution

hosts, index, path = sys.argv[1].split(","), int(sys.argv[2]), sys.argv[3]
devices = distribution.Devices(worker_hosts=tuple(hosts), task_index=index)
is_chief = index == 0
with lock.hold(os.path.dirname(path)) if is_chief else nullcontext():
    strategy = distribution.choose_strategy(devices)
if is_chief:
    time.sleep(2)  # a chief that is still writing
    open(path, "w").close()
distribution.wait_for_all(strategy)
print("there" if os.path.exists(path) else "missing", flush=True)
distribution.wait_for_all(strategy)  # nobody leaves before the others
time.sleep(3 * is_chief)  # the others notice when the chief is gone
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""


@pytest.mark.slow
def test_two_workers(tmp_path):
    """The second, which is early, finds what the chief wrote; and SIGTERM ends
    both, though TensorFlow catches it where there are several workers."""
    hosts = ",".join(runners.free_addresses(2))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MEETING, hosts, str(i), tmp_path / "file"],
            cwd=runners.ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    assert [p.communicate(timeout=240)[0] for p in processes] == ["there\n"] * 2
    assert [p.returncode for p in processes] == [-signal.SIGTERM] * 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_while_tensorflow_waits_for_a_worker(number, tmp_path):
    """Ctrl-C ends the process, SIGTERM as soon as the other has come."""
    hosts = runners.free_addresses(2)

    def start(index):
        words = [MEETING, ",".join(hosts), str(index), tmp_path / "file"]
        return subprocess.Popen([sys.executable, "-c", *words])

    first = start(0)
    host, port = hosts[0].split(":")
    deadline = time.monotonic() + 60
    while first.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port))).close()
            break
        time.sleep(0.1)
    time.sleep(1)
    first.send_signal(number)
    second = start(1) if number == signal.SIGTERM else None
    assert first.wait(timeout=60) == -number
    assert not (tmp_path / "file").exists()
    if second:
        second.kill()
        second.wait()
