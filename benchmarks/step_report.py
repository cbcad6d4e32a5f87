"""The tables of docs/BENCHMARK_STEP.md, from the rounds that step.py stored."""

import pathlib
import statistics
import textwrap
from typing import NamedTuple

from measuring import table
from step_contenders import flops
from step_work import NAMES, NOT_A_PEER, SIZES, WORKS

# What no number of the results says; it follows the tables as it is.
NOTES = pathlib.Path(__file__).with_name("step_notes.md")
REPORT = """# Speed of a training step and of inference

    .venv-peers/bin/python benchmarks/step.py
    .venv-peers/bin/python benchmarks/step.py --report=docs/BENCHMARK_STEP.md

{machines}

AdamW with weight decay and clipping, dropout 0.1, float32; a classifier has two
labels. Random weights. MiniLM has the erf form of GELU, the others the tanh
form (keras-hub always the tanh form). Medians of at least {rounds} rounds; in
each round ours and the peers ran one after the other, each in a process of its
own. oneDNN is on for all. Ours / peer is the ratio of the medians of the rounds
that both took part in, and in brackets the lowest and the highest ratio of a
round. Share of peak compares the matmuls with weights and in attention with a
large float32 matmul in TensorFlow, measured between the rounds; the last block
counts as a whole. Memory is the growth of the process after its imports, at its
peak.

Hugging Face is BertForSequenceClassification, in pre-training
BertForPreTraining with its head at the masked positions only. keras-hub has no
next-sentence task: in pre-training it predicts masked words only. ONNX Runtime
runs Hugging Face's float32 export, optimised by ONNX Runtime's own tool for
transformers.

## Targets

{targets}

{tables}

{notes}"""
REAL = """\
Random batches with the lengths of {task}'s examples, the same for all. Ours \
does no work on padding{sorted}; a peer pads to the longest sequence of the \
batch where nothing else is said."""


class Pair(NamedTuple):
    """Ours and a peer in the same rounds.

    Attributes:
        seconds: of ours and of the peer, for a sequence, medians.
        ratios: how many times as fast ours was, round by round.
        growths: memory in MB, ours and the peer's.
        peak: operations a second of a matmul, median.
        num_runs: how many calls the rounds come from.
    """

    seconds: tuple[float, float]
    ratios: list[float]
    growths: tuple[float, float]
    peak: float
    num_runs: int

    @property
    def ratio(self) -> float:
        return self.seconds[1] / self.seconds[0]


def find_pair(lines: list[dict], peer: str, **key) -> Pair | None:
    both = {"ours", peer}
    rounds = [
        x
        for x in lines
        if key.items() <= x.items() and both <= x.get("seconds", {}).keys()
    ]
    if not rounds:
        return None
    times = [[x["seconds"][name] for x in rounds] for name in ("ours", peer)]
    return Pair(
        tuple(map(statistics.median, times)),
        [theirs / ours for ours, theirs in zip(*times, strict=True)],
        tuple(
            max(x["growth"][name] for x in rounds) for name in ("ours", peer)
        ),
        statistics.median(x["peak"] for x in rounds),
        len({x["in"] for x in rounds}),
    )


def describe_size(size: str, work: str) -> str:
    layers, hidden, heads = SIZES[size].shape
    batch = WORKS[work].batch_size or SIZES[size].batch_size
    return f"{size} {layers}/{hidden}/{heads}, {batch}"


def work_table(lines: list[dict], work: str, label: str) -> str:
    """A row for each size and peer that was measured."""
    kind = WORKS[work]
    rows = []
    for size, model in SIZES.items():
        for peer in kind.peers:
            key = {"size": size, "work": work, "label": label}
            pair = find_pair(lines, peer, **key)
            if pair is None:
                continue
            speeds = [f"{1 / s:.1f}" for s in reversed(pair.seconds)]
            if kind.batch_size == 1:
                speeds = [f"{1000 * s:.2f}" for s in reversed(pair.seconds)]
            count = flops(*model.shape[:2], kind.length, kind.mode)
            shares = [count / s / pair.peak for s in pair.seconds]
            share = f"{shares[1]:.0%} ({shares[0]:.0%})"
            low, high = min(pair.ratios), max(pair.ratios)
            ours, theirs = pair.growths
            rows.append(
                [
                    *(describe_size(size, work), NAMES[peer], *speeds),
                    f"{pair.ratio:.2f} ({low:.2f} to {high:.2f})",
                    *([] if kind.task else [share]),
                    f"{theirs} ({ours})",
                    f"{len(pair.ratios)} in {pair.num_runs}",
                ]
            )
    unit = "Milliseconds" if kind.batch_size == 1 else "Sequences/s"
    share = "" if kind.task else "Share of matmul peak (ours)|"
    return rows and table(
        f"Model, batch|Peer|{unit}|Ours in the same rounds|Ours / peer|{share}"
        "Growth of memory, MB (ours)|Rounds, in calls",
        rows,
        texts=2,
    )


