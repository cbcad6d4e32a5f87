"""How the cost of BERT-Small grows with batch, length and replicas.

    .venv-peers/bin/python benchmarks/scaling.py
    .venv-peers/bin/python benchmarks/scaling.py --report=docs/SCALING.md

Sequences a second and memory over batches of 1 to 64 and lengths of 16 to 512,
ours and Hugging Face's in turns; and training on 1, 2 and 4 replicas that share
the same cores and the same batch, which shows what distribution itself costs.
Results are kept and resumed as those of step.py are; --max_seconds and --only
take slices. --report measures nothing; it writes a page and its picture.
"""

import argparse
import itertools
import pathlib
import statistics
import time

import step
from measuring import table
from step_work import SIZES

BATCHES = (1, 4, 16, 64)
LENGTHS = (16, 32, 64, 128, 256, 512)
MAX_TOKENS = 8192
MODES = {"train": "Training", "infer": "Inference"}
REPLICAS = (1, 2, 4)
SIZE = "small"
REPLICAS_LENGTH = 128
REPORT = """# How cost grows

    .venv-peers/bin/python benchmarks/scaling.py
    .venv-peers/bin/python benchmarks/scaling.py --report=docs/SCALING.md

{machines}

BERT-Small (4/512/8), a classifier with two labels, float32; all sequences of a
batch have the same length; at most 8,192 tokens a batch. Medians of {rounds}
rounds; in each, ours and Hugging Face on PyTorch ran one after the other, each
in a process of its own. Memory is the growth of the process after its imports,
at its peak.

![Sequences per second and memory]({picture})

## Ours / Hugging Face

Sequences a second:

{ratios}

A batch of 1 costs most a sequence: the optimizer's step over 29 million weights
is the same for any batch. From 16 to 64 sequences, speed grows by a fifth at
most. Memory grows more slowly than Hugging Face's, from a higher start
([why](BENCHMARK_STEP.md#where-it-falls-short)).

## Replicas

Training with a batch of {batch} sequences of {length} tokens, shared by
replicas on logical devices of the same CPU. The work is the same, so what is
slower than one replica is the cost of distribution: a copy of the weights and
of the optimizer's step for each replica, and the sum of their gradients.

{replicas}
"""


def make_job(kind: str, mode: str, batch: int, length: int) -> dict:
    model = SIZES[SIZE]
    return {
        "kind": kind,
        "shape": model.shape,
        "is_erf": model.is_erf,
        "mode": mode,
        "lengths": [[length] * batch],
        "pad_to": None,
    }


def points() -> list[dict]:
    return [
        {"mode": mode, "batch": batch, "length": length}
        for mode, batch, length in itertools.product(MODES, BATCHES, LENGTHS)
        if batch * length <= MAX_TOKENS
    ]


def measure_all(flags, results: step.Results) -> None:
    tasks = []
    if "replicas" not in flags.only:
        tasks = [
            (point, {k: make_job(k, **point) for k in ("ours", "hf")})
            for point in points()
            if not flags.only or point["mode"] in flags.only
        ]
    if "replicas" in flags.only or not flags.only:
        batch = SIZES[SIZE].batch_size
        job = make_job("replicas", "train", batch, REPLICAS_LENGTH)
        names = {1: "ours", 2: "replicas_2", 4: "replicas_4"}
        jobs = {names[n]: {**job, "replicas": n} for n in REPLICAS}
        tasks.append(({"mode": "replicas"}, jobs))
    for point, jobs in tasks:
        name = list(jobs)[-1]
        missing = flags.rounds - results.count_rounds(name=name, **point)
        if missing <= 0:
            continue
        if time.time() > flags.deadline:
            return

        def add(point=point, **line):
            results.add(**point, **line)
            print(*point.values(), line.get("seconds", line), flush=True)

        step.measure(jobs, missing, flags, add)


