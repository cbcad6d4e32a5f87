"""Speed and memory of a training step and of inference, beside the peers.

    .venv-peers/bin/python benchmarks/step.py
    .venv-peers/bin/python benchmarks/step.py --sizes tiny --works train infer \
        --peers hf hf_compiled --max_seconds=140
    .venv-peers/bin/python benchmarks/step.py --report=docs/BENCHMARK_STEP.md

Needs the extra `benchmarks`, and Linux (memory is read from /proc). Ours and
the peers, each a process of its own, take turns, round by round, so that all
see the same moods of the machine. A round is a line of the results' file as
soon as it is over; a second call measures only the rounds that are missing,
so a table can be made in slices. --label keeps states of the code apart. A
round in which other programs took more than a tenth of the cores is kept, but
does not count: it is measured again, and the report leaves it out.
--report measures nothing.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable

import step_contenders
import step_report
from data import describe_machine
from step_work import SIZES, WORKS, make_job

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/results"
PACKAGES = (
    *("tensorflow", "keras", "keras-hub", "torch", "transformers"),
    *("onnxruntime",),
)


# Above this share of the cores for others, a round does not count.
MAX_OTHERS = 0.1


class Contender:
    """A process that takes steps when it is told to."""

    def __init__(self, job: dict):
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, step_contenders.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={
                **os.environ,
                # PyTorch has oneDNN on; so it is for all.
                "TF_ENABLE_ONEDNN_OPTS": "1",
                "HF_HUB_OFFLINE": "1",
                "PYTHONPATH": str(ROOT),
            },
        )
        self.send(job)
        self.num_batches = len(job["lengths"])
        self.batch_size = len(job["lengths"][0])

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            last = self.log.read().strip().splitlines()[-1:]
            raise RuntimeError(f"A contender died: {' '.join(last)}")
        return json.loads(line)

    def ask(self, what: str, **more) -> dict:
        self.send({"ask": what, **more})
        return self.receive()

    def take_steps(self, count: int) -> float:
        """Seconds a sequence."""
        seconds = self.ask("steps", steps=count)["seconds"]
        return seconds / count / self.batch_size

    def warm_up(self, round_seconds: float) -> None:
        """Also finds how many steps fill a round, in whole passes."""
        self.receive()  # it is built
        self.take_steps(max(2, self.num_batches))
        seconds = self.take_steps(self.num_batches) * self.batch_size
        passes = round(round_seconds / seconds / self.num_batches)
        self.steps = self.num_batches * max(1, passes)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.log.close()


class Results:
    """Lines of a file: runs (machine, code), rounds, contenders that fail."""

    def __init__(self, path: pathlib.Path, label: str):
        self.path, self.label, self.run = path, label, None
        self.lines = read(path)

    def count_rounds(self, **key) -> int:
        """How often a contender was measured; it counts as done if it fails."""
        name = key.pop("name")
        key["label"] = self.label
        lines = [x for x in self.lines if key.items() <= x.items()]
        if any(name in x.get("failed", {}) for x in lines):
            return sys.maxsize
        return sum(name in x.get("seconds", {}) for x in quiet(lines))

    def add(self, **line) -> None:
        if self.run is None:
            self.run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._write({"run": self.run, "machine": describe(), **commit()})
        self._write({"in": self.run, "label": self.label, **line})

    def _write(self, line: dict) -> None:
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def read(path: pathlib.Path) -> list[dict]:
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def quiet(lines: list[dict]) -> list[dict]:
    """Lines without the rounds that others disturbed."""
    return [x for x in lines if x.get("others", 0) <= MAX_OTHERS]


def watch_others(pids: Iterable[int]) -> Callable[[], float]:
    """Returns what tells the share of the cores that other processes took
    since now."""
    pids = list(pids)

    def read_clocks():
        total = pathlib.Path("/proc/stat").read_text().split()[1:9]
        user, nice, system, idle, wait, *interrupts = map(int, total)
        busy = user + nice + system + sum(interrupts)
        own = 0
        for pid in pids:
            text = pathlib.Path(f"/proc/{pid}/stat").read_text()
            own += sum(map(int, text.rpartition(")")[2].split()[11:13]))
        return busy - own, busy + idle + wait

    before = read_clocks()

    def share() -> float:
        others, total = (
            x - y for x, y in zip(read_clocks(), before, strict=True)
        )
        return max(0.0, others / max(1, total))

    return share


def describe() -> str:
    return describe_machine(PACKAGES)


def commit() -> dict:
    """The state of the code that is measured."""

    def git(*words):
        command = ["git", "-C", ROOT, *words]
        return subprocess.run(command, capture_output=True, text=True)

    found = git("rev-parse", "--short", "HEAD").stdout.strip() or "unknown"
    changes = git("diff", "--quiet", "HEAD", "--", ".", f":!{RESULTS}")
    return {"commit": found + ("-dirty" if changes.returncode else "")}


def default_path(name: str) -> pathlib.Path:
    """A file for each kind of machine."""
    machine = describe_machine(()).partition(";")[0].lower()
    return RESULTS / f"{name}_{re.sub(r'[^a-z0-9]+', '_', machine)}.jsonl"


def measure(jobs: dict[str, dict], rounds: int, flags, add) -> None:
    """Lets contenders take turns, ours first; a call of `add` a round.

    Args:
        jobs: by name of the contender.
        flags: `round_seconds`; `deadline`, a time when no round may begin.
    """
    contenders = {name: Contender(job) for name, job in jobs.items()}
    try:
        for name in list(contenders):
            try:
                contenders[name].warm_up(flags.round_seconds)
            except RuntimeError as error:
                contenders.pop(name).close()
                add(failed={name: str(error)[:200]})
        if set(contenders) <= {"ours"}:
            return
        for _ in range(rounds):
            if time.time() > flags.deadline:
                return
            line = {"peak": round(contenders["ours"].ask("peak")["peak"])}
            others = watch_others(c.process.pid for c in contenders.values())
            seconds = {n: c.take_steps(c.steps) for n, c in contenders.items()}
            memory = {n: c.ask("memory") for n, c in contenders.items()}
            line["seconds"] = {n: float(f"{s:.5g}") for n, s in seconds.items()}
            line["others"] = round(others(), 3)
            for key in ("memory", "growth"):
                line[key] = {n: round(m[key]) for n, m in memory.items()}
            add(**line, load=os.getloadavg()[0])
    finally:
        for contender in contenders.values():
            contender.close()


def measure_all(flags, results: Results) -> None:
    for size in flags.sizes:
        for work in flags.works:
            missing = {}
            for peer in flags.peers or WORKS[work].peers:
                done = results.count_rounds(size=size, work=work, name=peer)
                if peer in WORKS[work].peers and done < flags.rounds:
                    missing[peer] = flags.rounds - done
            together = flags.together or SIZES[size].together
            peers = sorted(missing, key=missing.get)
            for i in range(0, len(peers), together):
                if time.time() > flags.deadline:
                    return
                group = ["ours", *peers[i : i + together]]
                print(time.strftime("%X"), size, work, *group, flush=True)

                def add(size=size, work=work, **line):
                    results.add(size=size, work=work, **line)
                    print(
                        *(line.get("failed", {}).items()),
                        f"others {line.get('others', 0):.0%}:",
                        *(
                            f"{name} {1 / s:.4g}/s"
                            for name, s in line.get("seconds", {}).items()
                        ),
                        flush=True,
                    )

                measure(
                    {name: make_job(size, work, name) for name in group},
                    max(missing[name] for name in group[1:]),
                    flags,
                    add,
                )


def add_flags(parser: argparse.ArgumentParser, name: str) -> None:
    """What benchmarks that measure in rounds share."""
    parser.add_argument("--round_seconds", type=float, default=2.0)
    parser.add_argument("--max_seconds", type=float, default=float("inf"))
    parser.add_argument("--label", default="now", help="state of the code")
    parser.add_argument(
        "--results", type=pathlib.Path, default=default_path(name)
    )
    parser.add_argument("--report", type=pathlib.Path, help="a Markdown file")


def start(flags) -> None:
    """Sets the end of the slice; SIGTERM ends the contenders, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    flags.deadline = time.time() + flags.max_seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=[*SIZES])
    parser.add_argument("--works", nargs="*", choices=WORKS, default=[*WORKS])
    parser.add_argument("--peers", nargs="*", help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--together", type=int, help="peers at a time")
    add_flags(parser, "step")
    flags = parser.parse_args()
    if flags.report:
        lines = quiet(read(flags.results))
        report = step_report.make_report(lines, flags.label)
        flags.report.write_text(report)
        return
    start(flags)
    measure_all(flags, Results(flags.results, flags.label))


if __name__ == "__main__":
    main()
