"""The body of keras_bert_ref.reproduce; docs/REPRODUCE.md tells how to use
it."""

import os
import time
from collections.abc import Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.commands import Options
from keras_bert_ref.reproduce import (
    availability,
    report,
    steps,
    trainings,
    verdict,
)
from keras_bert_ref.reproduce.catalogue import Catalogue, Row, read_catalogue
from keras_bert_ref.reproduce.checks import CHECKS
from keras_bert_ref.reproduce.materials import Materials
from keras_bert_ref.training import run_record

RESULT_FILE = "result.json"


def main(options: Options, words: Sequence[str] = ()) -> None:
    catalogue = read_catalogue(options.catalogue)
    materials = make_materials(options)
    rows = catalogue.find(words or ["*"])
    lacking = availability.find_lacks(rows, materials)
    if options.list or not words:
        print(availability.format_list(rows, lacking))
        return
    ready = availability.choose_ready(rows, lacking, words)
    if options.dry_run:
        for row in ready:
            show_commands(row, materials, options)
        return
    with steps.hold_lock(options.output_dir) as lock:
        for row in ready:
            check(row, materials, catalogue, options)
        for row in ready:
            make(row, materials, catalogue, options, lock)
            results = read_results(catalogue, options.output_dir)
            report.write(options.output_dir, catalogue, results)
    results = read_results(catalogue, options.output_dir)
    print(report.format_text([results[row.name] for row in ready]))
    print(f"\nThe report: {options.output_dir}/report.html, report.md")


def make_materials(options: Options) -> Materials:
    return Materials(
        models_dir=options.models_dir,
        data_dir=options.data_dir,
        wheels_dir=options.wheels_dir,
        work_dir=options.output_dir,
    )


def folder_of(row: Row, options: Options) -> str:
    return os.path.join(options.output_dir, *row.name.split("/"))


def plan(row: Row, materials: Materials, options: Options) -> list[steps.Step]:
    folder = folder_of(row, options)
    return trainings.plan(row, materials, folder, options.more_flags)


def show_commands(row: Row, materials: Materials, options: Options) -> None:
    print(f"# {row.name}: {row.source}")
    if row.runner in CHECKS:
        print(f"# {row.note}: computed in this process\n")
        return
    planned = plan(row, materials, options)
    if row.seeds:
        best = dict.fromkeys(trainings.SETTING, "<best>")
        planned.append(trainings.plan_fresh_seeds(row, planned[-1], best))
    for step in planned:
        print(step.command_line() + "\n")


def check(
    row: Row, materials: Materials, catalogue: Catalogue, options: Options
) -> None:
    """Before anything is trained: is it the model, is it the data, is there
    room?"""
    if row.model:
        materials.check_model(row)
    if row.runner not in CHECKS:
        for sentence in materials.wrong_sizes(row, catalogue):
            logging.warning("%s: %s.", row.name, sentence)
        if not os.path.exists(os.path.join(folder_of(row, options))):
            trainings.check_disk(row, materials, options.output_dir)


def make(
    row: Row,
    materials: Materials,
    catalogue: Catalogue,
    options: Options,
    lock,
) -> None:
    """Makes a row and writes its result.json, unless it is there."""
    folder = folder_of(row, options)
    path = os.path.join(folder, RESULT_FILE)
    if os.path.exists(path):
        logging.info("Already made: %s.", row.name)
        return
    logging.info("%s: %s.", row.name, row.source)
    start = time.time()
    notes = [row.note] if row.note else []
    if row.runner in CHECKS:
        scores = CHECKS[row.runner](row, materials, folder, lock)
        values = {name: [value] for name, value in scores.items()}
        made = {"values": values, "how": "computed", "commands": []}
        split = theirs = next(iter(row.values))
    else:
        made = trainings.make(row, plan(row, materials, options), lock)
        notes += materials.wrong_sizes(row, catalogue)
        split = "dev"
        theirs = "dev" if "dev" in row.values else next(iter(row.values))
    compared = compare(row, catalogue, made.pop("values"), split, theirs)
    result = {
        "name": row.name,
        "split": split,
        "published_split": theirs,
        "metrics": compared,
        "notes": notes,
        "seconds": trainings.seconds_below(folder) or time.time() - start,
        "machine": run_record.machine(),
        "versions": run_record.versions(),
        **made,
    }
    files.replace_json(path, result)
    print(report.format_text([result]), flush=True)


def compare(
    row: Row, catalogue: Catalogue, values: dict, split: str, theirs: str
) -> dict[str, dict]:
    """Ours beside the published values: of our split and, where we have it
    too, of the test set."""
    compared = compare_split(row, catalogue, values, split, theirs)
    if theirs == "dev" and "test" in row.values:
        on_test = {
            name.removeprefix("test_"): value
            for name, value in values.items()
            if name.startswith("test_")
        }
        more = compare_split(row, catalogue, on_test, "test", "test")
        for metric, cell in more.items():
            compared[f"test {metric}"] = {**cell, "split": "test"}
    return compared


def compare_split(
    row: Row, catalogue: Catalogue, values: dict, split: str, theirs: str
) -> dict[str, dict]:
    if row.runner != "run_classifier":
        # Elsewhere an F1 is not one of classes that have an accuracy.
        values = {m: v for m, v in values.items() if m in row.values[theirs]}
    return verdict.compare(
        row.values[theirs],
        values,
        size=catalogue.sizes.get(row.data, {}).get(split),
        published_seeds=row.published_seeds,
        tolerance=row.tolerance,
    )


def read_results(catalogue: Catalogue, output_dir: str) -> dict[str, dict]:
    """What is made already, in the order of the catalogue."""
    found = {}
    for row in catalogue.rows:
        path = os.path.join(output_dir, *row.name.split("/"), RESULT_FILE)
        if os.path.exists(path):
            found[row.name] = files.read_json(path)
    return found
