"""Reading text, drawing segments, masking, and what users are told."""

import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from absl import logging
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_ref import text_files
from keras_bert_ref.pretraining import exact
from keras_bert_ref.pretraining.corpus import Corpus, encode_block
from keras_bert_ref.pretraining.features import (
    batch_size,
    describe,
    make_features,
)
from keras_bert_ref.pretraining.instances import (
    sample_instances,
    sample_instances_at_once,
)
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.shuffling import shuffle
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.records.serialization import serialize
from keras_bert_ref.tokenization import FullTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrst"]
VOCAB = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
CLS, SEP, MASK = (VOCAB.index(t) for t in ("[CLS]", "[SEP]", "[MASK]"))

SAMPLERS = [sample_instances, sample_instances_at_once]


@pytest.fixture(scope="module")
def tokenizer():
    return FullTokenizer(VOCAB)


def read_corpus(tokenizer, paths, block_bytes=1 << 20) -> Corpus:
    return Corpus.from_encoded(
        encode_block(tokenizer, block)
        for path in paths
        for block in text_files.read_blocks(str(path), block_bytes)
    )


def read_sentences(tokenizer, *texts, tmp_path, block_bytes=1 << 20):
    """Writes texts to files and returns documents of sentences."""
    paths = []
    for index, text in enumerate(texts):
        paths.append(tmp_path / f"{index}.txt")
        paths[-1].write_bytes(text.encode())
    corpus = read_corpus(tokenizer, paths, block_bytes)
    return [
        [
            " ".join(
                VOCAB[token]
                for token in corpus.tokens[
                    corpus.sentences[sentence] : corpus.sentences[sentence + 1]
                ]
            )
            for sentence in range(first, last)
        ]
        for first, last in zip(
            corpus.documents[:-1], corpus.documents[1:], strict=True
        )
    ]


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("texts", "documents"),
    [
        (["a b\nc\n\nd"], [["a b", "c"], ["d"]]),
        (["\n\na\n \t\n\u3000\nb\n\n\n"], [["a"], ["b"]]),
        # Only LF ends a line, and CR is dropped wherever it stands.
        (["a\r\nb\rc\n\r\nd\u2028e\x0bf"], [["a", "b ##c"], ["d e ##f"]]),
        # A zero-width space is neither blank nor a token.
        (["a\n\u200b\nb"], [["a", "b"]]),
        # The end of a file is no boundary, but ends its last line.
        (["a", "b\n\nc\n", "d\n"], [["a", "b"], ["c", "d"]]),
        (["a\n\n", "", "b"], [["a"], ["b"]]),
        (["", "\n", " "], []),
    ],
)
def test_documents_and_sentences(
    tokenizer, tmp_path, texts, documents, block_bytes
):
    assert documents == read_sentences(
        tokenizer, *texts, tmp_path=tmp_path, block_bytes=block_bytes
    )


@pytest.mark.parametrize("block_bytes", [4, 1000])
def test_a_file_that_is_not_utf8(tokenizer, tmp_path, block_bytes):
    path = tmp_path / "latin1.txt"
    path.write_bytes(b"a\nb\n\nc\xe9 d\ne")
    with pytest.raises(ValueError, match=r"line 4 of .*latin1.txt .*0xe9"):
        read_corpus(tokenizer, [path], block_bytes)