def best(lines: list[dict], peers, **key) -> tuple[str, Pair] | None:
    """The peer that ours is least ahead of."""
    pairs = {peer: find_pair(lines, peer, **key) for peer in peers}
    pairs = {peer: pair for peer, pair in pairs.items() if pair}
    return min(pairs.items(), key=lambda x: x[1].ratio, default=None)


def target_rows(lines: list[dict], label: str) -> list[list[str]]:
    """What issue 14 asks for, and what is reached; unmeasured rows are left
    out."""
    rows = []

    def add(work, size, kind, target, found):
        if target and found:
            peer, pair = found
            is_reached = round(pair.ratio, 2) >= target
            rows.append(
                [
                    *(WORKS[work].title, size, f"{kind}: {NAMES[peer]}"),
                    *(f"{pair.ratio:.2f}", f"{target:.2f}"),
                    "reached" if is_reached else "missed",
                ]
            )

    for work, kind in WORKS.items():
        peers = [peer for peer in kind.peers if peer not in NOT_A_PEER]
        longest = [peer for peer in peers if not peer.endswith("_128")]
        for size in SIZES:
            key = {"size": size, "work": work, "label": label}
            found = best(lines, peers, **key)
            add(work, size, "best peer", kind.targets.get(size), found)
            found = best(lines, longest, **key)
            text = "best, padded to the longest"
            add(work, size, text, kind.longest_target, found)
            found = best(lines, ["hf"], **key)
            add(work, size, "eager", kind.eager_target, found)
    return rows


def memory_rows(lines: list[dict], label: str) -> list[list[str]]:
    """Growth of memory after the imports, beside eager PyTorch's."""
    rows = []
    for work, kind in WORKS.items():
        for size in SIZES:
            key = {"size": size, "work": work, "label": label}
            if pair := find_pair(lines, "hf", **key):
                ours, theirs = pair.growths
                verdict = "reached" if ours <= theirs else "missed"
                rows.append([kind.title, size, str(ours), str(theirs), verdict])
    return rows


def make_report(lines: list[dict], label: str) -> str:
    rounds = [x for x in lines if x.get("label") == label and "seconds" in x]
    if not rounds:
        raise SystemExit(f"There are no rounds with --label={label} yet.")
    runs = {x["run"]: x for x in lines if "run" in x}
    used = [runs[run] for run in dict.fromkeys(x["in"] for x in rounds)]
    sections = []
    for work, kind in WORKS.items():
        if rows := work_table(lines, work, label):
            by_length = (
                ", and takes the sequences sorted by length, as open_model does"
            )
            is_sorted = kind.mode == "infer"
            text = REAL.format(
                task=kind.task, sorted=by_length if is_sorted else ""
            )
            text = [textwrap.fill(text, width=80)] if kind.task else []
            sections += [f"## {kind.title}", *text, rows]
    failed = {
        (x["size"], x["work"], *item)
        for x in lines
        if x.get("label") == label
        for item in x.get("failed", {}).items()
    }
    if failed:
        cells = [
            [WORKS[work].title, size, NAMES.get(name, name), why]
            for size, work, name, why in sorted(failed)
        ]
        titles = "Work|Model|Contender|What it said"
        sections += ["## What did not run", table(titles, cells, texts=4)]
    counts = [
        len(pair.ratios)
        for work, kind in WORKS.items()
        for size in SIZES
        for peer in kind.peers
        if (pair := find_pair(lines, peer, size=size, work=work, label=label))
    ]
    commits = ", ".join(dict.fromkeys(x["commit"] for x in used))
    machines = "\n\n".join(dict.fromkeys(x["machine"] for x in used))
    targets = [
        table(
            "Work|Model|Against|Ours / peer|Target|",
            target_rows(lines, label),
            texts=3,
        ),
        "Growth of memory in MB after the imports, at most eager PyTorch's:",
        table("Work|Model|Ours|PyTorch|", memory_rows(lines, label), texts=2),
    ]
    return REPORT.format(
        machines=f"{machines}\n\nCode: {commits}.",
        rounds=min(counts),
        targets="\n\n".join(targets),
        tables="\n\n".join(sections),
        notes=NOTES.read_text(),
    )
