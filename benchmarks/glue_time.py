"""Time of fine-tuning from start to score, beside Hugging Face.

    .venv-peers/bin/python benchmarks/glue_time.py --output_dir=/tmp/glue_time
    .venv-peers/bin/python benchmarks/glue_time.py \
        --report=docs/BENCHMARK_FINE_TUNING.md

MRPC with all-MiniLM-L6-v2 and SST-2 with the encoder of BLEURT-Tiny. Every run
is a process of its own, from reading the TSVs to eval_results.txt; ours and
Hugging Face take turns, and a round has a seed of its own. A run is a line of
the results' file when it is over; a second call measures only what is missing.
--epochs shortens the runs; such runs are compared with each other only.
--report measures nothing.
"""

import argparse
import functools
import pathlib
import statistics

import glue
import measuring
import step

RECIPES = {
    "MRPC": glue.Recipe("minilm", learning_rate=5e-5, epochs=3),
    "SST-2": glue.Recipe("bleurt", learning_rate=1e-4, epochs=1),
}
MODELS = {"minilm": "all-MiniLM-L6-v2", "bleurt": "BLEURT-Tiny's encoder"}
CANDIDATES = {"ours": glue.OURS, "longest": glue.LONGEST, "128": glue.MAXIMUM}
TARGETS = {
    ("MRPC", glue.LONGEST): 1.5,
    ("MRPC", glue.MAXIMUM): 2.8,
    ("SST-2", glue.LONGEST): 1.5,
}
REPORT = """# Fine-tuning from start to score

    .venv-peers/bin/python benchmarks/glue_time.py --output_dir=/tmp/glue_time
    .venv-peers/bin/python benchmarks/glue_time.py \\
        --report=docs/BENCHMARK_FINE_TUNING.md

{machines}

Seconds from the start of the process to eval_results.txt, batches of 32, length
128. Ours is `run_classifier.py --do_train --do_eval` with its defaults; Hugging
Face is BertForSequenceClassification on PyTorch (`benchmarks/glue_torch.py`)
with the same weights, data, schedule, decay, dropout and Adam
([more](BENCHMARK_GLUE.md)). The runs took turns, and each round has a seed of
its own. Medians; in brackets the lowest and the highest.

{times}

Hugging Face's seconds over ours, medians of the same rounds:

{ratios}
"""


def measure_all(flags, results: measuring.Results) -> None:
    for round_ in range(flags.rounds):
        for task in flags.tasks:
            recipe = RECIPES[task]
            if flags.epochs:
                recipe = recipe._replace(epochs=flags.epochs)
            for name in flags.candidates:
                name = CANDIDATES[name]
                results.measure(
                    functools.partial(
                        *(glue.run, flags, task, round_, name, recipe),
                        resumes=False,
                    ),
                    task=task,
                    seed=round_,
                    candidate=name,
                    epochs=float(recipe.epochs),
                    label=flags.label,
                )


def describe(values: list[float], digits: int = 0) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"{middle:.{digits}f}"
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def make_report(lines: list[dict]) -> str:
    times, ratios = [], []
    for task, epochs in dict.fromkeys((x["task"], x["epochs"]) for x in lines):
        runs = {}
        for line in lines:
            if (line["task"], line["epochs"]) == (task, epochs):
                runs.setdefault(line["candidate"], {})[line["seed"]] = line
        plural = "" if epochs == 1 else "s"
        title = (
            f"{task}, {MODELS[RECIPES[task].model]}, {epochs:g} epoch{plural}"
        )
        for name, by_seed in runs.items():
            numbers = {
                key: [line[key] for line in by_seed.values()]
                for key in (
                    *("seconds", "train_seconds", "cpu_seconds"),
                    *("rss", "eval_accuracy"),
                )
            }
            times.append(
                [
                    *(title, name, str(len(by_seed))),
                    describe(numbers["seconds"]),
                    describe(numbers["train_seconds"]),
                    describe(numbers["cpu_seconds"]),
                    f"{max(numbers['rss']) / 1e6:.0f}",
                    describe([100 * x for x in numbers["eval_accuracy"]], 1),
                ]
            )
            seeds = sorted(by_seed.keys() & runs.get(glue.OURS, {}).keys())
            if name == glue.OURS or not seeds:
                continue
            pairs = [
                [run[seed]["seconds"] for seed in seeds]
                for run in (by_seed, runs[glue.OURS])
            ]
            ratio = statistics.median(pairs[0]) / statistics.median(pairs[1])
            target = TARGETS.get((task, name))
            verdict = ""
            if target:
                is_reached = round(ratio, 2) >= target
                verdict = "reached" if is_reached else "missed"
            ratios.append(
                [
                    *(title, name, str(len(seeds)), f"{ratio:.2f}"),
                    *(f"{target:.1f}" if target else "–", verdict),
                ]
            )
    table = measuring.table
    return REPORT.format(
        machines="\n\n".join(dict.fromkeys(x["machine"] for x in lines)),
        times=table(
            "Task|Run|Rounds|Seconds|Training alone, s|CPU, s|RSS, MB|"
            "Accuracy, %",
            times,
            texts=2,
        ),
        ratios=table("Task|Run|Rounds|Ratio|Target|", ratios, texts=2),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, choices in (("tasks", RECIPES), ("candidates", CANDIDATES)):
        parser.add_argument(
            f"--{name}", nargs="*", choices=choices, default=[*choices]
        )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=float, help="default: the task's")
    parser.add_argument("--label", default="now")
    folders = {
        "glue_dir": measuring.SHARED_DATA / "glue",
        "wheels": measuring.WHEELS,
        "output_dir": pathlib.Path("/tmp/glue_time"),
        "results": step.default_path("glue_time"),
    }
    for name, default in folders.items():
        parser.add_argument(f"--{name}", type=pathlib.Path, default=default)
    parser.add_argument("--report", type=pathlib.Path, help="a Markdown file")
    flags = parser.parse_args()
    flags.results.parent.mkdir(parents=True, exist_ok=True)
    results = measuring.Results(flags.results)
    if flags.report:
        flags.report.write_text(make_report(results.find(label=flags.label)))
        return
    flags.output_dir = flags.output_dir.absolute()
    flags.output_dir.mkdir(parents=True, exist_ok=True)
    measure_all(flags, results)


if __name__ == "__main__":
    main()
