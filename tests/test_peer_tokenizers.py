"""Our tokenizer beside Hugging Face's: where they differ, and only there.

docs/TOKENIZERS.md explains the classes of differences; here each one is a
function that takes out of a text what sets the two apart. Tokens must be
equal once that is done, and texts without any of it must be equal as they are.
"""

import gzip
import json
import pathlib
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator

import pytest

from keras_bert_ref.tokenization import BasicTokenizer, FullTokenizer
from keras_bert_ref.vocabulary import learning

tokenizers = pytest.importorskip("tokenizers")

pytestmark = pytest.mark.peers

VOCABULARIES = {
    "uncased": True,
    "cased": False,
    "multilingual-cased": False,
    "chinese": True,
}


def is_private(char: str) -> bool:
    return unicodedata.category(char) == "Co"


def is_missed_ideograph(char: str) -> bool:
    return "\U0002b820" <= char <= "\U0002b91f"


def is_of_unsettled_unicode(char: str) -> bool:
    """Unknown to Python, or not (yet) what it is now in Unicode 3.2."""
    category = unicodedata.category(char)
    return category == "Cn" or category != unicodedata.ucd_3_2_0.category(char)


def drop(condition: Callable[[str], bool]) -> Callable[[str], str]:
    return lambda text: "".join(c for c in text if not condition(c))


# Class of differences -> what takes it out of a text.
CLASSES = {
    "special tokens": lambda text: re.sub(
        r"\[(PAD|UNK|CLS|SEP|MASK)\]", r"[ \1 ]", text
    ),
    "final sigma": lambda text: text.replace("Σ", "σ"),
    "long words": lambda text: re.sub(r"\S{101,}", "", text),
    "private use": drop(is_private),
    "ideographs of extension E": drop(is_missed_ideograph),
}


def take_out(text: str, names: Iterable[str]) -> str:
    for name in names:
        text = CLASSES[name](text)
    return text


class Pair:
    """The same vocabulary in our tokenizer and in Hugging Face's."""

    def __init__(self, vocab_file: pathlib.Path, do_lower_case: bool):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the blank entry in Chinese
            self.ours = FullTokenizer(vocab_file, do_lower_case)
        self.theirs = tokenizers.BertWordPieceTokenizer(
            str(vocab_file), lowercase=do_lower_case
        )

    def differs(self, text: str) -> bool:
        return self.find_differing([text]) == [text]

    def find_differing(self, texts: list[str]) -> list[str]:
        theirs = self.theirs.encode_batch(texts, add_special_tokens=False)
        return [
            text
            for text, encoding in zip(texts, theirs, strict=True)
            if self.ours.encode(text) != encoding.ids
        ]

    def find_classes(self, text: str) -> set[str]:
        """Classes that alone, without the others, make a difference."""
        if not self.differs(text):
            return set()
        assert not self.differs(take_out(text, CLASSES)), ascii(text)
        return {
            name
            for name in CLASSES
            if self.differs(take_out(text, CLASSES.keys() - {name}))
        }


@pytest.fixture(params=VOCABULARIES)
def pair(request, shared_dir) -> Pair:
    path = shared_dir / f"data/vocab/bert-base-{request.param}-vocab.txt"
    return Pair(path, VOCABULARIES[request.param])


def read_squad(shared_dir: pathlib.Path) -> Iterator[str]:
    for name in ("dev-v1.1.json", "dev-v2.0.json"):
        text = (shared_dir / "data/squad" / name).read_text(encoding="utf-8")
        for article in json.loads(text)["data"]:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]
                yield from (qa["question"] for qa in paragraph["qas"])


def test_vocabularies_are_read_alike(pair):
    assert pair.theirs.get_vocab() == pair.ours.vocab


def test_real_text_does_not_differ(pair, shared_dir):
    texts = list(dict.fromkeys(read_squad(shared_dir)))
    assert sum(not text.isascii() for text in texts) > 500
    assert pair.find_differing(texts) == []


@pytest.mark.slow
def test_wikipedia_does_not_differ(shared_dir):
    path = shared_dir / "data/vocab/bert-base-uncased-vocab.txt"
    corpus = shared_dir / "data/corpus/wikipedia_sections.txt"
    texts = corpus.read_text(encoding="utf-8").split("\n")
    pair = Pair(path, do_lower_case=True)
    for start in range(0, len(texts), 1000):
        assert pair.find_differing(texts[start : start + 1000]) == []


def test_odd_text_differs_only_in_known_ways(pair, shared_dir):
    path = shared_dir / "golden/real/tokenization.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    found = [pair.find_classes(text) for text in texts]
    differences = [classes for classes in found if classes]
    for name in CLASSES:
        print(name, sum(name in classes for classes in differences))
    assert set.union(*differences) >= {"special tokens", "private use"}


@pytest.mark.slow
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_characters_differ_only_in_known_ways(do_lower_case):
    ours = BasicTokenizer(do_lower_case)
    normalizer = tokenizers.normalizers.BertNormalizer(lowercase=do_lower_case)
    splitter = tokenizers.pre_tokenizers.BertPreTokenizer()
    # Beyond these there are only unassigned and private-use characters.
    for char in map(chr, [*range(0x33000), *range(0xE0000, 0xE0200)]):
        if unicodedata.category(char) == "Cs":
            continue  # they refuse lone surrogates
        text = f"a{char}b {char}"
        normalized = normalizer.normalize_str(text)
        words = [word for word, _ in splitter.pre_tokenize_str(normalized)]
        if words != ours.tokenize(text):
            assert (
                is_private(char)
                or is_missed_ideograph(char)
                or is_of_unsettled_unicode(char)
            ), f"U+{ord(char):04X}"


# One example a class, as in docs/TOKENIZERS.md: ours, theirs.
EXAMPLES = {
    "a [SEP] b": (["a", "[", "sep", "]", "b"], ["a", "[SEP]", "b"]),
    "ΟΔΟΣ": (["ο", "##δ", "##ος"], ["ο", "##δ", "##ο", "##σ"]),
    "ab" * 60: (None, ["[UNK]"]),
    "logo \uf8ff": (["logo", "[UNK]"], ["logo"]),
    "a\U0002b820b": (["a", "[UNK]", "b"], ["[UNK]"]),
    "a\u2e5db": (["a", "[UNK]", "b"], ["[UNK]"]),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_examples(shared_dir, text):
    path = shared_dir / "data/vocab/bert-base-uncased-vocab.txt"
    pair = Pair(path, do_lower_case=True)
    ours, theirs = EXAMPLES[text]
    tokens = pair.ours.tokenize(text)
    assert tokens == (ours or tokens) and tokens != ["[UNK]"]
    encoded = pair.theirs.encode(text, add_special_tokens=False)
    assert encoded.tokens == theirs


def test_surrogates_are_refused_by_theirs_only(shared_dir):
    path = shared_dir / "data/vocab/bert-base-uncased-vocab.txt"
    pair = Pair(path, do_lower_case=True)
    assert pair.ours.tokenize("a \ud800") == ["a", "[UNK]"]
    with pytest.raises((TypeError, UnicodeError)):
        pair.theirs.encode("a \ud800")


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_learned_vocabulary_serves_both(tmp_path, golden_dir, do_lower_case):
    corpus = golden_dir / "corpus.txt"
    tokens = learning.learn_vocabulary([str(corpus)], 400, do_lower_case)
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tokens), "utf-8")
    pair = Pair(path, do_lower_case)
    assert pair.theirs.get_vocab() == pair.ours.vocab
    for line in corpus.read_text(encoding="utf-8").split("\n"):
        pair.find_classes(line)
