"""Sentences in CoNLL's columns that a small model learns to tag."""

import pathlib

import numpy as np

# A word's first letter gives its tag away.
TAGS = {"p": "B-PER", "l": "B-LOC", "o": "O"}


def make_lines(num_sentences: int, seed: int) -> str:
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(num_sentences):
        if i % 5 == 0:
            lines.append("-DOCSTART- -X- O\n")
        for _ in range(rng.integers(1, 6)):
            word = rng.choice(list("plo")) + rng.choice(list("abc"))
            lines.append(f"{word} x {TAGS[word[0]]}")
        lines.append("")
    return "\n".join(lines) + "\n"


def write_splits(folder: pathlib.Path, train: int, dev: int, test: int) -> None:
    """Writes train.txt, dev.txt and test.txt, of so many sentences."""
    counts = {"train": train, "dev": dev, "test": test}
    for seed, (name, count) in enumerate(counts.items()):
        (folder / f"{name}.txt").write_text(make_lines(count, seed))
