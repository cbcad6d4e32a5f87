"""The tokenizer in the graph gives the ids of FullTokenizer, always."""

import gzip
import json
import random
import unicodedata
import warnings

import pytest
import tensorflow as tf

from keras_bert_ref.text import character_table
from keras_bert_ref.text.graph_tokenizer import GraphTokenizer
from keras_bert_ref.tokenization import FullTokenizer

VOCABULARIES = {
    "uncased": True,
    "cased": False,
    "multilingual-cased": False,
    "chinese": True,
}
SURROGATES = range(0xD800, 0xE000)
# Sigmas and their neighbours, marks that change places, what is dropped.
TELLING = [
    *"ΣσςAa b\tΑ.'\u00ad\u0345\u0301\u0323\u200d\u02b0\x0b\x1c\x85\u2028",
    *"\u302e\u302f\U0001d165\U0001d16d\U0001d15e\u0903\u0f72\u0e38ẞİ가ㅎ中々豈",
    *"[MASK]#\ufffd\0\n\xa0\u3000\ue000\U0010ffff",
]


def make_pair(vocab_file, do_lower_case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the blank entry in Chinese
        full = FullTokenizer(vocab_file, do_lower_case)
    return full, GraphTokenizer(full)


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def pair(request, golden_dir):
    return make_pair(golden_dir / "vocab.txt", request.param)


def check(pair, texts):
    full, graph = pair
    for start in range(0, len(texts), 20_000):
        part = texts[start : start + 20_000]
        for text, ids in zip(part, graph.encode(part).to_list(), strict=True):
            assert ids == full.encode(text), ascii(text)


def is_string(text):
    return not any(ord(char) in SURROGATES for char in text)


def read_golden(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    return list(filter(is_string, texts))


def in_context(code):
    """A character alone, in words, beside sigmas and beside marks."""
    c = chr(code)
    return (
        f"a{c}b {c} A{c}Σ Σ{c}A AΣ{c} AΣ{c}a x\u302e{c}\U0001d165 "
        f"\U0001d16d{c}\U0001d165{c} \u0903\u302e{c}"
    )


def random_character(source):
    while True:
        kind = source.randrange(4)
        if kind == 0:
            return source.choice(TELLING)
        code = source.randrange(256 if kind == 1 else 0x3100)
        if kind == 2:
            code = source.randrange(0x110000)
        if code not in SURROGATES:
            return chr(code)


def random_texts(count, seed=7):
    """Texts of all sorts of characters, each also cut amid its bytes, and
    bytes of any sort."""
    source = random.Random(seed)
    for i in range(count):
        characters = range(source.randrange(24))
        text = "".join(random_character(source) for _ in characters)
        if i % 3 == 0:
            yield text
        elif i % 3 == 1:
            encoded = text.encode()
            yield encoded[source.randrange(4) : -1 - source.randrange(4)]
        else:
            yield source.randbytes(len(characters))


def random_plain_texts(count, characters, seed=7):
    """Texts of printable ASCII; and some that are not, in one batch."""
    source = random.Random(seed)
    for i in range(count):
        size = source.randrange(12)
        text = "".join(source.choice(characters) for _ in range(size))
        yield text if i % 9 else f"{text} é{text}ß"


def test_golden(pair, golden_dir):
    check(pair, read_golden(golden_dir / "tokenization.jsonl.gz"))


def test_characters_in_context(pair):
    codes = {*range(0x400), *map(ord, TELLING), *range(0, 0x110000, 211)}
    codes -= set(SURROGATES)
    check(pair, list(map(in_context, sorted(codes))))


def test_random_texts(pair):
    check(pair, list(random_texts(3000)))


def test_plain_texts(pair):
    """What WordPiece splits: every two characters, and random texts."""
    printable = [chr(code) for code in range(32, 127)]
    check(pair, [f"A{a}{b}c" for a in printable for b in printable])
    check(pair, [f"{a}{b} B" for a in printable for b in printable] + ["é"])
    check(pair, list(random_plain_texts(2000, printable)))


@pytest.mark.filterwarnings("ignore:the vocabulary")
def test_plain_texts_in_odd_vocabularies():
    """Pieces with punctuation, spaces and capitals in them."""
    source = random.Random(3)
    characters = "abA0'-#[] ."
    for do_lower_case in (True, False):
        pieces = set(random_plain_texts(60, characters, do_lower_case))
        pieces |= {f"##{piece}" for piece in source.sample(sorted(pieces), 30)}
        pair = make_pair(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(pieces)], do_lower_case
        )
        check(pair, list(random_plain_texts(1000, characters, 5)))
        check(pair, ["a" * n for n in (199, 200, 201)] + ["-" * 300])


def test_marks_that_change_places_are_known():
    """All characters that stay when accents go, and have a combining class."""
    marks = [
        char
        for char in map(chr, range(0x110000))
        if unicodedata.combining(char) and unicodedata.category(char) != "Mn"
    ]
    assert marks
    for char in marks:
        known = character_table.describe(char, do_lower_case=True)
        assert known.kind == character_table.PART
        assert known.order_class == unicodedata.combining(char)


def test_words_of_200_characters_are_the_longest():
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\U0001f600"]
    pair = make_pair([*vocab, "##\U0001f600"], True)
    texts = ["\U0001f600" * 200, "\U0001f600" * 201]
    check(pair, texts)
    assert pair[1].encode(texts).to_list() == [[5] + [6] * 199, [1]]


@pytest.mark.filterwarnings("ignore:the vocabulary")
def test_odd_vocabularies():
    """Duplicates, blank entries, gaps, ends of line, surrogates, long words."""
    vocab = ["[UNK]", "a", "", "[CLS]", "[SEP]", "a", "##a", "##", "#", "b\nc"]
    vocab += ["\ud800", "ab", "##" + "b" * 150, "b" * 199, "\u2028"]
    pair = make_pair(vocab, False)
    texts = ["a aa ab # ##a ##", "b\nc", "a" + "b" * 150, "b" * 199, "a\u2028b"]
    check(pair, [*texts, *random_texts(300)])


def test_mask_stays_whole_when_asked(golden_dir):
    full = FullTokenizer(golden_dir / "vocab.txt")
    graph = GraphTokenizer(full, keep_mask=True)
    mask, a, b = full.vocab["[MASK]"], *full.encode("a b")
    texts = ["a [MASK] b", "a[MASK]b[MASK]", "[mask]", "[MASK][MASK]", ""]
    expected = [[a, mask, b], [a, mask, b, mask], full.encode("[mask]")]
    expected += [[mask, mask], []]
    assert graph.encode(texts).to_list() == expected
    assert GraphTokenizer(full).encode(texts[:1]).to_list() == [
        full.encode("a [MASK] b")
    ]
    vocab = [token for token in full.vocab if token != "[MASK]"]
    with pytest.warns(UserWarning, match="lacks"):
        full = FullTokenizer(vocab)
    with pytest.raises(ValueError, match=r"no \[MASK\].* leave keep_mask out"):
        GraphTokenizer(full, keep_mask=True)


def test_batch_of_none(pair):
    assert pair[1].encode(tf.zeros([0], tf.string)).to_list() == []


@pytest.fixture(scope="module", params=VOCABULARIES)
def released(request, shared_dir):
    path = shared_dir / f"data/vocab/bert-base-{request.param}-vocab.txt"
    return make_pair(path, VOCABULARIES[request.param])


def read_corpus(shared_dir, count):
    corpus = shared_dir / "data/corpus/wikipedia_sections.txt"
    lines = corpus.read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line][:count]


def test_golden_real(released, shared_dir):
    texts = read_golden(shared_dir / "golden/real/tokenization.jsonl.gz")
    check(released, texts)


def test_corpus_lines(released, shared_dir):
    check(released, read_corpus(shared_dir, 1500))


@pytest.mark.exhaustive
def test_every_character_in_context(released):
    codes = [c for c in range(0x110000) if c not in SURROGATES]
    for start in range(0, len(codes), 20_000):
        check(released, list(map(in_context, codes[start : start + 20_000])))


@pytest.mark.exhaustive
def test_many_random_texts(released):
    check(released, list(random_texts(300_000, seed=8)))


@pytest.mark.exhaustive
def test_many_corpus_lines(released, shared_dir):
    lines = read_corpus(shared_dir, 100_000)
    assert len(lines) == 100_000
    check(released, lines)
