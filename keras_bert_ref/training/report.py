"""report.html: a run on one page, made from the files in its output_dir.

Whatever is run there next, training, evaluation or prediction, makes the page
again from what there is by then. It must not end a run: an error is a warning.
"""

import contextlib
import json
import os
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.bars import format_duration
from keras_bert_ref.guard import Interrupted
from keras_bert_ref.pages.page import Page, read_part
from keras_bert_ref.training import (
    curves,
    evaluations,
    progress,
    run_record,
    trials,
)

REPORT_FILE = "report.html"
EXAMPLES_FILE = "examples.jsonl"
EXAMPLES = 5  # that went right, and as many that went wrong
MAX_CHARACTERS = 3000  # of a text
# In metrics.jsonl, but not curves of what is learned.
OTHER_METRICS = {"step", "seconds", "learning_rate", *progress.NOT_SHOWN}
SPEED = "sequences_per_second"
# Beside the report, if they are there.
LINKED = (
    curves.CURVES_FILE,
    progress.METRICS_FILE,
    evaluations.EVALS_FILE,
    run_record.RECORD_FILE,
    "eval_results.txt",
    trials.TABLE_FILE,
)


class Example(NamedTuple):
    """What a model made of an example.

    Attributes:
        is_right: bool.
        facts: names and texts, such as a sentence, its label and what was
            predicted.
        parts: a text in pieces, each with its mark: "" for none; `gold`,
            `predicted` or `both`; and a note, such as a tag, or "".
    """

    is_right: bool
    facts: Sequence[tuple[str, str]]
    parts: Sequence[tuple[str, str, str]] = ()


def pick(examples: Iterable[Example]) -> list[Example]:
    """The first few that went wrong, and as many that went right."""
    chosen = {False: [], True: []}
    for example in examples:
        if len(chosen[example.is_right]) < EXAMPLES:
            chosen[example.is_right].append(example)
        if all(len(some) == EXAMPLES for some in chosen.values()):
            break
    return [*chosen[False], *chosen[True]]


@contextlib.contextmanager
def unbroken(output_dir: str) -> Iterator[None]:
    """Turns an error into a warning: training is worth more than a page."""
    try:
        yield
    except Interrupted:
        raise
    except Exception as error:
        logging.warning(
            "The report of %s, or its curves, could not be written (%s: %s); "
            "all else goes on.",
            *(output_dir, type(error).__name__, error),
        )


def write(
    output_dir: str,
    ranking: trials.Ranking | None = None,
    examples: Sequence[Example] | None = None,
) -> None:
    """Writes report.html.

    Args:
        ranking: which results to show beside those that were published.
        examples: of the evaluation; None leaves those of before.
    """
    with unbroken(output_dir):
        if examples is not None:
            lines = [json.dumps(e._asdict()) + "\n" for e in examples]
            path = os.path.join(output_dir, EXAMPLES_FILE)
            files.replace(path, "".join(lines))
        make_page(output_dir, ranking).write(
            os.path.join(output_dir, REPORT_FILE)
        )


def write_trials(output_dir: str, ranking: trials.Ranking) -> None:
    """Writes the report.html of a grid: its trials, with links to theirs."""
    with unbroken(output_dir):
        results = trials.read_results(output_dir)
        page = Page(f"{ranking.title}: {len(results)} trials")
        page.add_code(trials.format_table(ranking, results))
        shown = {k: n for k, n in ranking.shown.items() if _has(results, k)}
        page.add_table(
            ["trial", *shown.values(), "seconds"],
            [
                [
                    result["run"],
                    *(_percent(ranking, result["metrics"], k) for k in shown),
                    f"{result['seconds']:.0f}",
                ]
                for result in results
            ],
        )
        for result in results:
            page.add_link(result["run"], f"{result['run']}/{REPORT_FILE}")
        page.write(os.path.join(output_dir, REPORT_FILE))


def make_page(output_dir: str, ranking: trials.Ranking | None) -> Page:
    record = run_record.read(output_dir) or {}
    page = Page(f"Training report: {record.get('task', 'a model')}")
    page.add_text(_summary(output_dir))
    results = progress.read_results(output_dir)
    if results:
        page.add_heading("Results")
        _add_results(page, results, ranking)
    _add_curves(page, output_dir)
    if files.exists(output_dir, EXAMPLES_FILE):
        page.add_heading("Examples")
        add_examples(page, output_dir)
    page.add_heading("The run")
    page.add_table(("", ""), _facts(output_dir, record))
    with page.section("Flags that results depend on"):
        flags = record.get("flags", {}).items()
        page.add_table(("flag", "value"), [(k, _show(v)) for k, v in flags])
        for change in record.get("changes", ()):
            for name, (before, now) in change["flags"].items():
                page.add_text(
                    f"From step {change['step']} on, --{name} was {_show(now)}"
                    f" instead of {_show(before)}."
                )
    for name in LINKED:
        if files.exists(output_dir, name):
            page.add_link(name, name)
    return page


