"""The server, as a process of its own; `make test-serve` has the packages."""

import base64
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from helpers import model_folders, runners
from keras_bert_ref import open_model

pytest.importorskip("fastapi", reason="see make test-serve")
pytest.importorskip("uvicorn", reason="see make test-serve")

pytestmark = pytest.mark.slow
PREDICT = "/v1/models/demo:predict"
LIMIT = 20_000
BODY_SECONDS = 1


@pytest.fixture(scope="module")
def models(golden_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    vocab = golden_dir / "vocab.txt"
    return {
        kind: model_folders.make(kind, folder, vocab)
        for kind in ("pairs", "masked", "questions", "tags", "vectors")
    }


class Server:
    """A server, and a client of it."""

    def __init__(self, model, *flags):
        (address,) = runners.free_addresses(1)
        self.port = int(address.split(":")[1])
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "keras_bert_ref.serve"),
                f"--model={model}",
                "--name=demo",
                f"--port={self.port}",
                f"--max_body_bytes={LIMIT}",
                "--max_texts=200",
                f"--body_timeout={BODY_SECONDS}",
                *flags,
            ],
            cwd=runners.ROOT,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        self.wait()

    def wait(self):
        for _ in range(1200):
            assert self.process.poll() is None, "the server ended"
            try:
                if self.get("/healthz")[0] == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def send(self, method, path, body=None):
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=120
        )
        connection.request(method, path, body)
        response = connection.getresponse()
        content = response.read().decode()
        connection.close()
        is_json = "json" in response.headers.get("content-type", "")
        return response.status, json.loads(content) if is_json else content

    def get(self, path):
        return self.send("GET", path)

    def post(self, query, path=PREDICT):
        if not isinstance(query, bytes):
            query = json.dumps(query).encode()
        return self.send("POST", path, query)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture(scope="module")
def server(models):
    server = Server(models["pairs"])
    yield server
    server.end()


def pair(a="a b", b="c"):
    return {"text_a": a, "text_b": b}


def test_rows_and_columns(server, models):
    status, content = server.post({"instances": [pair(), pair("x", "")]})
    assert status == 200
    expected = open_model(models["pairs"]).classify(["a b", "x"], ["c", ""])
    for row, classes in zip(content["predictions"], expected, strict=True):
        assert row["label"] == next(iter(classes))
        assert row["labels"] == ["no", "yes"]
        values = [classes["no"], classes["yes"]]
        assert row["probabilities"] == pytest.approx(values, abs=1e-6)
    columns = {"text_a": ["a b", "x"], "text_b": ["c", ""]}
    query = {"inputs": columns, "signature_name": "serving_default"}
    status, by_columns = server.post(query)
    assert by_columns["outputs"]["label"] == [
        row["label"] for row in content["predictions"]
    ]
    coded = {"b64": base64.b64encode(b"a \xff b").decode()}
    assert server.post({"instances": [pair(coded)]})[0] == 200


def test_status_metadata_health_metrics_page(server):
    status, content = server.get("/v1/models/demo")
    assert content["model_version_status"][0]["state"] == "AVAILABLE"
    status, content = server.get("/v1/models/demo/versions/1/metadata")
    signatures = content["metadata"]["signature_def"]["signature_def"]
    assert set(signatures["serving_default"]["inputs"]) == set(pair())
    server.post({"instances": [pair()]})
    status, text = server.get("/metrics")
    assert status == 200
    assert 'bert_requests_total{code="200"}' in text
    status, page = server.get("/")
    assert status == 200
    assert 'data-inputs="text_a text_b"' in page
    assert "http" not in page, "nothing from elsewhere"


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b'{"instances": ["\xff"]}', 400, "not JSON that can be read"),
        (b"[" * 9000, 400, "not JSON"),
        ([], 400, "must be an object"),
        ({}, 400, "one of the keys instances and inputs"),
        ({"instances": []}, 400, "a list of one or more"),
        ({"instances": "a"}, 400, "a list of one or more"),
        ({"instances": ["a"]}, 400, "text_a and text_b, got str"),
        ({"instances": [{"text_a": "a"}]}, 400, "and text_b, got text_a"),
        ({"instances": [pair(3)]}, 400, "must be a string, got int"),
        ({"instances": [pair("\ud800")]}, 400, "half of a surrogate pair"),
        ({"instances": [pair({"b64": "?"})]}, 400, "is not base64"),
        ({"inputs": {"text_a": ["a"], "text_b": []}}, 400, "one or more texts"),
        ({"inputs": {"text_a": ["a"], "text_b": ["a"] * 2}}, 400, "1 and 2"),
        (
            {"instances": [pair()], "signature_name": "other"},
            400,
            "no signature 'other'",
        ),
        ({"instances": [pair("a" * LIMIT)]}, 413, f"may have {LIMIT} bytes"),
        ({"instances": [pair()] * 201}, 413, "may have 200 texts or pairs"),
    ],
)
def test_bad_requests(server, query, code, message):
    status, content = server.post(query)
    assert status == code
    assert message in content["error"]
    assert server.get("/healthz")[0] == 200


