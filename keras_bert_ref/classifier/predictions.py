"""Scores and predictions of a classifier, split by split."""

import os
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.classifier import metrics, submission
from keras_bert_ref.classifier.published import published_scores
from keras_bert_ref.classifier.splits import PreparedSplit
from keras_bert_ref.classifier.tasks import Task
from keras_bert_ref.records import batches
from keras_bert_ref.training import loop, trials
from keras_bert_ref.training.report import Example


def evaluate(
    model,
    task: Task,
    splits: Sequence[PreparedSplit],
    *,
    batch_size: int,
    length_multiple: int | None,
    jit_compile: bool = False,
    keep: Callable[[PreparedSplit, np.ndarray], None] = lambda *_: None,
) -> dict[str, float]:
    """Scores a model; for further arguments see `predict`.

    Args:
        keep: gets the logits of each split.

    Returns:
        `eval_loss`, the mean over examples, and `eval_<metric>`; `loss`, the
        mean over batches; of splits other than the main one
        `eval_<suffix>_<name>`.
    """
    always = () if task.is_regression else ("accuracy",)
    names = dict.fromkeys((*always, *task.metrics))
    results = {}
    for data in splits:
        logits = predict(
            model,
            data,
            batch_size=batch_size,
            length_multiple=length_multiple,
            jit_compile=jit_compile,
        )
        keep(data, logits)
        losses = metrics.losses(logits, data.labels)
        scores = metrics.score(names, data.labels, choose(logits))
        prefix = f"eval_{data.split.suffix}_".replace("__", "_")
        for name, value in {"loss": np.mean(losses), **scores}.items():
            results[prefix + name] = float(value)
        if not data.split.suffix:
            starts = range(0, len(losses), batch_size)
            means = [np.mean(losses[i : i + batch_size]) for i in starts]
            results["loss"] = float(np.mean(means))
    return results


def make_ranking(task: Task) -> trials.Ranking:
    """What trials of a task are compared by."""
    names = [
        f"{split.suffix} {metric}".lstrip()
        for split in task.dev
        for metric in task.metrics
    ]
    return trials.Ranking(
        title=task.name,
        best_by=tuple(f"eval_{metric}" for metric in task.metrics),
        shown={f"eval_{name.replace(' ', '_')}": name for name in names},
        published=lambda name: {
            f"test: {model}": score
            for model, score in published_scores(task.name, name).items()
        },
    )


def predict(
    model,
    data: PreparedSplit,
    *,
    batch_size: int,
    length_multiple: int | None,
    jit_compile: bool = False,
) -> np.ndarray:
    """Logits of all examples, float32 [N, L].

    Args:
        length_multiple: int. Cut batches to their longest sequence, rounded
            up to a multiple of this; None: leave all padding.
        jit_compile: bool. Compile the model with XLA.
    """
    dataset = batches.batches_in_order(
        data.records, batch_size, length_multiple
    )
    outputs = loop.predict(model, dataset, jit_compile=jit_compile)
    with batches.readable_errors(data.records):
        logits = np.concatenate(list(outputs))
    return logits.astype(np.float32)  # they may be in half precision


def choose(logits: np.ndarray) -> np.ndarray:
    """The likeliest classes, or the scores."""
    return logits[:, 0] if logits.shape[1] == 1 else logits.argmax(axis=1)


def read_examples(
    task: Task, data: PreparedSplit, logits: np.ndarray
) -> Iterator[Example]:
    """What was predicted for each example, for the report. Scores count as
    right within half a point."""
    chosen = choose(logits)
    for i, example in enumerate(data.examples):
        facts = [("Text", example.text_a)]
        if example.text_b is not None:
            facts.append(("Second text", example.text_b))
        if task.is_regression:
            is_right = abs(float(chosen[i]) - float(data.labels[i])) <= 0.5
            gold, predicted = f"{data.labels[i]:g}", f"{chosen[i]:.2f}"
        else:
            is_right = bool(chosen[i] == data.labels[i])
            gold = str(task.labels[data.labels[i]])
            share = metrics.softmax(logits[i : i + 1])[0, chosen[i]]
            predicted = f"{task.labels[chosen[i]]} ({share:.0%})"
        facts += [("Label", gold), ("Predicted", predicted)]
        yield Example(is_right, facts)


def write_predictions(
    output_dir: str, task: Task, data: PreparedSplit, logits: np.ndarray
) -> None:
    """Writes test_results.tsv: probabilities, or the score, of each example;
    and of a GLUE task the file for a submission."""
    values = logits if task.is_regression else metrics.softmax(logits)
    name = f"test_results_{data.split.suffix}".removesuffix("_") + ".tsv"
    path = os.path.join(output_dir, name)
    lines = ["\t".join(map(str, row)) + "\n" for row in values]
    files.replace(path, "".join(lines))
    logging.info("Predictions for %d examples, in %s.", len(lines), path)
    if data.split.submission:
        path = submission.write_submission(
            output_dir, task, data.split, choose(logits)
        )
        logging.info("The file for GLUE's server: %s.", path)
