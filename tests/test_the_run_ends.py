"""`make test` ends, whatever a test does: suites that kill themselves."""

import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# The process that it forks outlives it.
DIES = """
import os, signal, time

def test_first():
    pass

def test_dies():
    if not os.fork():
        time.sleep(300)
    os.kill(os.getpid(), signal.SIGILL)
"""
WAITS = """
import time

def test_waits():
    time.sleep(300)
"""
PASSES = """
def test_passes():
    pass
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def options():
    """The options of pytest in `make test`; those of setup.cfg come along."""
    shown = subprocess.run(
        ["make", "--dry-run", "test"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    commands = shown.replace("\\\n", " ").splitlines()
    (command,) = [line for line in commands if " -m pytest " in line]
    return shlex.split(command.split(" -m pytest ")[1])


@pytest.fixture
def run(options, tmp_path):
    """A function that runs a suite; returns its exit code and its output."""

    def run_suite(*more_options, **files):
        shutil.copy(ROOT / "setup.cfg", tmp_path)
        tests = tmp_path / "tests"
        (tests / "helpers").mkdir(parents=True)
        helper = ROOT / "tests" / "helpers" / "dead_workers.py"
        shutil.copy(helper, tests / "helpers")
        files.setdefault("conftest", "from helpers.dead_workers import *")
        for name, text in files.items():
            (tests / f"{name}.py").write_text(text)
        child = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *more_options],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            text=True,
            timeout=60,
        )
        return child.returncode, child.stdout

    return run_suite


def test_options_are_found(options):
    assert options[:2] == ["-n", "2"]


def test_a_suite_that_passes(run):
    code, output = run(test_a=PASSES, test_b=PASSES)
    assert code == 0, output
    assert "2 passed" in output


def test_a_test_that_kills_its_process(run):
    """It is named, and the other worker's test is not waited for."""
    code, output = run(test_a=DIES, test_b=WAITS, test_c=PASSES)
    assert code == 1, output
    assert "FAILED tests/test_a.py::test_dies - worker 'gw" in output
    assert "tests/test_a.py::test_dies killed its worker" in output


def test_a_test_that_takes_for_ever(run):
    limits = ("-o", "timeout=3", "-o", "faulthandler_timeout=2")
    code, output = run(*limits, test_a=WAITS, test_b=PASSES)
    assert code == 1, output
    assert "FAILED tests/test_a.py::test_waits - worker 'gw" in output
    assert "Timeout" in output
    assert 'test_a.py", line 5 in test_waits' in output  # what it waits for


def test_a_worker_that_dies_between_tests(run):
    conftest = """
from helpers.dead_workers import *

def pytest_sessionfinish(session):
    if getattr(session.config, "workerinput", {}).get("workerid") == "gw0":
        os.kill(os.getpid(), signal.SIGKILL)
"""
    code, output = run(test_a=PASSES, test_b=PASSES, conftest=conftest)
    assert code == 1, output
    assert "worker gw0 crashed" in output


def test_the_time_limit_is_set(pytestconfig):
    assert pytestconfig.getini("timeout_method") == "thread"
    limit = float(pytestconfig.getini("timeout"))
    assert 300 <= limit <= 3600
    assert 0 < float(pytestconfig.getini("faulthandler_timeout")) < limit
