"""Workers find each other, and agree, before TensorFlow starts."""

import json
import socket
import threading

import pytest

from helpers import runners
from keras_bert_ref import workers
from keras_bert_ref.commands import Options
from keras_bert_ref.workers import Cluster

FLAGS = {"train_batch_size": 4, "learning_rate": 1e-4}


def make_cluster(count: int, index: int, addresses=None) -> Cluster:
    addresses = addresses or runners.free_addresses(count)
    names = tuple(f"worker_{i}" for i in range(count))
    return Cluster(names, tuple(addresses), index)


def meet_all(clusters, flags, timeout=20) -> list[str | None]:
    """Each in a thread of its own; returns what each was told."""
    ends = [None] * len(clusters)

    def run(i: int) -> None:
        try:
            workers.meet(clusters[i], flags[i], timeout)
        except (ValueError, OSError) as error:
            ends[i] = str(error)

    threads = [
        threading.Thread(target=run, args=[i]) for i in range(len(clusters))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def test_all_come():
    addresses = runners.free_addresses(3)
    clusters = [make_cluster(3, i, addresses) for i in range(3)]
    assert meet_all(clusters, [FLAGS] * 3) == [None] * 3
    for address in addresses:  # they are free for TensorFlow
        port = int(address.split(":")[1])
        socket.create_server(("", port)).close()


def test_other_flags_are_named_by_all():
    addresses = runners.free_addresses(3)
    clusters = [make_cluster(3, i, addresses) for i in range(3)]
    other = {**FLAGS, "train_batch_size": 8}
    ends = meet_all(clusters, [FLAGS, other, FLAGS])
    for i in (0, 2):
        assert "with --task_index=1 are others: --train_batch" in ends[i]
        assert "--train_batch_size is 4 here and 8 there." in ends[i]
    assert "--train_batch_size is 8 here and 4 there." in ends[1]


def test_one_that_does_not_come_is_named(caplog, monkeypatch):
    monkeypatch.setattr(workers, "REPORT", 0.2)
    cluster = make_cluster(3, 0)
    with (
        caplog.at_level("INFO", logger="absl"),
        pytest.raises(TimeoutError) as error,
    ):
        workers.meet(cluster, FLAGS, timeout=1)
    for text in (str(error.value), caplog.messages[0]):
        for index in (1, 2):
            where = cluster.describe(index)
            assert f"{where} (Connection refused)" in text
    assert "Waited 1 s (--worker_timeout) in vain" in str(error.value)
    assert len(caplog.messages) > 1


def test_a_wrong_index_is_named(monkeypatch):
    """Both at one place, or one at the other's."""
    monkeypatch.setattr(workers, "GRACE", 1.0)
    addresses = runners.free_addresses(2)
    clusters = [make_cluster(2, 1, addresses), make_cluster(2, 1, addresses)]
    ends = meet_all(clusters, [FLAGS] * 2, timeout=3)
    assert any("cannot listen at its address" in (end or "") for end in ends)

    first = make_cluster(2, 0, addresses)
    crossed = Cluster(first.names, addresses[::-1], 0)
    ends = meet_all([first, crossed], [FLAGS] * 2, timeout=10)
    for end in ends:
        assert "Two workers have --task_index=0" in end
        assert "answers as --task_index=0; give each worker" in end


def test_something_else_at_an_address_is_no_worker(monkeypatch):
    monkeypatch.setattr(workers, "EXCHANGE", 0.3)
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            connection.sendall(b"SSH-2.0-OpenSSH\n")
            connection.close()

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        (own,) = runners.free_addresses(1)
        cluster = make_cluster(2, 0, [own, f"localhost:{port}"])
        with pytest.raises(TimeoutError, match="worker_1"):
            workers.meet(cluster, FLAGS, timeout=0.5)
        thread.join()


def options(**values) -> Options:
    return Options({"worker_hosts": [], "task_index": 0, **values})


@pytest.mark.parametrize(
    "hosts", ["a", "a:b", "a:0", "a:99999", ":1", "http://a:1", "a:1:"]
)
def test_malformed_addresses(hosts):
    with pytest.raises(ValueError, match=r"is host:port.*--worker_hosts"):
        workers.read_cluster(options(worker_hosts=[hosts, "b:2"]))


def test_addresses_must_differ():
    with pytest.raises(ValueError, match="a:1 is there twice"):
        workers.read_cluster(options(worker_hosts=["a:1", "a:1"]))
    with pytest.raises(ValueError, match="--task_index=2 is not the place"):
        workers.read_cluster(options(worker_hosts=["a:1"], task_index=2))


def test_cluster_of_the_environment(monkeypatch):
    assert workers.read_cluster(options()) is None
    cluster = {"chief": ["a:1"], "worker": ["b:2", "[::1]:3"]}
    task = {"type": "worker", "index": 1}
    config = json.dumps({"cluster": cluster, "task": task})
    monkeypatch.setenv("TF_CONFIG", config)
    found = workers.read_cluster(options())
    assert found.names == ("chief_0", "worker_0", "worker_1")
    assert found.addresses[found.index] == "[::1]:3"
    assert not workers.is_chief(options())
    for text in ("{", "[]", '{"task": 3, "cluster": {}}'):
        monkeypatch.setenv("TF_CONFIG", text)
        with pytest.raises(ValueError, match="TF_CONFIG must be JSON"):
            workers.read_cluster(options())


def test_what_must_be_the_same():
    own = {"vocab_file": "/a", "data_dir": "/b", "init_checkpoint": "/c"}
    given = options(**own, **FLAGS, verbosity=1, worker_timeout=3)
    assert workers.shared_flags(given) == {"worker_hosts": [], **FLAGS}
