"""Lengths of real sentences and pairs, of which the benchmarks take samples.

    python benchmarks/lengths.py --glue_dir=../shared/data/glue \
        --vocab=../shared/data/vocab/bert-base-uncased-vocab.txt

counts the tokens of each example, [CLS] and [SEP] included, and writes how
many examples have how many: lengths.json, which is in the repository, so that
the benchmarks need neither data nor vocabulary.
"""

import argparse
import collections
import json
import pathlib
import random

PATH = pathlib.Path(__file__).with_suffix(".json")
MAX_LENGTH = 128
# Columns of the texts.
COLUMNS = {"MRPC": (3, 4), "SST-2": (0,)}


def count(path: pathlib.Path, columns, tokenizer) -> dict[int, int]:
    rows = path.read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
    counts = collections.Counter()
    for row in rows:
        cells = row.split("\t")
        texts = [tokenizer.tokenize(cells[column]) for column in columns]
        length = 1 + sum(len(tokens) + 1 for tokens in texts)
        counts[min(length, MAX_LENGTH)] += 1
    return dict(sorted(counts.items()))


def draw(task: str, split: str, batch_size: int, num_batches: int):
    """Lengths of some examples, the same every time: [batches, examples]."""
    counts = json.loads(PATH.read_text())[task][split]
    generator = random.Random(0)
    lengths = generator.choices(
        [int(length) for length in counts],
        weights=list(counts.values()),
        k=batch_size * num_batches,
    )
    return split_batches(lengths, batch_size)


def split_batches(lengths: list[int], batch_size: int) -> list[list[int]]:
    return [
        lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)
    ]


def main():
    from keras_bert_ref.tokenization import FullTokenizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glue_dir", type=pathlib.Path, required=True)
    parser.add_argument("--vocab", required=True)
    flags = parser.parse_args()
    tokenizer = FullTokenizer(flags.vocab, do_lower_case=True)
    counts = {
        task: {
            split: count(
                flags.glue_dir / task / f"{split}.tsv", columns, tokenizer
            )
            for split in ("train", "dev")
        }
        for task, columns in COLUMNS.items()
    }
    PATH.write_text(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
