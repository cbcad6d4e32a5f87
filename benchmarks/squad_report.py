"""The page that squad.py makes of its measurements.

`flags` are those of squad.py; `find` returns the measurements that have the
values asked for.
"""

import functools
import json
import statistics
from collections.abc import Iterator

import squad_features
import squad_split
from data import MEGABYTE
from measuring import COMPARISON, compare_means, table

from keras_bert_ref.squad import answers as squad_answers
from keras_bert_ref.squad import metrics as metric

RESOURCES = ("cpu_seconds", "rss")
REPORT = """# SQuAD: speed, memory and learning

    O=--output_dir=/tmp/squad_bench
    P=.venv-peers/bin/python
    $P benchmarks/squad.py $O --parts=features,predict --rounds=7
    taskset -c 0 $P benchmarks/squad.py $O --parts=learn --versions=v1.1 &
    taskset -c 1 $P benchmarks/squad.py $O --parts=learn --versions=v2.0 \\
        --runs=ours,huggingface; wait
    $P benchmarks/squad.py $O --report=docs/BENCHMARK_SQUAD.md

{machines}

Every run is a process of its own. RSS is the peak of the largest of its
processes; seconds of CPU are those of all.

## Windows and answers

All questions of the dev sets, max_seq_length 384, doc_stride 128. Seconds from
the questions in a file to windows, then to TFRecords, which Hugging Face has
none of, and from logits to the files of answers: medians of the rounds, the
candidates in turn, without imports. CPU is of the whole process, imports and
both kinds of logits included. The logits are drawn at random, the same for
all: scattered over the window, or around one place, as a trained model's are.
Hugging Face is the fast tokenizer with stride and offsets, 1,000 questions at a
time, with a thread for each core or in as many processes, and the logic of its
`postprocess_qa_predictions`, written anew. There, windows overlap by
doc_stride; here, as in the original, they start that far apart. "Times ours" is
of windows and answers together, without the records, for either kind of logits.

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
windows, schedule, decay and dropout, and with BERT's Adam, that is without bias
correction. Like the original, ours counts every use of a word on its own in
the norm that gradients are clipped by; PyTorch adds them up. Its logits are
turned into answers and scored by our code, for which it has to import
TensorFlow: training alone is the time to compare. "trimmed" is
`--trim_batches`. With v2.0, "always answered" is the F1 of those questions that
have an answer, if none is left without one.

{learn}

The difference of the means beside its standard error (Welch):

{differences}

The {test} questions of v2.0 are best left without an answer by a model that
cannot tell which have one: that gives F1 {baseline:.2f}.
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
            records = [x["records"] for x in lines if x["records"]]
            totals = [median["features"] + median[kind] for kind in kinds]
            ours = ours or totals
            ratios = (a / b for a, b in zip(totals, ours, strict=True))
            yield [
                *(version, name, str(len(lines)), f"{median['windows']:,.0f}"),
                f"{median['features']:.2f}",
                f"{statistics.median(records):.2f}" if records else "",
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
        **{"learning_rate": flags.learning_rate, **squad_split.SIZES, **key},
    )


def always_answered(flags, line: dict) -> float | None:
    """F1 of questions with an answer, if "no answer" is not to be chosen."""
    if line["version"] == "v1.1":
        return None
    folder = (
        flags.output_dir / f"learn/{line['version']}_{flags.limit or 'all'}"
    )
    run = folder / f"{line['candidate']}_{line['seed']}"
    nbest = json.loads((run / "nbest_predictions.json").read_text())
    answers = squad_answers.choose_answers(nbest, {}, 0.0)
    articles = squad_split.read(str(folder), "test.json")
    return metric.evaluate_v2(articles, answers)["HasAns_f1"]


def report_learn(flags, find) -> Iterator[list[str]]:
    for line in find_runs(flags, find):
        exact = line.get("exact_match", line.get("exact"))
        groups = [line.get(f"{x}_f1") for x in ("HasAns", "NoAns")]
        groups.append(always_answered(flags, line))
        yield [
            *(line["version"], line["candidate"], str(line["seed"])),
            *(str(line["cores"]), f"{line['train_seconds']:.0f}"),
            *(f"{line['seconds']:.0f}", *show_resources(line)),
            *(f"{exact:.2f}", f"{line['f1']:.2f}"),
            *("" if x is None else f"{x:.2f}" for x in groups),
        ]


def report_differences(flags, find) -> Iterator[list[str]]:
    def f1(line: dict) -> float:
        return line["f1"]

    measures = [("v1.1", "F1", f1), ("v2.0", "F1", f1)]
    always = functools.partial(always_answered, flags)
    measures.append(("v2.0", "always answered", always))
    for version, name, measure in measures:
        runs = [
            list(map(measure, find_runs(flags, find, version=version, **who)))
            for who in ({"candidate": "ours"}, {"candidate": "huggingface"})
        ]
        if cells := compare_means(*runs):
            yield [version, name, *cells]


def make_report(flags, find) -> str:
    machines = dict.fromkeys(line["machine"] for line in find())
    resources = "CPU, s|RSS, MB"
    return REPORT.format(
        machines="\n\n".join(machines),
        features=table(
            "Data|Candidate|Rounds|Windows|Windows, s|Records, s|Scattered, s"
            "|Peaked, s"
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
        baseline=max(
            (
                100 * x["NoAns_total"] / x["total"]
                for x in find(version="v2.0", part="learn")
            ),
            default=0,
        ),
        learn=table(
            f"Data|Run|Seed|Cores|Training, s|Command, s|{resources}|EM|F1"
            "|HasAns F1|NoAns F1|Always answered",
            report_learn(flags, find),
            texts=2,
        ),
        differences=table(
            f"Data|Measure|{COMPARISON}",
            report_differences(flags, find),
            texts=2,
        ),
    )
