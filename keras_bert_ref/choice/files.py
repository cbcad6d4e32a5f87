"""Files of multiple-choice questions -> examples."""

import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keras_bert_ref import files
from keras_bert_ref.characters import CLEAN
from keras_bert_ref.choice.tasks import OPENBOOKQA, Task
from keras_bert_ref.text_files import decode

# A lettered choice in the question of OpenBookQA, or its answer.
LETTERED = re.compile(r"([A-Z])\. (.*)", re.DOTALL)
# Characters of a column; the csv module's own limit is 131,072.
MAX_FIELD = 2**31 - 1


class ChoiceExample(NamedTuple):
    """A question with its choices.

    Attributes:
        text_a: str. The question, or what is to be continued.
        texts_b: one for each choice.
        label: int. Which is right, from 0; 0 where that is not known.
    """

    text_a: str
    texts_b: list[str]
    label: int


def read_examples(task: Task, split: str, data_dir: str) -> list[ChoiceExample]:
    """Reads a split, `train`, `dev` or `test`, in order.

    Only the first two need labels.
    """
    paths = [os.path.join(data_dir, name) for name in task.names[split]]
    found = [path for path in paths if files.exists(path)]
    if not found:
        raise ValueError(
            f"There is no file {' or '.join(paths)}; --data_dir must be the "
            f"folder with the files of --task_name={task.name}."
        )
    path = found[0]
    needs_label = split != "test"
    content = files.read(path).removeprefix(b"\xef\xbb\xbf")
    text = decode(content, path, first_line=1)
    if task == OPENBOOKQA:
        rows = _read_openbookqa(text, path, needs_label)
    else:
        rows = _read_columns(task, text, path, needs_label)
    examples = []
    for where, example in rows:
        _check(example, where, len(examples[0].texts_b) if examples else None)
        examples.append(example)
    if not examples:
        raise ValueError(f"There is no question in {path}; check the file.")
    return examples


def _check(example: ChoiceExample, where: str, num_choices: int | None) -> None:
    count = len(example.texts_b)
    if num_choices is not None and count != num_choices:
        raise ValueError(
            "All questions of a file must have the same number of choices, "
            f"{num_choices}, but {where} has {count}."
        )
    if count < 2:
        raise ValueError(
            f"A question needs two choices or more, but {where} has {count}."
        )
    for i, text in enumerate(example.texts_b):
        if _is_empty(text):
            raise ValueError(
                f"Choice {i} of {where} is empty; fill it in, or leave the "
                "question out."
            )
    if not 0 <= example.label < count:
        raise ValueError(
            f"{where} has the label {example.label}, but its {count} choices "
            f"are 0 to {count - 1}."
        )


def _is_empty(text: str) -> bool:
    """Whether the tokenizer would drop all of it, such as a U+200B."""
    return not text.translate(CLEAN).strip()


def _read_columns(
    task: Task, text: str, path: str, needs_label: bool
) -> Iterator[tuple[str, ChoiceExample]]:
    columns = [task.text_a, *task.choices]
    columns += [task.text_b] if task.text_b else []
    columns += [task.label] if needs_label else []
    for where, row in _read_rows(text, path, columns):
        for column in columns:
            if row.get(column) is None:
                raise ValueError(
                    f"{where} has no column {column!r}; it has "
                    f"{', '.join(str(k) for k in row if row[k] is not None)}."
                )
            if not isinstance(row[column], str | int | float):
                raise ValueError(
                    f"Column {column!r} of {where} must be a text or a "
                    f"number, but it is {row[column]!r}."
                )
        start = f"{row[task.text_b]} " if task.text_b else ""
        choices = [str(row[column]) for column in task.choices]
        label = 0
        if needs_label:
            label = _read_label(row[task.label], task.choices, where)
        texts = ["" if _is_empty(text) else start + text for text in choices]
        yield where, ChoiceExample(str(row[task.text_a]), texts, label)


def _read_rows(
    text: str, path: str, columns: Sequence[str]
) -> Iterator[tuple[str, dict]]:
    """Rows by the names of their columns; `columns` are those of interest."""
    if path.endswith(".jsonl"):
        yield from _read_json(text, path)
        return
    dialect = {"delimiter": ",", "strict": True}
    if path.endswith(".tsv"):
        dialect = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    csv.field_size_limit(MAX_FIELD)
    reader = csv.DictReader(io.StringIO(text, newline=""), **dialect)
    try:
        header = reader.fieldnames or []
        for column in columns:
            if header.count(column) > 1:
                raise ValueError(
                    f"The header of {path}, line 1, names {column!r} "
                    f"{header.count(column)} times; give each column a name "
                    "of its own."
                )
        for row in reader:
            where = f"line {reader.line_num} of {path}"
            if None in row:
                raise ValueError(
                    f"{where} has more columns than the header, line 1."
                )
            yield where, row
    except csv.Error as error:
        raise ValueError(
            f"{path} is not {os.path.splitext(path)[1][1:].upper()}: at "
            f"line {reader.reader.line_num}, {error}. A quote that is opened "
            "must be closed, and one within quotes doubled."
        ) from None


def _read_json(text: str, path: str) -> Iterator[tuple[str, dict]]:
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        where = f"line {number} of {path}"
        row = files.parse_json(line.encode(), where)
        if not isinstance(row, dict):
            raise ValueError(f"{where} must be a JSON object, in braces.")
        yield where, row


def _read_label(value, choices: Sequence[str], where: str) -> int:
    """A number from 0, or the name of the right choice's column."""
    if str(value) in choices:
        return list(choices).index(str(value))
    if re.fullmatch(r"\s*[+-]?\d+\s*", str(value)):  # not 1.9, not True
        return int(value)
    raise ValueError(
        f"A label must be the number of the right choice, from 0, or the "
        f"name of its column, but {where} has {value!r}."
    )


def _read_openbookqa(
    text: str, path: str, needs_label: bool
) -> Iterator[tuple[str, ChoiceExample]]:
    """Both forms: the official one, and one with all in the question."""
    for where, row in _read_json(text, path):
        try:
            if isinstance(row["question"], dict):
                stem = row["question"]["stem"]
                pairs = [
                    (choice["label"], choice["text"])
                    for choice in row["question"]["choices"]
                ]
                answer = row["answerKey"] if needs_label else None
            else:
                stem, _, rest = row["question"].rpartition("\n\n")
                matches = map(LETTERED.fullmatch, rest.split("\n"))
                pairs = [match.groups() for match in matches]
                answer = row["answer"][0] if needs_label else None
            letters, choices = zip(*pairs, strict=True)
            if len(set(letters)) < len(letters):
                raise ValueError(f"one letter twice: {', '.join(letters)}")
            if needs_label and answer not in letters:
                raise ValueError(f"{answer} is none of {', '.join(letters)}")
            label = letters.index(answer) if needs_label else 0
            for text in (stem, *choices):
                if not isinstance(text, str):
                    raise TypeError(f"{text!r} is not a text")
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"{where} is not a question of OpenBookQA ({error!r}): it "
                "needs question.stem, question.choices and answerKey; or "
                "question, with a blank line and lettered choices after its "
                "text, and answer, which begins with one of their letters."
            ) from None
        yield where, ChoiceExample(stem, list(choices), label)