def find(lines: list[dict], **key) -> dict[str, tuple[float, float]]:
    """Sequences a second and memory, medians by contender."""
    rounds = [x for x in lines if key.items() <= x.items() and "seconds" in x]
    names = {name for x in rounds for name in x["seconds"]}
    return {
        name: (
            1 / statistics.median(x["seconds"][name] for x in rounds),
            statistics.median(x["growth"][name] for x in rounds),
        )
        for name in sorted(names)
    }


def draw(lines: list[dict], path: pathlib.Path) -> None:
    """Speed above memory, training beside inference; ours is solid."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot, ticker

    figure, panels = pyplot.subplots(2, 2, figsize=(10, 7), sharex=True)
    for column, (mode, title) in enumerate(MODES.items()):
        for row, what in enumerate(("sequences/s", "memory, MB")):
            panel = panels[row][column]
            for color, batch in enumerate(BATCHES):
                for name, style in (("ours", "-"), ("hf", "--")):
                    found = {
                        length: find(
                            lines, mode=mode, batch=batch, length=length
                        ).get(name)
                        for length in LENGTHS
                    }
                    found = {k: v[row] for k, v in found.items() if v}
                    panel.plot(
                        list(found),
                        list(found.values()),
                        style,
                        color=f"C{color}",
                        marker=".",
                        label=f"batch of {batch}" if name == "ours" else None,
                    )
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:,.0f}")
            panel.yaxis.set_minor_locator(ticker.NullLocator())
            panel.set_title(f"{title}: {what}")
            panel.grid(alpha=0.3)
    panels[0][0].legend()
    for panel in panels[1]:
        panel.set_xticks(LENGTHS, map(str, LENGTHS))
        panel.set_xlabel("tokens a sequence")
    figure.suptitle("keras_bert_ref (solid), Hugging Face on PyTorch (dashed)")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def ratio_rows(lines: list[dict]) -> list[list[str]]:
    rows = []
    for mode, batch in itertools.product(MODES, BATCHES):
        row = [MODES[mode], str(batch)]
        for length in LENGTHS:
            found = find(lines, mode=mode, batch=batch, length=length)
            cell = "–"
            if {"ours", "hf"} <= found.keys():
                cell = f"{found['ours'][0] / found['hf'][0]:.2f}"
            row.append(cell)
        rows.append(row)
    return rows


def make_report(lines: list[dict], picture: str) -> str:
    rounds = [x for x in lines if "seconds" in x]
    if not rounds:
        raise SystemExit("There are no rounds yet.")
    counts = {}
    for x in rounds:
        point = (x["mode"], x.get("batch"), x.get("length"))
        counts[point] = counts.get(point, 0) + 1
    replicas = find(lines, mode="replicas")
    one = replicas.get("ours", (0, 0))[0]
    rows = [
        [
            name.removeprefix("replicas_").replace("ours", "1"),
            *(f"{speed:.1f}", f"{one / speed - 1:.0%}", f"{memory:.0f}"),
        ]
        for name, (speed, memory) in replicas.items()
    ]
    machines = dict.fromkeys(x["machine"] for x in lines if "run" in x)
    return REPORT.format(
        machines="\n\n".join(machines),
        rounds=min(counts.values()),
        picture=picture,
        ratios=table(
            f"|Batch|{'|'.join(f'{x} tokens' for x in LENGTHS)}",
            ratio_rows(lines),
            texts=1,
        ),
        batch=SIZES[SIZE].batch_size,
        length=REPLICAS_LENGTH,
        replicas=table(
            "Replicas|Sequences/s|Longer step|Growth of memory, MB",
            rows,
            texts=0,
        ),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="*", choices=[*MODES, "replicas"], default=[]
    )
    parser.add_argument("--rounds", type=int, default=3)
    step.add_flags(parser, "scaling")
    flags = parser.parse_args()
    if flags.report:
        lines = step.quiet(step.read(flags.results))
        picture = flags.report.with_name("scaling.png")
        draw(lines, picture)
        flags.report.write_text(make_report(lines, picture.name))
        return
    step.start(flags)
    measure_all(flags, step.Results(flags.results, flags.label))


if __name__ == "__main__":
    main()
