"""Results that are trained: what the commands of a row gave."""

import os
import statistics
from collections.abc import Sequence

from keras_bert_ref import files
from keras_bert_ref.classifier import predictions, tasks
from keras_bert_ref.reproduce import plans
from keras_bert_ref.reproduce.catalogue import Row
from keras_bert_ref.reproduce.steps import DONE_FILE, Step, run_step
from keras_bert_ref.training import evaluations, progress, run_record, trials


def collect(row: Row, planned: Sequence[Step], lock) -> dict:
    """The values of a row whose commands are finished, and how they came
    about; trains fresh seeds of the best setting first, if it wants them."""
    *_, last = planned
    if row.runner in ("run_squad", "run_pretraining"):
        made = {
            "values": _read_results_file(last.folder),
            "how": _describe_single(row),
        }
        results = []
    else:
        results = trials.read_results(last.folder)
        best = choose_best(row, results)
        made, counted = _describe_trials(row, results, best), best
        if row.seeds:
            fresh = plans.plan_fresh_seeds(row, last, _setting(best[0]))
            run_step(fresh, lock)
            planned = [*planned, fresh]
            counted = trials.read_results(fresh.folder)
            made["how"] = (
                f"{len(counted)} fresh seeds of the best setting, chosen on "
                f"dev from {len(results)} trainings"
            )
        made["values"] = _by_metric(counted)
    return {
        **made,
        "commands": [step.command_line() for step in planned],
        "seconds": sum(map(_seconds, planned)),
        **_last_training(planned),
    }


def choose_best(row: Row, results: Sequence[dict]) -> list[dict]:
    """The best training on dev; or, where a mean over seeds was published,
    all trainings of the setting with the best mean."""
    ranking = _ranking(row)
    if row.published_seeds == 1:
        return [results[trials.choose_best(results, ranking)]]
    settings: dict[tuple, list[dict]] = {}
    for result in results:
        key = tuple(_setting(result).values())
        settings.setdefault(key, []).append(result)

    def score(group: Sequence[dict]) -> float:
        names = ranking.best_by
        means = [evaluations.mean_of(r["metrics"], names) for r in group]
        return statistics.mean(-1.0 if m is None else m for m in means)

    return max(settings.values(), key=score)


def _describe_trials(
    row: Row, results: Sequence[dict], best: Sequence[dict]
) -> dict:
    how = "one training"
    if len(results) > len(best):
        how = f"the best of {len(results)} trainings, chosen on dev"
    if best[1:]:
        how = f"{len(best)} seeds"
        if len(results) > len(best):
            how += (
                " of the best setting, chosen on dev from "
                f"{len(results)} trainings"
            )
    return {
        "how": how,
        "setting": _setting(best[0]),
        "grid": [
            {**_setting(r), "metrics": r["metrics"], "seconds": r["seconds"]}
            for r in results
        ],
    }


def _describe_single(row: Row) -> str:
    if row.flagfiles[-1].endswith("_ensemble"):
        return f"{plans.ENSEMBLE} trainings that answer together"
    return "one training"


def _ranking(row: Row) -> trials.Ranking:
    if row.runner == "run_classifier":
        return predictions.make_ranking(tasks.get_task(row.data))
    names = {f"eval_{m}" for values in row.values.values() for m in values}
    return trials.Ranking(title=row.data, best_by=tuple(names), shown={})


def _setting(result: dict) -> dict:
    return {name: result["flags"][name] for name in plans.SETTING}


def _by_metric(results: Sequence[dict]) -> dict[str, list[float]]:
    """Metric -> its values in percent, one for each training."""
    names = [n for n in results[0]["metrics"] if n.startswith("eval_")]
    return {
        name.removeprefix("eval_"): [
            # A correlation with a constant is none: the metric says 0.
            100 * (r["metrics"][name] or 0.0)
            for r in results
        ]
        for name in names
    }


def _read_results_file(folder: str) -> dict[str, list[float]]:
    text = files.read(folder, "eval_results.txt").decode()
    pairs = [line.split(" = ") for line in text.strip().split("\n")]
    return {name: [float(value)] for name, value in pairs}


def _seconds(step: Step) -> float:
    """What a command took: the sum of its trainings, as they recorded it,
    whenever they were made; or, if it records none, its last run."""
    results = trials.read_results(step.folder)
    if results:
        return sum(result["seconds"] for result in results)
    return files.read_json(step.folder, DONE_FILE)["seconds"]


def _last_training(planned: Sequence[Step]) -> dict:
    """Of the last training: all flags that its result depends on, and its
    examples a second, the median over its own reports."""
    for step in reversed(planned):
        runs = [r["run"] for r in trials.read_results(step.folder)] or [""]
        folder = os.path.join(step.output_dir or step.folder, runs[-1])
        rates = [
            line["sequences_per_second"]
            for line in progress.read_metrics(folder)
            if "sequences_per_second" in line
        ]
        if rates:
            return {
                "flags": run_record.read(folder)["flags"],
                "examples_per_second": statistics.median(rates),
            }
    return {}
