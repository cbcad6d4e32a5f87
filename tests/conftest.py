"""Fixtures shared by all tests."""

import os
import pathlib

# Before TensorFlow is imported anywhere: no chatter, no GPU start-up.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pytest

HERE = pathlib.Path(__file__).parent
SHARED = HERE.parent.parent / "shared"


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