def test_ids_take_the_smallest_type(tokenizer, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a b")
    assert read_corpus(tokenizer, [path]).tokens.dtype == np.uint16
    large = FullTokenizer([*VOCAB, *map(str, range(1 << 16))])
    assert read_corpus(large, [path]).tokens.dtype == np.uint32


def test_find_files_in_order(tmp_path):
    for name in ("b1", "b0", "a"):
        (tmp_path / name).write_text("")
    found = text_files.find_files(f"{tmp_path}/b?, {tmp_path}/a")
    assert [path[-2:] for path in found] == ["b0", "b1", "/a"]


def test_no_file_matches(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(ValueError, match=r"'.*/nothing\*' matches none"):
        text_files.find_files(f"{tmp_path}/a,{tmp_path}/nothing*")


def generate(tokenizer, tmp_path, text, **settings):
    path = tmp_path / "text.txt"
    path.write_text(text)
    settings = Settings(tokenizer.vocab, **settings)
    return list(exact.generate([str(path)], tokenizer, settings, 1, Summary()))


def test_empty_corpus(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="0 documents"):
        generate(tokenizer, tmp_path, "\n \n\n")


def test_one_document_only(tokenizer, tmp_path, caplog):
    with caplog.at_level("WARNING", logger=logging.get_absl_logger().name):
        (records,) = generate(tokenizer, tmp_path, "a b\nc\nd\n", dupe_factor=3)
    assert len(records) >= 3
    assert "needs 2 documents or more, but the corpus has 1" in caplog.text


def test_one_document_is_enough_without_pairs(tokenizer, tmp_path, caplog):
    generate(tokenizer, tmp_path, "a b", next_sentence_pairs=False)
    assert "documents" not in caplog.text


@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_map_in_order_looks_only_so_far_ahead(num_workers):
    taken = []

    def items():
        for item in range(100):
            taken.append(item)
            yield item

    for result in map_in_order(str, items(), num_workers):
        assert len(taken) <= int(result) + 2 * num_workers + 1
        assert result == str(int(result))
    assert len(taken) == 100


def test_map_in_order_passes_errors_on():
    with pytest.raises(ValueError, match="invalid literal.*'x'"):
        list(map_in_order(int, ["1", "x", "2"], 2))


@given(st.integers(0, 2000), st.integers(0, 2**32))
def test_shuffle_is_that_of_the_library(length, seed):
    ours, theirs = random.Random(seed), random.Random(seed)
    items, expected = list(range(length)), list(range(length))
    shuffle(items, ours)
    theirs.shuffle(expected)
    assert items == expected
    assert ours.getstate() == theirs.getstate()


def random_corpus(seed: int, num_documents: int = 60) -> Corpus:
    """Documents of unlike lengths, some sentences longer than all room."""
    rng = np.random.default_rng(seed)
    sentences_of = rng.integers(1, 20, num_documents)
    lengths = rng.geometric(0.07, sentences_of.sum())
    tokens = rng.integers(len(SPECIAL), len(VOCAB), lengths.sum())
    return Corpus(
        tokens.astype(np.uint16),
        np.insert(np.cumsum(lengths), 0, 0),
        np.insert(np.cumsum(sentences_of), 0, 0),
    )


def find(tokens: np.ndarray, part: np.ndarray) -> bool:
    """Whether a sequence occurs in another without a gap."""
    return part.tobytes() in tokens.tobytes()


@pytest.mark.parametrize("sample", SAMPLERS)
@pytest.mark.parametrize("do_whole_word_mask", [False, True])
@pytest.mark.parametrize("next_sentence_pairs", [True, False])
def test_layout(tokenizer, sample, do_whole_word_mask, next_sentence_pairs):
    """[CLS] A [SEP] B [SEP], padding, labels: undoing it gives the text."""
    corpus = random_corpus(seed=1)
    settings = Settings(
        tokenizer.vocab,
        max_seq_length=40,
        max_predictions_per_seq=5,
        do_whole_word_mask=do_whole_word_mask,
        next_sentence_pairs=next_sentence_pairs,
    )
    instances, order = sample(corpus, settings, random.Random(1))
    assert sorted(order) == list(range(len(instances)))
    features = make_features(corpus.tokens, settings, instances)
    assert len(instances) > 100
    assert features["input_mask"].sum(1).max() == 40
    for row in range(len(instances)):
        ids, mask, segments, positions, labels, weights, label = (
            features[name][row]
            for name in (
                "input_ids",
                "input_mask",
                "segment_ids",
                "masked_lm_positions",
                "masked_lm_ids",
                "masked_lm_weights",
                "next_sentence_labels",
            )
        )
        length, count = mask.sum(), int(weights.sum())
        assert mask.tolist() == [1] * length + [0] * (40 - length)
        assert weights.tolist() == [1] * count + [0] * (5 - count)
        expected = min(5, max(1, round(length * 0.15)))
        assert count == expected or (do_whole_word_mask and count < expected)
        assert (np.diff(positions[:count]) > 0).all()
        assert not positions[count:].any()
        assert not labels[count:].any()
        assert not ids[length:].any()
        ids = ids.copy()
        ids[positions[:count]] = labels[:count]
        seps = np.flatnonzero(ids == SEP).tolist()
        assert ids[0] == CLS
        assert seps[-1] == length - 1
        assert find(corpus.tokens, ids[1 : seps[0]].astype(np.uint16))
        if next_sentence_pairs:
            assert len(seps) == 2
            b = ids[seps[0] + 1 : seps[1]].astype(np.uint16)
            assert len(b) > 0
            assert find(corpus.tokens, b)
            ones = np.arange(40) > seps[0]
            assert (segments == ones * mask).all()
        else:
            assert len(seps) == 1
            assert not segments.any()
            assert label == [0]


@pytest.mark.parametrize("sample", SAMPLERS)
def test_labels_of_pairs(tokenizer, sample):
    """Documents of one letter each tell whether B is from A's document."""
    num = len(LETTERS)
    tokens = np.repeat(np.arange(5, 5 + num), 60).astype(np.uint16)
    corpus = Corpus(
        tokens, np.arange(0, num * 60 + 1, 4), np.arange(0, num * 15 + 1, 15)
    )
    settings = Settings(
        tokenizer.vocab, max_seq_length=24, mask_prob=0, keep_prob=1
    )
    instances, _ = sample(corpus, settings, random.Random(5))
    features = make_features(corpus.tokens, settings, instances)
    ids, segments = features["input_ids"], features["segment_ids"]
    last = features["input_mask"].sum(1) - 2
    is_other = ids[:, 1] != ids[np.arange(len(ids)), last]
    assert (features["next_sentence_labels"][:, 0] == is_other).all()
    assert 0.3 < is_other.mean() < 0.8
    assert segments.any()


@pytest.mark.parametrize("sample", SAMPLERS)
@pytest.mark.parametrize(
    ("mask_prob", "keep_prob"), [(1, 0), (0, 1), (0, 0), (0.8, 0.1), (0.3, 0.2)]
)
def test_masking_shares(tokenizer, sample, mask_prob, keep_prob):
    corpus = random_corpus(seed=2, num_documents=300)
    settings = Settings(
        tokenizer.vocab,
        max_seq_length=64,
        mask_prob=mask_prob,
        keep_prob=keep_prob,
    )
    instances, _ = sample(corpus, settings, random.Random(2))
    features = make_features(corpus.tokens, settings, instances)
    shown = np.take_along_axis(
        features["input_ids"], features["masked_lm_positions"], 1
    )
    used = features["masked_lm_weights"] > 0
    shown, labels = shown[used], features["masked_lm_ids"][used]
    random_prob = 1 - mask_prob - keep_prob
    by_chance = random_prob / len(VOCAB)
    assert np.mean(shown == MASK) == pytest.approx(
        mask_prob + by_chance, abs=0.02
    )
    assert np.mean(shown == labels) == pytest.approx(
        keep_prob + by_chance, abs=0.02
    )
    if random_prob > 0.5:  # every token of the vocabulary, equally often
        counts = np.bincount(shown, minlength=len(VOCAB))
        assert counts.min() > 0.6 * counts.mean()


def test_random_tokens_are_distinct_vocabulary_entries():
    """Of a duplicate only the last id is ever used."""
    with pytest.warns(UserWarning, match="duplicate"):
        vocab = FullTokenizer([*VOCAB, "a"]).vocab
    corpus = random_corpus(seed=3)
    settings = Settings(vocab, mask_prob=0, keep_prob=0)
    for sample in SAMPLERS:
        instances, _ = sample(corpus, settings, random.Random(3))
        ids = set(instances["replacements"].ravel().tolist())
        assert len(VOCAB) in ids
        assert VOCAB.index("a") not in ids


def test_keep_share_is_exactly_one_half(tokenizer):
    """0.1 / (1 - 0.8) as floats is more than the original's 0.5."""
    from keras_bert_ref.pretraining.masking import Masker

    settings = Settings(tokenizer.vocab)
    masker = Masker(random_corpus(1), settings, random.Random(1))
    assert masker._keep_share == 0.5


@pytest.mark.parametrize("sample", SAMPLERS)
def test_whole_words(tokenizer, sample):
    """All pieces of a word or none, also where B begins with a piece."""
    corpus = random_corpus(seed=4)
    settings = Settings(
        tokenizer.vocab,
        max_seq_length=50,
        max_predictions_per_seq=8,
        do_whole_word_mask=True,
    )
    instances, _ = sample(corpus, settings, random.Random(4))
    features = make_features(corpus.tokens, settings, instances)
    num_across = 0
    for row in range(len(instances)):
        count = instances["num_masked"][row]
        positions = features["masked_lm_positions"][row][:count]
        ids = features["input_ids"][row].copy()
        ids[positions] = features["masked_lm_ids"][row][:count]
        words = []
        for position in range(1, features["input_mask"][row].sum()):
            if ids[position] == SEP:
                continue
            if VOCAB[ids[position]].startswith("##") and words:
                num_across += position - words[-1][-1] > 1
                words[-1].append(position)
            else:
                words.append([position])
        for word in words:
            assert len(set(word) & set(positions)) in (0, len(word))
    assert num_across > 0


def test_same_seed_same_instances(tokenizer):
    corpus = random_corpus(seed=6)
    settings = Settings(tokenizer.vocab)
    for sample in SAMPLERS:
        first, second, other = (
            sample(corpus, settings, random.Random(seed))[0]
            for seed in (1, 1, 2)
        )
        assert (first == second).all()
        assert len(first) != len(other) or (first != other).any()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"max_seq_length": 4}, "from 5 .* got 4"),
        ({"max_seq_length": 70000}, "65535, got 70000"),
        ({"max_predictions_per_seq": 0}, "max_predictions_per_seq=0"),
        ({"dupe_factor": 0}, "dupe_factor=0"),
        ({"masked_lm_prob": 1.5}, "masked_lm_prob=1.5"),
        ({"short_seq_prob": -0.1}, "short_seq_prob=-0.1"),
        ({"mask_prob": 0.9, "keep_prob": 0.2}, r"0.9 \+ 0.2 is more"),
    ],
)
def test_bad_settings(tokenizer, setting, message):
    with pytest.raises(ValueError, match=message):
        Settings(tokenizer.vocab, **setting)


