"""Results that are trained: the commands of a row, and what they gave."""

import os
import pathlib
import re
import shutil
import statistics
from collections.abc import Sequence

from keras_bert_ref import files
from keras_bert_ref.classifier import predictions, tasks
from keras_bert_ref.config import find_run
from keras_bert_ref.reproduce.catalogue import Row
from keras_bert_ref.reproduce.materials import Materials
from keras_bert_ref.reproduce.steps import Step, run_step
from keras_bert_ref.training import progress, trials

# The first of fresh seeds: far from those of a grid, which start at --seed.
FRESH_SEED = 20000
SETTING = ("train_batch_size", "learning_rate", "num_train_epochs")
GRIDS = ("learning_rates", "train_batch_sizes", "epochs_grid")
# A checkpoint has weights and Adam's two averages; one more is being written.
COPIES = 2 * 3


def plan(
    row: Row, materials: Materials, folder: str, more_flags: Sequence[str]
) -> list[Step]:
    """The commands of a row's flagfiles, in order."""
    common = [*materials.data_flags(row), *materials.model_flags(row)]
    return [
        Step(
            row.runner,
            [
                f"--flagfile={name}",
                *common,
                *row.flags,
                "--keep_checkpoint_max=1",
                *more_flags,
            ],
            os.path.join(folder, pathlib.Path(name).stem),
        )
        for name in row.flagfiles
    ]


def plan_fresh_seeds(row: Row, step: Step, setting: dict) -> Step:
    """The same command with one setting and several seeds."""
    chosen = [f"--{name}={setting[name]}" for name in SETTING]
    return Step(
        step.runner,
        [
            *step.words,
            *(f"--{name}=" for name in GRIDS),
            *chosen,
            f"--num_trials={row.seeds}",
            f"--seed={FRESH_SEED}",
            "--nodo_predict",
        ],
        f"{step.folder}_seeds",
    )


def make(row: Row, planned: Sequence[Step], lock) -> dict:
    """Runs a row's commands; returns its values and how they came about."""
    for step in planned:
        run_step(step, lock)
    last = planned[-1]
    if row.runner == "run_squad":
        return {
            "values": _read_squad(last.folder),
            "commands": [step.command_line() for step in planned],
            "how": "one training",
            **_speed(last.folder),
        }
    results = trials.read_results(last.folder)
    best = results[trials.choose_best(results, _ranking(row))]
    setting = {name: best["flags"][name] for name in SETTING}
    same = [r for r in results if _setting(r) == setting]
    how = f"{len(same)} seeds" if same[1:] else "one training"
    if len(results) > len(same):
        how = f"best of {len(results)} trainings on dev"
        same = [best]
    made, done = [*planned], same
    if row.seeds:
        last = plan_fresh_seeds(row, last, setting)
        run_step(last, lock)
        made.append(last)
        done = trials.read_results(last.folder)
        how = (
            f"{len(done)} fresh seeds of the best setting, chosen on dev from "
            f"{len(results)} trainings"
        )
    return {
        "values": _by_metric(done),
        "commands": [step.command_line() for step in made],
        "how": how,
        "setting": setting,
        "grid": [
            {**_setting(r), "metrics": r["metrics"], "seconds": r["seconds"]}
            for r in results
        ],
        **_speed(os.path.join(last.folder, done[0]["run"])),
    }


def check_disk(row: Row, materials: Materials, folder: str) -> None:
    """Raises if the disk has no room for the checkpoints of a row."""
    flags = _read_flags(row)
    model = materials.model_folder(row.model)
    paths = files.glob(os.path.join(model, "*.data-*"))
    paths += files.glob(os.path.join(model, "variables", "*.data-*"))
    size = sum(map(files.size, paths))
    count = int(flags.get("num_trials", 1)) + row.seeds
    for grid in GRIDS:
        count *= len(flags.get(grid, "x").split(","))
    needed = size * (3 * count + COPIES)
    os.makedirs(folder, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ValueError(
            f"{row.name} needs some {needed / 1e9:.1f} GB for checkpoints in "
            f"{folder}, but {free / 1e9:.1f} GB are free; make room, or "
            "choose another --output_dir."
        )


def _read_flags(row: Row) -> dict[str, str]:
    """Flags with a value, of the flagfiles and the row."""
    lines = list(row.flags)
    for name in reversed(row.flagfiles):
        with open(find_run(name), encoding="utf-8") as file:
            lines = [*file.read().split("\n"), *lines]
    pairs = [re.fullmatch(r"--(\w+)=(.*)", line) for line in lines]
    return {pair[1]: pair[2] for pair in pairs if pair}


def _ranking(row: Row) -> trials.Ranking:
    if row.runner == "run_classifier":
        return predictions.make_ranking(tasks.get_task(row.data))
    names = [f"eval_{m}" for values in row.values.values() for m in values]
    return trials.Ranking(title=row.data, best_by=tuple(names), shown={})


def _setting(result: dict) -> dict:
    return {name: result["flags"][name] for name in SETTING}


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


def _read_squad(folder: str) -> dict[str, list[float]]:
    text = files.read(folder, "eval_results.txt").decode()
    pairs = [line.split(" = ") for line in text.strip().split("\n")]
    return {name: [float(value)] for name, value in pairs}


def _speed(folder: str) -> dict[str, float]:
    """Training examples a second, as the run itself measured them."""
    rates = [
        line["sequences_per_second"]
        for line in progress.read_metrics(folder)
        if "sequences_per_second" in line
    ]
    return {"examples_per_second": statistics.median(rates)} if rates else {}


def has_flagfile(name: str) -> bool:
    return os.path.exists(find_run(name))


def seconds_below(folder: str) -> float:
    """What the trainings below a folder took, as they recorded it."""
    paths = files.glob(os.path.join(folder, "*", trials.RESULTS_FILE))
    return sum(
        result["seconds"]
        for path in paths
        for result in files.read_json_lines(path)
    )
