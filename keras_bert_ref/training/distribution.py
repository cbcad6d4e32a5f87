"""Which devices train: the choice of a tf.distribute strategy."""

import contextlib
import dataclasses
import json
import os
import signal
import threading
from collections.abc import Iterator

import tensorflow as tf
from absl import logging

from keras_bert_ref import workers
from keras_bert_ref.flags import DISTRIBUTIONS
from keras_bert_ref.guard import ended_by_ctrl_c, hold_sigterm


@dataclasses.dataclass(frozen=True)
class Devices:
    """What the user said about devices.

    Attributes:
        kind: one of DISTRIBUTIONS.
        num_replicas: how many GPUs, or logical devices of the CPU, to use;
            None: all GPUs.
        worker_hosts: "host:port" of every worker, the chief first.
        task_index: which of them this process is.
        tpu_name, tpu_zone, gcp_project, master: as in the original.
    """

    kind: str = "auto"
    num_replicas: int | None = None
    worker_hosts: tuple[str, ...] = ()
    task_index: int = 0
    use_tpu: bool = False
    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None


def choose_strategy(devices: Devices) -> tf.distribute.Strategy:
    """Makes the strategy that was asked for, or the one that fits.

    Call it before anything else uses TensorFlow: several workers, and several
    logical devices, can only be set up at the start.
    """
    kind, reason = choose_kind(devices)
    if kind == "tpu":
        strategy = _tpu_strategy(devices)
    elif kind == "multi_worker":
        strategy = _multi_worker_strategy(devices)
    elif kind == "mirrored":
        strategy = tf.distribute.MirroredStrategy(_replica_names(devices))
    else:
        strategy = tf.distribute.get_strategy()
    replicas = strategy.num_replicas_in_sync
    logging.info(
        "Running on %d %s (%s: %s).",
        replicas,
        "replica" if replicas == 1 else "replicas",
        kind,
        reason,
    )
    return strategy


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes the files all workers share."""
    resolver = strategy.cluster_resolver
    if resolver is None:
        return True
    is_worker = resolver.task_type == "worker"
    if is_worker and "chief" in resolver.cluster_spec().jobs:
        return False
    return resolver.task_id in (None, 0)


def num_workers(strategy: tf.distribute.Strategy) -> int:
    """How many processes train together."""
    resolver = strategy.cluster_resolver
    if resolver is None or isinstance(strategy, tf.distribute.TPUStrategy):
        return 1
    jobs = resolver.cluster_spec().as_dict()
    return sum(len(jobs.get(job, ())) for job in ("chief", "worker")) or 1


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Returns once all workers have come here: what the chief wrote before,
    such as the last checkpoint, is there for each of them."""
    if num_workers(strategy) == 1:
        return

    @tf.function
    def meet():
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.ones([]))

    strategy.run(meet)


@contextlib.contextmanager
def readable_errors(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Says which worker is gone, where one is."""
    lost = (
        tf.errors.UnavailableError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
        tf.errors.InternalError,
    )
    try:
        yield
    except lost as error:
        if num_workers(strategy) == 1:
            raise
        dead = workers.find_dead(_cluster(strategy))
        raise ConnectionError(
            f"{', '.join(dead) or 'Another worker'} is gone, and this one "
            "cannot go on alone. Start all workers again: they go on from the "
            "last checkpoint."
        ) from error


def _cluster(strategy: tf.distribute.Strategy) -> workers.Cluster:
    resolver = strategy.cluster_resolver
    jobs = resolver.cluster_spec().as_dict()
    places = {
        f"{job}_{i}": address
        for job in ("chief", "worker")
        for i, address in enumerate(jobs.get(job, ()))
    }
    own = f"{resolver.task_type}_{resolver.task_id}"
    names = tuple(places)
    return workers.Cluster(names, tuple(places.values()), names.index(own))


def choose_kind(devices: Devices) -> tuple[str, str]:
    """A kind of strategy and why."""
    if devices.kind not in DISTRIBUTIONS:
        raise ValueError(
            f"--distribution={devices.kind} is not known; use one of "
            f"{', '.join(DISTRIBUTIONS)}."
        )
    if devices.kind != "auto":
        return devices.kind, f"--distribution={devices.kind}"
    if devices.use_tpu:
        return "tpu", "--use_tpu"
    if devices.worker_hosts:
        return "multi_worker", f"{len(devices.worker_hosts)} --worker_hosts"
    count = _workers_in_environment()
    if count > 1:
        return "multi_worker", f"TF_CONFIG names {count} workers"
    if devices.num_replicas and devices.num_replicas > 1:
        return "mirrored", f"--num_replicas={devices.num_replicas}"
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus > 1 and devices.num_replicas is None:
        return "mirrored", f"{gpus} GPUs found"
    return "one_device", "one GPU found" if gpus else "no GPU found"


def _workers_in_environment() -> int:
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster = config.get("cluster", {})
    return len(cluster.get("worker", ())) + len(cluster.get("chief", ()))


def _replica_names(devices: Devices) -> list[str]:
    gpus = tf.config.list_physical_devices("GPU")
    wanted = devices.num_replicas
    if gpus:
        wanted = wanted or len(gpus)
        if wanted > len(gpus):
            raise ValueError(
                f"--num_replicas={wanted}, but this machine has {len(gpus)} "
                "GPU(s); lower it."
            )
        return [f"GPU:{i}" for i in range(wanted)]
    if wanted is None:
        raise ValueError(
            "--distribution=mirrored uses all GPUs, and TensorFlow sees none "
            "here; install a TensorFlow that finds them, or set "
            "--num_replicas to try it on logical devices of the CPU."
        )
    return _logical_cpus(wanted)


def _logical_cpus(count: int) -> list[str]:
    """Splits the CPU, unless it is split far enough already."""
    with contextlib.suppress(RuntimeError):  # running already: see below
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            [tf.config.LogicalDeviceConfiguration()] * count,
        )
    found = len(tf.config.list_logical_devices("CPU"))
    if found < count:
        raise ValueError(
            f"--num_replicas={count}, but TensorFlow was started with {found} "
            "logical CPU device(s); choose the strategy before anything else."
        )
    return [f"CPU:{i}" for i in range(count)]


def _multi_worker_strategy(devices: Devices):
    if devices.worker_hosts:
        if not 0 <= devices.task_index < len(devices.worker_hosts):
            raise ValueError(
                f"--task_index={devices.task_index} is not the place of one "
                f"of the {len(devices.worker_hosts)} --worker_hosts; the first "
                "has index 0."
            )
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({"worker": list(devices.worker_hosts)}),
            task_type="worker",
            task_id=devices.task_index,
            rpc_layer="grpc",
        )
    elif _workers_in_environment():
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    else:
        raise ValueError(
            "--distribution=multi_worker needs to know the workers: set "
            "--worker_hosts and --task_index, or TF_CONFIG."
        )
    # Python does not hear of Ctrl-C while TensorFlow waits for other workers.
    with hold_sigterm(), ended_by_ctrl_c(signal.SIG_DFL):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=resolver
        )
        # TensorFlow has begun to catch SIGTERM, and nobody would hear of it;
        # this puts back what Python had set.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
    return strategy


def _tpu_strategy(devices: Devices):
    address = devices.master or devices.tpu_name
    if not address:
        raise ValueError(
            "--use_tpu needs --tpu_name (or --master), the TPU to train on; "
            "`local` stands for the one of this machine."
        )
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        address, zone=devices.tpu_zone, project=devices.gcp_project
    )
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)