def test_vocabulary_needs_mask():
    with pytest.raises(ValueError, match=r"\[MASK\].*2 entries"):
        Settings({"[PAD]": 0, "a": 1})


def test_too_few_predictions(tokenizer, caplog):
    Settings(tokenizer.vocab)
    assert not caplog.text
    Settings(tokenizer.vocab, max_seq_length=512)
    assert "asks for 77 masked positions in a sequence of 512" in caplog.text
    assert "max_predictions_per_seq=20" in caplog.text


def summarize(tokenizer, text, tmp_path, **settings):
    path = tmp_path / "text.txt"
    path.write_text(text)
    settings = Settings(tokenizer.vocab, **settings)
    summary = Summary()
    for _ in exact.generate([str(path)], tokenizer, settings, 1, summary):
        pass
    return summary, settings


def test_summary(tokenizer, tmp_path):
    text = "a b c\nd z e\n\nf g\n"
    summary, settings = summarize(
        tokenizer, text, tmp_path, max_seq_length=16, dupe_factor=4
    )
    counts = summary.counts
    assert counts["documents"] == 2
    assert counts["sentences"] == 3
    assert counts["tokens"] == 8
    assert counts["unknown"] == 1
    assert counts["instances"] >= 8
    report = summary.report(settings)
    assert "unknown tokens: 1 (12.50%)" in report
    padding = counts["instances"] * 16 - counts["positions"]
    assert f"padding: {padding:,} (" in report
    for phase in ("tokenizing", "sampling", "writing"):
        assert phase in report


