"""Files in CoNLL's columns -> sentences, and back with predictions.

A line is a word: columns with spaces or tabs between them, the word first, its
tag last, any number of others between. Blank lines end sentences, lines that
begin with -DOCSTART- end documents; both may be there or not.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.ner import tags as tags_lib
from keras_bert_ref.text_files import decode

DOCUMENT_START = "-DOCSTART-"
# What a split's file may be called: by CoNLL-2003, or by oneself.
NAMES = {
    "train": ("eng.train", "train.txt", "train.conll"),
    "dev": ("eng.testa", "dev.txt", "dev.conll"),
    "test": ("eng.testb", "test.txt", "test.conll"),
}


class Sentence(NamedTuple):
    """Words that stand together.

    Attributes:
        words: the words.
        tags: one for each, as they stand in the file; () if it has none.
        lines: where each stands, from 0.
        document: int. Which document it belongs to.
    """

    words: list[str]
    tags: list[str]
    lines: list[int]
    document: int


class TaggedFile(NamedTuple):
    """A file of sentences.

    Attributes:
        path: where it comes from.
        lines: the text of it.
        sentences: none of them empty.
        has_documents: bool. It says where documents begin.
    """

    path: str
    lines: list[str]
    sentences: list[Sentence]
    has_documents: bool

    @property
    def has_tags(self) -> bool:
        return bool(self.sentences[0].tags)

    @property
    def tags(self) -> list[list[str]]:
        return [sentence.tags for sentence in self.sentences]

    def without_tags(self) -> "TaggedFile":
        untagged = [sentence._replace(tags=[]) for sentence in self.sentences]
        return self._replace(sentences=untagged)

    @property
    def num_words(self) -> int:
        return sum(len(sentence.words) for sentence in self.sentences)


def find_file(data_dir: str, split: str) -> str:
    """The path of a split: `train`, `dev` or `test`."""
    paths = [os.path.join(data_dir, name) for name in NAMES[split]]
    for path in paths:
        if files.exists(path):
            return path
    raise ValueError(
        f"There is no {split} file in {data_dir}: --data_dir must be a folder "
        f"with {', '.join(NAMES[split][:-1])} or {NAMES[split][-1]}."
    )


def read_file(path: str, needs_tags: bool = True) -> TaggedFile:
    """Reads a file; with `needs_tags` false, words alone will do, and a last
    column that is no tag is not read."""
    text = files.read(path).removeprefix(b"\xef\xbb\xbf")
    text = decode(text, path, first_line=1)
    return parse(text.split("\n"), path, needs_tags)


def parse(lines: list[str], path: str, needs_tags: bool = True) -> TaggedFile:
    """Makes sentences of lines; raises where they are not in columns."""
    if not lines[-1]:
        lines = lines[:-1]
    lines = [line.removesuffix("\r") for line in lines]
    sentences, document, width = [], 0, 0
    has_tags = True
    is_open = False  # the last line was a word
    for number, line in enumerate(lines):
        columns = split_columns(line)
        if not columns or columns[0] == DOCUMENT_START:
            is_open = False
            document += bool(columns)
            continue
        width = width or len(columns)
        where = f"line {number + 1} of {path}"
        _check_row(columns, width, needs_tags, where)
        if not is_open:
            sentences.append(Sentence([], [], [], document))
            is_open = True
        sentence = sentences[-1]
        sentence.words.append(columns[0])
        sentence.lines.append(number)
        has_tags = has_tags and width > 1
        if has_tags:
            has_tags = _read_tag(columns[-1], sentence, needs_tags, where)
    if not sentences:
        raise ValueError(f"There is no word in {path}; check the file.")
    data = TaggedFile(path, lines, sentences, has_documents=document > 0)
    return data if has_tags else data.without_tags()


def _read_tag(
    tag: str, sentence: Sentence, needs_tags: bool, where: str
) -> bool:
    """Whether it is one; raises if it must be."""
    try:
        check_tag(tag, where)
    except ValueError as error:
        _raise_or_warn(error, needs_tags)
        return False
    sentence.tags.append(tag)
    return True


def _raise_or_warn(error: ValueError, needs_tags: bool) -> None:
    if needs_tags:
        raise error
    logging.warning("Predictions are not scored: %s", error)


def split_columns(line: str) -> list[str]:
    """Columns of a line; none if it is blank. Only spaces and tabs separate
    them: a word may have other kinds of space in it."""
    stripped = line.strip(" \t\r")
    return re.split(r"[ \t]+", stripped) if stripped else []


def _check_row(columns, width: int, needs_tags: bool, where: str) -> None:
    if needs_tags and len(columns) < 2:
        raise ValueError(
            "A row needs two columns or more, the word first and its tag "
            f"last, but {where} has {len(columns)}: {columns[0]!r}."
        )
    if len(columns) != width:
        raise ValueError(
            "All rows of a file must have as many columns as its first, "
            f"{width}, but {where} has {len(columns)}: {' '.join(columns)!r}."
        )


def check_tag(tag: str, where: str) -> None:
    if not tags_lib.TAG.fullmatch(tag):
        raise ValueError(
            "A tag, the last column, must be O, or B- or I- and a type, but "
            f"{where} has {tag!r}; correct the line."
        )


def check_labels(
    data: TaggedFile, labels: Sequence[str], needs_tags: bool = True
) -> TaggedFile:
    """Raises at the first tag of a type that the model does not know; with
    `needs_tags` false, returns the file without its tags instead."""
    try:
        _check_labels(data, labels)
    except ValueError as error:
        _raise_or_warn(error, needs_tags)
        return data.without_tags()
    return data


def _check_labels(data: TaggedFile, labels: Sequence[str]) -> None:
    known = set(labels)
    for sentence in data.sentences:
        for tag, line in zip(sentence.tags, sentence.lines, strict=False):
            if tag not in known:
                raise ValueError(
                    f"line {line + 1} of {data.path} has the tag {tag!r}, but "
                    f"the model was trained with {', '.join(labels)}; correct "
                    "the line, or train with data that have it."
                )


def check_documents(data: TaggedFile) -> None:
    """Warns where document context is asked for and nothing marks one."""
    if not data.has_documents:
        logging.warning(
            "%s has no %s line: all of it is taken for one document.",
            data.path,
            DOCUMENT_START,
        )


def write_predictions(
    path: str, data: TaggedFile, predicted: Sequence[Sequence[str]]
) -> None:
    """Writes the file again with one more column, the predicted tag. Where
    documents start it is O, and columns that are missing are filled with O:
    conlleval wants as many in all lines."""
    width = len(split_columns(data.lines[data.sentences[0].lines[0]]))
    new_columns = {}
    for number, line in enumerate(data.lines):
        columns = split_columns(line)
        if columns[:1] == [DOCUMENT_START]:
            new_columns[number] = ["O"] * max(1, width + 1 - len(columns))
    for sentence, tags in zip(data.sentences, predicted, strict=True):
        new_columns |= {
            number: [tag]
            for number, tag in zip(sentence.lines, tags, strict=True)
        }
    lines = list(data.lines)
    for number, columns in new_columns.items():
        separator = "\t" if "\t" in lines[number] else " "
        start = lines[number].rstrip(" \t")
        lines[number] = separator.join([start, *columns])
    files.replace(path, "".join(line + "\n" for line in lines))
