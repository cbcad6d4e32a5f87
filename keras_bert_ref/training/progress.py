"""What a person sees of a run: progress lines, metrics, curves."""

import json
import os
import time

import tensorflow as tf
from absl import logging

from keras_bert_ref.config import BertConfig
from keras_bert_ref.training import state

METRICS_FILE = "metrics.jsonl"
CURVES_FILE = "curves.png"
# What tf.summary.scalar writes; that function needs TensorBoard installed.
SCALAR = tf.compat.v1.SummaryMetadata(data_class=1)
SCALAR.plugin_data.plugin_name = "scalars"
PEAK_SIZE = 1536
PEAK_SECONDS = 0.5


def matmul_peak() -> float:
    """Floating-point operations a second in a large float32 product here."""
    x = tf.random.stateless_normal((PEAK_SIZE, PEAK_SIZE), seed=(0, 0))
    multiply = tf.function(lambda x: tf.matmul(x, x))
    multiply(x)
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < PEAK_SECONDS:
        multiply(x).numpy()
        count += 1
    seconds = time.perf_counter() - start
    return count * 2.0 * PEAK_SIZE**3 / seconds


def train_flops_per_token(config: BertConfig, length: int) -> float:
    """Operations of products with weights, and in attention, for one token.

    Forward and backward; the masked-LM head, which works on few tokens, and
    everything but products are left out.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    weights = 4 * hidden * hidden + 2 * hidden * inner
    attention = 2 * length * hidden
    return 6.0 * config.num_hidden_layers * (weights + attention)


class Progress:
    """Writes progress lines, metrics.jsonl and TensorBoard logs.

    Args:
        output_dir: where to; None writes nothing but log lines.
        first_step: the step a run begins at; later lines of an interrupted
            run are dropped.
        num_steps: the step it ends at.
    """

    def __init__(self, output_dir: str | None, first_step: int, num_steps: int):
        self.num_steps = num_steps
        self.start = self.last_time = time.perf_counter()
        self.last_step = first_step
        self.pace = None  # step and time when the first report was out
        self.path, self.writer = None, None
        if output_dir:
            self.path = os.path.join(output_dir, METRICS_FILE)
            kept = [
                line
                for line in read_metrics(output_dir)
                if line["step"] <= first_step
            ]
            state.replace_file(
                self.path, "".join(json.dumps(x) + "\n" for x in kept)
            )
            self.writer = tf.summary.create_file_writer(output_dir)

    def silence(self) -> float:
        """Seconds since the last report."""
        return max(time.perf_counter() - self.last_time, 1e-9)

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
        shown = {**values, **speeds}
        parts = [f"{name} {value:.4g}" for name, value in shown.items()]
        logging.info(
            "step %d/%d: %s, %s",
            step,
            self.num_steps,
            ", ".join(parts),
            self._time_left(step, now),
        )
        if self.path:
            line = {"step": step, "seconds": now - self.start, **shown}
            with tf.io.gfile.GFile(self.path, "a") as file:
                file.write(json.dumps(line) + "\n")
            with self.writer.as_default():
                for name, value in shown.items():
                    tf.summary.write(name, value, step, SCALAR)
            self.writer.flush()
        self.pace = self.pace or (step, now)
        self.last_time, self.last_step = now, step

    def _time_left(self, step: int, now: float) -> str:
        if self.pace is None:
            return "compiled just now"  # the first step says little of others
        first_step, start = self.pace
        seconds = (now - start) / max(step - first_step, 1)
        return f"{_duration(seconds * (self.num_steps - step))} left"


def read_metrics(output_dir: str) -> list[dict]:
    """The lines of metrics.jsonl; a half-written last one is left out."""
    path = os.path.join(output_dir, METRICS_FILE)
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path) as file:
        lines = file.read().split("\n")
    return [json.loads(line) for line in lines if line.endswith("}")]


def write_results(path: str, results: dict) -> None:
    """Writes `key = value` lines, sorted, as the original's eval_results."""
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    logging.info("Results, in %s:\n%s", path, "\n".join(lines))
    state.replace_file(path, "\n".join(lines) + "\n")


def draw_curves(output_dir: str, names: list[str]) -> str | None:
    """Draws metrics over steps into curves.png, one panel each."""
    lines = read_metrics(output_dir)
    names = [name for name in names if any(name in line for line in lines)]
    if len(lines) < 2 or not names:
        return None
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(
        1, len(names), figsize=(4 * len(names), 3), squeeze=False
    )
    for panel, name in zip(panels[0], names, strict=True):
        shown = [line for line in lines if name in line]
        panel.plot([x["step"] for x in shown], [x[name] for x in shown])
        panel.set_title(name.replace("_", " "))
        panel.set_xlabel("step")
        panel.grid(alpha=0.3)
    figure.tight_layout()
    path = os.path.join(output_dir, CURVES_FILE)
    with tf.io.gfile.GFile(path, "wb") as file:
        figure.savefig(file, format="png", dpi=120)
    pyplot.close(figure)
    return path


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
