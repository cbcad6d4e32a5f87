"""Speed of the tokenizer in the graph, beside others.

    .venv-peers/bin/python benchmarks/graph_tokenizer.py \
        --corpus=../shared/data/corpus/wikipedia_sections.txt \
        --vocab=../shared/data/vocab/bert-base-uncased-vocab.txt

Needs the extra `benchmarks`. The candidates take turns in one process, on all
cores; every round has lines of its own, so that no cache has seen them. Those
in TensorFlow get tensors of strings, the others lists, and all leave the ids
where they are. Medians over the rounds are printed as Markdown. --cased goes
with a cased vocabulary. ASCII takes a shorter way through the graph, so try a
corpus in another language, too.
"""

import argparse
import os
import pathlib
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["TOKENIZERS_PARALLELISM"] = "true"

import tensorflow as tf
from data import describe_machine, in_batches

from keras_bert_ref.text import character_table
from keras_bert_ref.text.graph_tokenizer import GraphTokenizer
from keras_bert_ref.tokenization import FullTokenizer


def make_huggingface(vocab: str, lower: bool):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordPiece.from_file(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def count(texts: list[str]) -> int:
        encodings = tokenizer.encode_batch_fast(texts)
        return sum(len(encoding.ids) for encoding in encodings)

    return count


def make_fast_bert(vocab: str, lower: bool):
    import tensorflow_text

    tokens = pathlib.Path(vocab).read_text("utf-8").rstrip("\n").split("\n")
    tokenizer = tensorflow_text.FastBertTokenizer(
        tokens, token_out_type=tf.int32, lower_case_nfd_strip_accents=lower
    )
    return lambda texts: tf.size(tokenizer.tokenize(texts).values)


def make_ours(vocab: str, lower: bool):
    tokenizer = FullTokenizer(vocab, lower)
    return lambda texts: sum(len(tokenizer.encode(text)) for text in texts)


def make_graph(vocab: str, lower: bool):
    graph = GraphTokenizer(FullTokenizer(vocab, lower))
    return lambda texts: tf.size(graph.encode(texts).values)


# Name -> how to make it, and whether it takes tensors.
CANDIDATES = {
    "the tokenizer in the graph": (make_graph, True),
    "Hugging Face tokenizers": (make_huggingface, False),
    "FastBertTokenizer (not exact)": (make_fast_bert, True),
    "FullTokenizer (Python)": (make_ours, False),
}


def measure(count, batches: list) -> tuple[int, float]:
    start = time.perf_counter()
    counts = [int(count(batch)) for batch in batches]
    return sum(counts), time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--cased", action="store_true")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--lines", type=int, default=8000, help="a round")
    parser.add_argument("--batch_sizes", default="1,32,1000,8000")
    flags = parser.parse_args()
    build_times = []
    for _ in range(3):
        character_table.make_character_table.cache_clear()
        start = time.perf_counter()
        make_graph(flags.vocab, not flags.cased)(["a"])
        build_times.append(time.perf_counter() - start)
    counts = {
        name: make(flags.vocab, not flags.cased)
        for name, (make, _) in CANDIDATES.items()
    }
    text = pathlib.Path(flags.corpus).read_text("utf-8")
    lines = [line for line in text.split("\n") if line]
    sizes = [int(size) for size in flags.batch_sizes.split(",")]
    # One text at a time takes longest.
    line_counts = [flags.lines if s > 1 else flags.lines // 8 for s in sizes]
    if len(lines) < (flags.rounds + 1) * sum(line_counts):
        parser.error(f"{len(lines)} lines are too few; lower --rounds")
    speeds = {(name, size): [] for name in counts for size in sizes}
    names = list(counts)
    for round_ in range(flags.rounds + 1):  # the first one warms up
        for size, some in zip(sizes, line_counts, strict=True):
            part, lines = lines[:some], lines[some:]
            lists = list(in_batches(part, size))
            tensors = list(map(tf.constant, lists))
            names = names[1:] + names[:1]
            for name in names:
                batches = tensors if CANDIDATES[name][1] else lists
                tokens, seconds = measure(counts[name], batches)
                if round_:
                    speeds[name, size].append(tokens / seconds)
    print(describe_machine())
    print(f"\nTo build it: {statistics.median(build_times):.1f} s.\n")
    print(
        "| Million tokens/s |",
        " | ".join(f"batches of {s}" for s in sizes),
        "|",
    )
    print("|---|" + "--:|" * len(sizes))
    for name in counts:
        row = [statistics.median(speeds[name, s]) / 1e6 for s in sizes]
        print(f"| {name} |", " | ".join(f"{x:.3f}" for x in row), "|")


if __name__ == "__main__":
    main()
