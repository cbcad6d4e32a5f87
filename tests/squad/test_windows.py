"""SQuAD files -> examples -> features -> records."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.squad_files import (
    VOCAB,
    GoldenSet,
    find_sizes,
    make_answered,
    make_articles,
    make_features,
    make_question,
    open_portable,
    open_real,
)
from keras_bert_ref.records.files import read_records
from keras_bert_ref.sliding_windows import (
    Window,
    find_max_context,
    find_windows,
)
from keras_bert_ref.squad import records
from keras_bert_ref.squad import tokens as squad_tokens
from keras_bert_ref.squad.examples import make_examples, read_squad_examples
from keras_bert_ref.squad.tokens import improve_answer_span
from keras_bert_ref.squad.windows import convert_examples_to_features
from keras_bert_ref.tokenization import FullTokenizer

CONTEXT = "The leader (1895-1943) was here. Nobody\u202felse\twas."


@pytest.fixture(scope="module")
def tokenizer() -> FullTokenizer:
    return FullTokenizer(VOCAB)


def check_golden(golden: GoldenSet, kind: str) -> None:
    is_training = kind == "train"
    examples = read_squad_examples(
        str(golden.data_file), is_training, golden.is_v2
    )
    sizes = find_sizes(golden)
    features = make_features(examples, golden.tokenizer, sizes, is_training)
    rows = golden.read_features(kind)
    assert len(features) == len(rows) > 0
    for feature, row in zip(features, rows, strict=True):
        in_text = np.flatnonzero(feature.token_to_orig_map >= 0).tolist()
        words = feature.token_to_orig_map[in_text].tolist()
        is_max_context = feature.token_is_max_context[in_text].tolist()
        places = list(map(str, in_text))
        assert row == {
            "unique_id": feature.unique_id,
            "qas_id": examples[feature.example_index].qas_id,
            "doc_span_index": feature.doc_span_index,
            "tokens": feature.tokens,
            "input_ids": feature.input_ids.tolist(),
            "segment_ids": feature.segment_ids.tolist(),
            "token_to_orig_map": dict(zip(places, words, strict=True)),
            "token_is_max_context": dict(
                zip(places, is_max_context, strict=True)
            ),
            "start_position": feature.start_position,
            "end_position": feature.end_position,
            "is_impossible": feature.is_impossible,
        }
        assert feature.token_is_max_context.sum() == sum(is_max_context)


@pytest.mark.parametrize("kind", ["train", "predict"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_golden_portable_features(golden_dir, version, kind):
    for golden in open_portable(golden_dir, version):
        check_golden(golden, kind)


@pytest.mark.parametrize("kind", ["train", "predict"])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_golden_real_features(shared_dir, version, kind):
    for golden in open_real(shared_dir, version, kind):
        check_golden(golden, kind)


# Reading.


def test_only_five_characters_end_a_word():
    context = " a\tb\rc\nd\u202fe f\xa0g\u2003h\x0bi  "
    articles = make_articles((context, [make_question("1")]))
    (example,) = make_examples(articles, is_training=False)
    assert example.doc_tokens == ["a", "b", "c", "d", "e", "f\xa0g\u2003h\x0bi"]


def test_questions_share_the_words_of_a_paragraph():
    questions = [make_question("1"), make_question("2")]
    first, second = make_examples(make_articles((CONTEXT, questions)), False)
    assert first.doc_tokens is second.doc_tokens


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("The", (0, 0)),
        ("1895", (2, 2)),
        ("here. Nobody\u202felse", (4, 6)),
        ("else\twas.", (6, 7)),
        (" was", (2, 3)),  # a space counts to the word before it
    ],
)
def test_answers_in_words(answer, words):
    question = make_answered("1", CONTEXT, answer)
    (example,) = make_examples(make_articles((CONTEXT, [question])), True)
    assert (example.start_position, example.end_position) == words
    assert example.orig_answer_text == answer
    assert not example.is_impossible


def test_answers_in_the_space_before_the_first_word(tokenizer):
    """The original finds them in texts of one word only."""
    for context, count in ((" ab", 1), (" ab cd", 0)):
        articles = make_articles(
            (context, [make_answered("1", context, " ab")])
        )
        examples = make_examples(articles, True)
        assert len(examples) == count
        for feature in make_features(examples, tokenizer, (32, 8, 8), True):
            span = slice(feature.start_position, feature.end_position + 1)
            assert feature.tokens[span] == ["a", "##b"]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("leader", 20),  # elsewhere
        ("nowhere", 0),
        ("leader", 4000),  # outside of the text
        ("was.", len(CONTEXT) - 3),  # the last of it outside
        ("leader", -7),
        ("", 4),
        (" ", 3),
    ],
)
def test_answers_that_are_not_there_are_left_out(caplog, text, start):
    answers = [{"text": text, "answer_start": start}]
    questions = [
        make_question("bad", answers=answers),
        make_answered("good", CONTEXT, "leader"),
    ]
    examples = make_examples(make_articles((CONTEXT, questions)), True)
    assert [example.qas_id for example in examples] == ["good"]
    (warning,) = caplog.messages
    assert "Question bad is left out" in warning
    assert f"{text!r} should be at characters {start} to" in warning


def test_answers_of_an_empty_context_are_left_out(caplog):
    answers = [{"text": "a", "answer_start": 0}]
    question = make_question("bad", answers=answers)
    assert make_examples(make_articles(("", [question])), True) == []
    assert "Question bad" in caplog.messages[0]


def test_impossible_questions():
    questions = [
        make_question("1", answers=[], is_impossible=True),
        {**make_answered("2", CONTEXT, "leader"), "is_impossible": False},
        make_answered("3", CONTEXT, "leader"),  # v1.1 does not say
    ]
    articles = make_articles((CONTEXT, questions))
    examples = make_examples(articles, True, version_2_with_negative=True)
    assert [e.is_impossible for e in examples] == [True, False, False]
    assert examples[0].start_position == examples[0].end_position == -1
    assert examples[0].orig_answer_text == ""
    # For prediction nobody knows.
    examples = make_examples(articles, False, version_2_with_negative=True)
    assert not any(e.is_impossible for e in examples)


@pytest.mark.parametrize("count", [0, 2])
def test_training_wants_one_answer(count):
    question = make_answered("q7", CONTEXT, "leader")
    question["answers"] *= count
    with pytest.raises(
        ValueError, match=f"question q7 has {count}; .*version_2_with_negative"
    ):
        make_examples(make_articles((CONTEXT, [question])), True)


def test_training_on_questions_without_answers():
    articles = make_articles((CONTEXT, [make_question("q7")]))
    with pytest.raises(ValueError, match="question q7 has 0"):
        make_examples(articles, True)


def test_ids_must_differ_for_prediction():
    questions = [make_answered("same", CONTEXT, "leader")] * 2
    articles = make_articles((CONTEXT, questions))
    with pytest.raises(ValueError, match="question same is there 2 times"):
        make_examples(articles, is_training=False)
    assert len(make_examples(articles, is_training=True)) == 2


def with_question(**changes) -> str:
    question = {**make_answered("q7", CONTEXT, "leader"), **changes}
    return json.dumps({"data": make_articles((CONTEXT, [question]))})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no JSON", "data.json is not JSON .*Expecting value"),
        ("[]", "data.json holds a JSON list"),
        ("[" * 100_000, "data.json is not JSON .*too deep to read"),
        ("{}", "list of articles under `data`, but .*data.json has nothing"),
        ('{"data": null}', "`data` is a list .*data.json has None there"),
        ('{"data": [1]}', r"an object, but .*data.json has 1 at data\[0\]"),
        ('{"data": [{}]}', r"a `paragraphs` in data\[0\], but .*data.json"),
        (
            '{"data": [{"paragraphs": null}]}',
            r"a list, but .*data.json has None at data\[0\]: paragraphs",
        ),
        (
            '{"data": [{"paragraphs": [{"context": 5}]}]}',
            r"text, but .* has 5 at data\[0\].paragraphs\[0\]: context",
        ),
        (with_question(id=None), r"has None at .*qas\[0\]: id"),
        (with_question(question=[]), r"has \[\] at question q7: question"),
        (with_question(answers=None), "has None at question q7: answers"),
        (with_question(answers=[1]), r"has 1 at question q7: answers\[0\]"),
        (
            with_question(answers=[{"text": 1}]),
            r"has 1 at question q7: answers\[0\]: text",
        ),
        (
            with_question(answers=[{"text": "leader", "answer_start": "4"}]),
            r"has '4' at question q7: answers\[0\]: answer_start",
        ),
        (
            with_question(answers=[{"text": "leader"}]),
            "question q7 has no `answer_start`",
        ),
        (
            with_question(is_impossible="no"),
            "has 'no' at question q7: is_impossible",
        ),
    ],
)
def test_files_in_other_formats(tmp_path, content, message):
    path = tmp_path / "data.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_squad_examples(str(path), True)


def test_byte_order_mark(tmp_path):
    path = tmp_path / "data.json"
    articles = make_articles((CONTEXT, [make_question("1")]))
    path.write_text(json.dumps({"data": articles}), encoding="utf-8-sig")
    assert len(read_squad_examples(str(path), False)) == 1


# Windows.


def test_windows_by_hand():
    assert find_windows(0, 5, 2) == []
    assert find_windows(5, 5, 2) == [(0, 5)]
    assert find_windows(8, 5, 2) == [(0, 5), (2, 5), (4, 4)]
    # A stride that is longer than a window leaves no gaps.
    assert find_windows(8, 3, 5) == [(0, 3), (3, 3), (6, 2)]


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 25))
def test_max_context_is_what_the_definition_says(num_tokens, length, stride):
    windows = find_windows(num_tokens, length, stride)

    def score(index: int, token: int) -> float:
        start, length = windows[index]
        left, right = token - start, start + length - 1 - token
        is_inside = left >= 0 and right >= 0
        return min(left, right) + 0.01 * length if is_inside else -1.0

    expected = [
        max(range(len(windows)), key=lambda index, t=token: score(index, t))
        for token in range(num_tokens)
    ]
    assert find_max_context(windows).tolist() == expected


def test_max_context_ties_go_to_the_earlier_window():
    windows = [Window(0, 4), Window(2, 4)]
    assert find_max_context(windows).tolist() == [0, 0, 0, 1, 1, 1]
    windows = [Window(0, 5), Window(2, 5)]  # token 3 has 1 beside it in both
    assert find_max_context(windows).tolist() == [0, 0, 0, 0, 1, 1, 1]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([1, 2]), min_size=1, max_size=8),
    st.lists(st.sampled_from([1, 2]), max_size=3),
    st.data(),
)
def test_answer_spans_shrink_from_the_right_first(text, answer, data):
    last = data.draw(st.integers(0, len(text) - 1))
    first = data.draw(st.integers(0, last))
    expected = first, last
    for start in reversed(range(first, last + 1)):
        for end in range(start, last + 1):
            if text[start : end + 1] == answer:
                expected = start, end
    assert improve_answer_span(text, first, last, answer) == expected


# Features.


def test_answers_within_words(tokenizer):
    question = make_answered("1", CONTEXT, "1895")
    examples = make_examples(make_articles((CONTEXT, [question])), True)
    (feature,) = make_features(examples, tokenizer, (64, 32, 8), True)
    span = slice(feature.start_position, feature.end_position + 1)
    assert feature.tokens[span] == ["1", "##8", "##9", "##5"]
    assert set(feature.token_to_orig_map[span]) == {2}


def test_windows_without_the_answer_point_to_cls(tokenizer):
    context = " ".join("abcdefghij")
    question = make_answered("1", context, "c d e")
    examples = make_examples(make_articles((context, [question])), True)
    # "what?" is five tokens, which leaves four for the text.
    features = make_features(examples, tokenizer, (12, 2, 5), True)
    assert ["".join(f.tokens[7:-1]) for f in features] == [
        *("abcd", "cdef", "efgh", "ghij")
    ]
    spans = [(f.start_position, f.end_position) for f in features]
    assert spans == [(0, 0), (7, 9), (0, 0), (0, 0)]


def test_long_questions_are_cut(tokenizer):
    question = make_question("1", "a b c d e f")
    examples = make_examples(make_articles(("x y", [question])), False)
    (feature,) = make_features(examples, tokenizer, (12, 4, 3))
    assert feature.tokens == [
        *("[CLS]", "a", "b", "c", "[SEP]", "x", "y", "[SEP]")
    ]
    assert feature.segment_ids.tolist() == [0] * 5 + [1] * 3


@pytest.mark.parametrize("context", ["", " \t\n\u202f", "\u200b \ufeff"])
def test_contexts_without_tokens_have_no_windows(tokenizer, context):
    questions = [make_question("1")]
    articles = make_articles((context, questions), ("a", [make_question("2")]))
    examples = make_examples(articles, False)
    assert len(examples) == 2
    (feature,) = make_features(examples, tokenizer, (32, 8, 8))
    assert feature.example_index == 1
    assert feature.unique_id == 1_000_000_000


def test_words_without_tokens_keep_their_place(tokenizer):
    articles = make_articles(("a \u200b b \ufffd c", [make_question("1")]))
    examples = make_examples(articles, False)
    assert len(examples[0].doc_tokens) == 5
    (feature,) = make_features(examples, tokenizer, (32, 8, 8))
    words = feature.token_to_orig_map[feature.token_to_orig_map >= 0]
    assert words.tolist() == [0, 2, 4]


def test_unusual_unicode(tokenizer):
    context = "\ud800 e\u0301 \U0001f469\u200d\U0001f52c 東京 ﬁ \u0130 ΑΣ"
    questions = [make_answered("1", context, "東京")]
    examples = make_examples(make_articles((context, questions)), True)
    (feature,) = make_features(examples, tokenizer, (64, 8, 8), True)
    span = slice(feature.start_position, feature.end_position + 1)
    assert feature.tokens[span] == ["[UNK]", "[UNK]"]
    assert set(feature.token_to_orig_map[span]) == {3}


def test_no_room_for_text(tokenizer):
    question = make_question("q7", "a b c d e f")
    examples = make_examples(make_articles(("x y", [question])), False)
    with pytest.raises(
        ValueError,
        match="max_seq_length=8 and question q7 has 5 .*max_query_length=5",
    ):
        make_features(examples, tokenizer, (8, 4, 5))
    assert len(make_features(examples, tokenizer, (9, 4, 5))) == 2


def test_windows_must_move(tokenizer):
    with pytest.raises(ValueError, match="doc_stride=0"):
        make_features([], tokenizer, (32, 0, 8))


def test_no_questions_make_no_features(tokenizer):
    assert make_features([], tokenizer, (32, 8, 8)) == []


def make_many(is_training: bool):
    contexts = [f"text {i} is here, and text {i + 1} too." for i in range(40)]
    questions = [
        [make_answered(f"{i} {j}", text, f"text {i}") for j in range(i % 3)]
        for i, text in enumerate(contexts)
    ]
    articles = make_articles(*zip(contexts, questions, strict=True))
    return make_examples(articles, is_training)


@pytest.mark.parametrize("is_training", [True, False])
def test_processes_do_not_change_features(tokenizer, monkeypatch, is_training):
    examples = make_many(is_training)[::-1]
    expected = make_features(examples, tokenizer, (24, 8, 8), is_training)
    monkeypatch.setattr(squad_tokens, "TEXTS_PER_TASK", 7)
    features = make_features(examples, tokenizer, (24, 8, 8), is_training, 2)
    assert len(features) == len(expected) > len(examples)
    for feature, wanted in zip(features, expected, strict=True):
        for name in feature.__slots__:
            value = getattr(feature, name)
            np.testing.assert_array_equal(value, getattr(wanted, name))


# Records.


@pytest.mark.parametrize("is_training", [True, False])
def test_records(tokenizer, monkeypatch, tmp_path, is_training):
    monkeypatch.setattr(records, "RECORDS_PER_WRITE", 16)
    examples = make_many(is_training)
    features = make_features(examples, tokenizer, (40, 8, 8), is_training)
    path = str(tmp_path / "some.tf_record")
    with records.open_feature_writer(path, is_training, 40) as process_feature:
        for feature in features:
            process_feature(feature)
    schema = records.make_schema(40, is_training)
    serialized = list(read_records([path]).as_numpy_iterator())
    stored = tf.train.Example.FromString(serialized[0]).features.feature
    assert set(stored) == set(schema)
    batch = tf.io.parse_example(serialized, schema)
    assert len(serialized) == len(features) > 32
    for i, feature in enumerate(features):
        length = len(feature.input_ids)
        padding = [0] * (40 - length)
        assert batch["unique_ids"][i] == feature.unique_id
        expected = {
            "input_ids": [*feature.input_ids, *padding],
            "input_mask": [1] * length + padding,
            "segment_ids": [*feature.segment_ids, *padding],
        }
        if is_training:
            expected |= {
                "start_positions": feature.start_position,
                "end_positions": feature.end_position,
                "is_impossible": 0,
            }
        for name, value in expected.items():
            np.testing.assert_array_equal(batch[name][i], value)


def test_impossible_questions_in_records(tokenizer):
    question = make_question("1", answers=[], is_impossible=True)
    articles = make_articles((CONTEXT, [question]))
    examples = make_examples(articles, True, version_2_with_negative=True)
    features = make_features(examples, tokenizer, (64, 8, 8), True)
    batch = records.pad_features(features, True, 64)
    assert batch["is_impossible"].tolist() == [[1]]
    assert batch["start_positions"].tolist() == [[0]]
    assert batch["end_positions"].tolist() == [[0]]


def test_no_record_file_is_left_half_written(tokenizer, tmp_path):
    examples = make_many(False)
    path = tmp_path / "some.tf_record"
    with (
        pytest.raises(ValueError, match="question 1 0"),
        records.open_feature_writer(str(path), False, 8) as process_feature,
    ):
        convert_examples_to_features(
            examples, tokenizer, 8, 8, 8, False, process_feature, 1
        )
    assert not list(tmp_path.iterdir())


def test_worker_processes_need_no_tensorflow():
    """Where processes are spawned, not forked, each imports this module."""
    check = (
        "import sys, keras_bert_ref.squad.tokens;"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize(
    ("is_v2", "fix"),
    [
        (False, "set --version_2_with_negative"),
        (True, 'set its "is_impossible" to true'),
    ],
)
def test_number_of_answers(is_v2, fix):
    """Nobody is told to set a flag that is set."""
    question = {"id": "q7", "question": "who", "answers": []}
    articles = [{"paragraphs": [{"context": "she", "qas": [question]}]}]
    with pytest.raises(ValueError, match="question q7 has 0;") as error:
        make_examples(articles, True, is_v2)
    assert str(error.value).endswith(f"{fix}.")
