"""Precision, recall and F1 of chunks, by the rules of conlleval.

A predicted chunk is right if start, end and type are those of a chunk that is
there. Scores count all chunks alike (micro average).

    python -m keras_bert_ref.ner.metrics gold.txt predictions.txt
    python -m keras_bert_ref.ner.metrics both.txt

Two files have the tag as their last column; one file has the right tag and
the predicted one as its last two.
"""

import argparse
import collections
import sys
from collections.abc import Sequence
from typing import NamedTuple

from keras_bert_ref.guard import guard
from keras_bert_ref.ner import files, tags


class Counts(NamedTuple):
    """Chunks: those that are there, those predicted, and those in both."""

    gold: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        total = self.gold + self.predicted
        return 2 * self.right / total if total else 0.0


class Scores(NamedTuple):
    """Of a file.

    Attributes:
        num_words: int.
        accuracy: the share of words whose tags are right, in IOB2.
        overall: Counts of all types.
        by_type: Counts by type, sorted.
    """

    num_words: int
    accuracy: float
    overall: Counts
    by_type: dict[str, Counts]

    def as_dict(self) -> dict[str, float]:
        """`f1` and so on, and of each type `<type>_f1` and so on."""
        parts = {"": self.overall}
        parts |= {f"{kind}_": counts for kind, counts in self.by_type.items()}
        scores = {
            prefix + name: getattr(counts, name)
            for prefix, counts in parts.items()
            for name in ("precision", "recall", "f1")
        }
        return {"accuracy": self.accuracy, **scores}


def score(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> Scores:
    """Scores the tags of sentences, IOB1 or IOB2."""
    counters = collections.defaultdict(lambda: [0, 0, 0])
    num_words = num_right = 0
    for right_tags, predicted_tags in zip(gold, predicted, strict=True):
        pairs = zip(
            tags.to_iob2(right_tags), tags.to_iob2(predicted_tags), strict=True
        )
        num_right += sum(a == b for a, b in pairs)
        num_words += len(right_tags)
        chunks = [
            set(tags.find_chunks(t)) for t in (right_tags, predicted_tags)
        ]
        for i, part in enumerate([*chunks, chunks[0] & chunks[1]]):
            for chunk in part:
                counters[chunk.type][i] += 1
    by_type = {kind: Counts(*counters[kind]) for kind in sorted(counters)}
    sums = map(sum, zip(*by_type.values(), strict=True))
    overall = Counts(*sums) if by_type else Counts(0, 0, 0)
    accuracy = num_right / num_words if num_words else 0.0
    return Scores(num_words, accuracy, overall, by_type)


def format_scores(scores: Scores) -> str:
    """A table in percent."""
    row = "{:<12} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7}".format
    names = "precision", "recall", "F1", "gold", "found", "right"
    lines = [
        f"{scores.num_words} words, accuracy {100 * scores.accuracy:.2f}%",
        row("type", *names),
    ]
    for kind, counts in [*scores.by_type.items(), ("all", scores.overall)]:
        shares = counts.precision, counts.recall, counts.f1
        lines.append(row(kind, *(f"{100 * x:.2f}" for x in shares), *counts))
    return "\n".join(lines)


def score_files(gold_file: str, predicted_file: str | None = None) -> Scores:
    """Scores two files, or one with both tags."""
    gold = files.read_file(gold_file)
    if predicted_file is None:
        return score(*_split_tags(gold))
    predicted = files.read_file(predicted_file)
    for a, b in zip(gold.sentences, predicted.sentences, strict=False):
        if a.words != b.words:
            raise ValueError(
                "Both files must have the same sentences, but the one on line "
                f"{a.lines[0] + 1} of {gold_file} begins {a.words[:3]} and the "
                f"one on line {b.lines[0] + 1} of {predicted_file} "
                f"{b.words[:3]}."
            )
    counts = len(gold.sentences), len(predicted.sentences)
    if counts[0] != counts[1]:
        raise ValueError(
            f"Both files must have the same sentences, but {gold_file} has "
            f"{counts[0]} and {predicted_file} has {counts[1]}."
        )
    return score(gold.tags, predicted.tags)


def _split_tags(data: files.TaggedFile):
    """The right tags and the predicted ones, of one file with both."""
    gold = []
    for sentence in data.sentences:
        rows = [files.split_columns(data.lines[i]) for i in sentence.lines]
        if len(rows[0]) < 3:
            raise ValueError(
                f"{data.path} has {len(rows[0])} columns; alone it needs "
                "three or more: the word, the right tag and the predicted one. "
                "Or give two files."
            )
        gold.append([row[-2] for row in rows])
        for tag, line in zip(gold[-1], sentence.lines, strict=True):
            files.check_tag(tag, f"line {line + 1} of {data.path}")
    return gold, data.tags


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description="Scores named entities by the rules of conlleval."
    )
    parser.add_argument(
        "gold_file", help="CoNLL columns; alone, with both tags at the end"
    )
    parser.add_argument(
        "predicted_file", nargs="?", help="the same words, predicted tags"
    )
    args = parser.parse_args()

    def work() -> None:
        scores = score_files(args.gold_file, args.predicted_file)
        print(format_scores(scores))

    guard(work, say=lambda text: print(f"Not scored. {text}", file=sys.stderr))


if __name__ == "__main__":
    main()
