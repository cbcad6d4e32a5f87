"""Half precision: policies, the trial of bfloat16, the loss scale."""

import pytest
import tensorflow as tf

from keras_bert_ref import precision

HAS_GPU = bool(tf.config.list_physical_devices("GPU"))


def test_policies(monkeypatch):
    monkeypatch.setattr(precision, "PROBE", "raise SystemExit(1)")
    assert precision.choose_policy("float32") == "float32"
    assert precision.choose_policy("float16") == "mixed_float16"


def test_unknown_dtype():
    message = "--dtype=float8 is not known; use one of float32, bfloat16, fl"
    with pytest.raises(ValueError, match=message):
        precision.choose_policy("float8")


@pytest.mark.skipif(HAS_GPU, reason="nothing is tried where there is a GPU")
def test_bfloat16_that_kills(monkeypatch):
    """As an illegal instruction does: the child is gone, we go on."""
    probe = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    monkeypatch.setattr(precision, "PROBE", probe)
    with pytest.raises(ValueError) as error:
        precision.choose_policy("bfloat16")
    assert "a trial ended with code -4" in str(error.value)
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16" in str(error.value)


def test_bfloat16_that_works(monkeypatch):
    monkeypatch.setattr(precision, "PROBE", "")
    assert precision.choose_policy("bfloat16") == "mixed_bfloat16"


@pytest.mark.slow
def test_bfloat16_trial_is_a_program(monkeypatch):
    """On any CPU it either works or dies; it does not fail by itself."""
    code = compile(precision.PROBE, "PROBE", "exec")
    assert code
    monkeypatch.setattr(
        precision, "PROBE", precision.PROBE.replace("bfloat16", "float32")
    )
    precision.check_bfloat16()
