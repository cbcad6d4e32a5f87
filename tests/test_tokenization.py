"""The tokenizer against the original's output, the rules, and itself."""

import gzip
import json
import multiprocessing
import pathlib
import pickle
import subprocess
import sys
import unicodedata
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keras_bert_ref import tokenization
from keras_bert_ref.tokenization import (
    BasicTokenizer,
    FullTokenizer,
    WordpieceTokenizer,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = [*SPECIAL, "un", "##aff", "##able", "want", "##ed", "run", "##ning"]
VOCAB += [",", "-", "#", "中", "ς", "σ", "##σ", "##ς", "i", "##i", "ß", "a"]
VOCAB += ["##a", "ffi", "##\u0301", "e", "é", "A", "\ud800", "##\ud800"]


@pytest.fixture(scope="module")
def tokenizer() -> FullTokenizer:
    return FullTokenizer(VOCAB)


def read_json_lines(path: pathlib.Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def check_golden(path: pathlib.Path, vocab_file: pathlib.Path) -> None:
    examples = read_json_lines(path)
    assert examples
    for key, do_lower_case in (("lower", True), ("keep", False)):
        full = FullTokenizer(vocab_file, do_lower_case)
        for row in examples:
            text, tokens = row["text"], row[key]
            ids = full.convert_tokens_to_ids(tokens)
            assert full.tokenize(text) == tokens, text
            assert full.encode(text) == ids, text
            assert full.convert_ids_to_tokens(ids) == tokens
            words = full.basic_tokenizer.tokenize(text)
            pieces = full.wordpiece_tokenizer.tokenize(" ".join(words))
            assert pieces == tokens, text


def test_golden_portable(golden_dir):
    check_golden(golden_dir / "tokenization.jsonl.gz", golden_dir / "vocab.txt")


def test_golden_real(shared_dir):
    check_golden(
        shared_dir / "golden/real/tokenization.jsonl.gz",
        shared_dir / "data/vocab/bert-base-uncased-vocab.txt",
    )


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("uncased", 30522),
        ("cased", 28996),
        ("multilingual-cased", 119547),
        ("chinese", 21128),
    ],
)
def test_released_vocabularies_load(shared_dir, name, size):
    path = shared_dir / f"data/vocab/bert-base-{name}-vocab.txt"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        full = FullTokenizer(path)
    assert len(full.vocab) == len(full.inv_vocab) == size
    assert sorted(full.vocab.values()) == list(range(size))
    assert full.vocab["[PAD]"] == 0
    # The Chinese file alone has an entry that strips to nothing.
    assert ["blank" in str(w.message) for w in caught] == (
        [True] if name == "chinese" else []
    )


# What the rules say, word by word and character by character, with neither
# tables nor caches: slow, and close to the wording of the specification.


def is_cjk(char: str) -> bool:
    code = ord(char)
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B820 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


def is_punctuation(char: str) -> bool:
    code = ord(char)
    is_ascii_symbol = 33 <= code <= 126 and not char.isalnum()
    return is_ascii_symbol or unicodedata.category(char)[0] == "P"


def basic_by_the_rules(text: str, do_lower_case: bool) -> list[str]:
    cleaned = ""
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            cleaned += " "
        elif char in "\0\ufffd" or category in ("Cc", "Cf"):
            continue
        else:
            cleaned += f" {char} " if is_cjk(char) else char
    words = []
    for word in cleaned.split():
        if do_lower_case:
            word = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in word if unicodedata.category(c) != "Mn")
        parts = [f" {c} " if is_punctuation(c) else c for c in word]
        words.append("".join(parts))
    return " ".join(words).split()


def pieces_by_the_rules(word: str, vocab: dict[str, int]) -> list[str]:
    if len(word) > 200:
        return ["[UNK]"]
    pieces, rest, prefix = [], word, ""
    while rest:
        ends = range(len(rest), 0, -1)
        found = [end for end in ends if prefix + rest[:end] in vocab]
        if not found:
            return ["[UNK]"]
        pieces.append(prefix + rest[: found[0]])
        rest, prefix = rest[found[0] :], "##"
    return pieces


def check_by_the_rules(full: FullTokenizer, text: str) -> None:
    words = basic_by_the_rules(text, full.basic_tokenizer.do_lower_case)
    tokens = [p for w in words for p in pieces_by_the_rules(w, full.vocab)]
    ids = [full.vocab[token] for token in tokens]
    assert full.basic_tokenizer.tokenize(text) == words
    assert full.encode(text) == ids  # fills the caches
    assert full.encode(text) == ids  # reads them
    assert full.tokenize(text) == tokens
    assert full.convert_tokens_to_ids(tokens) == ids
    assert full.convert_ids_to_tokens(ids) == tokens