def add_examples(page: Page, output_dir: str) -> None:
    """Those that were kept of the last evaluation."""
    examples = files.read_json_lines(os.path.join(output_dir, EXAMPLES_FILE))
    data = [_shorten(example) for example in examples]
    page.add_view("examples", data, script=read_part("examples.js"))


def _summary(output_dir: str) -> str:
    lines = progress.read_metrics(output_dir)
    lines = [line for line in lines if line["loss"] is not None]
    if not lines:
        return "Nothing was trained here yet."
    last = lines[-1]
    text = f"At step {last['step']:,} the training loss was {last['loss']:.4g}."
    best = evaluations.read_best(output_dir)
    if best:
        text += (
            f" The best checkpoint, of step {best['step']:,}, is kept in the "
            f"folder {evaluations.BEST_FOLDER}."
        )
    return text


def _add_results(page: Page, results: dict, ranking) -> None:
    """Ours beside published ones, then all that was measured."""
    rows = []
    for key, name in ranking.shown.items() if ranking else ():
        if key in results:
            ours = _percent(ranking, results, key)
            rows.append((name, "this run, dev", ours))
            for model, value in ranking.published(name).items():
                rows.append((name, f"published, {model}", f"{value:.1f}"))
    if rows:
        page.add_table(("metric", "model", "percent"), rows)
    with page.section("All results", is_open=not rows):
        cells = [(k, f"{v:.6g}") for k, v in sorted(results.items())]
        page.add_table(("", ""), cells)


def _add_curves(page: Page, output_dir: str) -> None:
    lines = progress.read_metrics(output_dir)
    lines += evaluations.read_evals(output_dir)
    names = dict.fromkeys(name for line in lines for name in line)
    found = curves.read_curves(
        output_dir, [n for n in names if n not in {*OTHER_METRICS, SPEED}]
    )
    if found:
        page.add_heading("Curves")
    for name, series in found.items():
        page.add_chart(name.replace("_", " "), series)
    with page.section("Learning rate, gradient and speed"):
        others = curves.read_curves(
            output_dir, ["learning_rate", "gradient_norm", SPEED]
        )
        for name, series in others.items():
            page.add_chart(name.replace("_", " "), series)


def _facts(output_dir: str, record: dict) -> list[tuple[str, str]]:
    """Data, time, speed, machine, versions."""
    flags = record.get("flags", {})
    facts = [
        (f"--{name}", _show(flags[name]))
        for name in ("data_dir", "input_file", "train_file", "init_checkpoint")
        if flags.get(name)
    ]
    if record.get("num_examples"):
        facts.append(("Training examples", f"{record['num_examples']:,}"))
    if record.get("labels"):
        facts.append(("Labels", ", ".join(map(str, record["labels"]))))
    lines = progress.read_metrics(output_dir)
    if lines:
        facts.append(("Steps", f"{lines[-1]['step']:,}"))
        time = format_duration(total_seconds(lines))
        facts.append(("Time of training", time))
        # The first report of each start has compilation in it.
        speeds = [line[SPEED] for line in lines[1:] if SPEED in line]
        if speeds:
            speed = f"{statistics.median(speeds):.4g} sequences/s (median)"
            facts.append(("Speed", speed))
    facts.append(("Machine", record.get("machine", "not recorded")))
    versions = record.get("versions", {}).items()
    facts.append(("Versions", ", ".join(f"{k} {v}" for k, v in versions)))
    return facts


def total_seconds(lines: Sequence[dict]) -> float:
    """The time of all starts together; each counts from 0."""
    times = [line["seconds"] for line in lines]
    ends = zip(times, [*times[1:], 0.0], strict=True)
    return sum(now for now, after in ends if after < now)


def _shorten(example: dict) -> dict:
    """A passage that is too long for a page is cut behind its last mark."""
    parts, left = [], MAX_CHARACTERS
    for text, mark, note in example["parts"]:
        if len(text) > left and not mark:
            text = text[: max(left, 0)] + "…"
        left -= len(text)
        parts.append([text, mark, note])
    facts = [
        [name, text[:MAX_CHARACTERS] + "…" * (len(text) > MAX_CHARACTERS)]
        for name, text in example["facts"]
    ]
    return {**example, "parts": parts, "facts": facts}


def _has(results: Sequence[dict], key: str) -> bool:
    return any(result["metrics"].get(key) is not None for result in results)


def _percent(ranking: trials.Ranking, metrics: dict, key: str) -> str:
    value = metrics.get(key)
    return "-" if value is None else f"{ranking.to_percent * value:.2f}"


def _show(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
