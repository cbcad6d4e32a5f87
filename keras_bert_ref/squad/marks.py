"""Answers in their passages, right ones and predicted ones marked."""

import itertools
from collections.abc import Iterator, Mapping

from keras_bert_ref.squad import metrics

NO_ANSWER = "no answer"


def mark_answers(
    articles: metrics.Articles, answers: Mapping[str, str]
) -> Iterator[tuple[bool, list, list]]:
    """For each question: whether its answer is right; the question and its
    answers; the passage in parts, as training/report.py shows them."""
    for article in articles:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                if question["id"] in answers:
                    answer = answers[question["id"]]
                    yield _mark(paragraph["context"], question, answer)


def _mark(passage: str, question: Mapping, answer: str) -> tuple:
    golds = [
        (a["text"], a["answer_start"]) for a in question.get("answers", ())
    ]
    texts = list(dict.fromkeys(text for text, _ in golds)) or [NO_ANSWER]
    wanted = [metrics.normalize_answer(text) for text, _ in golds] or [""]
    is_right = metrics.normalize_answer(answer) in wanted
    facts = [
        ("Question", question["question"]),
        ("Right", " | ".join(texts)),
        ("Answer", answer or NO_ANSWER),
    ]
    right = [(start, start + len(text)) for text, start in golds[:1]]
    place = _nearest(passage, answer, right) if answer else -1
    given = [(place, place + len(answer))] if place >= 0 else []
    return is_right, facts, split_marked(passage, right, given)


def _nearest(passage: str, answer: str, right: list) -> int:
    """Where the answer stands; of several places, the one next to the right
    answer. An answer that was put together from pieces may not stand there."""
    places, start = [], passage.find(answer)
    while start >= 0:
        places.append(start)
        start = passage.find(answer, start + 1)
    wanted = right[0][0] if right else 0
    return min(places, key=lambda place: abs(place - wanted), default=-1)


def split_marked(passage: str, right: list, given: list) -> list:
    """Cuts a passage where marks begin and end.

    Args:
        right, given: spans of characters, as (start, end).
    """
    ends = {end for span in (*right, *given) for end in span}
    cuts = sorted({0, len(passage), *ends})
    parts = []
    for start, end in itertools.pairwise(cuts):
        is_gold = any(a <= start and end <= b for a, b in right)
        is_given = any(a <= start and end <= b for a, b in given)
        kinds = {(1, 1): "both", (1, 0): "gold", (0, 1): "predicted"}
        mark = kinds.get((is_gold, is_given), "")
        parts.append((passage[start:end], mark, ""))
    return parts
