"""Fixtures shared by all tests, and what a run of them needs first."""

import contextlib
import logging
import os
import pathlib
import signal

# Before TensorFlow is imported anywhere: no chatter, no GPU start-up.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

from helpers import dead_workers
from keras_bert_ref import precision  # first: it sets how TensorFlow starts

import tensorflow as tf  # isort: skip

HERE = pathlib.Path(__file__).parent
SHARED = HERE.parent.parent / "shared"

# Devices must be set before TensorFlow is first used; tests of replicas take
# as many of them as they need, all others run on the first.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 4,
)

# Background jobs of a shell ignore Ctrl-C; the commands they start must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hooks: a worker that dies fails the run.
pytest_testnodeready = dead_workers.pytest_testnodeready
pytest_testnodedown = dead_workers.pytest_testnodedown
pytest_handlecrashitem = dead_workers.pytest_handlecrashitem


def pytest_configure(config):
    dead_workers.pytest_configure(config)
    if hasattr(config, "workerinput"):
        return  # workers inherit what the trial has set
    for dtype in precision.HALF:
        # Tests that need what does not work here raise the error again.
        with contextlib.suppress(ValueError):
            precision.protect(dtype)


@pytest.fixture(autouse=True)
def log_level():
    """Runners in process set it; the next test must not notice."""
    logger = logging.getLogger("absl")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.fixture(scope="session")
def golden_dir() -> pathlib.Path:
    """Outputs of the original code; KERAS_BERT_GOLDEN names another set."""
    folder = os.environ.get("KERAS_BERT_GOLDEN")
    return pathlib.Path(folder) if folder else HERE / "golden"


@pytest.fixture(scope="session")
def shared_dir() -> pathlib.Path:
    """Real data beside the checkout; not part of the project."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the real data in {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def logical_cpus():
    """A function that names so many of the CPU's logical devices."""

    def devices(count: int) -> list[str]:
        names = [d.name for d in tf.config.list_logical_devices("CPU")]
        return [name.removeprefix("/device:") for name in names[:count]]

    return devices
