"""A worker of pytest-xdist that dies fails the run at once.

Left to itself, pytest-xdist gives the test that killed a worker to the next
one, and may wait for ever in the end. It knows of a death from the worker's
pipe, which processes that the worker forked hold open.

conftest.py imports the hooks.
"""

import contextlib
import os
import signal
import threading

import pytest


def pytest_configure(config) -> None:
    """A worker leads a process group, so that all it started can be ended."""
    if hasattr(config, "workerinput"):
        os.setpgrp()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node) -> None:
    pid = node.gateway._rinfo().pid  # as xdist asks for it
    threading.Thread(target=end_group_of_dead, args=[pid], daemon=True).start()


def end_group_of_dead(pid: int) -> None:
    """Waits for a worker's end; if it was not a good one, ends its group."""
    if not hasattr(os, "waitid"):  # as on older Pythons for macOS
        return
    with contextlib.suppress(ChildProcessError, ProcessLookupError):
        # It stays a zombie, hence keeps its number, until xdist takes note.
        end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if end.si_status:
            os.killpg(pid, signal.SIGKILL)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """Also when it dies between tests, the run has failed."""
    if error:
        node.config.pluginmanager.get_plugin("session").testsfailed += 1


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem, report, sched) -> None:
    """Reports the test as failed and stops the other workers."""
    sched.config.hook.pytest_runtest_logreport(report=report)
    pytest.exit(f"{crashitem} killed its worker", returncode=1)
