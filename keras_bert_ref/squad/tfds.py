"""SQuAD from TensorFlow Datasets, as the articles of SQuAD's own files."""

import collections

from keras_bert_ref import prepared
from keras_bert_ref.squad import examples


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
    if not prepared.is_tfds(source):
        return examples.read_articles(source)
    name = "squad/v2.0" if version_2_with_negative else "squad/v1.1"
    return prepared.read_apart(make_articles, source, name, split)


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
