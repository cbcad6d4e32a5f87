"""What a training reports of its steps, and when it stops because of it."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_ref.training import distribution, loop, progress, state

# How long steps may go unreported, where --log_steps are not reached before.
REPORT_SECONDS = 15.0
# What is not a mean over steps but belongs to the last of them.
INSTANT = ("learning_rate", "gradient_norm")


class StepReports:
    """Collects metrics on the devices and now and then reports them.

    Args:
        output_dir: where the chief writes them, see Progress.
        first_step: the step a run begins at.
        num_steps: the step it ends at.
        batch_size: of all replicas together.
        log_steps: steps between reports.
        finite: names of metrics that must be numbers.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model,
        output_dir: str,
        *,
        first_step: int,
        num_steps: int,
        batch_size: int,
        log_steps: int,
        finite: Sequence[str],
    ):
        self.strategy = strategy
        self.output_dir = output_dir
        self.batch_size = batch_size
        self.log_steps = log_steps
        self.flops_per_token = _flops_per_token(model)
        self.dtype = model.compute_dtype
        self.finite = finite
        is_chief = distribution.is_chief(strategy)
        self.progress = progress.Progress(
            output_dir if is_chief else None, first_step, num_steps
        )
        self.peak = None  # measured once there is something to compare
        self.pending: list[tuple[int, loop.Step]] = []

    def add(self, step: int, taken: loop.Step) -> None:
        self.pending.append((step, taken))
        self.progress.advance(taken.count)
        is_first = self.progress.pace is None
        is_due = step - self.progress.last_step >= self.log_steps
        if is_due or is_first or self.progress.silence() > REPORT_SECONDS:
            self.flush()

    def close(self) -> None:
        self.progress.close()

    def restart_clock(self) -> None:
        """Leaves out time that was not spent on training."""
        if self.progress.pace:
            self.progress.restart_clock()

    def flush(self) -> None:
        """Fetches what is pending; raises if training has gone astray."""
        if not self.pending:
            return
        steps, taken = zip(*self.pending, strict=True)
        self.pending = []
        fetched = [
            {name: np.asarray(value) for name, value in t.metrics.items()}
            for t in taken
        ]
        for step, values in zip(steps, fetched, strict=True):
            for name in self.finite:
                self._check(step, name, values[name])
        sequences = sum(t.count for t in taken) * self.batch_size
        means = {"loss": float(np.mean([m["loss"] for m in fetched]))}
        for name, value in fetched[-1].items():
            if value.shape == (2,):
                means[name] = loop.ratio(sum(m[name] for m in fetched))
            elif name in INSTANT:
                means[name] = float(value)
        length = means.pop("tokens")
        seconds = self.progress.silence()
        if self.peak:
            flops = self.flops_per_token(length)
            means["matmul_peak_share"] = (
                flops * length * sequences / seconds / self.peak
            )
        means["input_wait_share"] = sum(t.waited for t in taken) / seconds
        rates = {"sequences": sequences, "tokens": sequences * length}
        is_first = self.progress.pace is None
        self.progress.report(steps[-1], means, rates)
        if is_first:  # the first step compiles: its share would mean nothing
            self.peak = progress.total_peak(self.strategy, self.dtype)
            self.progress.restart_clock()

    def _check(self, step: int, name: str, value) -> None:
        if not np.isfinite(value):
            raise FloatingPointError(
                f"The {name} is {value} at step {step}. The last good "
                f"checkpoint is {state.latest(self.output_dir)}; go on from "
                "there with a lower --learning_rate or a longer warm-up."
            )


def _flops_per_token(model) -> Callable[[float], float]:
    """From the length of sequences; of an encoder, unless a model that has
    none counts its own."""
    if hasattr(model, "train_flops_per_token"):
        return model.train_flops_per_token
    return lambda length: progress.train_flops_per_token(
        model.config, length, model.reads_all
    )
