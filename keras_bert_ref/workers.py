"""The processes that train together: who they are, and whether they agree.

TensorFlow waits for workers without a word and without end. So before it
starts, every worker listens at its own address, asks all others who they are,
and tells them its flags. When all have asked and answered, the addresses are
free again, for TensorFlow.
"""

import contextlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

from absl import logging

# Seconds between two rounds of asking, between two lines about who is
# missing, and for one exchange.
PAUSE = 0.3
REPORT = 5.0
EXCHANGE = 3.0
# How long others get to learn that flags differ, or to free our address.
GRACE = 10.0
MAX_BYTES = 1 << 20
# Flags that may differ between workers, besides paths on their own disks.
OWN_FLAGS = {"task_index", "verbosity", "log_prefix", "worker_timeout"}
OWN_PATHS = re.compile(r".*_(file|dir|checkpoint)")


class Cluster(NamedTuple):
    """All workers, and which of them this process is.

    Attributes:
        names: of their folders, such as worker_0.
        addresses: host:port of each, the chief first.
        index: the place of this process.
    """

    names: tuple[str, ...]
    addresses: tuple[str, ...]
    index: int

    def describe(self, index: int) -> str:
        return f"{self.names[index]} at {self.addresses[index]}"


def read_cluster(options) -> Cluster | None:
    """The workers of --worker_hosts or TF_CONFIG; None if neither names any."""
    hosts = tuple(options.worker_hosts)
    if hosts:
        if not 0 <= options.task_index < len(hosts):
            raise ValueError(
                f"--task_index={options.task_index} is not the place of one "
                f"of the {len(hosts)} --worker_hosts; the first has index 0."
            )
        names = tuple(f"worker_{i}" for i in range(len(hosts)))
        cluster = Cluster(names, hosts, options.task_index)
    else:
        cluster = _read_environment()
    for address in cluster.addresses if cluster else ():
        _split(address)
        if cluster.addresses.count(address) > 1:
            raise ValueError(
                f"Every worker has an address of its own, but {address} is "
                "there twice; change --worker_hosts or TF_CONFIG."
            )
    return cluster


def is_chief(options) -> bool:
    """Whether this process writes what all workers share."""
    cluster = read_cluster(options)
    return cluster is None or cluster.index == 0


def _read_environment() -> Cluster | None:
    try:
        config = json.loads(os.environ.get("TF_CONFIG") or "{}")
        jobs, task = config.get("cluster", {}), config.get("task", {})
        names, addresses = [], []
        for job in ("chief", "worker"):
            for i, address in enumerate(jobs.get(job, ())):
                names.append(f"{job}_{i}")
                addresses.append(address)
        own = "{type}_{index}".format(**task) if task else None
    except (ValueError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            "TF_CONFIG must be JSON with `cluster` and `task`, but it cannot "
            f"be read ({error}); correct or unset it."
        ) from None
    if own not in names:
        return None
    return Cluster(tuple(names), tuple(addresses), names.index(own))


def _split(address: str) -> tuple[str, int]:
    match = re.fullmatch(r"\[?([^\s\[\]/]+?)\]?:(\d{1,5})", str(address))
    if not match or not 0 < int(match[2]) < 1 << 16:
        raise ValueError(
            f"The address of a worker is host:port, with a port from 1 to "
            f"65535, but one is {address!r}; change --worker_hosts or "
            "TF_CONFIG."
        )
    return match[1], int(match[2])


def shared_flags(options) -> dict:
    """The flags that must be the same for all workers."""
    return {
        name: value
        for name, value in options.as_dict().items()
        if name not in OWN_FLAGS and not OWN_PATHS.fullmatch(name)
    }


def meet(cluster: Cluster, flags: dict, timeout: float) -> None:
    """Waits for all other workers; raises if one does not come, is not who it
    should be, or has other flags.

    Args:
        flags: those that must be the same, see `shared_flags`.
        timeout: seconds to wait.
    """
    others = set(range(len(cluster.addresses))) - {cluster.index}
    if others:
        meeting = _Meeting(cluster, flags, others)
        with meeting.listening():
            meeting.wait(timeout)


