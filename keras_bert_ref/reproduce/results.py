"""Results that are made: ours beside the published values."""

import os

from keras_bert_ref import files
from keras_bert_ref.reproduce import verdict
from keras_bert_ref.reproduce.catalogue import Catalogue, Row

FILE = "result.json"


def folder_of(row: Row, output_dir: str) -> str:
    return os.path.join(output_dir, *row.name.split("/"))


def read_all(catalogue: Catalogue, output_dir: str) -> dict[str, dict]:
    """What is made already, by name, in the order of the catalogue."""
    found = [read(row, catalogue, output_dir) for row in catalogue.rows]
    return {result["name"]: result for result in found if result}


def read(row: Row, catalogue: Catalogue, output_dir: str) -> dict | None:
    """A result, with its verdicts under `metrics` and what was published under
    `row`; None if there is none."""
    path = os.path.join(folder_of(row, output_dir), FILE)
    if not os.path.exists(path):
        return None
    result = files.read_json(path)
    # Older files have values of the metrics that were published, and only
    # there.
    values = result.get("values") or {
        name: cell["values"] for name, cell in result["metrics"].items()
    }
    splits = result["split"], result["published_split"]
    compared = compare(row, catalogue, values, *splits)
    return {**result, "row": row, "metrics": compared}


def compare(
    row: Row, catalogue: Catalogue, values: dict, split: str, theirs: str
) -> dict[str, dict]:
    """Ours beside the published values: of our split and, where we have it
    too, of the test set."""
    compared = _compare_split(row, catalogue, values, split, theirs)
    if theirs == "dev" and "test" in row.values:
        on_test = {
            name.removeprefix("test_"): value
            for name, value in values.items()
            if name.startswith("test_")
        }
        more = _compare_split(row, catalogue, on_test, "test", "test")
        for metric, cell in more.items():
            compared[f"test {metric}"] = {**cell, "split": "test"}
    return compared


def _compare_split(
    row: Row, catalogue: Catalogue, values: dict, split: str, theirs: str
) -> dict[str, dict]:
    if row.runner != "run_classifier":
        # Elsewhere an F1 is not one of classes that have an accuracy.
        values = {m: v for m, v in values.items() if m in row.values[theirs]}
    sizes = catalogue.sizes.get(row.data, {})
    return verdict.compare(
        row.values[theirs],
        values,
        size=sizes.get(split),
        published_size=sizes.get(theirs) if theirs != split else None,
        published_seeds=row.published_seeds,
        tolerance=row.tolerance,
    )