LOWER = FullTokenizer(VOCAB, do_lower_case=True)
CASED = FullTokenizer(VOCAB, do_lower_case=False)

# Anything at all, surrogates included, and stretches of what is special.
ANYTHING = st.text(st.characters(exclude_categories=()))
SPECIAL_TEXT = st.text(
    st.sampled_from(
        "aA \t\n\r\v\f\0\x1c\x1d\x1e\x1f\x7f\x85\xa0\xad\u0301\u0345\u2028"
        "\u2029\u200b\u202f\u3000\ufeff\ufffd\ud800\udfffΣσςİıßẞéÅΩffi中\uf900"
        "々か가#,-'.·:、\U0002f800\U0002ceb0\U0001d400\U000e0001\ue000\u0378"
    )
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(ANYTHING, SPECIAL_TEXT, st.lists(SPECIAL_TEXT).map(" ".join)))
@example("ΑΣ ΑΣ' ΑΣ'Α Σ ΑΣ. Α.Σ ΑΣ\u0301 ΑΣ中 \u2028Σ")
@example("a\x85a a\x1ca a\va a\u2028a a\u2029a a\xa0a")
@example("a" * 200 + " " + "a" * 201 + " " + "中" * 201)
def test_any_text_follows_the_rules_cached_or_not(text):
    check_by_the_rules(LOWER, text)
    check_by_the_rules(CASED, text)


@pytest.mark.slow
@pytest.mark.parametrize("full", [LOWER, CASED], ids=["lower", "cased"])
def test_every_character_follows_the_rules(full):
    do_lower_case = full.basic_tokenizer.do_lower_case
    characters = [
        char
        for char in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(char) not in ("Cn", "Co")
    ]
    for c in characters:
        text = f"{c} A{c}a Σ{c} {c}Σ a{c}\u0301"
        words = full.basic_tokenizer.tokenize(text)
        if words != basic_by_the_rules(text, do_lower_case):
            pytest.fail(f"U+{ord(c):04X}: {words}")


@settings(max_examples=50, deadline=None)
@given(st.binary())
def test_bytes_are_utf8_and_invalid_ones_are_dropped(data):
    assert LOWER.encode(data) == LOWER.encode(data.decode("utf-8", "ignore"))


@pytest.mark.parametrize(
    ("text", "lower", "keep"),
    [
        ("UNwanted, Running", "un ##want ##ed , run ##ning", None),
        ("", "", ""),
        (" \n\u3000", "", ""),
        ("a中中a", "a 中 中 a", "a 中 中 a"),
        ("É é e\u0301", "e e e", "[UNK] é e ##\u0301"),
        ("\u0301", "", "[UNK]"),
        ("ΑΣ", "[UNK]", "[UNK]"),
        ("Σ ΣΣ ΣΣΣ,", "σ σ ##ς σ ##σ ##ς ,", None),
        ("İ", "i", "[UNK]"),
        ("a\0\ufffd\x7f\u200b\xada", "a ##a", "a ##a"),
        ("a\x85a", "a ##a", "a ##a"),
        ("a\u2028a", "a a", "a a"),
        ("a\ud800", "a ##\ud800", "a ##\ud800"),
        ("##a", "# # a", "# # a"),
        ("a-a", "a - a", "a - a"),
    ],
)
def test_own_cases(text, lower, keep):
    vocab = [*VOCAB, "##want"]
    assert FullTokenizer(vocab).tokenize(text) == lower.split(" ") * bool(lower)
    if keep is not None:
        cased = FullTokenizer(vocab, do_lower_case=False)
        assert cased.tokenize(text) == keep.split(" ") * bool(keep)


def test_basic_tokenizer_splits_symbols_and_punctuation():
    words = BasicTokenizer().tokenize("Don't pay $5+¥6«¿x_y~`^")
    assert words[:8] == ["don", "'", "t", "pay", "$", "5", "+", "¥6"]
    assert words[8:] == ["«", "¿", "x", "_", "y", "~", "`", "^"]


