"""Half precision: what this machine can do."""

import os
import subprocess
import sys

from absl import logging

POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}
# A product large enough for oneDNN to choose its fastest instructions.
PROBE = """
x = tf.ones((256, 256), tf.bfloat16)
tf.matmul(x, x).numpy()
"""


def choose_policy(dtype: str) -> str:
    """The Keras policy of a --dtype; raises if this CPU would crash in it."""
    if dtype not in POLICIES:
        raise ValueError(
            f"--dtype={dtype} is not known; use one of {', '.join(POLICIES)}."
        )
    import tensorflow as tf

    has_accelerator = bool(tf.config.list_physical_devices("GPU"))
    if dtype == "bfloat16" and not has_accelerator:
        check_bfloat16()
    return POLICIES[dtype]


def check_bfloat16() -> None:
    """Multiplies bfloat16 matrices in a child process, which may die of it.

    Some machines announce instructions (AMX) that they then refuse; the first
    product would end the training without a word.
    """
    child = subprocess.run(
        [sys.executable, "-c", PROBE],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        check=False,
    )
    if child.returncode:
        raise ValueError(
            "This CPU cannot multiply bfloat16 matrices as TensorFlow does "
            f"it (a trial ended with code {child.returncode}); use "
            "--dtype=float32, which is faster on a CPU anyway, or set the "
            "environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16."
        )
    logging.info("bfloat16 works on this CPU (tried in a child process).")
