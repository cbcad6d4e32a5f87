"""Trials: one task trained with several seeds or settings, and compared.

Every finished trial is a line of results.jsonl, so that an interrupted grid
goes on where it stopped.
"""

import collections
import dataclasses
import itertools
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.commands import Options
from keras_bert_ref.flags import MAX_SEED
from keras_bert_ref.training import evaluations, run_record, state

RESULTS_FILE = "results.jsonl"
TABLE_FILE = "results.txt"
MAX_TRIALS = 10_000
# Flags of a grid, by their short names.
SHORT = {
    "features": "features",
    "learning_rate": "lr",
    "train_batch_size": "batch",
    "num_train_epochs": "epochs",
}


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training.

    Attributes:
        name: its folder below output_dir; "" is output_dir itself.
        options: the command's, with this trial's seed, setting and folder.
    """

    name: str
    options: Options


@dataclasses.dataclass(frozen=True)
class Ranking:
    """What trials are compared by.

    Attributes:
        title: of the table.
        best_by: the trial with the highest mean of these results is best.
        shown: results to show, with their names in the table.
        published: name in the table -> {set and model: score in percent}.
        to_percent: what results times this are percent.
    """

    title: str
    best_by: tuple[str, ...]
    shown: Mapping[str, str]
    published: Callable[[str], Mapping[str, float]] = lambda name: {}
    to_percent: float = 100.0


def plan_trials(
    options: Options,
    grid: Mapping[str, Sequence[float | str]],
    num_trials: int,
) -> list[Trial]:
    """All settings of a grid, each with all seeds.

    Args:
        grid: for some flags, values to try; none leaves the flag alone.
        num_trials: int. How many seeds, from --seed on.
    """
    grid = {name: values for name, values in grid.items() if values}
    trials = []
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        folder = "-".join(f"{SHORT[k]}_{_short(v)}" for k, v in setting.items())
        for k in range(num_trials):
            trial = f"trial_{k}" if num_trials > 1 else ""
            name = "/".join(filter(None, [folder, trial]))
            changed = options.replace(
                **setting,
                seed=options.seed + k,
                output_dir=os.path.join(options.output_dir, name)
                if name
                else options.output_dir,
            )
            trials.append(Trial(name, changed))
    return trials


def plan_from_options(options: Options, **more: Sequence[str]) -> list[Trial]:
    """One trial; or, as the flags have it, a grid with all its seeds.

    Args:
        **more: further flags of the grid, with values to try.
    """
    grid = {
        **more,
        "learning_rate": [float(x) for x in options.learning_rates],
        "train_batch_size": [int(x) for x in options.train_batch_sizes],
        "num_train_epochs": [float(x) for x in options.epochs_grid],
    }
    count = math.prod(len(v) or 1 for v in grid.values()) * options.num_trials
    if count > MAX_TRIALS:
        raise ValueError(
            f"The grid, with --num_trials={options.num_trials} for each of its "
            f"settings, has {count} trainings, which is more than {MAX_TRIALS} "
            "and would not end; lower --num_trials, or try fewer values."
        )
    if options.seed + options.num_trials - 1 > MAX_SEED:
        raise ValueError(
            f"Seeds count up from --seed={options.seed}, but they end at "
            f"{MAX_SEED}; lower it."
        )
    planned = plan_trials(options, grid, options.num_trials)
    names = collections.Counter(trial.name for trial in planned)
    for name, times in names.items():
        if times > 1:
            raise ValueError(
                f"Every trial has a folder of its own, but {name} is that of "
                f"{times}; drop values that are the same, or nearly so."
            )
    if len(planned) > 1 and not (options.do_train and options.do_eval):
        raise ValueError(
            f"{len(planned)} trials are compared by their results; set "
            "--do_train and --do_eval."
        )
    return planned


def compare(
    output_dir: str,
    ranking: Ranking,
    trials: Sequence[Trial],
    train_and_evaluate: Callable[[Options], tuple[dict | None, bool]],
) -> Trial:
    """Does all trials that are not finished; returns the best.

    Args:
        train_and_evaluate: options -> results, or None; and whether there was
            anything left to train. If not, results that are recorded stay.
    """
    # A single one may be evaluated again, as often as one likes.
    finished = read_results(output_dir) if len(trials) > 1 else []
    results = [find_result(finished, trial) for trial in trials]
    for i, trial in enumerate(trials):
        if results[i]:
            logging.info("Already finished: %s.", trial.name)
            continue
        if len(trials) > 1:
            logging.info("TRIAL %d of %d: %s.", i + 1, len(trials), trial.name)
        start = time.perf_counter()
        metrics, has_trained = train_and_evaluate(trial.options)
        known = {result["run"] for result in read_results(output_dir)}
        if metrics and (has_trained or trial.name not in known):
            results[i] = {
                "task": ranking.title,
                "run": trial.name,
                **run_record.trained_with(trial.options),
                "metrics": {
                    k: evaluations.number(v) for k, v in metrics.items()
                },
                "seconds": time.perf_counter() - start,
            }
            add_result(output_dir, results[i])
    if None in results:
        return trials[0]
    best = choose_best(results, ranking)
    table = format_table(ranking, results)
    if len(trials) > 1:
        table += f"\nThe best on dev: {trials[best].options.output_dir}"
    logging.info("Results (in %s):\n%s", output_dir, table)
    files.replace(os.path.join(output_dir, TABLE_FILE), table + "\n")
    return trials[best]


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def read_results(output_dir: str) -> list[dict]:
    """The finished trials."""
    path = os.path.join(output_dir, RESULTS_FILE)
    return files.read_json_lines(path, keys=["run", "flags", "metrics"])


def add_result(output_dir: str, result: dict) -> None:
    """Appends a trial, or replaces what it gave before."""
    others = [r for r in read_results(output_dir) if r["run"] != result["run"]]
    lines = [json.dumps(line) + "\n" for line in [*others, result]]
    files.replace(os.path.join(output_dir, RESULTS_FILE), "".join(lines))


def find_result(finished: Sequence[dict], trial: Trial) -> dict | None:
    """What a trial gave, if it is finished; raises if its flags were others.

    Only flags that were recorded are compared: older records have fewer.
    """
    for result in finished:
        if result["run"] != trial.name:
            continue
        before = result["flags"]
        for name, value in run_record.effective_flags(trial.options).items():
            if name in before and before[name] != value:
                raise ValueError(
                    f"The trial {trial.name} was made with --{name}="
                    f"{before[name]}, now it is {value}; use another "
                    "--output_dir."
                )
        return result
    return None


def check_for_model(output_dir: str, ranking: Ranking) -> None:
    """Raises if models were trained, but below this folder."""
    results = read_results(output_dir)
    if results and results[0]["run"] and not state.latest(output_dir):
        best = results[choose_best(results, ranking)]["run"]
        raise ValueError(
            f"There is no model in {output_dir} itself, but in the folders of "
            "its trials; set --output_dir to one of them, such as the best of "
            f"{len(results)}: {os.path.join(output_dir, best)}."
        )


def choose_best(results: Sequence[dict], ranking: Ranking) -> int:
    """Which trial has the best mean score on the dev set."""

    def score(i: int) -> float:
        metrics = results[i]["metrics"]
        mean = evaluations.mean_of(metrics, ranking.best_by)
        return -math.inf if mean is None else mean

    return max(range(len(results)), key=score)


def format_table(ranking: Ranking, results: Sequence[dict]) -> str:
    """Each setting's spread over its seeds, in percent, and what others
    published."""
    settings: dict[str, list[dict]] = {}
    for result in results:
        flags = result["flags"]
        shown = [k for k in SHORT if flags.get(k)]
        name = " ".join(f"{SHORT[k]} {_short(flags[k])}" for k in shown)
        settings.setdefault(name, []).append(result["metrics"])
    rows = []
    for setting, group in settings.items():
        for key, name in ranking.shown.items():
            values = [metrics[key] for metrics in group if key in metrics]
            if values:
                rows.append((setting, name, len(values), *_spread(values)))
    for name in ranking.shown.values():
        for model, score in ranking.published(name).items():
            rows.append((f"published, {model}", name, "", score, "", "", ""))
    head = (f"{ranking.title}, dev", "metric", "runs")
    spread = ("mean", "std", "median", "best")
    width = max(28, *(len(row[0]) for row in rows)) if rows else 28
    row = (
        f"{{:<{width}}} {{:<22}} {{:>4}} {{:>7}} {{:>7}} {{:>7}} {{:>7}}".format
    )
    lines = [row(*cells) for cells in [(*head, *spread), *rows]]
    return "\n".join(line.rstrip() for line in lines)


def _spread(values: Sequence[float | None]) -> list[str]:
    """Mean, sample standard deviation, median and best, in percent."""
    numbers = [100 * value for value in values if value is not None]
    if not numbers:
        return ["nan"] * 4
    deviation = f"{statistics.stdev(numbers):.2f}" if numbers[1:] else "-"
    mean, median = statistics.mean(numbers), statistics.median(numbers)
    return [f"{mean:.2f}", deviation, f"{median:.2f}", f"{max(numbers):.2f}"]
