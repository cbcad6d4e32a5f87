"""Learning a vocabulary: what is in it, in what order, what is refused."""

import collections
import os
import pathlib
import random
import subprocess
import sys

import pytest

from keras_bert_ref.tokenization import BasicTokenizer, FullTokenizer
from keras_bert_ref.vocabulary import learning as vocabulary

pytest.importorskip("tensorflow_text")

ROOT = pathlib.Path(__file__).parent.parent.parent
TEXT = """Running runners ran; a runner runs.
Walking walkers walked, a walker walks! Été 中国 中.

Talking talkers talked, the talker talks? Été Q
"""
SPECIAL = ["[PAD]", "[unused0]", "[unused1]"]
SPECIAL += ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
# é loses its accent; what follows TEXT in the corpus occurs only once.
LETTERS = list("adeghiklnqrstuw")
OTHERS = ["!", ",", ".", ";", "?", "中", "国"]
CHARACTERS = sorted(LETTERS + OTHERS) + [f"##{c}" for c in LETTERS]


@pytest.fixture
def corpus(tmp_path) -> str:
    path = tmp_path / "corpus.txt"
    path.write_text(TEXT * 5 + "once ẞ\r\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def long_corpus(tmp_path_factory) -> str:
    """Made-up words, some far more frequent than others, many endings."""
    rng = random.Random(7)
    parts = ["".join(rng.choices("abdeiklmnorstu", k=3)) for _ in range(90)]
    words = [a + b + c for a in parts for b in parts[:9] for c in ("", "s")]
    rng.shuffle(words)
    weights = [1 / (rank + 1) for rank in range(len(words))]
    path = tmp_path_factory.mktemp("vocabulary") / "long.txt"
    with path.open("w") as file:
        for _ in range(600):
            print(*rng.choices(words, weights, k=20), end=".\n", file=file)
        print("qx once, 9 only", file=file)
    return str(path)


def start_command(**flags: object) -> subprocess.Popen:
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    return subprocess.Popen(
        [sys.executable, "-m", "keras_bert_ref.vocabulary", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def test_special_tokens_then_characters_then_pieces(corpus):
    tokens = vocabulary.learn_vocabulary([corpus], 50, num_unused=2)
    assert tokens[: len(SPECIAL)] == SPECIAL
    known = len(SPECIAL) + len(CHARACTERS)
    assert tokens[len(SPECIAL) : known] == CHARACTERS
    assert len(tokens) == len(set(tokens)) == 50
    assert all(len(piece.removeprefix("##")) > 1 for piece in tokens[known:])


def test_unused_entries_give_the_released_ids(corpus):
    tokens = vocabulary.learn_vocabulary([corpus], 150)
    assert tokens[0] == "[PAD]" and tokens[99] == "[unused98]"
    assert tokens[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_cased_keeps_case_and_accents(corpus):
    tokens = vocabulary.learn_vocabulary([corpus], 160, do_lower_case=False)
    assert {"É", "é", "R", "##é", "Running"} <= set(tokens)


def test_every_word_is_covered_and_frequent_ones_are_whole(long_corpus):
    tokens = vocabulary.learn_vocabulary([long_corpus], 300, num_unused=0)
    assert len(tokens) == 300
    full = FullTokenizer(tokens)
    text = pathlib.Path(long_corpus).read_text(encoding="utf-8")
    words = collections.Counter(BasicTokenizer().tokenize(text))
    characters = collections.Counter("".join(words.elements()))
    for word in words:
        is_covered = min(characters[c] for c in word) >= vocabulary.MIN_COUNT
        assert ("[UNK]" not in full.tokenize(word)) == is_covered, word
    for word, _ in words.most_common(20):
        assert full.tokenize(word) == [word]


def test_same_text_same_vocabulary(long_corpus, tmp_path):
    text = pathlib.Path(long_corpus).read_bytes()
    lines = text.splitlines(keepends=True)
    halves = [str(tmp_path / "a"), str(tmp_path / "b")]
    for path, part in zip(halves, (lines[::2], lines[1::2]), strict=True):
        pathlib.Path(path).write_bytes(b"".join(part))
    whole, split = (
        vocabulary.learn_vocabulary(paths, 250, num_unused=0, num_workers=n)
        for paths, n in (([long_corpus], 1), (halves[::-1], 2))
    )
    assert whole == split


def test_counts_do_not_depend_on_blocks(long_corpus):
    text = pathlib.Path(long_corpus).read_text(encoding="utf-8")
    tokenizer = BasicTokenizer()
    counts = vocabulary.count_words([long_corpus], tokenizer, 1)
    assert counts == collections.Counter(tokenizer.tokenize(text))
    assert list(counts.items()) == sorted(
        counts.items(), key=lambda item: (-item[1], item[0])
    )
    assert vocabulary.count_words([long_corpus] * 2, tokenizer, 2) == {
        word: 2 * count for word, count in counts.items()
    }


def test_rare_characters_of_a_long_text_are_left_out():
    counts = {"a": 10**8, "b": 9, "c": 11}
    assert vocabulary.find_characters(counts) == ["a", "c"]
    assert vocabulary.find_characters({"ab": 1, "a": 1}) == ["a"]


def test_small_text_yields_fewer_tokens_and_says_so(corpus, caplog):
    tokens = vocabulary.learn_vocabulary([corpus], 5000, num_unused=0)
    assert len(tokens) < 100
    assert f"The text yields only {len(tokens)} of 5000 tokens" in caplog.text


def test_text_without_any_repetition(tmp_path, caplog):
    path = tmp_path / "text"
    path.write_text("abc")
    tokens = vocabulary.learn_vocabulary([str(path)], 9, num_unused=0)
    assert tokens == vocabulary.special_tokens(0)
    assert "only 5 of 9 tokens" in caplog.text


def test_smallest_vocabulary_holds_characters_only(corpus):
    minimum = len(SPECIAL) + len(CHARACTERS)
    tokens = vocabulary.learn_vocabulary([corpus], minimum, num_unused=2)
    assert tokens == SPECIAL + CHARACTERS
    message = (
        f"vocab_size={minimum - 1} is too small: 7 special tokens and 22 "
        f"characters take {minimum} entries; set --vocab_size to {minimum} or"
    )
    with pytest.raises(ValueError, match=message):
        vocabulary.learn_vocabulary([corpus], minimum - 1, num_unused=2)


@pytest.mark.parametrize("content", ["", " \n\n\t"])
def test_empty_corpus(tmp_path, content):
    path = tmp_path / "empty.txt"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"words, but .* 0 in .*empty\.txt"):
        vocabulary.learn_vocabulary([str(path)], 100)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_text_that_is_not_utf8(tmp_path, num_workers):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"good\n\ncaf\xe9\n")
    message = r"UTF-8, but line 3 of .*latin\.txt is not \(.*\); convert"
    with pytest.raises(ValueError, match=message):
        vocabulary.learn_vocabulary([str(path)], 100, num_workers=num_workers)


def test_missing_tensorflow_text_is_named(monkeypatch, corpus):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    for name in list(sys.modules):
        if name.startswith("tensorflow_text."):
            monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match="pip install tensorflow-text"):
        vocabulary.learn_vocabulary([corpus], 100)


@pytest.mark.slow
def test_command(corpus, tmp_path):
    output = tmp_path / "vocab.txt"
    good = start_command(
        input_file=corpus, output_file=output, vocab_size=50, num_unused=2
    )
    bad = start_command(
        input_file=tmp_path / "*.text",
        output_file=tmp_path / "bad.txt",
        vocab_size=50,
        num_unused=2,
    )
    _, messages = good.communicate()
    assert good.returncode == 0, messages
    assert f"50 tokens, in {output}." in messages
    expected = vocabulary.learn_vocabulary([corpus], 50, num_unused=2)
    assert output.read_text(encoding="utf-8") == "\n".join([*expected, ""])
    _, messages = bad.communicate()
    assert bad.returncode == 1
    assert "Error: Every pattern in" in messages and "matches none" in messages
    assert "Traceback" not in messages
    assert sorted(tmp_path.iterdir()) == sorted([pathlib.Path(corpus), output])
