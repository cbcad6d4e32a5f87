"""A tagger's scores of words, and its predictions."""

from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert_ref.ner import metrics, published
from keras_bert_ref.ner.files import TaggedFile
from keras_bert_ref.ner.tags import to_iob2
from keras_bert_ref.ner.windows import TaggedWindow
from keras_bert_ref.records import batches
from keras_bert_ref.training import loop, trials
from keras_bert_ref.training.report import Example


def predict(
    model,
    records: batches.Records,
    windows: Sequence[TaggedWindow],
    *,
    batch_size: int,
    length_multiple: int | None,
    jit_compile: bool = False,
) -> np.ndarray:
    """Logits of all words of a file, in order: float32 [words, L].

    Args:
        windows: those that the records were made of.
        length_multiple: int. Cut batches to their longest sequence, rounded
            up to a multiple of this; None: leave all padding.
        jit_compile: bool. Compile the model with XLA.
    """
    dataset = batches.batches_in_order(records, batch_size, length_multiple)
    outputs = loop.predict(model, dataset, jit_compile=jit_compile)
    remaining = iter(windows)
    places, values = [], []
    with batches.readable_errors(records):
        for batch in outputs:
            for logits, window in zip(batch, remaining, strict=False):
                places.append(window.words)
                values.append(logits[window.positions].astype(np.float32))
    order = np.argsort(np.concatenate(places))
    return np.concatenate(values)[order]


def choose(
    logits: np.ndarray, data: TaggedFile, labels: Sequence[str]
) -> list[list[str]]:
    """The likeliest tags, sentence by sentence."""
    chosen = iter(logits.argmax(axis=1).tolist())
    return [[labels[next(chosen)] for _ in s.words] for s in data.sentences]


def score(
    logits: np.ndarray, data: TaggedFile, labels: Sequence[str], label_ids
) -> dict[str, float]:
    """The mean loss of words, and scores by the rules of conlleval."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1))
    losses = log_sums - shifted[np.arange(len(label_ids)), label_ids]
    scores = metrics.score(data.tags, choose(logits, data, labels))
    return {"loss": float(np.mean(losses)), **scores.as_dict()}


def read_examples(
    data: TaggedFile, predicted: Sequence[Sequence[str]]
) -> Iterator[Example]:
    """Sentences with their tags, for the report; only those with names."""
    for sentence, gold, tags in zip(
        data.sentences, data.tags, predicted, strict=True
    ):
        parts, gold, tags = [], to_iob2(gold), to_iob2(tags)
        for word, right, tag in zip(sentence.words, gold, tags, strict=True):
            if right == tag == "O":
                parts.append((word, "", ""))
            elif right == tag:
                parts.append((word, "both", tag))
            elif tag == "O":
                parts.append((word, "gold", right))
            else:
                parts.append((word, "predicted", f"{tag}, right: {right}"))
            parts.append((" ", "", ""))
        if any(mark for _, mark, _ in parts):
            yield Example(list(gold) == list(tags), (), parts)


def make_ranking(labels: Sequence[str], has_features: bool) -> trials.Ranking:
    """What trials are compared by: F1 on dev."""
    others = published.published_scores
    if has_features:
        others = published.published_features
    is_conll = {label[2:] for label in labels} == {"", *published.CONLL_TYPES}
    return trials.Ranking(
        title="NER",
        best_by=("eval_f1",),
        shown={"eval_f1": "f1", "test_f1": "test f1"},
        published=others if is_conll else lambda metric: {},
    )
