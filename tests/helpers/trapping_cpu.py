"""Plays a CPU that announces AMX and traps when it is used.

As a plugin of pytest (`-p helpers.trapping_cpu`) it does so for a whole run.
"""

import os

import pytest

from keras_bert_ref import precision

DIES = """
import os, signal
os.kill(os.getpid(), signal.SIGILL)
"""
TRAPS = f"""
import os, signal
if os.environ.get("{precision.ISA_VARIABLE}") != "{precision.SAFE_ISA}":
    os.kill(os.getpid(), signal.SIGILL)
"""


def play() -> None:
    precision.announces_amx = lambda: True
    precision._has_accelerator = lambda: False
    precision.TRIAL = TRAPS


@pytest.hookimpl(tryfirst=True)
def pytest_configure() -> None:
    """Before that of conftest.py, which makes the trial."""
    play()


def pytest_report_header() -> str:
    value = os.environ.get(precision.ISA_VARIABLE)
    return f"{precision.ISA_VARIABLE}={value}"
