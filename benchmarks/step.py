"""Speed and memory of a training step and of inference, beside the peers.

    .venv-peers/bin/python benchmarks/step.py \
        --lengths_from=../shared/data/glue/MRPC/train.tsv \
        --vocab=../shared/data/vocab/bert-base-uncased-vocab.txt \
        --output=docs/BENCHMARK_STEP.md

Needs the extra `benchmarks`, and Linux (memory is read from /proc). Ours and
one peer, each a process of its own, take turns, round by round, so that both
see the same moods of the machine; then comes the next peer. Ratios are those
of the medians of the same rounds. Results are kept in --results, a line each,
and are not measured again by a second call.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import step_contenders
from data import describe_machine

ROOT = pathlib.Path(__file__).parent.parent
# Size: layers, hidden, heads; examples in a batch.
SIZES = {
    "tiny": ((2, 128, 2), 32),
    "small": ((4, 512, 8), 16),
    "base": ((12, 768, 12), 8),
}
PEERS = ("hf", "hf_compiled", "hub", "hub_xla", "ours_xla")
REAL_PEERS = ("hf_longest", "hf_maximum", "hub_maximum")
NAMES = {
    "ours": "keras_bert_ref",
    "ours_xla": "keras_bert_ref, `--jit_compile`",
    "hf": "Hugging Face, PyTorch",
    "hf_compiled": "Hugging Face, torch.compile",
    "hub": "keras-hub",
    "hub_xla": "keras-hub, XLA",
    "hf_longest": "Hugging Face, padded to the longest",
    "hf_maximum": "Hugging Face, padded to 128",
    "hub_maximum": "keras-hub, padded to 128",
}
PACKAGES = ("tensorflow", "keras", "keras-hub", "torch", "transformers")
ROUND_SECONDS = 4.0


class Contender:
    """A process that takes steps when it is told to."""

    def __init__(self, kind: str, size: str, lengths: list[list[int]]):
        shape, batch_size = SIZES[size]
        job = {"kind": kind, "shape": shape, "batch_size": batch_size}
        self.process = subprocess.Popen(
            [sys.executable, step_contenders.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={
                **os.environ,
                # PyTorch has oneDNN on; so it is for all.
                "TF_ENABLE_ONEDNN_OPTS": "1",
                "HF_HUB_OFFLINE": "1",
            },
        )
        self.ask({**job, "lengths": lengths})

    def ask(self, message: dict) -> dict:
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"A contender died at {message}.")
        return json.loads(line)

    def seconds(self, mode: str, steps: int) -> float:
        return self.ask({"mode": mode, "steps": steps})["seconds"] / steps

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def measure_pair(peer: str, size: str, rounds: int, lengths) -> list[dict]:
    """Ours and a peer in turn, first inference, then training."""
    results = []
    kind = peer.removesuffix("_maximum") if lengths else peer
    padded = pad_lengths(peer, lengths)
    modes = ("train",) if lengths else ("infer", "train")
    with (
        Contender("ours", size, lengths) as ours,
        Contender(kind, size, padded) as other,
    ):
        pair = {"ours": ours, peer: other}
        for mode in modes:
            {
                name: c.seconds(mode, max(2, len(lengths or [])))
                for name, c in pair.items()
            }
            warm = {name: c.seconds(mode, 1) for name, c in pair.items()}
            steps = {
                name: max(1, min(100, round(ROUND_SECONDS / warm[name])))
                for name in pair
            }
            if lengths:
                steps = dict.fromkeys(pair, len(lengths))
            times = {name: [] for name in pair}
            peaks = []
            for _ in range(rounds):
                peaks.append(ours.ask({"mode": "peak"})["peak"])
                for name, contender in pair.items():
                    times[name].append(contender.seconds(mode, steps[name]))
            for name, contender in pair.items():
                results.append(
                    {
                        "size": size,
                        "work": "real" if lengths else "equal",
                        "mode": mode,
                        "against": peer,
                        "name": name,
                        "seconds": times[name],
                        "peak": statistics.median(peaks),
                        "memory": contender.ask({"mode": "memory"})["memory"],
                    }
                )
    return results


def pad_lengths(peer: str, lengths):
    if not lengths:
        return None
    if peer.endswith("_maximum"):
        return [[step_contenders.LENGTH] * len(row) for row in lengths]
    return lengths


def read_lengths(path: str, vocab: str) -> list[int]:
    """Tokens of MRPC's pairs, as many as a sequence holds."""
    from keras_bert_ref.tokenization import FullTokenizer

    tokenizer = FullTokenizer(vocab, do_lower_case=True)
    rows = pathlib.Path(path).read_text(encoding="utf-8").split("\n")[1:]
    pairs = [row.split("\t")[3:5] for row in rows if row]
    return [
        min(
            step_contenders.LENGTH,
            3 + sum(len(tokenizer.tokenize(text)) for text in pair),
        )
        for pair in pairs
    ]


