"""What a person sees of a run: progress, speed, metrics."""

import json
import math
import os
import time

import tensorflow as tf
import tqdm
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.bars import format_duration
from keras_bert_ref.config import BertConfig
from keras_bert_ref.training.distribution import num_workers

METRICS_FILE = "metrics.jsonl"
# What tf.summary.scalar writes; that function needs TensorBoard installed.
SCALAR = tf.compat.v1.SummaryMetadata(data_class=1)
SCALAR.plugin_data.plugin_name = "scalars"
PEAK_SIZE = 1024
PEAK_TRIES = 5
# In metrics.jsonl, but not in front of a person.
NOT_SHOWN = (
    "gradient_norm",
    "input_wait_share",
    "matmul_peak_share",
    "tokens_per_second",
)


class Progress:
    """Shows how far a run is: a bar on a terminal, else a line a report.

    Writes metrics.jsonl and TensorBoard logs besides.

    Args:
        output_dir: where to; None writes no files.
        first_step: the step a run begins at; later lines of an interrupted
            run are dropped.
        num_steps: the step it ends at.
    """

    def __init__(self, output_dir: str | None, first_step: int, num_steps: int):
        self.num_steps = num_steps
        self.start = self.last_time = time.perf_counter()
        self.last_step = first_step
        self.pace = None  # step and time when the first report was out
        self.bar = tqdm.tqdm(
            desc="training",
            total=num_steps,
            initial=first_step,
            unit="step",
            dynamic_ncols=True,
            disable=None,  # where there is no terminal
        )
        self.path, self.writer = None, None
        if output_dir:
            self.path = os.path.join(output_dir, METRICS_FILE)
            kept = [
                line
                for line in read_metrics(output_dir)
                if line["step"] <= first_step
            ]
            lines = [json.dumps(line) + "\n" for line in kept]
            files.replace(self.path, "".join(lines))
            self.writer = tf.summary.create_file_writer(output_dir)

    def silence(self) -> float:
        """Seconds since the last report."""
        return max(time.perf_counter() - self.last_time, 1e-9)

    def restart_clock(self) -> None:
        """Leaves out what has passed since the last report."""
        self.last_time = time.perf_counter()
        self.pace = (self.last_step, self.last_time)

    def advance(self, count: int) -> None:
        """Moves the bar on by some steps."""
        self.bar.update(count)

    def report(self, step: int, values: dict, rates: dict) -> None:
        """Tells where the run is.

        Args:
            values: metrics, as means over the steps since the last report.
            rates: amounts since the last report, such as sequences, that are
                shown a second.
        """
        seconds = self.silence()
        now = self.last_time + seconds
        speeds = {f"{k}_per_second": v / seconds for k, v in rates.items()}
        values = {**values, **speeds}
        shown = ", ".join(
            f"{value:.4g} {name.removesuffix('_per_second')}/s"
            if name in speeds
            else f"{name} {value:.4g}"
            for name, value in values.items()
            if name not in NOT_SHOWN
        )
        if self.bar.disable:
            logging.info(
                "step %d/%d: %s, %s",
                step,
                self.num_steps,
                shown,
                self._time_left(step, now),
            )
        else:
            self.bar.set_postfix_str(shown.split(", ")[0])  # there is no room
        if self.path:
            # JSON has no NaN, which a step of float16 that overflows gives.
            finite = {
                name: value if math.isfinite(value) else None
                for name, value in values.items()
            }
            line = {"step": step, "seconds": now - self.start, **finite}
            with tf.io.gfile.GFile(self.path, "a") as file:
                file.write(json.dumps(line) + "\n")
            with self.writer.as_default():
                for name, value in values.items():
                    tf.summary.write(name, value, step, SCALAR)
            self.writer.flush()
        self.pace = self.pace or (step, now)
        self.last_time, self.last_step = now, step

    def close(self) -> None:
        self.bar.close()

    def _time_left(self, step: int, now: float) -> str:
        if self.pace is None:
            return "first step, with compilation"
        first_step, start = self.pace
        seconds = (now - start) / max(step - first_step, 1)
        return f"{format_duration(seconds * (self.num_steps - step))} left"


def read_metrics(output_dir: str) -> list[dict]:
    """The lines of metrics.jsonl; a half-written last one is left out."""
    path = os.path.join(output_dir, METRICS_FILE)
    return files.read_json_lines(path, keys=["step"])


def write_results(path: str, results: dict) -> None:
    """Writes `key = value` lines, sorted, as the original's eval_results."""
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    files.replace(path, "\n".join(lines) + "\n")
    logging.info("Results (in %s):\n%s", path, "\n".join(lines))


def read_results(output_dir: str) -> dict[str, float]:
    """The numbers of eval_results.txt, if it is there."""
    if not files.exists(output_dir, "eval_results.txt"):
        return {}
    lines = files.read(output_dir, "eval_results.txt").decode().splitlines()
    pairs = [line.split(" = ") for line in lines if " = " in line]
    return {name: float(value) for name, value in pairs if value != "None"}


def matmul_peak(dtype: str = "float32") -> float:
    """Floating-point operations a second in a large matmul on one device."""
    x = tf.cast(
        tf.random.stateless_normal((PEAK_SIZE, PEAK_SIZE), seed=(0, 0)), dtype
    )
    multiply = tf.function(lambda x: tf.matmul(x, x))
    multiply(x)
    seconds = []
    for _ in range(PEAK_TRIES):
        start = time.perf_counter()
        multiply(x).numpy()
        seconds.append(time.perf_counter() - start)
    return 2.0 * PEAK_SIZE**3 / min(seconds)


def total_peak(strategy: tf.distribute.Strategy, dtype: str) -> float | None:
    """The peak of all devices of a strategy together, in the precision of
    the model's matmuls.

    None where it cannot be told from here: on TPUs, and with several workers,
    who may share a machine or have unlike ones.
    """
    if (
        isinstance(strategy, tf.distribute.TPUStrategy)
        or num_workers(strategy) > 1
    ):
        return None
    # Logical CPUs are all the same CPU, which one matmul fills.
    gpus = tf.config.list_physical_devices("GPU")
    num_devices = strategy.num_replicas_in_sync if gpus else 1
    return num_devices * matmul_peak(dtype)


def train_flops_per_token(
    config: BertConfig, length: float, reads_all: bool = True
) -> float:
    """Operations of matmuls with weights, and in attention, for one token.

    Forward and backward. What works on few tokens is left out: the masked-LM
    head and, unless the model reads all of them, the last block but for its
    keys and values. So is everything but matmuls.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    weights = 4 * hidden * hidden + 2 * hidden * inner
    attention = 2 * length * hidden
    layers = config.num_hidden_layers * (weights + attention)
    if not reads_all:
        layers -= weights + attention - 2 * hidden * hidden
    return 6.0 * layers
