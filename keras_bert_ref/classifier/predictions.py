"""Scores and predictions of a classifier, split by split."""

import os
from collections.abc import Sequence

import numpy as np

from keras_bert_ref.classifier import metrics
from keras_bert_ref.classifier import submission as glue_submission
from keras_bert_ref.classifier.splits import Data
from keras_bert_ref.classifier.tasks import Task
from keras_bert_ref.records import batches
from keras_bert_ref.training import loop, state


def evaluate(
    model, task: Task, splits: Sequence[Data], batch_size: int, trim_to
) -> dict[str, float]:
    """Scores a model.

    Returns:
        `eval_loss`, the mean over examples, and `eval_<metric>`; `loss`, the
        mean over batches; of splits other than the main one
        `eval_<suffix>_<name>`.
    """
    always = () if task.is_regression else ("accuracy",)
    names = dict.fromkeys((*always, *task.metrics))
    results = {}
    for data in splits:
        logits = predict(model, data, batch_size, trim_to)
        losses = metrics.losses(logits, data.labels)
        scores = metrics.score(names, data.labels, guess(logits))
        prefix = f"eval_{data.split.suffix}_".replace("__", "_")
        for name, value in {"loss": np.mean(losses), **scores}.items():
            results[prefix + name] = float(value)
        if not data.split.suffix:
            starts = range(0, len(losses), batch_size)
            means = [np.mean(losses[i : i + batch_size]) for i in starts]
            results["loss"] = float(np.mean(means))
    return results


def predict(model, data: Data, batch_size: int, trim_to) -> np.ndarray:
    """Logits of all examples, float32 [N, L]."""
    dataset = batches.batches_in_order(data.records, batch_size, trim_to)
    with batches.readable_errors(data.records):
        logits = np.concatenate(list(loop.predict(model, dataset)))
    return logits.astype(np.float32)  # they may be in half precision


def guess(logits: np.ndarray) -> np.ndarray:
    """The likeliest classes, or the scores."""
    return logits[:, 0] if logits.shape[1] == 1 else logits.argmax(axis=1)


def write_predictions(
    output_dir: str, task: Task, data: Data, logits: np.ndarray
) -> None:
    """Writes test_results.tsv: probabilities, or the score, of each example;
    and of a GLUE task the file for a submission."""
    values = logits if task.is_regression else metrics.softmax(logits)
    name = f"test_results_{data.split.suffix}".removesuffix("_") + ".tsv"
    lines = ["\t".join(map(str, row)) + "\n" for row in values]
    state.replace_file(os.path.join(output_dir, name), "".join(lines))
    if data.split.submission:
        glue_submission.write_submission(
            output_dir, task, data.split, guess(logits)
        )