class _Meeting:
    """Asks and answers, until all have asked and answered."""

    def __init__(self, cluster: Cluster, flags: dict, others: set[int]):
        self.cluster = cluster
        card = {"index": cluster.index, "flags": flags}
        self.card = json.loads(json.dumps(card))
        self.others = others
        self.asked: set[int] = set()  # by these we were
        self.answered: set[int] = set()
        self.reasons = dict.fromkeys(others, "it has not answered yet")
        self.problems: list[str] = []

    def wait(self, timeout: float) -> None:
        start = last_report = time.monotonic()
        while True:
            for index in self.others - self.answered:
                self._ask(index)
            missing = self.others - (self.asked & self.answered)
            waited = time.monotonic() - start
            if not missing or (self.problems and waited > GRACE):
                break
            if waited > timeout:
                raise TimeoutError(
                    f"Waited {timeout:.0f} s (--worker_timeout) in vain for "
                    f"{self._name(missing)}. Start every worker, with the same "
                    "--worker_hosts and its own --task_index."
                )
            if time.monotonic() - last_report > REPORT:
                last_report = time.monotonic()
                logging.info("Waiting for %s.", self._name(missing))
            time.sleep(PAUSE)
        if self.problems:
            raise ValueError(" ".join(dict.fromkeys(self.problems)))

    def _name(self, missing: set[int]) -> str:
        return ", ".join(
            f"{self.cluster.describe(i)} ({self.reasons[i]})"
            for i in sorted(missing)
        )

    def _ask(self, index: int) -> None:
        address = _split(self.cluster.addresses[index])
        try:
            with socket.create_connection(address, EXCHANGE) as connection:
                if connection.getsockname() == connection.getpeername():
                    return  # nobody there: we happened to call ourselves
                _send(connection, self.card)
                card = _receive(connection)
        except OSError as error:
            self.reasons[index] = error.strerror or str(error)
            return
        if card is None:
            self.reasons[index] = "something else answers there"
            return
        if card["index"] != index:
            self.problems.append(
                f"{self.cluster.describe(index)} answers as --task_index="
                f"{card['index']}; give each worker the place of its own "
                "address."
            )
        self.answered.add(index)
        self.reasons[index] = "it has not asked back; is our address right?"
        self._compare(card)

    def _compare(self, card: dict) -> None:
        ours, theirs = self.card["flags"], card["flags"]
        different = [
            f"--{name} is {ours.get(name)} here and {theirs.get(name)} there"
            for name in sorted(ours.keys() | theirs.keys())
            if ours.get(name) != theirs.get(name)
        ]
        if different:
            number = card["index"]
            self.problems.append(
                "All workers must have the same flags, but those of the worker "
                f"with --task_index={number} are others: "
                f"{'; '.join(different)}. Start all of them with the same."
            )

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Answers at our own address, in a thread."""
        server = self._open()
        server.settimeout(0.2)
        is_over = threading.Event()

        def answer_all() -> None:
            while not is_over.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        connection.settimeout(EXCHANGE)
                        self._answer(connection)

        thread = threading.Thread(target=answer_all, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            server.close()

    def _open(self) -> socket.socket:
        address = self.cluster.addresses[self.cluster.index]
        _, port = _split(address)
        both = socket.has_dualstack_ipv6()
        end = time.monotonic() + GRACE
        while True:
            try:
                return socket.create_server(
                    ("", port),
                    family=socket.AF_INET6 if both else socket.AF_INET,
                    dualstack_ipv6=both,
                )
            except OSError as error:
                if time.monotonic() < end:
                    time.sleep(0.5)  # a worker of before may just be ending
                    continue
                raise ValueError(
                    f"This worker cannot listen at its address {address} "
                    f"({error.strerror}); is there another with --task_index="
                    f"{self.cluster.index} on this machine?"
                ) from None

    def _answer(self, connection: socket.socket) -> None:
        card = _receive(connection)
        if card is None:
            return
        _send(connection, self.card)
        if card["index"] == self.cluster.index:
            self.problems.append(
                f"Two workers have --task_index={card['index']}; give each the "
                "place of its own address in --worker_hosts."
            )
        self.asked.add(card["index"])
        self._compare(card)


def _send(connection: socket.socket, card: dict) -> None:
    connection.sendall(json.dumps(card).encode() + b"\n")


def _receive(connection: socket.socket) -> dict | None:
    """A line of JSON with an index and flags; None if it is something else."""
    data = b""
    while not data.endswith(b"\n") and len(data) < MAX_BYTES:
        more = connection.recv(1 << 16)
        if not more:
            break
        data += more
    try:
        card = json.loads(data)
        is_card = isinstance(card["index"], int) and isinstance(
            card["flags"], dict
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return card if is_card else None


def find_dead(cluster: Cluster) -> list[str]:
    """The other workers that nobody answers for any more. One that is just
    dying may do so for a moment."""
    for _ in range(10):
        dead = [
            cluster.describe(index)
            for index, address in enumerate(cluster.addresses)
            if index != cluster.index and not _answers(address)
        ]
        if dead:
            return dead
        time.sleep(PAUSE)
    return []


def _answers(address: str) -> bool:
    try:
        with socket.create_connection(_split(address), EXCHANGE) as connection:
            return connection.getsockname() != connection.getpeername()
    except OSError:
        return False