def test_unknown_names(server):
    path = "/v1/models/other:predict"
    status, content = server.post({"instances": [pair()]}, path)
    assert status == 404
    assert "no model other of version 1; this server has demo" in str(content)
    assert server.get("/v1/models/other")[0] == 404
    assert server.get("/v1/models/demo/versions/2")[0] == 404
    status, content = server.get("/nowhere")
    assert status == 404
    assert "/nowhere" in content["error"]


def test_slow_client(server):
    """One that says it has more to send, and does not send it."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        head = (
            f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
        )
        client.sendall(head.encode() + b"{")
        client.settimeout(60)
        answer = client.recv(1 << 16).decode()
    assert " 408 " in answer.split("\r\n")[0]
    assert server.get("/healthz")[0] == 200


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nHost: x"])
def test_silent_client(server, sent):
    """A connection without a request is closed, and needs no 408."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(sent)
        client.settimeout(60)
        assert client.recv(1 << 16) == b""


def test_client_that_leaves(server, capfd):
    before = count(server, 'bert_requests_total{code="400"}')
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 9"
        client.sendall(f"{head}\r\n\r\n".encode())
    wait_until(
        lambda: count(server, 'bert_requests_total{code="400"}') > before
    )
    assert "Traceback" not in capfd.readouterr().err


def wait_until(holds):
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("in vain")


def test_body_without_a_length(server):
    """A limit on what comes, not on what is announced."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    pieces = (b"a" * 1000 for _ in range(LIMIT // 500))
    try:
        connection.request("POST", PREDICT, pieces, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was refused while it was sent
    assert server.get("/healthz")[0] == 200


def test_many_clients(server):
    """64 at once: each gets its own answer, in fewer batches."""
    texts = [f"{'a b ' * (i % 7)}{i}" for i in range(256)]
    alone = [server.post({"instances": [pair(t)]})[1] for t in texts[:64]]
    before = count(server, "bert_batches_total")
    with concurrent.futures.ThreadPoolExecutor(64) as clients:
        answers = list(
            clients.map(lambda t: server.post({"instances": [pair(t)]}), texts)
        )
    assert {status for status, _ in answers} == {200}
    for (_, found), expected in zip(answers, alone, strict=False):
        (a,), (b,) = found["predictions"], expected["predictions"]
        assert a["probabilities"] == pytest.approx(b["probabilities"], abs=1e-5)
    assert count(server, "bert_batches_total") - before < len(texts)


def count(server, name):
    lines = server.get("/metrics")[1].splitlines()
    found = [line.split()[1] for line in lines if line.startswith(name)]
    return int(found[0]) if found else 0


def test_other_models(models):
    """A bad request among good ones harms only itself; SIGTERM ends it."""
    server = Server(models["masked"])
    try:
        _, content = server.post({"instances": ["a [MASK] b"]})
        assert len(content["predictions"][0]["words"][0]) == 5
        queries = ["a", "a [MASK]", "", "[MASK] " * 2000, "[MASK]"] * 4
        with concurrent.futures.ThreadPoolExecutor(20) as clients:
            answers = list(
                clients.map(lambda q: server.post({"instances": [q]}), queries)
            )
        assert [s for s, _ in answers] == [400, 200, 400, 400, 200] * 4
        assert "needs a [MASK]" in answers[0][1]["error"]
        assert "of them are among" in answers[3][1]["error"]
    finally:
        server.end()


def test_questions(models):
    server = Server(models["questions"])
    try:
        passage = " ".join(f"word {i}" for i in range(300))
        rows = [pair("a b", passage), pair("a b", passage[:99])]
        status, content = server.post({"instances": rows})
        model = open_model(models["questions"])
        for row, found in zip(rows, content["predictions"], strict=True):
            expected = model.answer(row["text_a"], row["text_b"])
            assert found["answer"] == expected.text
            assert found["answer"] in row["text_b"]
        status, content = server.post({"instances": [pair(" ", passage)]})
        assert (status, "question has no words" in str(content)) == (400, True)
    finally:
        server.end()


def test_sigterm_answers_what_was_accepted(models):
    server = Server(models["pairs"], "--max_batch_size=1")
    answers = []
    query = {"instances": [pair(f"{i}") for i in range(100)]}

    def ask():
        answers.append(server.post(query)[0])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while 'code="200"' not in server.get("/metrics")[1]:
        time.sleep(0.01)
    server.end()
    for thread in threads:
        thread.join()
    assert answers == [200] * 8
    with pytest.raises(OSError, match="refused"):
        server.get("/healthz")
