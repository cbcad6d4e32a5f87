"""Answers in their passages, for the report."""

import pytest

from keras_bert_ref.squad import marks

PASSAGE = "Tom saw Anna, and Anna saw a boat."


def make_articles(**question) -> list[dict]:
    asked = {"id": "q", "question": "Who?", **question}
    return [{"paragraphs": [{"context": PASSAGE, "qas": [asked]}]}]


@pytest.mark.parametrize(
    ("answer", "is_right", "marked"),
    [
        # Of two places, the one next to the right answer.
        ("Anna", True, [("Anna", "both")]),
        ("Tom", False, [("Tom", "predicted"), ("Anna", "gold")]),
        (
            "and Anna saw",
            False,
            [("and ", "predicted"), ("Anna", "both"), (" saw", "predicted")],
        ),
        ("not there", False, [("Anna", "gold")]),
        ("", False, [("Anna", "gold")]),
    ],
)
def test_marks(answer, is_right, marked):
    place = PASSAGE.rindex("Anna")
    right = [{"text": "Anna", "answer_start": place}]
    articles = make_articles(answers=right)
    ((found, facts, parts),) = marks.mark_answers(articles, {"q": answer})
    assert found == is_right
    assert ("Answer", answer or "no answer") in facts
    assert "".join(text for text, _, _ in parts) == PASSAGE
    assert [(text, mark) for text, mark, _ in parts if mark] == marked


def test_no_answer_may_be_right():
    articles = make_articles(answers=[], is_impossible=True)
    ((found, facts, parts),) = marks.mark_answers(articles, {"q": ""})
    assert found and ("Right", "no answer") in facts
    assert parts == [(PASSAGE, "", "")]
    assert not list(marks.mark_answers(articles, {}))
