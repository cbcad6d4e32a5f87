"""The page that squad.py makes of its measurements.

`flags` are those of squad.py; `find` returns the measurements that have the
values asked for.
"""

import statistics
from collections.abc import Iterator

import squad_features
import squad_split
from data import MEGABYTE
from measuring import compare_means, table

RESOURCES = ("cpu_seconds", "rss")
REPORT = """# SQuAD: speed, memory and learning

    python benchmarks/squad.py --parts=features,predict,learn \\
        --output_dir=/tmp/squad_bench --report=docs/BENCHMARK_SQUAD.md

{machines}

Every run is a process of its own. RSS is the peak of the largest of its
processes; seconds of CPU are those of all.

## Windows and answers

All questions of the dev sets, max_seq_length 384, doc_stride 128. Seconds from
the questions in a file to windows (ours are written as records, too), and from
logits to the files of answers: medians of the rounds, the candidates in turn,
without imports. CPU is of the whole process, imports and both kinds of logits
included. The logits are drawn at random, the same for all: scattered over the
window, or around one place, as a trained model's are. Hugging Face is the fast
tokenizer with stride and offsets, 1,000 questions at a time, with a thread for
each core or in as many processes, and the logic of its
`postprocess_qa_predictions`, written anew. There, windows overlap by
doc_stride; here, as in the original, they start that far apart. "Times ours"
is of windows and answers together, for either kind of logits.

{features}

## Prediction

`run_squad.py --do_predict`: the whole command, with a small model
(uncased_L-2_H-128_A-2, random weights, so the scores say nothing), batches
of 32.

{predict}

## Learning

all-MiniLM-L6-v2, {train} questions of some articles of the dev sets to learn
from, {test} of others to score on (`benchmarks/squad_split.py`), {epochs}
epochs in batches of {batch}, learning rate {rate:g}, max_seq_length 128.
Hugging Face is BertForQuestionAnswering on PyTorch with the same weights,
windows, schedule, decay, clipping and dropout, and with BERT's Adam, that is
without bias correction; its logits are turned into answers and scored by our
code. "trimmed" is `--trim_batches`.

{learn}

{differences}
"""


def show_resources(line: dict) -> list[str]:
    return [f"{line['cpu_seconds']:.0f}", f"{line['rss'] / MEGABYTE:.0f}"]


def report_features(flags, find) -> Iterator[list[str]]:
    kinds = squad_features.KINDS
    for version in flags.versions:
        key = {"part": "features", "limit": flags.limit, "version": version}
        ours = None
        for name in squad_features.CANDIDATES:
            lines = find(**key, candidate=name)
            if not lines:
                continue
            median = {
                number: statistics.median(line[number] for line in lines)
                for number in ("features", "windows", *kinds, *RESOURCES)
            }
            totals = [median["features"] + median[kind] for kind in kinds]
            ours = ours or totals
            ratios = (a / b for a, b in zip(totals, ours, strict=True))
            yield [
                *(version, name, str(len(lines)), f"{median['windows']:,.0f}"),
                f"{median['features']:.2f}",
                *(f"{median[kind]:.2f}" for kind in kinds),
                " / ".join(f"{ratio:.1f}" for ratio in ratios),
                *show_resources(median),
                " / ".join(f"{x:.1%}" for x in lines[0]["same"].values()),
            ]


def report_predict(flags, find) -> Iterator[list[str]]:
    for line in find(part="predict", limit=flags.limit):
        exact = line.get("exact_match", line.get("exact"))
        yield [
            *(line["version"], "trimmed" if line["trim"] else "all padding"),
            *(f"{line['seconds']:.0f}", *show_resources(line)),
            *(f"{exact:.2f}", f"{line['f1']:.2f}"),
        ]


def find_runs(flags, find, **key) -> list[dict]:
    return find(
        **{"part": "learn", "limit": flags.limit, "epochs": flags.epochs},
        **{"learning_rate": flags.learning_rate, **key},
    )


def report_learn(flags, find) -> Iterator[list[str]]:
    for line in find_runs(flags, find):
        exact = line.get("exact_match", line.get("exact"))
        groups = (line.get(f"{x}_f1") for x in ("HasAns", "NoAns"))
        yield [
            *(line["version"], line["candidate"], str(line["seed"])),
            f"{line['train_seconds']:.0f}",
            *(f"{line['seconds']:.0f}", *show_resources(line)),
            *(f"{exact:.2f}", f"{line['f1']:.2f}"),
            *("" if x is None else f"{x:.2f}" for x in groups),
        ]


def report_differences(flags, find) -> Iterator[list[str]]:
    """Means of F1, and the standard error of their difference."""
    for version in flags.versions:
        runs = [
            [
                line["f1"]
                for line in find_runs(
                    flags, find, version=version, candidate=name
                )
            ]
            for name in ("ours", "huggingface")
        ]
        if min(map(len, runs)) < 2:
            continue
        numbers = compare_means(*runs)
        is_within = abs(numbers[2]) <= 2 * numbers[3]
        yield [
            version,
            *(f"{x:.2f}" for x in numbers),
            "yes" if is_within else "no",
        ]


def make_report(flags, find) -> str:
    machines = dict.fromkeys(line["machine"] for line in find())
    resources = "CPU, s|RSS, MB"
    return REPORT.format(
        machines="\n\n".join(machines),
        features=table(
            "Data|Candidate|Rounds|Windows|Windows, s|Scattered, s|Peaked, s"
            f"|Times ours|{resources}|Answers like ours",
            report_features(flags, find),
            texts=2,
        ),
        predict=table(
            f"Data|Batches|Seconds|{resources}|EM|F1",
            report_predict(flags, find),
            texts=2,
        ),
        train=f"{flags.limit or squad_split.TRAIN_QUESTIONS:,}",
        test=flags.limit or squad_split.TEST_QUESTIONS,
        epochs=flags.epochs,
        batch=squad_split.BATCH_SIZE,
        rate=flags.learning_rate,
        learn=table(
            f"Data|Run|Seed|Training, s|Command, s|{resources}|EM|F1|HasAns F1"
            "|NoAns F1",
            report_learn(flags, find),
            texts=2,
        ),
        differences=table(
            "F1|Ours|Hugging Face|Difference|Standard error|Within two",
            report_differences(flags, find),
            texts=1,
        ),
    )
