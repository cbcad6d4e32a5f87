"""Half precision: policies, and CPUs that die of it."""

import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from helpers import configs, trapping_cpu
from keras_bert_ref import modeling, precision

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
CONFIG = configs.tiny()
SAFE = "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"


@pytest.fixture
def cpu(monkeypatch, tmp_path):
    """A CPU with AMX in a process that has not started TensorFlow, as far as
    `precision` can tell; `trial` sets what happens there."""
    log = tmp_path / "trials"
    log.touch()

    class Cpu:
        def trial(self, program):
            note = f"import sys; open({str(log)!r}, 'a').write(sys.argv[1]+' ')"
            monkeypatch.setattr(precision, "TRIAL", f"{note}\n{program}")

        def trials(self):
            return log.read_text().split()

    # Whatever the test does to the variable is undone.
    monkeypatch.setenv(precision.ISA_VARIABLE, "")
    monkeypatch.delenv(precision.ISA_VARIABLE)
    monkeypatch.setattr(precision, "announces_amx", lambda: True)
    monkeypatch.setattr(precision, "_has_accelerator", lambda: False)
    monkeypatch.setattr(precision, "has_started", lambda: False)
    cached = precision._find_error, precision._isa_at_start
    for function in cached:
        function.cache_clear()
    yield Cpu()
    for function in cached:
        function.cache_clear()


def run_child(*arguments):
    """Runs Python without the variable; it finds the package and helpers."""
    paths = os.pathsep.join([str(ROOT), str(HERE)])
    environment = {**os.environ, "PYTHONPATH": paths}
    environment.pop(precision.ISA_VARIABLE, None)
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )


def error_of(dtype):
    with pytest.raises(ValueError) as error:
        precision.protect(dtype)
    return str(error.value)


def test_policies(cpu):
    cpu.trial("")
    assert precision.choose_policy("float32") == "float32"
    assert cpu.trials() == []
    assert precision.choose_policy("bfloat16") == "mixed_bfloat16"
    assert precision.choose_policy("float16") == "mixed_float16"
    assert cpu.trials() == ["bfloat16", "float16"]


def test_unknown_dtype():
    message = "--dtype=float8 is not known; use one of float32, bfloat16, fl"
    with pytest.raises(ValueError, match=message):
        precision.choose_policy("float8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model name\t: a\nflags\t\t: fpu avx512f amx_tile amx_bf16\n", True),
        ("flags\t\t: fpu avx512f\nmodel name\t: amx_tile\n", False),
        (None, False),
    ],
)
def test_what_the_cpu_announces(monkeypatch, tmp_path, text, expected):
    path = tmp_path / "cpuinfo"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(precision, "CPU_INFO", path)
    assert precision.announces_amx.__wrapped__() == expected


def test_no_trial_without_amx(cpu, monkeypatch):
    cpu.trial(trapping_cpu.DIES)
    monkeypatch.setattr(precision, "announces_amx", lambda: False)
    for dtype in precision.POLICIES:
        precision.choose_policy(dtype)
    modeling.BertModel(CONFIG, dtype="mixed_bfloat16")
    assert cpu.trials() == []


def test_no_trial_on_accelerators(cpu, monkeypatch):
    cpu.trial(trapping_cpu.DIES)
    precision.choose_policy("bfloat16", use_tpu=True)
    monkeypatch.setattr(precision, "_has_accelerator", lambda: True)
    precision.choose_policy("bfloat16")
    modeling.BertModel(CONFIG, dtype="mixed_bfloat16")
    assert cpu.trials() == []


@pytest.mark.parametrize(
    ("gpus", "strategy", "expected"),
    [
        ([], tf.distribute.Strategy, False),
        (["GPU:0"], tf.distribute.Strategy, True),
        ([], tf.distribute.TPUStrategy, True),
    ],
)
def test_what_is_an_accelerator(monkeypatch, gpus, strategy, expected):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    current = strategy.__new__(strategy)
    monkeypatch.setattr(tf.distribute, "get_strategy", lambda: current)
    assert precision._has_accelerator() == expected


def test_one_trial_for_each_policy(cpu):
    cpu.trial("")
    for policy in ["float32", "mixed_bfloat16", "mixed_float16"] * 2:
        modeling.BertModel(CONFIG, dtype=policy)
        modeling.Pooler(CONFIG, dtype=policy)
    assert cpu.trials() == ["bfloat16", "float16"]
    assert precision.ISA_VARIABLE not in os.environ


def test_cpu_that_traps(cpu, caplog):
    cpu.trial(trapping_cpu.TRAPS)
    with caplog.at_level("WARNING", logger="absl"):
        precision.protect("bfloat16")
        precision.protect("float16")
    assert os.environ[precision.ISA_VARIABLE] == "AVX512_CORE_FP16"
    (record,) = caplog.records
    assert f"{SAFE} is set for this process" in record.getMessage()
    assert "bfloat16 matmuls died of signal 4 (Ill" in record.getMessage()
    assert cpu.trials() == ["bfloat16", "bfloat16", "float16"]


