"""The sharded generator: any number of workers, the same statistics."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref.pretraining import exact, sharded
from keras_bert_ref.pretraining.features import make_schema
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.tokenization import FullTokenizer

NUM_DOCUMENTS = 300
LETTERS = [*"abcdefghijklmnopqrst"]
VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
]
MASK = VOCAB.index("[MASK]")


@pytest.fixture(scope="module")
def tokenizer():
    return FullTokenizer(VOCAB)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Two files of random words of two letters."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("corpus")
    texts = ["", ""]
    for index in range(NUM_DOCUMENTS):
        for _ in range(rng.integers(2, 30)):
            words = rng.choice(LETTERS, (rng.integers(2, 25), 2)).tolist()
            texts[index % 2] += " ".join(map("".join, words)) + "\n"
        texts[index % 2] += "\n"
    paths = [folder / "one.txt", folder / "two.txt"]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return list(map(str, paths))


def make(generator, paths, tokenizer, num_workers=1, **options):
    """Returns batches of records and the summary of making them."""
    shard_bytes = options.pop("shard_bytes", None)
    extra = {"shard_bytes": shard_bytes} if shard_bytes else {}
    settings = Settings(tokenizer.vocab, **options)
    summary = Summary()
    batches = list(
        generator.generate(
            paths, tokenizer, settings, num_workers, summary, **extra
        )
    )
    return batches, summary


def flatten(batches):
    return [record for batch in batches for record in batch]


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_any_number_of_workers(paths, tokenizer, do_whole_word_mask):
    one, two, three = (
        make(
            sharded,
            paths,
            tokenizer,
            num_workers,
            dupe_factor=2,
            shard_bytes=20_000,
            do_whole_word_mask=do_whole_word_mask,
        )[0]
        for num_workers in (1, 2, 3)
    )
    assert len(one) >= 10
    assert one == two == three


def test_each_copy_is_another(paths, tokenizer):
    batches, summary = make(
        sharded, paths, tokenizer, dupe_factor=3, shard_bytes=50_000
    )
    copies = np.array_split(np.arange(len(batches)), 3)
    sizes = [sum(len(batches[i]) for i in copy) for copy in copies]
    assert sum(sizes) == summary.counts["instances"]
    assert max(sizes) < 1.1 * min(sizes)
    assert len(set(flatten(batches))) == sum(sizes)


def test_counts_are_those_of_the_corpus(paths, tokenizer):
    options = {"dupe_factor": 2, "shard_bytes": 20_000}
    _, ours = make(sharded, paths, tokenizer, **options)
    _, theirs = make(exact, paths, tokenizer, dupe_factor=2)
    for name in ("documents", "sentences", "tokens", "unknown"):
        assert ours.counts[name] == theirs.counts[name]
    assert ours.counts["documents"] == NUM_DOCUMENTS


def test_a_document_ends_with_its_file(tokenizer, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\n{name}")
    _, summary = make(
        sharded, [str(tmp_path / "a"), str(tmp_path / "b")], tokenizer
    )
    assert summary.counts["documents"] == 2


def test_shards_follow_the_seed(paths, tokenizer):
    options = {"dupe_factor": 1, "shard_bytes": 20_000}
    first, second, other = (
        make(sharded, paths, tokenizer, random_seed=seed, **options)[0]
        for seed in (1, 1, 2)
    )
    assert first == second
    assert not set(flatten(first)) & set(flatten(other))


def test_shards_of_one_document(tokenizer, tmp_path, caplog):
    (tmp_path / "a").write_text("a b\nc d\n\n" * 3)
    make(sharded, [str(tmp_path / "a")], tokenizer, shard_bytes=1)
    assert "of 3 shards have 1" in caplog.text


def test_empty_corpus(tokenizer, tmp_path):
    (tmp_path / "a").write_text("\n\n")
    with pytest.raises(ValueError, match="0 documents"):
        make(sharded, [str(tmp_path / "a")], tokenizer)


def measure(batches, max_seq_length=128, max_predictions_per_seq=20):
    """Statistics of the records themselves."""
    schema = make_schema(max_seq_length, max_predictions_per_seq)
    features = {
        name: values.numpy()
        for name, values in tf.io.parse_example(
            flatten(batches), schema
        ).items()
    }
    used = features["masked_lm_weights"] > 0
    shown = np.take_along_axis(
        features["input_ids"], features["masked_lm_positions"], 1
    )[used]
    labels = features["masked_lm_ids"][used]
    lengths = features["input_mask"].sum(1)
    return {
        "count": len(lengths),
        "lengths": lengths,
        "a_lengths": lengths - features["segment_ids"].sum(1),
        "first_masked": features["masked_lm_positions"][:, 0],
        "random_next": features["next_sentence_labels"].mean(),
        "masked": used.sum() / lengths.sum(),
        "mask_token": np.mean(shown == MASK),
        "kept": np.mean(shown == labels),
        "replaced": np.mean((shown != MASK) & (shown != labels)),
    }


def distance(first: np.ndarray, second: np.ndarray) -> float:
    """The largest gap between two distributions (Kolmogorov-Smirnov)."""
    values = np.union1d(first, second)
    shares = [
        np.searchsorted(np.sort(sample), values, "right") / len(sample)
        for sample in (first, second)
    ]
    return np.abs(shares[0] - shares[1]).max()


@pytest.mark.parametrize("do_whole_word_mask", [False, True])
@pytest.mark.parametrize("next_sentence_pairs", [True, False])
def test_statistics_are_those_of_exact_mode(
    paths, tokenizer, do_whole_word_mask, next_sentence_pairs
):
    options = {
        "dupe_factor": 10,
        "do_whole_word_mask": do_whole_word_mask,
        "next_sentence_pairs": next_sentence_pairs,
    }
    theirs = measure(make(exact, paths, tokenizer, **options)[0])
    ours = measure(
        make(sharded, paths, tokenizer, shard_bytes=50_000, **options)[0]
    )
    # About 10,000 instances each. Documents with a short target length make
    # many instances or few, which is what makes these numbers vary.
    assert ours["count"] == pytest.approx(theirs["count"], rel=0.05)
    assert ours["random_next"] == pytest.approx(theirs["random_next"], abs=0.03)
    assert ours["masked"] == pytest.approx(theirs["masked"], abs=0.002)
    for name in ("mask_token", "kept", "replaced"):
        assert ours[name] == pytest.approx(theirs[name], abs=0.01)
    for name in ("lengths", "a_lengths", "first_masked"):
        assert distance(ours[name], theirs[name]) < 0.04
    assert theirs["mask_token"] == pytest.approx(0.8, abs=0.01)
