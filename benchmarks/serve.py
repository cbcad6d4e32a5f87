"""Throughput and latency of servers, 64 clients at once.

    .venv-peers/bin/python benchmarks/serve.py \\
        --vocab=../shared/data/vocab/bert-base-uncased-vocab.txt

The model is a classifier of single texts in a Hugging Face folder, which both
libraries open: one with random weights of the size --config, or --model.
Contenders take turns, a round each: ours; ours with batches of one; Hugging
Face's pipeline behind FastAPI, called in FastAPI's threads, and one request
after the other, as its documentation has it. Each must give our probabilities.
Every round is a line in benchmarks/results/serve.jsonl; rounds that are there
are not run again. Needs the extra benchmarks.
"""

import argparse
import asyncio
import functools
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from data import describe_machine

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "serve.jsonl"
CONTENDERS = (
    "ours",
    "ours, one by one",
    "Hugging Face, in threads",
    "Hugging Face, one by one",
)
TEXT = "the river ran slow under an old bridge while rain fell on roofs"


def make_text(rng) -> str:
    return " ".join(rng.choice(TEXT.split(), rng.integers(5, 60)))


def make_model(folder: pathlib.Path, config: str, vocab: str) -> None:
    """A classifier with random weights, in a Hugging Face folder."""
    from keras_bert_ref import BertClassifier, BertConfig
    from keras_bert_ref.checkpoints import huggingface
    from keras_bert_ref.checkpoints.pretrained import Pretrained

    path = HERE.parent / "configs" / "models" / f"{config}.json"
    model = BertClassifier(BertConfig.from_json_file(str(path)), num_labels=2)
    made = Pretrained.of(model)
    made.vocabulary = pathlib.Path(vocab).read_bytes()
    huggingface.write(str(folder), made)


def serve_pipeline(folder: str, port: int, in_threads: bool) -> None:
    """One request, one call of the pipeline."""
    import fastapi
    import transformers
    import uvicorn

    pipeline = transformers.pipeline(
        "text-classification", model=folder, top_k=None
    )
    app = fastapi.FastAPI()

    def answer(query: dict):
        found = pipeline(query["instances"])
        return {
            "predictions": [
                {"probabilities": [x["score"] for x in sort_labels(classes)]}
                for classes in found
            ]
        }

    lock = asyncio.Lock()

    async def answer_in_turn(query: dict):
        async with lock:
            return await asyncio.to_thread(answer, query)

    app.post("/v1/models/demo:predict")(
        answer if in_threads else answer_in_turn
    )

    @app.get("/healthz")
    def health():
        return {}

    uvicorn.run(app, port=port, log_level="warning")


def sort_labels(classes: list[dict]) -> list[dict]:
    return sorted(classes, key=lambda x: x["label"])


def start(contender: str, folder: str, port: int) -> subprocess.Popen:
    if contender.startswith("ours"):
        command = [sys.executable, "-m", "keras_bert_ref.serve", "--nopairs"]
        command += [f"--model={folder}", "--name=demo", f"--port={port}"]
        if contender.endswith("one by one"):
            command.append("--max_batch_size=1")
    else:
        command = [sys.executable, __file__, f"--model={folder}"]
        command += [f"--pipeline_port={port}"]
        if contender.endswith("in threads"):
            command.append("--in_threads")
    return subprocess.Popen(command, cwd=HERE.parent)


def post(connection: http.client.HTTPConnection, text: str):
    body = json.dumps({"instances": [text]})
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/models/demo:predict", body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def wait_for(process: subprocess.Popen, port: int) -> None:
    while process.poll() is None:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/healthz")
            connection.getresponse()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError("The server ended before it began.")


@functools.cache
def classify(folder: str) -> list[float]:
    from keras_bert_ref import open_model

    return sorted(open_model(folder).classify(TEXT).values())


def check_answer(port: int, folder: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    content = json.loads(post(connection, TEXT)[1])
    found = content["predictions"][0]["probabilities"]
    np.testing.assert_allclose(sorted(found), classify(folder), atol=1e-4)


def memory(pid: int) -> float:
    """MiB of a process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    line = next(x for x in status.splitlines() if x.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def measure(port: int, clients: int, seconds: float) -> dict:
    """Clients ask one after the other, each as fast as it is answered."""
    times, errors = [], []
    end = time.perf_counter() + seconds

    def ask(seed: int) -> None:
        rng = np.random.default_rng(seed)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        while (start := time.perf_counter()) < end:
            status, _ = post(connection, make_text(rng))
            times.append(time.perf_counter() - start)
            if status != 200:
                errors.append(status)

    threads = [threading.Thread(target=ask, args=[i]) for i in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "requests": len(times),
        "errors": len(errors),
        "per_second": len(times) / (time.perf_counter() - began),
        "p50": float(np.percentile(times, 50)),
        "p99": float(np.percentile(times, 99)),
    }


def run_round(contender: str, arguments) -> dict:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    process = start(contender, arguments.model, port)
    try:
        wait_for(process, port)
        check_answer(port, arguments.model)
        measure(port, arguments.clients, min(5.0, arguments.seconds))
        before = memory(process.pid)
        row = measure(port, arguments.clients, arguments.seconds)
        row["memory_growth_mib"] = memory(process.pid) - before
        return row
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", help="a folder; none: random weights")
    parser.add_argument("--config", default="uncased_L-4_H-512_A-8")
    parser.add_argument("--vocab", help="for random weights")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pipeline_port", type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--in_threads", action="store_true", help=argparse.SUPPRESS
    )
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.pipeline_port:
        os.environ["HF_HUB_OFFLINE"] = "1"
        serve_pipeline(
            arguments.model, arguments.pipeline_port, arguments.in_threads
        )
        return
    if arguments.model:
        run(arguments, os.path.basename(arguments.model))
        return
    if not arguments.vocab:
        parser.error("give --vocab for random weights, or a --model")
    with tempfile.TemporaryDirectory() as folder:
        arguments.model = os.path.join(folder, "model")
        make_model(arguments.model, arguments.config, arguments.vocab)
        run(arguments, arguments.config)


def run(arguments, name: str) -> None:
    """Takes the rounds that are missing, and prints all."""
    rows = []
    if arguments.results.exists():
        lines = arguments.results.read_text().splitlines()
        rows = [json.loads(line) for line in lines]
    settings = {
        "model": name,
        "clients": arguments.clients,
        "seconds": arguments.seconds,
    }
    for index in range(arguments.rounds):
        for contender in CONTENDERS:
            key = {"contender": contender, "round": index, **settings}
            if any(key.items() <= row.items() for row in rows):
                continue
            row = {**key, **run_round(contender, arguments)}
            rows.append(row)
            with arguments.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
    print(f"{describe_machine()} {name}, {arguments.clients} clients.\n")
    print("| Server | requests/s | p50 ms | p99 ms | errors | MiB more |")
    print("|---|--:|--:|--:|--:|--:|")
    for contender in CONTENDERS:
        own = [
            row
            for row in rows
            if {"contender": contender, **settings}.items() <= row.items()
        ]
        values = [
            np.median([row[name] for row in own]) * scale
            for name, scale in (("per_second", 1), ("p50", 1e3), ("p99", 1e3))
        ]
        cells = [f"{value:.1f}" for value in values]
        cells.append(str(sum(row["errors"] for row in own)))
        growth = max(row["memory_growth_mib"] for row in own)
        print(f"| {contender} | {' | '.join(cells)} | {growth:.0f} |")


if __name__ == "__main__":
    main()
