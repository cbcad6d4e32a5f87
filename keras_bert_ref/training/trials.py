"""Many runs of one task: seeds, grids, their results and what they tell.

Every finished run is a line of results.jsonl, so that an interrupted grid
goes on where it stopped.
"""

import dataclasses
import itertools
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from keras_bert_ref.classifier.published import published_scores
from keras_bert_ref.classifier.tasks import Task
from keras_bert_ref.training import state

RESULTS_FILE = "results.jsonl"
TABLE_FILE = "results.txt"
SHORT = {
    "learning_rate": "lr",
    "train_batch_size": "batch",
    "num_train_epochs": "epochs",
}


@dataclasses.dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        name: its folder below output_dir; "" is output_dir itself.
        flags: what it depends on, by name.
    """

    name: str
    flags: Mapping

    def folder(self, output_dir: str) -> str:
        return os.path.join(output_dir, self.name) if self.name else output_dir


def plan_runs(
    flags: Mapping, grid: Mapping[str, Sequence[float]], num_trials: int
) -> list[Run]:
    """All settings of a grid, each with all seeds.

    Args:
        flags: what a run depends on, `seed` among them.
        grid: for some of these flags, values to try; none leaves it alone.
        num_trials: int. How many seeds, from that of the flags on.
    """
    grid = {name: values for name, values in grid.items() if values}
    runs = []
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        name = "-".join(f"{SHORT[k]}_{v:g}" for k, v in setting.items())
        for k in range(num_trials):
            trial = f"trial_{k}" if num_trials > 1 else ""
            seed = {"seed": flags["seed"] + k}
            runs.append(
                Run(
                    "/".join(filter(None, [name, trial])),
                    {**flags, **setting, **seed},
                )
            )
    return runs


def compare(
    output_dir: str,
    task: Task,
    runs: Sequence[Run],
    train_and_evaluate: Callable[[Run], tuple[dict | None, bool]],
) -> Run:
    """Does all runs that are not finished; returns the best.

    Args:
        train_and_evaluate: run -> results, or None; and whether there was
            anything left to train. If not, results that are recorded stay.
    """
    # A single run may be evaluated again, as often as one likes.
    finished = read_results(output_dir) if len(runs) > 1 else []
    results = [find_result(finished, run) for run in runs]
    for i, run in enumerate(runs):
        if results[i]:
            logging.info("FINISHED before: %s", run.name)
            continue
        start = time.perf_counter()
        metrics, has_trained = train_and_evaluate(run)
        known = {result["run"] for result in read_results(output_dir)}
        if metrics and (has_trained or run.name not in known):
            results[i] = {
                "task": task.name,
                "run": run.name,
                "flags": run.flags,
                "metrics": {k: _number(v) for k, v in metrics.items()},
                "seconds": time.perf_counter() - start,
            }
            add_result(output_dir, results[i])
    if None in results:
        return runs[0]
    best = choose_best(results, task.metrics)
    table = format_table(task, results)
    if len(runs) > 1:
        table += f"\nThe best on dev: {runs[best].folder(output_dir)}"
    logging.info("Results, in %s:\n%s", output_dir, table)
    state.replace_file(os.path.join(output_dir, TABLE_FILE), table + "\n")
    return runs[best]


def _number(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if math.isnan(value) else value


def read_results(output_dir: str) -> list[dict]:
    """The finished runs."""
    path = os.path.join(output_dir, RESULTS_FILE)
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path) as file:
        lines = file.read().split("\n")
    return [json.loads(line) for line in lines if line]


def add_result(output_dir: str, result: dict) -> None:
    """Appends a run, or replaces what it gave before."""
    others = [r for r in read_results(output_dir) if r["run"] != result["run"]]
    lines = [json.dumps(line) + "\n" for line in [*others, result]]
    path = os.path.join(output_dir, RESULTS_FILE)
    state.replace_file(path, "".join(lines))


def find_result(finished: Sequence[dict], run: Run) -> dict | None:
    """What a run gave, if it is finished; raises if its flags were others."""
    for result in finished:
        if result["run"] != run.name:
            continue
        for name, value in run.flags.items():
            before = result["flags"].get(name)
            if before != value:
                raise ValueError(
                    f"The run {run.name} was made with --{name}={before}, now "
                    f"it is {value}; use another --output_dir."
                )
        return result
    return None


def check_for_model(output_dir: str, task: Task) -> None:
    """Raises if models were trained, but below this folder."""
    results = read_results(output_dir)
    if results and results[0]["run"] and not state.latest(output_dir):
        best = results[choose_best(results, task.metrics)]["run"]
        raise ValueError(
            f"There is no model in {output_dir} itself, but in the folders of "
            f"its {len(results)} runs; set --output_dir to one of them, such "
            f"as the best: {os.path.join(output_dir, best)}."
        )


def choose_best(results: Sequence[dict], metrics: Sequence[str]) -> int:
    """Which run has the best mean of the metrics on the dev set."""

    def score(i: int) -> float:
        values = [results[i]["metrics"][f"eval_{name}"] for name in metrics]
        return -math.inf if None in values else statistics.mean(values)

    return max(range(len(results)), key=score)


def format_table(task: Task, results: Sequence[dict]) -> str:
    """Each setting's spread over its seeds, in percent, and what others
    published."""
    settings: dict[str, list[dict]] = {}
    for result in results:
        flags = result["flags"]
        name = " ".join(f"{SHORT[k]} {flags[k]:g}" for k in SHORT)
        settings.setdefault(name, []).append(result["metrics"])
    row = "{:<28} {:<22} {:>4} {:>7} {:>7} {:>7} {:>7}".format
    head = ("runs", "mean", "std", "median", "best")
    lines = [row(f"{task.name}, dev", "metric", *head)]
    names = [
        f"{split.suffix} {metric}".lstrip()
        for split in task.dev
        for metric in task.metrics
    ]
    for setting, group in settings.items():
        for name in names:
            key = f"eval_{name.replace(' ', '_')}"
            values = [metrics[key] for metrics in group if key in metrics]
            if values:
                cells = (len(values), *_spread(values))
                lines.append(row(setting, name, *cells))
    for name in names:
        for model, score in published_scores(task.name, name).items():
            cells = ("", score, "", "", "")
            lines.append(row(f"published, test: {model}", name, *cells))
    return "\n".join(line.rstrip() for line in lines)


def _spread(values: Sequence[float | None]) -> list[str]:
    """Mean, sample standard deviation, median and best, in percent."""
    numbers = [100 * value for value in values if value is not None]
    if not numbers:
        return ["nan"] * 4
    deviation = statistics.stdev(numbers) if len(numbers) > 1 else math.nan
    found = (
        statistics.mean(numbers),
        deviation,
        statistics.median(numbers),
        max(numbers),
    )
    return [f"{value:.2f}" for value in found]
