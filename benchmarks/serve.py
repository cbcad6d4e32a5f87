"""Throughput and latency of servers, 64 clients at once.

    python benchmarks/serve.py --model=FOLDER

FOLDER is a Hugging Face folder of a classifier of single texts, which both
libraries open. Contenders take turns, a round each: ours, ours with batches of
one, and Hugging Face's pipeline behind FastAPI. Every round is a line in
benchmarks/results/serve.jsonl; rounds that are there are not run again.
Needs the extras serve and benchmarks.
"""

import argparse
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np

HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results" / "serve.jsonl"
CONTENDERS = ("ours", "ours, one by one", "hugging face")
TEXT = "the river ran slow under an old bridge while rain fell on roofs"


def make_text(rng) -> str:
    return " ".join(rng.choice(TEXT.split(), rng.integers(5, 60)))


def serve_pipeline(folder: str, port: int) -> None:
    """The usual way: one request, one call of the pipeline, in a thread."""
    import fastapi
    import transformers
    import uvicorn

    pipeline = transformers.pipeline(
        "text-classification", model=folder, top_k=None
    )
    app = fastapi.FastAPI()

    @app.post("/v1/models/demo:predict")
    def predict(query: dict):
        return {"predictions": pipeline(query["instances"])}

    @app.get("/healthz")
    def health():
        return {}

    uvicorn.run(app, port=port, log_level="warning")


def start(contender: str, folder: str, port: int) -> subprocess.Popen:
    command = [sys.executable, "-m", "keras_bert_ref.serve", "--nopairs"]
    command += [f"--model={folder}", "--name=demo", f"--port={port}"]
    if contender == "ours, one by one":
        command.append("--max_batch_size=1")
    if contender == "hugging face":
        command = [sys.executable, __file__, f"--model={folder}"]
        command.append(f"--pipeline_port={port}")
    return subprocess.Popen(command, cwd=HERE.parent)


def post(connection: http.client.HTTPConnection, text: str) -> int:
    body = json.dumps({"instances": [text]})
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/models/demo:predict", body, headers)
    response = connection.getresponse()
    response.read()
    return response.status


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
            status = post(connection, make_text(rng))
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
        measure(port, arguments.clients, min(5.0, arguments.seconds))
        before = memory(process.pid)
        row = measure(port, arguments.clients, arguments.seconds)
        row["memory_growth_mib"] = memory(process.pid) - before
        return row
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pipeline_port", type=int)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.pipeline_port:
        os.environ["HF_HUB_OFFLINE"] = "1"
        serve_pipeline(arguments.model, arguments.pipeline_port)
        return
    rows = []
    if arguments.results.exists():
        lines = arguments.results.read_text().splitlines()
        rows = [json.loads(line) for line in lines]
    settings = {"clients": arguments.clients, "seconds": arguments.seconds}
    for index in range(arguments.rounds):
        for contender in CONTENDERS:
            key = {"contender": contender, "round": index, **settings}
            if any(key.items() <= row.items() for row in rows):
                continue
            row = {**key, **run_round(contender, arguments)}
            rows.append(row)
            with arguments.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
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