def test_ideographs_are_words_up_to_the_ends_of_their_blocks():
    """Unassigned characters at the ends of the blocks belong to them."""
    inside = "\u3400\u4dbf\u4e00\u9fff\uf900\ufaff\U00020000\U0002a6df"
    inside += "\U0002a700\U0002b820\U0002ceaf\U0002f800\U0002fa1f"
    outside = "\u33ff\u4dc0\u4dff\ua000\uf8ff\ufb00\U0001ffff\U0002a6e0"
    outside += "\U0002a6ff\U0002ceb0\U0002f7ff\U0002fa20"
    tokenizer = BasicTokenizer(do_lower_case=False)
    for char in inside:
        assert tokenizer.tokenize(f"a{char}b") == ["a", char, "b"]
    for char in outside:
        assert tokenizer.tokenize(f"a{char}b") == [f"a{char}b"]


def test_wordpiece_alone_takes_any_vocabulary_and_unknown_token():
    vocab = {"ab": 0, "##c": 1, "##ab": 2}
    pieces = WordpieceTokenizer(vocab, "<unk>", max_input_chars_per_word=4)
    text = "abc  abcab abcc abx ##ab"
    assert pieces.tokenize(text) == (
        ["ab", "##c", "<unk>", "ab", "##c", "##c", "<unk>", "##ab"]
    )
    assert WordpieceTokenizer({}).tokenize("a b") == ["[UNK]"] * 2


def test_longest_word_is_200_characters():
    for length, expected in ((200, "a"), (201, "[UNK]")):
        tokens = LOWER.tokenize("a" * length)
        assert tokens[0] == expected
        assert len(tokens) == (length if expected == "a" else 1)


def test_cache_is_bounded_and_forgetting_changes_nothing(monkeypatch):
    monkeypatch.setattr(tokenization._IdCache, "MAX_ENTRIES", 3)
    full = FullTokenizer(VOCAB)
    for text in ("a un want", "e é i running", "a " * 9, "中" * 33, "a, a- é"):
        assert full.encode(text) == FullTokenizer(VOCAB).encode(text)
        assert len(full._chunk_ids) <= 3 and len(full._word_ids) <= 3
    assert max(map(len, full._chunk_ids)) <= full._chunk_ids.MAX_TEXT_LENGTH


def test_result_belongs_to_the_caller(tokenizer):
    tokenizer.encode("running").clear()
    assert tokenizer.tokenize("running") == ["run", "##ning"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_works_in_other_processes(tokenizer, method):
    texts = ["unaffable", "running, a", "中\x85é"]
    expected = list(map(tokenizer.encode, texts))
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.map(tokenizer.encode, texts) == expected


def test_pickle_leaves_the_caches_behind(tokenizer):
    empty = len(pickle.dumps(FullTokenizer(VOCAB)))
    tokenizer.encode(" ".join(map(str, range(10000))))
    data = pickle.dumps(tokenizer)
    assert len(data) == empty
    assert pickle.loads(data).encode("running") == tokenizer.encode("running")


def test_needs_no_tensorflow():
    code = (
        "import sys, keras_bert_ref.tokenization as t\n"
        "t.FullTokenizer(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'])\n"
        "heavy = {'tensorflow', 'keras', 'numpy', 'absl'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Vocabulary files.


def test_vocabulary_lines_end_at_lf_only_and_are_stripped(tmp_path):
    path = tmp_path / "vocab.txt"
    entries = [*SPECIAL, "a\rb", "c\u2028d", "e\x85f", " g \r", "\u3000h", "i"]
    path.write_bytes("\n".join(entries).encode())
    vocab = tokenization.load_vocab(path)
    expected = [*SPECIAL, "a\rb", "c\u2028d", "e\x85f", "g", "h", "i"]
    assert list(vocab) == expected
    assert list(vocab.values()) == list(range(len(expected)))
    lines = path.read_bytes().split(b"\n")
    assert tokenization.load_vocab(str(path)) == vocab
    assert tokenization.load_vocab(lines) == vocab
    assert tokenization.load_vocab(line.decode() for line in lines) == vocab
    assert FullTokenizer(lines).vocab == vocab


def test_final_newline_is_no_entry_but_a_blank_line_is(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL, "a"]) + "\n")
    assert len(tokenization.load_vocab(path)) == 6
    path.write_text("\n".join([*SPECIAL, "", "a"]) + "\n")
    with pytest.warns(UserWarning, match=r"blank entry \(id 5\)"):
        vocab = tokenization.load_vocab(path)
    assert vocab[""] == 5 and vocab["a"] == 6
    with pytest.warns(UserWarning, match="blank"):
        assert FullTokenizer(path).encode("a  a") == [6, 6]


