"""The report: ours beside the published values, in HTML, Markdown, text."""

import collections
import os
import re
import statistics
from collections.abc import Mapping, Sequence

from keras_bert_ref import files
from keras_bert_ref.bars import format_duration
from keras_bert_ref.pages.page import Page

TITLE = "Published results of BERT, made again"
GRID_TITLE = "Settings that were tried, on dev"
COLUMNS = (
    "result",
    "metric",
    "published",
    "ours",
    "difference",
    "error",
    "verdict",
)
# Names of metrics that are not just words.
METRICS = {
    "HasAns_exact": "EM, answerable",
    "HasAns_f1": "F1, answerable",
    "NoAns_exact": "EM, unanswerable",
    "exact": "EM",
    "exact_match": "EM",
    "f1": "F1",
    "matthews_correlation": "Matthews correlation",
    "pearson": "Pearson correlation",
    "spearman": "Spearman correlation",
}
ABOUT_ERRORS = (
    "Shares and correlations are in percent. ± is the standard deviation over "
    "our seeds. The error of a difference joins the spread of our seeds and "
    "the sampling errors of the splits: with other seeds, and as many other "
    "examples, the difference would change by about so much. A difference of "
    "up to twice its error agrees. What is equal was computed, without chance."
)
ABOUT_SPLITS = (
    "dev against test: our score is one on dev, the published one is one on "
    "test, which has other examples."
)
ABOUT_CHOICE = (
    "Where several settings were tried, the best one on dev was chosen, and "
    "dev scores with it are a little too good. Fresh seeds take away the luck "
    "of the best seed, but not that of the best setting."
)
ABOUT = (ABOUT_ERRORS, ABOUT_SPLITS, ABOUT_CHOICE)


def format_number(value: float, digits: int = 2) -> str:
    """Small differences in scientific notation, scores with two digits."""
    if value and abs(value) < 10**-digits:
        return f"{value:.1e}"
    return f"{value:.{digits}f}"


def format_values(values: Mapping[str, float | list[float]]) -> str:
    return ", ".join(
        f"{name_metric(metric)} {_published(value)}"
        for metric, value in values.items()
    )


def _published(value: float | list[float]) -> str:
    if isinstance(value, list):
        return " to ".join(f"{end:.8g}" for end in value)
    return f"{value:.8g}"


def name_metric(metric: str) -> str:
    """As a reader knows it: f1 is F1; test f1 is F1 on test."""
    *split, name = metric.rsplit(" ", 1)
    shown = METRICS.get(name, name.replace("_", " "))
    return f"{shown} on {split[0]}" if split else shown


def rows_of(result: dict) -> list[list[str]]:
    """Lines of the table, one for each metric."""
    lines = []
    for metric, cell in result["metrics"].items():
        split = cell.get("split", result["split"])
        theirs = cell.get("split", result["published_split"])
        error = cell["error"]
        ours = format_number(cell["mean"])
        if result["row"].is_check:  # all digits count
            ours = f"{cell['mean']:.8g}"
        if cell["spread"] is not None:
            ours += f" ± {format_number(cell['spread'])}"
        verdict = cell["verdict"]
        if split != theirs:
            verdict += f" ({split} against {theirs})"
        lines.append(
            [
                result["name"],
                name_metric(metric.removeprefix("test ")),
                f"{_published(cell['published'])} ({theirs})",
                f"{ours} ({split})",
                format_number(cell["difference"]),
                "-" if error is None else format_number(error),
                verdict,
            ]
        )
    return lines


def format_text(results: Sequence[dict]) -> str:
    """For a terminal."""
    lines = []
    for result in results:
        for row in rows_of(result):
            name, metric, published, ours, difference, error, verdict = row
            lines.append(
                f"{name}, {metric}: {ours}, published {published}; difference "
                f"{difference}, error {error}: {verdict} [{result['how']}]"
            )
    return "\n".join(lines)


def write(output_dir: str, results: Sequence[dict]) -> None:
    """Writes report.html and report.md."""
    files.replace(os.path.join(output_dir, "report.md"), _markdown(results))
    _page(results).write(os.path.join(output_dir, "report.html"))


def _count(results: Sequence[dict]) -> str:
    """All in one sentence."""
    verdicts = collections.Counter(
        cell["verdict"] for r in results for cell in r["metrics"].values()
    )
    counts = ", ".join(f"{count} {word}" for word, count in verdicts.items())
    return f"{len(results)} results with {verdicts.total()} values: {counts}."


def _explain(results: Sequence[dict]) -> list[str]:
    """How to read the table; in paragraphs."""
    parts = [ABOUT_ERRORS]
    if any(r["split"] != r["published_split"] for r in results):
        parts.append(ABOUT_SPLITS)
    if any(len(r.get("grid", ())) > 1 for r in results):
        parts.append(ABOUT_CHOICE)
    return parts


def _title(result: dict) -> str:
    """The name of a result, with its verdicts."""
    verdicts = {m: cell["verdict"] for m, cell in result["metrics"].items()}
    words = list(dict.fromkeys(verdicts.values()))
    if words[1:]:
        words = [f"{name_metric(m)} {word}" for m, word in verdicts.items()]
    return f"{result['name']}: {', '.join(words)}"


