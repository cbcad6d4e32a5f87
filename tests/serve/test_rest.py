"""Requests and answers as JSON, without a server."""

import asyncio
import json
import sys

import pytest

from keras_bert_ref.commands import Options
from keras_bert_ref.serve import batching, flags, rest, run


def test_names_may_be_left_out():
    def read(query):
        return rest.parse(json.dumps(query).encode(), ["text_a"]).rows

    rows = [{"text_a": "a"}, {"text_a": "b"}]
    assert read({"instances": ["a", "b"]}) == rows
    assert read({"instances": rows}) == rows
    assert read({"inputs": ["a", "b"]}) == rows
    assert read({"inputs": {"text_a": ["a", "b"]}}) == rows
    assert read({"instances": [{"b64": "/w=="}]}) == [{"text_a": b"\xff"}]
    scores = [{"score": 1.0}, {"score": 2.0}]
    assert rest.format_answers(scores, False) == {"predictions": [1.0, 2.0]}
    assert rest.format_answers(scores, True) == {"outputs": [1.0, 2.0]}


def test_batches():
    """Requests that wait are joined; one that fails fails alone."""
    sizes = []

    def answer(rows):
        sizes.append(len(rows))
        if "bad" in rows:
            raise ValueError("bad")
        return [row.upper() for row in rows]

    async def ask():
        batcher = batching.Batcher(answer, max_batch_size=4, max_waiting=9)
        queries = [["a"], ["b", "c"], ["bad"], ["d"], ["e"] * 5, ["f"]]
        return await asyncio.gather(
            *map(batcher.ask, queries), return_exceptions=True
        )

    answers = asyncio.run(ask())
    assert answers[:2] == [["A"], ["B", "C"]]
    assert str(answers[2]) == "bad"
    assert answers[3:] == [["D"], ["E"] * 5, ["F"]]
    assert sizes[0] == 4


def test_too_many_wait():
    async def ask():
        batcher = batching.Batcher(list, max_batch_size=1, max_waiting=2)
        return await asyncio.gather(
            *(batcher.ask([i]) for i in range(3)), return_exceptions=True
        )

    *answered, refused = asyncio.run(ask())
    assert answered == [[0], [1]]
    assert isinstance(refused, batching.Overloaded)
    assert "2 requests wait already" in str(refused)


def test_missing_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(ImportError, match=r"keras_bert_ref\[serve\]"):
        run.check_packages()


def test_names_for_addresses():
    with pytest.raises(ValueError, match="letters, digits, dots.*--name=a/b"):
        flags.check(Options({"name": "a/b"}))