def test_of_duplicates_the_last_id_wins_in_the_first_place():
    with pytest.warns(UserWarning, match="2 duplicate entries, 'a' for one"):
        full = FullTokenizer([*SPECIAL, "a", "b", "a", "c", "c"])
    assert list(full.vocab) == [*SPECIAL, "a", "b", "c"]
    assert full.encode("a b c") == [7, 6, 9]
    assert full.convert_ids_to_tokens([7, 6, 9]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (SPECIAL[:4], r"lacks \[MASK\], which pre-training needs"),
        (SPECIAL[1:], r"does not start with \[PAD\], but padding is .* id 0"),
    ],
)
def test_odd_vocabulary_warns_at_the_caller(lines, message):
    with pytest.warns(UserWarning, match=message) as caught:
        FullTokenizer(lines)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\n"])
def test_vocabulary_without_entries(tmp_path, content):
    path = tmp_path / "none.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"none\.txt has no entries; pass"):
        FullTokenizer(path)


def test_vocabulary_without_special_tokens():
    message = (
        r"needs the tokens \[UNK\], \[CLS\], \[SEP\], but the vocabulary "
        r"\(3 entries\) lacks \[UNK\], \[SEP\]; pass the vocab.txt"
    )
    with pytest.raises(ValueError, match=message):
        FullTokenizer(["a", "[CLS]", "[unk]"])


def test_vocabulary_that_is_not_utf8(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"[PAD]\ncaf\xe9\n")
    with pytest.raises(ValueError, match=r"UTF-8, but line 2 of .*latin\.txt"):
        FullTokenizer(path)


def test_missing_vocabulary_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.txt"):
        FullTokenizer(tmp_path / "absent.txt")


def test_unknown_tokens_and_ids(tokenizer):
    size = len(VOCAB)
    message = rf"token must be in .* \({size} entries\), got 'zebra'; tokenize"
    with pytest.raises(ValueError, match=message):
        tokenizer.convert_tokens_to_ids(["a", "zebra"])
    with pytest.raises(ValueError, match=rf"id must be .*, got {size}; use"):
        tokenizer.convert_ids_to_tokens([0, size])


def test_text_of_another_type(tokenizer):
    with pytest.raises(ValueError, match="str or UTF-8 bytes, got int"):
        tokenizer.encode(7)
    with pytest.raises(ValueError, match="got NoneType; convert"):
        tokenization.convert_to_unicode(None)


def test_whitespace_tokenize():
    assert tokenization.whitespace_tokenize(" a \tb\n") == ["a", "b"]


# The casing check.

LOWER_CASED = [
    f"uncased_L-{layers}_H-{hidden}_A-{heads}"
    for layers in (2, 4, 6, 8, 10, 12)
    for hidden, heads in ((128, 2), (256, 4), (512, 8), (768, 12))
]
LOWER_CASED += ["uncased_L-24_H-1024_A-16", "wwm_uncased_L-24_H-1024_A-16"]
LOWER_CASED += ["multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12"]
KEEP_CASE = ["cased_L-12_H-768_A-12", "cased_L-24_H-1024_A-16"]
KEEP_CASE += ["wwm_cased_L-24_H-1024_A-16", "multi_cased_L-12_H-768_A-12"]


@pytest.mark.parametrize("name", LOWER_CASED + KEEP_CASE)
@pytest.mark.parametrize(
    "path", ["gs://b/{}/bert_model.ckpt", "{}", "/m/{}/", r"C:\{}\model.ckpt-9"]
)
def test_casing_of_released_models(name, path):
    checkpoint = path.format(name)
    is_lower_cased = name in LOWER_CASED
    check = tokenization.validate_case_matches_checkpoint
    check(is_lower_cased, checkpoint)
    kind = "lower-cased" if is_lower_cased else "cased"
    message = (
        f"--do_lower_case={not is_lower_cased}, but {name} .* was trained on "
        f"{kind} text; set --do_lower_case={is_lower_cased}"
    )
    with pytest.raises(ValueError, match=message):
        check(not is_lower_cased, checkpoint)


@pytest.mark.parametrize(
    "checkpoint",
    [None, "", "/tmp/model.ckpt-3", "my_cased_L-12_H-768_A-12/bert_model.ckpt"],
)
def test_casing_of_other_models_is_anyones_guess(checkpoint):
    for do_lower_case in (True, False):
        tokenization.validate_case_matches_checkpoint(do_lower_case, checkpoint)
