"""What a model takes and gives, by name, wherever it is served.

The SavedModels of export/ and the server of serve/ keep to these names, so
that one can take the place of the other:

    head             inputs           outputs
    BertPretraining  text_a           words, probabilities: [masks, k]
    BertClassifier   text_a (text_b)  label, labels, probabilities; or score
    BertSpan         text_a, text_b   answer and more; question and passage
    BertTagger       text_a           words, tags
    BertModel        text_a           mean, cls, pooled: vectors
"""

import os

from keras_bert_ref import heads
from keras_bert_ref.classifier.tasks import TASKS
from keras_bert_ref.text.text_model import POOLINGS, TextModel
from keras_bert_ref.training import run_record

TEXT_A, TEXT_B = "text_a", "text_b"


def find_inputs(
    text_model: TextModel, path: str, pairs: bool | None = None
) -> tuple[str, ...]:
    """The names of the texts that the model takes.

    Args:
        path: where the model was opened; its run.json says what a classifier
            was trained on. Where there is none, text_b may be blank.
        pairs: bool. Whether a classifier takes pairs; None: find out.
    """
    model = text_model.model
    if isinstance(model, heads.BertSpan):
        return TEXT_A, TEXT_B
    if not isinstance(model, heads.BertClassifier):
        return (TEXT_A,)
    if pairs is None:
        pairs = _was_trained_on_pairs(path)
    return (TEXT_A, TEXT_B) if pairs else (TEXT_A,)


def _was_trained_on_pairs(path: str) -> bool:
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    record = run_record.read(folder) or {}
    task = TASKS.get(record.get("task"))
    if task is not None:
        return task.test[0].text_b is not None
    flags = record.get("flags", {})
    if flags.get("text_a_column") is not None:
        return flags.get("text_b_column") is not None
    return True


def answer_rows(
    text_model: TextModel, rows: list[dict], top_k: int = 5
) -> list[dict]:
    """Answers questions by the model's own methods.

    Args:
        rows: dictionaries of the inputs, texts as str.

    Returns:
        A dictionary of the outputs for each row, of what JSON has.
    """
    if not rows:
        return []
    texts = [row[TEXT_A] for row in rows]
    pairs = [row[TEXT_B] for row in rows] if TEXT_B in rows[0] else None
    model = text_model.model
    if isinstance(model, heads.BertPretraining):
        return [_words(m) for m in text_model.fill_mask(texts, top_k)]
    if isinstance(model, heads.BertTagger):
        return [
            {"words": [w for w, _ in tagged], "tags": [t for _, t in tagged]}
            for tagged in text_model.tag(texts)
        ]
    if isinstance(model, heads.BertSpan):
        return [
            {
                "answer": answer.text,
                "probability": answer.probability,
                "nbest": answer.nbest,
                "null_odds": answer.null_odds,
            }
            for answer in text_model.answer(texts, pairs)
        ]
    if not isinstance(model, heads.BertClassifier):
        found = text_model.all_vectors(texts).swapaxes(0, 1).tolist()
        return [dict(zip(POOLINGS, row, strict=True)) for row in found]
    if model.num_labels == 1:
        return [{"score": x} for x in text_model.scores(texts, pairs)]
    labels = text_model.labels
    return [
        {
            "label": next(iter(classes)),  # the likeliest is the first
            "labels": labels,
            "probabilities": [classes[label] for label in labels],
        }
        for classes in text_model.classify(texts, pairs)
    ]


def _words(masks) -> dict:
    return {
        "words": [[word.word for word in words] for words in masks],
        "probabilities": [[w.probability for w in words] for words in masks],
    }
