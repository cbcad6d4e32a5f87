"""Logits -> answers: the original's, the definition's, and odd ones."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers.squad_files import (
    VOCAB,
    GoldenSet,
    find_sizes,
    make_articles,
    make_features,
    make_question,
    open_portable,
    open_real,
)
from keras_bert_ref.squad import spans as squad_spans
from keras_bert_ref.squad.answer_files import write_json
from keras_bert_ref.squad.answers import (
    choose_answers,
    read_span,
    write_predictions,
)
from keras_bert_ref.squad.examples import (
    make_examples,
    read_articles,
    read_squad_examples,
)
from keras_bert_ref.squad.metrics import evaluate_v1, evaluate_v2
from keras_bert_ref.squad.spans import RawResult, find_highest, rank_spans
from keras_bert_ref.squad.text import get_final_text, join_pieces
from keras_bert_ref.tokenization import FullTokenizer

# The defaults of the flags, with which the original was run.
N_BEST_SIZE = 20
MAX_ANSWER_LENGTH = 30
SIZES = (20, 4, 6)


@pytest.fixture(scope="module")
def tokenizer() -> FullTokenizer:
    return FullTokenizer(VOCAB)


def predict(folder, examples, features, results, **arguments):
    """Runs write_predictions; the files are predictions.json and so on."""
    return write_predictions(
        examples,
        features,
        results,
        arguments.pop("n_best_size", N_BEST_SIZE),
        arguments.pop("max_answer_length", MAX_ANSWER_LENGTH),
        True,
        str(folder / "predictions.json"),
        str(folder / "nbest_predictions.json"),
        str(folder / "null_odds.json"),
        **arguments,
    )


def check_files(golden: GoldenSet, case: str, folder) -> None:
    """Byte by byte, but for the last digits that exp() may have otherwise."""
    for file in folder.iterdir():
        content, expected = file.read_bytes(), golden.read(case + file.name)
        if file.name == "nbest_predictions.json":
            rows = json.loads(content)
            expected_rows = json.loads(expected)
            for name, answers in expected_rows.items():
                probabilities = [a.pop("probability") for a in answers]
                assert probabilities == pytest.approx(
                    [a.pop("probability") for a in rows[name]], rel=0, abs=1e-9
                )
            assert list(rows) == list(expected_rows)
            assert rows == expected_rows
            number = rb'"probability": [-+.e0-9]+'
            content = re.sub(number, b"", content)
            expected = re.sub(number, b"", expected)
        assert content == expected


def check_golden(golden: GoldenSet, tmp_path) -> None:
    examples = read_squad_examples(str(golden.data_file), False)
    features = make_features(examples, golden.tokenizer, find_sizes(golden))
    logits = golden.read_logits()
    results = [
        RawResult(int(unique_id), start, end)
        for unique_id, start, end in zip(
            logits["unique_ids"],
            logits["start_logits"],
            logits["end_logits"],
            strict=True,
        )
    ]
    cases = [("", 0.0)]
    if golden.is_v2:
        folder, name = golden.prefix.parent, golden.prefix.name
        cases = [
            (match.group(), float(match.group(1)))
            for path in folder.glob(f"{name}_threshold*_null_odds.json")
            if (match := re.search("threshold(.+?)_", path.name))
        ]
        assert cases
    for case, threshold in cases:
        predictions = predict(
            *(tmp_path, examples, features, results[::-1]),
            version_2_with_negative=golden.is_v2,
            null_score_diff_threshold=threshold,
        )
        check_files(golden, case, tmp_path)
        written = (tmp_path / "nbest_predictions.json").read_text()
        assert predictions.nbest == json.loads(written)
    assert len(list(tmp_path.iterdir())) == (3 if golden.is_v2 else 2)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_golden_portable_answers(golden_dir, version, tmp_path):
    for golden in open_portable(golden_dir, version):
        check_golden(golden, tmp_path)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_golden_real_answers(shared_dir, version, tmp_path):
    for golden in open_real(shared_dir, version, "predict"):
        check_golden(golden, tmp_path)


def test_golden_real_final_text(shared_dir):
    path = shared_dir / "golden/real/squad/final_text.json"
    rows = json.loads(path.read_text())
    assert rows
    for row in rows:
        texts = row["pred_text"], row["orig_text"]
        assert get_final_text(*texts, do_lower_case=True) == row["lower"]
        assert get_final_text(*texts, do_lower_case=False) == row["keep"]


# Text.


@pytest.mark.parametrize(
    ("pred_text", "orig_text", "expected"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("smith ' s", "Steve Smith's", "Smith's"),
        ("cafe", "(Café),", "Café"),
        ("1895", "(1895-1943).", "1895"),
        ("- 1943", "(1895-1943).", "-1943"),
        ("not here", "Steve Smith's", "Steve Smith's"),
        ("a b", "a  b  c", "a  b"),  # two spaces
        # A character that becomes two, and one that vanishes.
        ("i", "\uac00 i", "\uac00 i"),
        ("b", "a\u200b b", "a\u200b b"),
        ("", " words stand ", " words stand "),
        (" b", "a b", "a b"),
        ("b ", "a b c", "a b c"),
    ],
)
def test_final_text(pred_text, orig_text, expected):
    assert get_final_text(pred_text, orig_text, True) == expected


def test_final_text_tells_why_words_stand(caplog):
    caplog.set_level("INFO", logger="absl")
    get_final_text("no", "yes", True)
    assert not caplog.messages
    get_final_text("no", "yes", True, verbose_logging=True)
    assert "the answer is not in it" in caplog.messages[0]
    get_final_text("i", "\uac00 i", True, verbose_logging=True)
    assert "gained or lost characters" in caplog.messages[1]


# Ranking.


def make_windows(tokenizer, *contexts):
    """Examples of one question each, and their windows."""
    articles = make_articles(
        *((text, [make_question(f"q{i}")]) for i, text in enumerate(contexts))
    )
    examples = make_examples(articles, False)
    return examples, make_features(examples, tokenizer, SIZES)


def rank_by_definition(windows, n_best_size, max_answer_length):
    """Nested loops, as one would write them first."""
    spans = []
    for feature, result in windows:
        best_starts, best_ends = (
            sorted(range(len(logits)), key=lambda i, x=logits: -x[i])
            for logits in (result.start_logits, result.end_logits)
        )
        for start in best_starts[:n_best_size]:
            for end in best_ends[:n_best_size]:
                if (
                    max(start, end) < len(feature.tokens)
                    and feature.token_to_orig_map[start] >= 0
                    and feature.token_to_orig_map[end] >= 0
                    and feature.token_is_max_context[start]
                    and start <= end < start + max_answer_length
                ):
                    logits = result.start_logits[start], result.end_logits[end]
                    spans.append((feature, start, end, *logits))
    return sorted(spans, key=lambda span: -(span[3] + span[4]))


# Few different values, so that there are many ties.
VALUES = st.sampled_from([-1.5, -0.0, 0.0, 2.25, -math.inf])
LOGITS = hnp.arrays(np.float32, (5, 2, SIZES[0]), elements=VALUES)


@settings(deadline=None)
@given(LOGITS, st.integers(1, 25), st.integers(1, 6), st.integers(1, 3))
def test_spans_rank_as_defined(
    logits, n_best_size, max_answer_length, at_a_time
):
    contexts = "a b c", "", "a b c d e f g h i j k l m n o p q", "a b"
    examples, features = make_windows(FullTokenizer(VOCAB), *contexts)
    assert len(features) == 5
    questions = [[] for _ in examples]
    for feature, rows in zip(features, logits, strict=True):
        # Some batches were trimmed to their longest window.
        length = len(feature.tokens) if feature.unique_id % 2 else SIZES[0]
        result = RawResult(feature.unique_id, *rows[:, :length])
        questions[feature.example_index].append((feature, result))
    sizes = n_best_size, max_answer_length
    expected = [rank_by_definition(windows, *sizes) for windows in questions]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(squad_spans, "QUESTIONS_AT_A_TIME", at_a_time)
        ranked = [
            [span[:5] for span in spans]
            for spans in rank_spans(questions, *sizes)
        ]
    assert ranked == expected


@given(hnp.arrays(np.float32, (3, 2, 9), elements=VALUES), st.integers(1, 12))
def test_highest_are_a_stable_sort(logits, count):
    expected = np.argsort(-logits, kind="stable")[..., :count]
    np.testing.assert_array_equal(find_highest(logits, count), expected)


def make_random_results(features, seed=0, num_logits=SIZES[0]):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (len(features), 2, num_logits))
    return [
        RawResult(feature.unique_id, *rows)
        for feature, rows in zip(
            features, logits.astype(np.float32), strict=True
        )
    ]


def test_trimmed_logits(tokenizer, tmp_path):
    """Padding beyond the longest window of a batch may be cut off."""
    examples, features = make_windows(tokenizer, "a b c", "d e f g h")
    longest = max(len(feature.tokens) for feature in features)
    assert longest < SIZES[0]
    whole = make_random_results(features)
    for result in whole:  # so that padding is never among the best
        result.start_logits[longest:] = result.end_logits[longest:] = -99
    trimmed = [
        RawResult(name, start[:longest], end[:longest].tolist())
        for name, start, end in whole
    ]
    expected = predict(tmp_path, examples, features, whole, n_best_size=8)
    assert expected == predict(
        tmp_path, examples, features, trimmed, n_best_size=8
    )


def test_every_window_needs_logits(tokenizer, tmp_path):
    examples, features = make_windows(tokenizer, "a b c", "d e f")
    results = make_random_results(features)
    message = r"question q1 \(unique_id 1000000001\) has {} among {} results"
    with pytest.raises(ValueError, match=message.format("none", 1)):
        predict(tmp_path, examples, features, results[:1])
    results[1].end_logits[5] = math.nan
    with pytest.raises(ValueError, match=message.format("NaN", 2)):
        predict(tmp_path, examples, features, results)


ODD_CHARACTERS = "ab A.#-\u0130\uac00é\u200b\u0301東\ufffd[UNK]"


@settings(deadline=None)
@given(st.text(ODD_CHARACTERS, max_size=30), st.booleans())
def test_all_spans_are_read_by_way_of_their_tokens(text, lower):
    """Whole words, which take a shorter way, arrive at the same."""
    tokenizer = FullTokenizer([*VOCAB, "#", "A", "##A", "é"], lower)
    (example,), features = make_windows(tokenizer, text)
    windows = [
        (feature, RawResult(feature.unique_id, *np.zeros((2, SIZES[0]))))
        for feature in features
    ]
    for span in next(rank_spans([windows], SIZES[0], SIZES[0])):
        feature, start, end = span[:3]
        first, last = feature.token_to_orig_map[[start, end]]
        expected = get_final_text(
            join_pieces(feature.tokens[start : end + 1]),
            " ".join(example.doc_tokens[first : last + 1]),
            lower,
        )
        assert read_span(example, span, lower) == (expected, 0.0, 0.0)


# Questions without candidates.


def make_hopeless(tokenizer, tmp_path, context, version_2):
    """All best starts and ends lie outside of the text."""
    examples, features = make_windows(tokenizer, context)
    logits = [9.0] + [-9.0] * (SIZES[0] - 1)
    results = [RawResult(f.unique_id, logits, logits) for f in features]
    return predict(
        *(tmp_path, examples, features, results),
        n_best_size=1,
        version_2_with_negative=version_2,
        null_score_diff_threshold=100.0,
    )


@pytest.mark.parametrize("context", ["a b c", ""])
def test_v1_without_a_candidate(tokenizer, tmp_path, context):
    predictions = make_hopeless(tokenizer, tmp_path, context, False)
    entry = {"text": "empty", "probability": 1.0}
    entry |= {"start_logit": 0.0, "end_logit": 0.0}
    assert predictions == ({"q0": "empty"}, {"q0": [entry]}, {})
    assert not (tmp_path / "null_odds.json").exists()


@pytest.mark.parametrize(("context", "logit"), [("a b c", 9.0), ("", 0.0)])
def test_v2_without_a_candidate(tokenizer, tmp_path, context, logit):
    predictions = make_hopeless(tokenizer, tmp_path, context, True)
    entry = {"text": "", "probability": 1.0}
    entry |= {"start_logit": logit, "end_logit": logit}
    # Whatever the threshold, there is nothing else to answer.
    assert predictions == ({"q0": ""}, {"q0": [entry]}, {"q0": 2 * logit})
    assert json.loads((tmp_path / "null_odds.json").read_text()) == {
        "q0": 2 * logit
    }


def test_the_null_answer_comes_on_top_of_n_best(tokenizer, tmp_path):
    examples, features = make_windows(tokenizer, "a b c d")
    logits = np.full(SIZES[0], -9.0)
    logits[7:11] = [4.0, 3.0, 2.0, 1.0]  # the text
    result = RawResult(features[0].unique_id, logits, logits)
    predictions = predict(
        *(tmp_path, examples, features, [result]),
        n_best_size=3,
        version_2_with_negative=True,
    )
    texts = [entry["text"] for entry in predictions.nbest["q0"]]
    assert texts == ["a", "a b", "a b c", ""]  # "b" has as much as the third
    assert predictions.answers["q0"] == "a"
    assert predictions.null_odds["q0"] == -9.0 - 9.0 - 4.0 - 4.0
    # To be given, "no answer" must exceed the threshold.
    for threshold, answer in ((-26.0, "a"), (-26.5, "")):
        answers = choose_answers(*predictions[1:], threshold)
        assert answers == {"q0": answer}


# Thresholds.


def test_thresholds(tokenizer, tmp_path):
    """Raising the threshold never adds an empty answer."""
    contexts = [f"text {i} is here , all of it" for i in range(40)]
    examples, features = make_windows(tokenizer, *contexts)
    results = make_random_results(features)
    was_empty = {example.qas_id for example in examples}
    counts = []
    for threshold in (-math.inf, *np.linspace(-20, 20, 21), math.inf):
        predictions = predict(
            *(tmp_path, examples, features, results),
            version_2_with_negative=True,
            null_score_diff_threshold=threshold,
        )
        answers = predictions.answers
        is_empty = {name for name, text in answers.items() if not text}
        assert is_empty <= was_empty
        assert is_empty == {
            name
            for name, odds in predictions.null_odds.items()
            if odds > threshold
        }
        assert answers == choose_answers(
            predictions.nbest, predictions.null_odds, threshold
        )
        was_empty = is_empty
        counts.append(len(is_empty))
    assert counts[0] == len(examples)
    assert counts[-1] == 0
    assert len(set(counts)) > 5


# Files.

TEXTS = st.text(st.characters(), max_size=8)
FLOATS = st.floats(allow_nan=False)
KEYS = ("text", "probability", "start_logit", "end_logit")


@settings(deadline=None)
@given(
    st.dictionaries(TEXTS, TEXTS | FLOATS, max_size=3)
    | st.dictionaries(
        TEXTS,
        st.lists(
            st.tuples(TEXTS, FLOATS, FLOATS, FLOATS).map(
                lambda values: dict(zip(KEYS, values, strict=True))
            ),
            min_size=1,
            max_size=3,
        ),
        max_size=3,
    )
)
def test_files_are_what_json_writes(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("json") / "file.json"
    write_json(str(path), content)
    assert path.read_text() == json.dumps(content, indent=4) + "\n"


def test_no_file_is_replaced_by_half_of_one(tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        write_json(str(path), {"1": "whole", "2": object()})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1.1", "v2.0"])
def test_real_questions_go_through(shared_dir, tmp_path, version):
    """A part of the dev sets: features, random logits, answers, scores."""
    data_file = shared_dir / f"data/squad/dev-{version}.json"
    vocab_file = shared_dir / "data/vocab/bert-base-uncased-vocab.txt"
    articles = read_articles(str(data_file))[:4]
    examples = make_examples(articles, False)
    assert len(examples) > 500
    features = make_features(examples, FullTokenizer(vocab_file), (192, 64, 32))
    results = make_random_results(features, num_logits=192)
    predictions = predict(
        *(tmp_path, examples, features, results),
        version_2_with_negative=version == "v2.0",
    )
    names = [example.qas_id for example in examples]
    assert list(predictions.answers) == list(predictions.nbest) == names
    if version == "v2.0":
        scores = evaluate_v2(
            articles, predictions.answers, predictions.null_odds
        )
        assert scores["total"] == len(examples)
        assert scores["best_f1"] >= scores["f1"]
    else:
        scores = evaluate_v1(articles, predictions.answers)
        assert 0 < scores["f1"] < 20
