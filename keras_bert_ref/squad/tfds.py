"""SQuAD from TensorFlow Datasets, as the articles of SQuAD's own files."""

import collections

from keras_bert_ref.records.parallel import run_apart
from keras_bert_ref.squad import examples

PREFIX = "tfds"


def read_articles(
    source: str, split: str, version_2_with_negative: bool
) -> list[dict]:
    """Returns the articles that a flag names.

    Args:
        source: a JSON file; or `tfds`, or `tfds:/folder` for a data set that
            TensorFlow Datasets has prepared there.
        split: "train" or "validation", of such a data set.
        version_2_with_negative: bool. Which data set: v2.0 or v1.1.
    """
    kind, _, folder = source.partition(":")
    if kind != PREFIX:
        return examples.read_articles(source)
    name = "squad/v2.0" if version_2_with_negative else "squad/v1.1"
    return run_apart(_read_articles, name, split, folder or None)


def _read_articles(name: str, split: str, folder: str | None) -> list[dict]:
    return make_articles(_load(name, split, folder))


def make_articles(rows) -> list[dict]:
    """Brings questions that stand one by one back to their paragraphs."""
    articles = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        answers = zip(
            map(bytes.decode, row["answers"]["text"]),
            row["answers"]["answer_start"].tolist(),
            strict=True,
        )
        question = {
            "id": row["id"].decode(),
            "question": row["question"].decode(),
            "answers": [{"text": t, "answer_start": i} for t, i in answers],
        }
        if "is_impossible" in row:
            question["is_impossible"] = bool(row["is_impossible"])
        articles[row["title"]][row["context"]].append(question)
    return [
        {
            "title": title.decode(),
            "paragraphs": [
                {"context": context.decode(), "qas": questions}
                for context, questions in paragraphs.items()
            ],
        }
        for title, paragraphs in articles.items()
    ]


def _load(name: str, split: str, folder: str | None):
    """The rows of a data set that is already there."""
    import tensorflow_datasets as tfds

    try:
        dataset = tfds.load(name, split=split, data_dir=folder, download=False)
    except (AssertionError, FileNotFoundError, ValueError) as error:
        where = f", data_dir={folder!r}" if folder else ""
        raise ValueError(
            f"TensorFlow Datasets has not prepared {name} in "
            f"{folder or 'its folder'}; once, and with a connection, run "
            f"tfds.load({name!r}{where}). It says: {error}"
        ) from error
    return tfds.as_numpy(dataset)
