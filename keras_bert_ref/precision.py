"""Half precision: its policies, and a trial of it on CPUs that announce AMX.

Some virtual machines announce AMX, even grant it, and trap when it is used:
the first matmul in half precision kills the process. Only a trial shows it,
so a child process makes the same matmuls first. oneDNN, which computes them,
can be told to do without AMX; it looks at that variable once, when it starts.
"""

import functools
import os
import pathlib
import re
import signal
import subprocess
import sys

from absl import logging

POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}
HALF = ("bfloat16", "float16")

CPU_INFO = pathlib.Path("/proc/cpuinfo")
ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
# The most that oneDNN may use short of AMX. With less, AVX512_CORE_BF16,
# float16 dies on machines where this works.
SAFE_ISA = "AVX512_CORE_FP16"

# The matmuls of a training step, large enough for the fastest instructions.
TRIAL = """
import sys
import tensorflow as tf

def step(x, heads):
    with tf.GradientTape() as tape:
        tape.watch((x, heads))
        dense = tf.nn.bias_add(tf.matmul(x, x), x[0])
        scores = tf.einsum("bnth,bnsh->bnts", heads, heads)
        context = tf.einsum("bnts,bnsh->bnth", scores, heads)
    return tape.gradient([dense, context], [x, heads])

with tf.device("CPU"):
    x = tf.ones((256, 256), sys.argv[1])
    heads = tf.ones((2, 4, 128, 64), sys.argv[1])
    for function in (step, tf.function(step)):
        for gradient in function(x, heads):
            gradient.numpy()
"""
TRIAL_SECONDS = 300  # of which importing TensorFlow takes most


def choose_policy(dtype: str, use_tpu: bool = False) -> str:
    """The Keras policy of a --dtype.

    Call it before TensorFlow does anything: only then can this process be
    protected from a CPU that dies of half precision.

    Raises:
        ValueError: if the dtype is not known, or does not work on this CPU.
    """
    if dtype not in POLICIES:
        raise ValueError(
            f"--dtype={dtype} is not known; use one of {', '.join(POLICIES)}."
        )
    if not use_tpu:
        protect(dtype)
    return POLICIES[dtype]


def protect(compute_dtype: str) -> None:
    """Makes sure that matmuls of this dtype do not kill the process.

    Does nothing for float32, on a GPU or TPU, and on CPUs without AMX.
    Elsewhere it tries them in a child process, once for each dtype, and may
    set ONEDNN_MAX_CPU_ISA for this process.

    Raises:
        ValueError: if they would kill it all the same.
    """
    if compute_dtype in HALF and announces_amx() and not _has_accelerator():
        error = _find_error(compute_dtype)
        if error:
            raise ValueError(error)


@functools.cache
def announces_amx() -> bool:
    """Whether the CPU says that it has AMX, which need not be true."""
    try:
        text = CPU_INFO.read_text()
    except OSError:
        return False
    return bool(re.search(r"^flags\b.*\bamx_", text, re.MULTILINE))


def has_started() -> bool:
    """Whether TensorFlow has begun to work, and perhaps oneDNN with it.

    oneDNN itself cannot be asked, nor is there a public way to ask for the
    eager context. If its internals change, it counts as started.
    """
    try:
        from tensorflow.python.eager import context

        current = context.context_safe()
        return current is not None and current._context_handle is not None
    except (ImportError, AttributeError):
        return True


def _has_accelerator() -> bool:
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    return on_tpu or bool(tf.config.get_visible_devices("GPU"))


@functools.cache
def _find_error(dtype: str) -> str | None:
    """Why the dtype cannot be used, or None; may set ONEDNN_MAX_CPU_ISA."""
    logging.info(
        "Trying %s matmuls in a child process, since this CPU announces AMX.",
        dtype,
    )
    isa = _isa_at_start() if has_started() else os.environ.get(ISA_VARIABLE)
    failure = _try_out(dtype, isa)
    if not failure:
        return None
    safe_failure = _try_out(dtype, SAFE_ISA)
    if safe_failure:
        return (
            f"{dtype} does not work on this CPU: a trial of its matmuls "
            f"{failure}, and with {ISA_VARIABLE}={SAFE_ISA} it "
            f"{safe_failure}; use float32."
        )
    if has_started():
        return (
            f"{dtype} needs {ISA_VARIABLE}={SAFE_ISA} on this CPU: without "
            f"it, a trial of its matmuls {failure}. TensorFlow has already "
            "started in this process, so it is too late to set it here; set "
            "it in the environment before starting Python, or use float32."
        )
    os.environ[ISA_VARIABLE] = SAFE_ISA
    logging.warning(
        "%s=%s is set for this process: without it, a trial of %s matmuls %s.",
        ISA_VARIABLE,
        SAFE_ISA,
        dtype,
        failure,
    )
    return None


@functools.cache
def _isa_at_start() -> str | None:
    """The variable when we first found TensorFlow at work; a later change of
    it reaches child processes, but not the oneDNN of this one."""
    return os.environ.get(ISA_VARIABLE)


def _try_out(dtype: str, isa: str | None) -> str | None:
    """Makes the trial; returns how it failed, or None."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    environment.pop(ISA_VARIABLE, None)
    if isa is not None:
        environment[ISA_VARIABLE] = isa
    try:
        child = subprocess.run(
            [sys.executable, "-c", TRIAL, dtype],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"did not end in {TRIAL_SECONDS} seconds"
    if child.returncode < 0:
        number = -child.returncode
        return f"died of signal {number} ({signal.strsignal(number)})"
    if child.returncode:
        lines = child.stderr.decode(errors="replace").strip().splitlines()
        return f"ended with code {child.returncode} ({''.join(lines[-1:])})"
    return None
