"""The body of keras_bert_ref.reproduce; docs/REPRODUCE.md tells how to use
it."""

import importlib
import os
import sys
import time
from collections.abc import Sequence
from types import ModuleType

from absl import logging

from keras_bert_ref import commands, files
from keras_bert_ref.commands import Options
from keras_bert_ref.reproduce import (
    availability,
    data_sets,
    plans,
    report,
    results,
    steps,
)
from keras_bert_ref.reproduce.catalogue import Catalogue, Row, read_catalogue
from keras_bert_ref.reproduce.materials import Materials


def main(options: Options, words: Sequence[str] = ()) -> None:
    catalogue = read_catalogue(options.catalogue)
    materials = make_materials(options)
    rows = catalogue.find(words or ["*"])
    lacking = availability.find_lacks(rows, materials)
    if options.list or not words:
        commands.show(availability.format_list(rows, lacking))
        return
    if options.dry_run:
        shown = [
            format_commands(row, materials, options, lacking[row.name])
            for row in rows
        ]
        commands.show("\n".join(shown))
        return
    ready = availability.choose_ready(rows, lacking, words)
    with steps.hold_lock(options.output_dir) as lock:
        for row in ready:
            check(row, materials, catalogue, options)
        for row in ready:
            make(row, materials, catalogue, options, lock)
            made = results.read_all(catalogue, options.output_dir)
            report.write(options.output_dir, list(made.values()))
    print(report.format_text([made[row.name] for row in ready]))
    print(f"\nThe report: {options.output_dir}/report.html, report.md")


def load(name: str) -> ModuleType:
    """A module of ours that needs TensorFlow, which takes seconds and memory:
    --list and --dry_run do without, and so does the wait for a command."""
    name = f"keras_bert_ref.{name}"
    if "tensorflow" in sys.modules:
        return importlib.import_module(name)
    with commands.quiet_start():
        return importlib.import_module(name)


def make_materials(options: Options) -> Materials:
    return Materials(
        models_dir=options.models_dir,
        data_dir=options.data_dir,
        wheels_dir=options.wheels_dir,
        work_dir=options.output_dir,
    )


def plan(row: Row, materials: Materials, options: Options) -> list[steps.Step]:
    folder = results.folder_of(row, options.output_dir)
    return plans.plan(row, materials, folder, options.more_flags)


def format_commands(
    row: Row, materials: Materials, options: Options, lacks: Sequence[str]
) -> str:
    """The commands of a row, in order, as one could type them."""
    lines = [f"# {row.name}: {row.source}"]
    lines += [f"# {lack[0].upper()}{lack[1:]}" for lack in lacks]
    if row.is_check:
        lines.append("# Computed in this process, without a command.")
    elif row.flagfiles:
        planned = plan(row, materials, options)
        if row.seeds:
            best = dict.fromkeys(plans.SETTING, "<best>")
            planned.append(plans.plan_fresh_seeds(row, planned[-1], best))
        lines += [step.command_line() for step in planned]
    return "\n".join(lines) + "\n"


def check(
    row: Row, materials: Materials, catalogue: Catalogue, options: Options
) -> None:
    """Before anything is trained: is it the model, is it the data, is there
    room?"""
    folder = results.folder_of(row, options.output_dir)
    if os.path.exists(os.path.join(folder, results.FILE)):
        return
    if row.model:
        materials.check_model(row)
    if not row.is_check:
        for sentence in data_sets.wrong_sizes(
            row, catalogue, materials.data_dir
        ):
            logging.warning("%s: %s.", row.name, sentence)
        if not os.path.exists(folder):
            availability.check_room(row, materials, options.output_dir)


def make(
    row: Row,
    materials: Materials,
    catalogue: Catalogue,
    options: Options,
    lock,
) -> None:
    """Makes a row and writes its result.json, unless it is there."""
    folder = results.folder_of(row, options.output_dir)
    path = os.path.join(folder, results.FILE)
    if os.path.exists(path):
        logging.info("Already made: %s.", row.name)
        return
    logging.info("%s: %s.", row.name, row.source)
    notes = [row.note] if row.note else []
    if row.is_check:
        start = time.perf_counter()
        compute = getattr(load("reproduce.checks"), row.runner)
        scores = compute(row, materials, folder, lock)
        made = {
            "values": {name: [value] for name, value in scores.items()},
            "how": "computed",
            "commands": [],
            "seconds": time.perf_counter() - start,
        }
        split = theirs = next(iter(row.values))
    else:
        planned = plan(row, materials, options)
        for step in planned:
            steps.run_step(step, lock)
        made = load("reproduce.trainings").collect(row, planned, lock)
        notes += data_sets.wrong_sizes(row, catalogue, materials.data_dir)
        theirs = "dev" if "dev" in row.values else next(iter(row.values))
        split = theirs if row.runner == "run_pretraining" else "dev"
    run_record = load("training.run_record")
    files.replace_json(
        path,
        {
            "name": row.name,
            "split": split,
            "published_split": theirs,
            "notes": notes,
            "machine": run_record.machine(),
            "versions": run_record.versions(),
            **made,
        },
    )
    result = results.read(row, catalogue, options.output_dir)
    print(report.format_text([result]), flush=True)
