"""NSMC, KorSTS and KorQuAD in the layouts that the commands read.

nsmc/ratings_*.txt   film reviews, positive or negative; some are empty
korsts/sts-*.tsv     pairs of sentences with a score from 0 to 5
korquad/*dev*.json   questions on Wikipedia articles, as SQuAD v1.1
"""

import json
import os
from collections.abc import Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.commands import Options
from keras_bert_ref.text_files import decode

NSMC_HEADER = ["id", "document", "label"]


def main(options: Options, _words=()) -> None:
    found = False
    for name, prepare in SETS.items():
        folder = os.path.join(options.data_dir, name)
        if files.exists(folder):
            found = True
            prepare(folder, os.path.join(options.output_dir, name), options)
    if not found:
        raise ValueError(
            f"None of {', '.join(SETS)} is in --data_dir={options.data_dir}; "
            "it has to hold the folders of the data sets."
        )


def prepare_nsmc(source: str, target: str, options: Options) -> None:
    """Holds out a dev set, and writes the training reviews as a corpus."""
    train = read_reviews(os.path.join(source, "ratings_train.txt"))
    test = read_reviews(os.path.join(source, "ratings_test.txt"))
    if options.num_dev >= len(train):
        raise ValueError(
            f"--num_dev={options.num_dev} leaves nothing to train on: there "
            f"are {len(train)} reviews in {source}/ratings_train.txt; lower "
            "it."
        )
    # Spread evenly over the file.
    held_out = {
        i * len(train) // options.num_dev for i in range(options.num_dev)
    }
    dev = [row for i, row in enumerate(train) if i in held_out]
    train = [row for i, row in enumerate(train) if i not in held_out]
    for name, rows in (("train", train), ("dev", dev), ("test", test)):
        write_rows(os.path.join(target, f"{name}.tsv"), NSMC_HEADER, rows)
    # A review is a document: a line of its own and a blank one after it.
    corpus = "".join(f"{document}\n\n" for _, document, _ in train)
    write(os.path.join(target, "corpus.txt"), corpus)


def read_reviews(path: str) -> list[list[str]]:
    """The rows of a file of NSMC, but for reviews without a word."""
    header, *rows = read_rows(path)
    if header != NSMC_HEADER:
        raise ValueError(
            f"{path} must begin with the columns {', '.join(NSMC_HEADER)}, "
            f"but begins with {', '.join(header)}; is it a file of NSMC?"
        )
    for number, row in enumerate(rows, start=2):
        if len(row) != 3 or row[2] not in ("0", "1"):
            raise ValueError(
                "A review has an id, a text and the label 0 or 1, separated "
                f"by tabs, but line {number} of {path} is {row}; download the "
                "file again."
            )
    kept = [row for row in rows if row[1].strip()]
    logging.info(
        "%s: %d reviews, %d of them empty and left out.",
        path,
        len(rows),
        len(rows) - len(kept),
    )
    return kept


def prepare_korsts(source: str, target: str, _options: Options) -> None:
    """Gives the files the names that run_classifier.py looks for."""
    for name in ("train", "dev", "test"):
        path = os.path.join(source, f"sts-{name}.tsv")
        header, *rows = read_rows(path)
        for column in ("score", "sentence1", "sentence2"):
            if column not in header:
                raise ValueError(
                    f"{path} needs the column {column}, but has "
                    f"{', '.join(header)}; is it a file of KorSTS?"
                )
        write_rows(os.path.join(target, f"{name}.tsv"), header, rows)


def prepare_korquad(source: str, target: str, options: Options) -> None:
    """Splits the dev set by article: no passage is in both parts."""
    path = os.path.join(source, "KorQuAD_v1.0_dev.json")
    content = files.read_json(path)
    articles = content.get("data")
    if not isinstance(articles, list) or len(articles) <= options.dev_articles:
        count = len(articles) if isinstance(articles, list) else 0
        raise ValueError(
            f"{path} must hold more than --dev_articles="
            f"{options.dev_articles} articles under `data`, but holds {count}; "
            "lower it or download the file again."
        )
    first = len(articles) - options.dev_articles
    for name, part in (("train", articles[:first]), ("dev", articles[first:])):
        questions = sum(
            len(paragraph["qas"])
            for article in part
            for paragraph in article["paragraphs"]
        )
        document = {"version": content.get("version"), "data": part}
        text = json.dumps(document, ensure_ascii=False)
        write(os.path.join(target, f"{name}.json"), text + "\n")
        logging.info("%d articles with %d questions.", len(part), questions)


def read_rows(path: str) -> list[list[str]]:
    """The lines of a file of tab-separated columns."""
    text = decode(files.read(path), path, 1)
    return [line.split("\t") for line in text.removesuffix("\n").split("\n")]


def write_rows(
    path: str, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    write(path, "".join("\t".join(row) + "\n" for row in [header, *rows]))
    logging.info("%d rows.", len(rows))


def write(path: str, text: str) -> None:
    files.replace(path, text)
    logging.info("Wrote %s.", path)


SETS = {
    "nsmc": prepare_nsmc,
    "korsts": prepare_korsts,
    "korquad": prepare_korquad,
}