def _facts(result: dict) -> list[tuple[str, str]]:
    """What one has to know of a result."""
    row = result["row"]
    facts = [("Source", row.source)]
    if row.hardware:
        facts.append(("Published with", f"{row.hardware}, {row.time}"))
    facts.append(("How", result["how"]))
    if "setting" in result:
        facts.append(("Setting", _describe_setting(result)))
    for metric, cell in result["metrics"].items():
        name = name_metric(metric)
        if cell["values"][1:]:
            values = ", ".join(map(format_number, cell["values"]))
            facts.append((f"Each seed, {name}", values))
        if cell["error"] is not None:
            facts.append((f"Error, {name}", _describe_error(cell)))
    facts += [("Note", note) for note in result["notes"]]
    facts.append(("Time", _describe_time(result)))
    if "examples_per_second" in result:
        rate = f"{result['examples_per_second']:,.0f} examples/s in training"
        facts.append(("Speed", rate))
    facts.append(("Machine", result["machine"]))
    versions = [f"{k} {v}" for k, v in result["versions"].items()]
    facts.append(("Versions", ", ".join(versions)))
    return facts


def _describe_setting(result: dict) -> str:
    text = (
        "batch {train_batch_size:g}, learning rate {learning_rate:g}, "
        "{num_train_epochs:g} epochs"
    ).format(**result["setting"])
    scores = {
        tuple(trial[name] for name in result["setting"]): [
            trial["metrics"].get(f"eval_{metric}")
            for metric in result["metrics"]
        ]
        for trial in result["grid"]
    }
    best = scores[tuple(result["setting"].values())]
    ties = list(scores.values()).count(best)
    if ties > 1:
        text += f"; the first of {ties} that were equally good on dev"
    return text


def _describe_error(cell: dict) -> str:
    names = {
        "seeds": "seeds",
        "examples": "the examples of our split",
        "published examples": "those of the published split",
    }
    known = [
        f"{format_number(value)} from {names[name]}"
        for name, value in cell["errors"].items()
    ]
    text = f"{format_number(cell['error'])}: {', '.join(known)}"
    if "seeds" not in cell["errors"]:
        text += "; one training does not tell the spread of seeds"
    return text


def _describe_time(result: dict) -> str:
    text = format_duration(result["seconds"])
    count = len(result.get("grid", ()))
    if result["row"].seeds:
        count += result["row"].seeds
    return f"{text} for {count} trainings" if count > 1 else text


def _grid(result: dict) -> tuple[list[str], list[list[str]]]:
    """The settings that were tried, and their scores on dev."""
    metrics = [m for m in result["metrics"] if not m.startswith("test ")]
    head = ["batch", "learning rate", "epochs", *map(name_metric, metrics)]
    rows = []
    for trial in result["grid"]:
        is_chosen = all(trial[k] == v for k, v in result["setting"].items())
        scores = [trial["metrics"].get(f"eval_{metric}") for metric in metrics]
        rows.append(
            [
                f"{trial['train_batch_size']:g}",
                f"{trial['learning_rate']:g}",
                f"{trial['num_train_epochs']:g}",
                *(format_number(100 * (score or 0.0)) for score in scores),
                f"{trial['seconds']:.0f}",
                "chosen" if is_chosen else "",
            ]
        )
    return [*head, "seconds", ""], rows


def _page(results: Sequence[dict]) -> Page:
    page = Page(TITLE).add_text(_count(results))
    page.add_table(COLUMNS, [row for r in results for row in rows_of(r)])
    for paragraph in _explain(results):
        page.add_text(paragraph)
    for result in results:
        with page.section(_title(result)):
            page.add_table(("", ""), _facts(result))
            for command in result["commands"]:
                page.add_code(_break_lines(command))
            if len(result.get("grid", ())) > 1:
                page.add_table(*_grid(result), caption=GRID_TITLE)
                _add_chart(page, result)
    return page


def _add_chart(page: Page, result: dict) -> None:
    """The score over the learning rate, a line for each batch size."""
    metric = next(iter(result["metrics"]))
    lines: dict[str, dict[float, list[float]]] = {}
    for trial in result["grid"]:
        score = 100 * (trial["metrics"].get(f"eval_{metric}") or 0.0)
        line = lines.setdefault(f"batch {trial['train_batch_size']:g}", {})
        line.setdefault(trial["learning_rate"], []).append(score)
    series = {
        name: sorted((x, statistics.mean(ys)) for x, ys in line.items())
        for name, line in lines.items()
    }
    name = name_metric(metric)
    page.add_chart(f"{name} on dev", series, "learning rate", name)


def _markdown(results: Sequence[dict]) -> str:
    rows = [row for result in results for row in rows_of(result)]
    lines = [f"# {TITLE}", "", _count(results), "", *_table(COLUMNS, rows)]
    for paragraph in _explain(results):
        lines += ["", paragraph]
    for result in results:
        lines += ["", f"## {_title(result)}", ""]
        lines += [f"- {name}: {value}" for name, value in _facts(result)]
        for command in result["commands"]:
            lines += ["", "```", _break_lines(command), "```"]
        if len(result.get("grid", ())) > 1:
            lines += ["", f"{GRID_TITLE}:", "", *_table(*_grid(result))]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = "|" + "---|" * len(head)
    return [_line(head), rule, *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _break_lines(command: str) -> str:
    return re.sub(r" (?='?--)", " \\\\\n    ", command)
