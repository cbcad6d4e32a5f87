"""Evaluation while training goes on: evals.jsonl, and the best checkpoint.

Nothing here touches what is trained: a run with evaluations ends with the
bits of one without.
"""

import dataclasses
import json
import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.training import progress, run_record, state

EVALS_FILE = "evals.jsonl"
BEST_FOLDER = "best"
# What a folder needs beside its checkpoint to be used by itself.
COMPANIONS = (
    "bert_config.json",
    "labels.txt",
    run_record.RECORD_FILE,
    run_record.VOCAB_FILE,
)


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """How a model is evaluated, and which of two is the better one.

    Attributes:
        evaluate: -> results by name. Every worker calls it, at the same
            steps; what it returns counts on the chief alone.
        best_by: the model with the highest mean of these results is best.
        lower_is_better: bool. Or the lowest mean.
    """

    evaluate: Callable[[], Mapping[str, float]]
    best_by: tuple[str, ...]
    lower_is_better: bool = False

    def score(self, results: Mapping[str, float | None]) -> float:
        """Higher is better."""
        mean = mean_of(results, self.best_by)
        if mean is None:
            return -math.inf
        return -mean if self.lower_is_better else mean


class Evaluations:
    """The evaluations of a run, with those from before an interruption.

    Args:
        output_dir: where to; None, on workers that are not the chief, writes
            nothing.
        every_steps: int. Steps from one to the next.
        keep_best: bool. Keep the best checkpoint in output_dir/best.
        first_step: the step a run begins at; later lines of an interrupted
            run are dropped, and its own, which is evaluated again.
        redraw: called when there is a new line.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        output_dir: str | None,
        *,
        every_steps: int,
        keep_best: bool,
        first_step: int,
        redraw: Callable[[], None] = lambda: None,
    ):
        self.evaluation, self.output_dir = evaluation, output_dir
        self.every_steps, self.keep_best = every_steps, keep_best
        self.redraw = redraw
        # It may have been saved, and the run killed, before it was evaluated.
        self.starts = first_step > 0 and first_step % every_steps == 0
        if output_dir:
            self.best_dir = os.path.join(output_dir, BEST_FOLDER)
            last = first_step - 1 if self.starts else first_step
            lines = read_evals(output_dir)
            _write(output_dir, [x for x in lines if x["step"] <= last])
            if not first_step:  # what is there is of another run
                files.remove(os.path.join(self.best_dir, EVALS_FILE))

    def is_due(self, before: int, step: int) -> bool:
        return step // self.every_steps > before // self.every_steps

    def add(self, step: int, save: Callable[[str], None]) -> None:
        """Evaluates the model as it is after a step.

        Args:
            save: writes a checkpoint of it into a folder.
        """
        results = self.evaluation.evaluate()
        if not self.output_dir:
            return
        results = {name: number(value) for name, value in results.items()}
        shown = [f"{k} {v:.4g}" for k, v in results.items() if v is not None]
        logging.info("Evaluation at step %d: %s.", step, ", ".join(shown))
        line = {"step": step, **results}
        lines = [x for x in read_evals(self.output_dir) if x["step"] < step]
        _write(self.output_dir, [*lines, line])
        if self.keep_best:
            self._keep_if_best(line, save)
        self.redraw()

    def _keep_if_best(self, line: dict, save: Callable[[str], None]) -> None:
        """A kill at any moment leaves a whole checkpoint and its line."""
        kept = read_best(self.output_dir)
        if kept:
            gain = self.evaluation.score(line) - self.evaluation.score(kept)
            # The same once more may have to be completed.
            if not (gain > 0 or (gain == 0 and kept["step"] == line["step"])):
                return
        _write(self.best_dir, [*([kept] if kept else []), line])
        save(self.best_dir)
        state.keep_only(self.best_dir, state.latest(self.best_dir))
        for name in COMPANIONS:
            if files.exists(self.output_dir, name):
                content = files.read(self.output_dir, name)
                files.replace(os.path.join(self.best_dir, name), content)
        _write(self.best_dir, [line])
        results = {"global_step" if k == "step" else k: line[k] for k in line}
        path = os.path.join(self.best_dir, "eval_results.txt")
        progress.write_results(path, results)


def read_best(output_dir: str) -> dict | None:
    """The evaluation of the best checkpoint; None if none is kept."""
    folder = os.path.join(output_dir, BEST_FOLDER)
    prefix = state.latest(folder)
    for line in read_evals(folder) if prefix else ():
        if line["step"] == state.step_of(prefix):
            return line
    return None


def read_evals(output_dir: str) -> list[dict]:
    """The lines of evals.jsonl."""
    path = os.path.join(output_dir, EVALS_FILE)
    return files.read_json_lines(path, keys=["step"])


def mean_of(
    results: Mapping[str, float | None], names: Sequence[str]
) -> float | None:
    """The mean of some results; None if one of them is not a number."""
    values = [results[name] for name in names]
    return None if None in values else statistics.mean(values)


def number(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if math.isnan(value) else value


def _write(folder: str, lines: Sequence[dict]) -> None:
    path = os.path.join(folder, EVALS_FILE)
    if lines or files.exists(path):
        files.replace(path, "".join(json.dumps(x) + "\n" for x in lines))