def test_describe(tokenizer):
    features = {
        "input_ids": np.array([[CLS, 5, MASK, SEP, 7, SEP, 0, 0]]),
        "input_mask": np.array([[1, 1, 1, 1, 1, 1, 0, 0]]),
        "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 0, 0]]),
        "masked_lm_positions": np.array([[2, 4, 0]]),
        "masked_lm_ids": np.array([[6, 7, 0]]),
        "masked_lm_weights": np.array([[1, 1, 0]], np.float32),
        "next_sentence_labels": np.array([[1]]),
    }
    (record,) = serialize(features)
    assert describe(record, tokenizer.inv_vocab) == (
        "[CLS] a [MASK](b) [SEP] c(c) [SEP] [random next: yes]"
    )


def test_unknown_warning_names_the_cause(tokenizer, tmp_path):
    summary, settings = summarize(tokenizer, "A b\n\nc D\n", tmp_path)
    assert summary.unknown_warning(settings, do_lower_case=True) == ""
    summary.counts = Counter(tokens=10, unknown=4)
    warning = summary.unknown_warning(settings, do_lower_case=True)
    assert warning.startswith("40.0% of all tokens are [UNK]")
    assert "another language" in warning
    warning = summary.unknown_warning(settings, do_lower_case=False)
    assert "set --do_lower_case=True" in warning


@pytest.mark.slow
def test_worker_processes_need_no_tensorflow():
    """Where processes are spawned, not forked, each imports these."""
    modules = ", ".join(
        f"keras_bert_ref.pretraining.{name}"
        for name in ("corpus", "features", "instances", "sharded")
    )
    check = f"import sys, {modules}; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize("sample", SAMPLERS)
def test_more_predictions_than_positions_are_padding(
    tokenizer, tmp_path, sample, caplog
):
    """Records are as long as asked for; nothing else is."""
    path = tmp_path / "text.txt"
    path.write_text("a b c d\ne f g h\n\ni j k l\nm n o p\n")
    corpus = read_corpus(tokenizer, [path])
    made = []
    for count in (20, 1_000_000):
        settings = Settings(
            tokenizer.vocab, max_seq_length=20, max_predictions_per_seq=count
        )
        instances, _ = sample(corpus, settings, random.Random(1))
        assert instances.dtype.itemsize < 1000
        made.append(make_features(corpus.tokens, settings, instances[:2]))
    (message,) = [m for m in caplog.messages if "is padding" in m]
    assert message.startswith("max_predictions_per_seq=1000000, but a sequence")
    plain, padded = made
    assert plain["masked_lm_weights"].sum() > 0
    for name, values in plain.items():
        width = 1_000_000 if name.startswith("masked_lm") else values.shape[1]
        assert padded[name].shape == (2, width)
        assert (padded[name][:, : values.shape[1]] == values).all()
        assert not padded[name][:, values.shape[1] :].any()
    assert batch_size(settings) == 4