def equal_table(results: list[dict], mode: str) -> list[str]:
    rows = [
        "| Model, batch | Peer | Sequences/s | Ours in the same rounds "
        "| Ours / peer | Share of matmul peak (ours) "
        "| Peak memory, MB (ours) |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, ((layers, hidden, heads), batch) in SIZES.items():
        for peer in PEERS:
            pair = find_pair(results, size, "equal", mode, peer)
            if not pair:
                continue
            ours, other = pair
            flops = step_contenders.flops(layers, hidden, mode) * batch
            share = flops / other["median"] / other["peak"]
            our_share = flops / ours["median"] / ours["peak"]
            rows.append(
                f"| {size} {layers}/{hidden}/{heads}, {batch} x 128 "
                f"| {NAMES[peer]} | {batch / other['median']:.1f} "
                f"| {batch / ours['median']:.1f} "
                f"| {other['median'] / ours['median']:.2f} "
                f"| {share:.0%} ({our_share:.0%}) "
                f"| {other['memory']:.0f} ({ours['memory']:.0f}) |"
            )
    return rows


def real_table(results: list[dict]) -> list[str]:
    rows = [
        "| Model, batch | Peer | Sequences/s | Ours in the same rounds "
        "| Ours / peer |",
        "|---|---|---|---|---|",
    ]
    for size, ((layers, hidden, heads), batch) in SIZES.items():
        for peer in REAL_PEERS:
            pair = find_pair(results, size, "real", "train", peer)
            if not pair:
                continue
            ours, other = pair
            rows.append(
                f"| {size} {layers}/{hidden}/{heads}, {batch} "
                f"| {NAMES[peer]} | {batch / other['median']:.1f} "
                f"| {batch / ours['median']:.1f} "
                f"| {other['median'] / ours['median']:.2f} |"
            )
    return rows


def find_pair(results, size, work, mode, peer):
    found = {
        r["name"]: {**r, "median": statistics.median(r["seconds"])}
        for r in results
        if (r["size"], r["work"], r["mode"], r["against"])
        == (size, work, mode, peer)
    }
    return (found["ours"], found[peer]) if found else None


REPORT = """# Speed of a step

    {command}

{machine}

A classifier with two labels and dropout 0.1; AdamW with weight decay and
clipping; float32. Medians of {rounds} rounds; in each, ours and the peer ran
one after the other, each a process of its own. oneDNN is on for all. Share of
peak counts matmuls with weights and in attention against a large float32 matmul
in TensorFlow, measured between the rounds.

## Training, all sequences 128 tokens

{train}

## Inference, all sequences 128 tokens

{infer}

## Training on the lengths of real sentence pairs

The lengths of MRPC's training pairs, in batches drawn at random, the same for
all. Ours spends no work on padding; a peer pads to the longest of the batch or
to 128.

{real}
{notes}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths_from", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--output", help="a Markdown file for the tables")
    parser.add_argument("--results", default="step_results.jsonl")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES))
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--real_peers", nargs="*", default=list(REAL_PEERS))
    parser.add_argument("--notes", help="a file with remarks for the report")
    flags = parser.parse_args()
    path = pathlib.Path(flags.results)
    lines = path.read_text().splitlines() if path.exists() else []
    results = [json.loads(line) for line in lines]
    lengths = read_lengths(flags.lengths_from, flags.vocab)
    jobs = [(size, peer, False) for size in flags.sizes for peer in flags.peers]
    jobs += [
        (size, peer, True) for size in flags.sizes for peer in flags.real_peers
    ]
    for size, peer, is_real in jobs:
        work = "real" if is_real else "equal"
        if find_pair(results, size, work, "train", peer):
            continue
        batch = SIZES[size][1]
        rows = step_contenders.draw_batches(lengths, batch) if is_real else None
        start = time.time()
        new = measure_pair(peer, size, flags.rounds, rows)
        for result in new:
            print(
                size,
                work,
                result["mode"],
                result["name"],
                f"{batch / statistics.median(result['seconds']):.2f}/s",
                f"{result['memory']:.0f} MB ({time.time() - start:.0f} s)",
                flush=True,
            )
        results += new
        with path.open("a") as file:
            file.writelines(json.dumps(result) + "\n" for result in new)
    report = REPORT.format(
        command=" ".join(["python", *sys.argv]),
        machine=describe_machine(PACKAGES),
        rounds=flags.rounds,
        train="\n".join(equal_table(results, "train")),
        infer="\n".join(equal_table(results, "infer")),
        real="\n".join(real_table(results)),
        notes="\n" + pathlib.Path(flags.notes).read_text()
        if flags.notes
        else "",
    )
    print(report)
    if flags.output:
        pathlib.Path(flags.output).write_text(report)


if __name__ == "__main__":
    main()
