"""Scores of choices, accuracy, and the file of predictions."""

import os
from collections.abc import Iterator, Sequence

import numpy as np
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.choice.files import ChoiceExample
from keras_bert_ref.choice.tasks import PUBLISHED
from keras_bert_ref.records import batches
from keras_bert_ref.training import loop, trials
from keras_bert_ref.training.report import Example

FILE = "test_predictions.tsv"


def predict(
    model,
    records: batches.Records,
    *,
    batch_size: int,
    length_multiple: int | None,
    jit_compile: bool = False,
) -> np.ndarray:
    """Log-probabilities of the choices of all questions, float32 [N, C]."""
    dataset = batches.batches_in_order(records, batch_size, length_multiple)
    outputs = loop.predict(model, dataset, jit_compile=jit_compile)
    with batches.readable_errors(records):
        logits = np.concatenate(list(outputs)).astype(np.float32)
    logits -= logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def score(log_probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The share of right choices, and the mean loss."""
    of_label = log_probs[np.arange(len(labels)), labels]
    return {
        "eval_accuracy": float(np.mean(log_probs.argmax(axis=1) == labels)),
        "eval_loss": float(-np.mean(of_label)),
    }


def read_examples(
    examples: Sequence[ChoiceExample], log_probs: np.ndarray
) -> Iterator[Example]:
    """What was chosen for each question, for the report."""
    for example, row in zip(examples, log_probs, strict=True):
        chosen = int(row.argmax())
        facts = [("Question", example.text_a)]
        for i, text in enumerate(example.texts_b):
            notes = [f"{np.exp(row[i]):.0%}"]
            notes += ["chosen"] * (i == chosen) + ["right"] * (
                i == example.label
            )
            facts.append((f"Choice {i} ({', '.join(notes)})", text))
        yield Example(chosen == example.label, facts)


def make_ranking(task_name: str) -> trials.Ranking:
    """What trials are compared by."""
    return trials.Ranking(
        title=task_name,
        best_by=("eval_accuracy",),
        shown={"eval_accuracy": "accuracy"},
        published=lambda _: PUBLISHED.get(task_name, {}),
    )


def write_predictions(output_dir: str, log_probs: np.ndarray) -> None:
    """Writes which choice each question gets, from 0, and the probabilities
    of all."""
    head = [f"probability_{i}" for i in range(log_probs.shape[1])]
    lines = ["\t".join(["index", "prediction", *head])]
    for i, row in enumerate(log_probs):
        cells = (i, row.argmax(), *np.exp(row))
        lines.append("\t".join(map(str, cells)))
    path = os.path.join(output_dir, FILE)
    files.replace(path, "".join(line + "\n" for line in lines))
    logging.info("Predictions for %d questions, in %s.", len(log_probs), path)
