"""Files of sentences or pairs with labels -> examples."""

import dataclasses
import math
import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.classifier.tasks import Column, Split, Task
from keras_bert_ref.text_files import decode


@dataclasses.dataclass(slots=True)
class InputExample:
    """A sentence or a pair.

    Attributes:
        guid: str. Where it comes from, such as train-1.
        text_a: str.
        text_b: str, or None for a single sentence.
        label: str for a class, float for a score.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | float | None = None


def read_examples(task: Task, split: Split, data_dir: str):
    """Reads a file's examples in order.

    What is only predicted gets the first label, or the score 0. If the split
    is optional and there is no file, returns None.
    """
    path = os.path.join(data_dir, split.file)
    if split.is_optional and not files.exists(path):
        return None
    dummy = 0.0 if task.is_regression else task.labels[0]
    examples = []
    # Predictions go by their place in the file: there all rows count.
    skips_short_rows = task.skips_short_rows and split.label is not None
    for number, row in _read_rows(path, split, skips_short_rows):
        where = f"line {number + 1} of {path}"
        text_a, *rest = [row[c] for c in split.columns]
        label = dummy
        if split.label is not None:
            label = read_label(task, rest.pop(), where)
        text_b = rest[0] if rest else None
        examples.append(
            InputExample(f"{split.name}-{number}", text_a, text_b, label)
        )
    if not examples:
        raise ValueError(f"There is no example in {path}; check the file.")
    return examples


def read_label(task: Task, text: str, where: str) -> str | float:
    """A label that the task knows, or a score."""
    if task.is_regression:
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(
                f"A score must be a finite number, but {where} has {text!r}; "
                "check the file, or leave --regression out."
            )
        return score
    label = task.aliases.get(text, text)
    if label not in task.labels:
        raise ValueError(
            f"{where} has the label {text!r}, but {task.name} knows "
            f"{', '.join(task.labels)}; correct the line."
        )
    return label


def find_labels(split: Split, data_dir: str) -> tuple[str, ...]:
    """All labels that a file has, sorted."""
    path = os.path.join(data_dir, split.file)
    rows = _read_rows(path, split, skips_short_rows=False)
    return tuple(sorted({row[split.label] for _, row in rows}))


def _read_rows(
    path: str, split: Split, skips_short_rows: bool
) -> Iterator[tuple[int, dict[Column, str]]]:
    """Yields each row's number, from 0, and its columns that are wanted."""
    if not files.exists(path):
        raise ValueError(
            f"There is no file {path}; --data_dir must be the folder with "
            f"the task's {split.file}."
        )
    with files.open_file(path, "rb") as file:
        lines = file.read().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    if path.endswith(".jsonl"):
        yield from _read_json_rows(path, split, lines)
        return
    rows = (
        decode(line, path, number).removesuffix("\r").split("\t")
        for number, line in enumerate(lines, 1)
    )
    header = next(rows, []) if split.has_header else []
    places = {c: _find_column(c, header, path) for c in split.columns}
    needed = _count_needed(split, places, header)
    for number, row in enumerate(rows, int(split.has_header)):
        if len(row) < needed:
            message = (
                f"A row of {path} needs {needed} columns, but line "
                f"{number + 1} has {len(row)}"
            )
            if not skips_short_rows:
                raise ValueError(f"{message}: {chr(9).join(row)[:80]!r}.")
            logging.warning("%s; it is left out.", message)
        elif not split.only or row[split.only[0]] == split.only[1]:
            yield number, {c: row[place] for c, place in places.items()}


def _read_json_rows(path, split: Split, lines) -> Iterator:
    for number, line in enumerate(lines):
        where = f"line {number + 1} of {path}"
        row = files.parse_json(line, where)
        if not isinstance(row, dict) or any(
            column not in row for column in split.columns
        ):
            raise ValueError(
                f"Every line of {path} must be a JSON object with the keys "
                f"{', '.join(map(str, split.columns))}, but line {number + 1} "
                f"is not: {reprlib.repr(row)}."
            )
        values = {c: row[c] for c in split.columns}
        for column, value in values.items():
            _check_value(value, f"{where}: {column}")
        if split.label is not None:
            _check_label(values[split.label], f"{where}: {split.label}")
        yield number, {c: str(v) for c, v in values.items()}


def _check_value(value: object, where: str) -> None:
    """Texts and labels are text; numbers and true or false have one."""
    is_one = isinstance(value, (str, int, float))
    if not is_one or value in (math.inf, -math.inf) or value != value:
        raise ValueError(
            "A value must be text, a number, true or false, but "
            f"{reprlib.repr(value)} is in {where}; correct the line."
        )


def _check_label(label: object, where: str) -> None:
    """Labels are kept in a file, one a line."""
    if isinstance(label, str) and set(label) & set("\r\n"):
        raise ValueError(
            f"A label must be a single line, but {label!r} is in {where}; "
            "correct the line."
        )


def _find_column(column: Column, header: Sequence[str], path: str) -> int:
    if isinstance(column, int):
        return column
    if column not in header:
        raise ValueError(
            f"{path} has no column {column!r}; its header, line 1, has "
            f"{', '.join(header)}."
        )
    return list(header).index(column)


def _count_needed(
    split: Split, places: Mapping[Column, int], header: Sequence[str]
) -> int:
    """How many columns a row must have."""
    used = [*places.values(), *(split.only or ())[:1]]
    # Counted from the end, columns are right only in rows that are whole.
    whole = len(header) if min(used) < 0 else 0
    return max(whole, *(p + 1 if p >= 0 else -p for p in used))
