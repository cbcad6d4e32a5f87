"""Requests and answers as JSON, without a server."""

import asyncio
import json
import socket
import sys
import time

import pytest

from keras_bert_ref.commands import Options
from keras_bert_ref.serve import batching, flags, rest, run


def test_names_may_be_left_out():
    def read(query):
        return rest.parse(json.dumps(query).encode(), ["text_a"], 9).rows

    rows = [{"text_a": "a"}, {"text_a": "b"}]
    assert read({"instances": ["a", "b"]}) == rows
    assert read({"instances": rows}) == rows
    assert read({"inputs": ["a", "b"]}) == rows
    assert read({"inputs": {"text_a": ["a", "b"]}}) == rows
    assert read({"instances": [{"b64": "/w=="}]}) == [{"text_a": b"\xff"}]
    scores = [{"score": 1.0}, {"score": 2.0}]
    assert rest.format_answers(scores, False) == {"predictions": [1.0, 2.0]}
    assert rest.format_answers(scores, True) == {"outputs": [1.0, 2.0]}


def test_too_many_texts():
    body = json.dumps({"instances": ["a", "b", "c"]}).encode()
    with pytest.raises(rest.TooMany, match="may have 2 texts or pairs, got 3"):
        rest.parse(body, ["text_a"], 2)


def ask_all(answer, queries, **kwargs):
    """Answers, and errors, of requests that come at once; a row is a text."""

    async def ask():
        batcher = batching.Batcher(answer, **kwargs)
        rows = [[{"text_a": text} for text in query] for query in queries]
        return await asyncio.gather(
            *map(batcher.ask, rows), return_exceptions=True
        )

    return asyncio.run(ask())


def test_batches():
    """Requests that wait are joined; one that fails fails alone; one of many
    rows is answered in parts, in its order, and others in between."""
    batches = []

    def answer(rows, check):
        check()
        texts = [row["text_a"] for row in rows]
        batches.append(texts)
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]

    long = ["e" * n for n in (3, 1, 6, 4, 2, 5)]
    queries = [["a"], ["b", "c"], ["bad"], ["d"], long, ["f"]]
    answers = ask_all(answer, queries, max_batch_size=4, max_waiting=9)
    assert answers[:2] == [["A"], ["B", "C"]]
    assert str(answers[2]) == "bad"
    assert answers[3:] == [["D"], [text.upper() for text in long], ["F"]]
    assert sorted(batches[0]) == ["a", "b", "bad", "c"]
    whole = [texts for texts in batches if "bad" not in texts]
    assert max(map(len, whole)) == 4
    # The longest rows come first, and the last request does not wait for all.
    assert batches.index(["d", "eeee", "eeeee", "eeeeee"]) < len(batches) - 1
    assert "f" in batches[-1] and len(batches[-1]) == 4


def test_too_many_wait():
    def answer(rows, check):
        return [row["text_a"] for row in rows]

    *answered, refused = ask_all(
        answer, ["a", "b", "c"], max_batch_size=1, max_waiting=2
    )
    assert answered == [["a"], ["b"]]
    assert isinstance(refused, batching.Overloaded)
    assert "2 requests wait already" in str(refused)


def test_nobody_computes_for_those_who_left():
    """Neither rows that wait, nor the rest of those that are computed."""
    started, ended = [], []

    def answer(rows, check):
        started.append(len(rows))
        try:
            while True:  # a computation that takes long
                check()
                time.sleep(0.01)
        except batching.Abandoned:
            ended.append(len(rows))
            raise

    async def ask():
        batcher = batching.Batcher(answer, max_batch_size=2, max_waiting=9)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(batcher.ask([{"text_a": "a"}] * 99), 0.1)
        batcher.check_room()
        batcher.answer = lambda rows, check: ["answered"] * len(rows)
        return await batcher.ask([{"text_a": "a"}])

    assert asyncio.run(ask()) == ["answered"]
    assert started == ended == [2]


def test_missing_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    with pytest.raises(ImportError, match=r"keras_bert_ref\[serve\]"):
        run.check_packages()


def test_names_for_addresses():
    with pytest.raises(ValueError, match="letters, digits, dots.*--name=a/b"):
        flags.check(Options({"name": "a/b"}))


def test_address_in_use():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} .*choose another --ho"):
            run.bind("127.0.0.1", port)
    listener = run.bind("127.0.0.1", 0)
    with pytest.raises(ConnectionRefusedError):  # before the server listens
        socket.create_connection(listener.getsockname())
    listener.close()
