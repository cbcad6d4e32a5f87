"""What the tests of SQuAD share: small files, and the original's files."""

import gzip
import json
import pathlib
from typing import NamedTuple

import numpy as np

from keras_bert_ref.squad.windows import (
    InputFeatures,
    convert_examples_to_features,
)
from keras_bert_ref.tokenization import FullTokenizer

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"()-.,?!'", "the"]
VOCAB += [*CHARACTERS, *(f"##{character}" for character in CHARACTERS)]


class Sizes(NamedTuple):
    """Flags that features are made with."""

    max_seq_length: int
    doc_stride: int
    max_query_length: int


class GoldenSet(NamedTuple):
    """Files of the original: data, a vocabulary and what became of them."""

    prefix: pathlib.Path
    data_file: pathlib.Path
    tokenizer: FullTokenizer

    @property
    def is_v2(self) -> bool:
        return "_v2" in self.prefix.name

    def path(self, ending: str) -> pathlib.Path:
        """The file of this set with that ending, compressed or not."""
        path = self.prefix.with_name(f"{self.prefix.name}_{ending}")
        zipped = path.with_name(f"{path.name}.gz")
        return zipped if zipped.exists() else path

    def read(self, ending: str) -> bytes:
        path = self.path(ending)
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content

    def read_features(self, kind: str) -> list[dict]:
        lines = self.read(f"{kind}_features.jsonl").splitlines()
        return list(map(json.loads, lines))

    def read_logits(self) -> dict[str, np.ndarray]:
        with np.load(self.path("logits.npz")) as arrays:
            return dict(arrays)


def open_portable(folder: pathlib.Path, version: str) -> list[GoldenSet]:
    prefix = folder / f"squad_{version}"
    tokenizer = FullTokenizer(folder / "vocab.txt")
    return [GoldenSet(prefix, prefix.with_suffix(".json"), tokenizer)]


def open_real(
    shared_dir: pathlib.Path, version: str, kind: str
) -> list[GoldenSet]:
    folder = shared_dir / "golden/real/squad"
    vocab_file = shared_dir / "data/vocab/bert-base-uncased-vocab.txt"
    data_file = folder / f"squad_{version}_{kind}.json"
    paths = sorted(folder.glob(f"squad_{version}_*_logits.npz"))
    assert paths
    return [
        GoldenSet(
            folder / path.name.removesuffix("_logits.npz"),
            data_file,
            FullTokenizer(vocab_file),
        )
        for path in paths
    ]


def find_sizes(golden: GoldenSet) -> Sizes:
    """Finds the flags that the features of the original were made with.

    A question that is longer than max_query_length has that many tokens.
    Windows are doc_stride apart, or less where they are shorter than that.
    """
    rows = golden.read_features("predict")
    questions = [row["segment_ids"].index(1) - 2 for row in rows]
    texts = []
    for length, row in zip(questions, rows, strict=True):
        words = row["token_to_orig_map"].values()
        tokens = row["tokens"][length + 2 : -1]
        texts.append(list(zip(tokens, words, strict=True)))
    strides = [1]
    for i, row in enumerate(rows):
        if row["doc_span_index"] == 1:
            first, second = texts[i - 1], texts[i]
            strides.append(
                next(
                    stride
                    for stride in range(1, len(first) + 1)
                    if second[: len(first) - stride]
                    == first[stride:][: len(second)]
                )
            )
    max_seq_length = golden.read_logits()["start_logits"].shape[1]
    return Sizes(max_seq_length, max(strides), max(questions))


def make_features(
    examples: list,
    tokenizer: FullTokenizer,
    sizes: tuple[int, int, int],
    is_training: bool = False,
    num_workers: int = 1,
) -> list[InputFeatures]:
    features = []
    convert_examples_to_features(
        examples, tokenizer, *sizes, is_training, features.append, num_workers
    )
    return features


def make_articles(*paragraphs: tuple[str, list[dict]]) -> list[dict]:
    """One article of paragraphs, each a context with questions."""
    rows = [{"context": c, "qas": questions} for c, questions in paragraphs]
    return [{"title": "Tests", "paragraphs": rows}]


def make_question(name: str, text: str = "what?", **fields) -> dict:
    return {"id": name, "question": text, **fields}


def make_answered(name: str, context: str, answer: str) -> dict:
    start = context.index(answer)
    answers = [{"text": answer, "answer_start": start}]
    return make_question(name, answers=answers)