def test_cpu_that_traps_after_the_start(cpu, monkeypatch):
    """Nor does it help to set the variable now."""
    cpu.trial(trapping_cpu.TRAPS)
    monkeypatch.setattr(precision, "has_started", lambda: True)
    with pytest.raises(ValueError) as error:
        modeling.BertModel(CONFIG, dtype="mixed_bfloat16")
    message = str(error.value)
    assert f"bfloat16 needs {SAFE} on this CPU: without it" in message
    assert "matmuls died of signal 4 (Illegal instruction)" in message
    assert "environment before starting Python, or use float32" in message
    assert precision.ISA_VARIABLE not in os.environ
    monkeypatch.setenv(*SAFE.split("="))
    assert error_of("bfloat16") == message
    assert error_of("float16") == message.replace("bfloat16", "float16")
    assert cpu.trials() == ["bfloat16"] * 2 + ["float16"] * 2


def test_variable_set_before_the_start(cpu, monkeypatch):
    cpu.trial(trapping_cpu.TRAPS)
    monkeypatch.setattr(precision, "has_started", lambda: True)
    monkeypatch.setenv(*SAFE.split("="))
    modeling.BertModel(CONFIG, dtype="mixed_bfloat16")
    assert cpu.trials() == ["bfloat16"]


def test_cpu_that_dies_in_any_case(cpu):
    cpu.trial(trapping_cpu.DIES)
    for _ in range(2):
        message = error_of("float16")
    assert "float16 does not work on this CPU: a trial of its" in message
    assert f"signal 4 (Illegal instruction), and with {SAFE} it" in message
    assert message.endswith("; use float32.")
    assert cpu.trials() == ["float16"] * 2
    assert precision.ISA_VARIABLE not in os.environ


def test_trial_that_cannot_be_made(cpu):
    cpu.trial("import no_such_module")
    message = "ended with code 1 (ModuleNotFoundError: No module named 'no_s"
    assert message in error_of("float16")


def test_trial_that_does_not_end(cpu, monkeypatch):
    cpu.trial("import time; time.sleep(60)")
    monkeypatch.setattr(precision, "TRIAL_SECONDS", 0.5)
    assert "did not end in 0.5 seconds" in error_of("float16")


def test_has_started():
    tf.constant(1.0)
    assert precision.has_started()


def test_unknown_internals_count_as_started(monkeypatch):
    monkeypatch.delattr(context, "context_safe")
    assert precision.has_started()
    monkeypatch.undo()
    monkeypatch.setattr(context, "context_safe", lambda: object())
    assert precision.has_started()


@pytest.mark.parametrize("task", ["pretraining", "classifier", "squad"])
def test_commands_protect_themselves_first(task):
    """Before anything may start TensorFlow."""
    text = (ROOT / "keras_bert_ref" / task / "run.py").read_text()
    main = text[text.index("def main(") :]
    before = main[: main.index("setup.choose_policy(options")]
    for later in ("choose_devices(", "prepare", "find_records(", "scope("):
        assert later not in before


@pytest.mark.slow
def test_new_process_on_a_cpu_that_traps():
    """All of it in earnest but the trial itself."""
    program = """
import os
import numpy as np
from helpers import configs, trapping_cpu
from keras_bert_ref import BertModel, precision

trapping_cpu.play()
config = configs.tiny()
for policy in ("mixed_bfloat16", "mixed_float16"):
    model = BertModel(config, dtype=policy)
    if policy == "mixed_bfloat16":
        assert not precision.has_started()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX512_CORE_FP16"
    print(model(np.array([[1, 2, 3]]))["pooled_output"].dtype.name)
assert precision.has_started()
"""
    child = run_child("-c", program)
    assert child.stdout.split() == ["bfloat16", "float16"], child.stderr
    assert child.stderr.count(f"{SAFE} is set for this process") == 1


@pytest.mark.slow
@pytest.mark.parametrize("dtype", precision.HALF)
def test_the_trial_itself(dtype):
    """With the variable it works on every CPU that we know of."""
    assert precision._try_out(dtype, precision.SAFE_ISA) is None


@pytest.mark.slow
def test_half_precision_tests_on_a_cpu_that_traps():
    files = [str(HERE / f"test_{name}.py") for name in ("modeling", "heads")]
    child = run_child(
        *("-m", "pytest", "-p", "helpers.trapping_cpu", "-v"),
        *(*files, "-k", "half_precision or precision_policy"),
    )
    assert child.returncode == 0, child.stdout
    assert SAFE in child.stdout.splitlines()
    assert "test_half_precision[mixed_bfloat16] PASSED" in child.stdout
