"""The report: ours beside the published values, in HTML, Markdown, text."""

import collections
import os
import re
import statistics
from collections.abc import Sequence

from keras_bert_ref import files
from keras_bert_ref.pages.page import Page
from keras_bert_ref.reproduce import facts

TITLE = "Published results of BERT, made again"
FLAGS_TITLE = "All flags that the last training depended on:"
NO_BREAK = "\u00a0"
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


def rows_of(result: dict) -> list[list[str]]:
    """Lines of the table, one for each metric."""
    lines = []
    for metric, cell in result["metrics"].items():
        split = cell.get("split", result["split"])
        theirs = cell.get("split", result["published_split"])
        error = cell["error"]
        ours = facts.format_number(cell["mean"])
        if result["row"].is_check:  # all digits count
            ours = f"{cell['mean']:.8g}"
        if cell["spread"] is not None:
            ours += f" ± {facts.format_number(cell['spread'])}"
        verdict = cell["verdict"]
        if split != theirs:
            verdict += f" ({split} against {theirs})"
        lines.append(
            [
                result["name"],
                facts.name_metric(metric.removeprefix("test ")),
                f"{facts.format_published(cell['published'])} ({theirs})",
                f"{ours} ({split})",
                facts.format_number(cell["difference"]),
                "-" if error is None else facts.format_number(error),
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
        words = [
            f"{facts.name_metric(m)} {word}" for m, word in verdicts.items()
        ]
    return f"{result['name']}: {', '.join(words)}"


def _grid(result: dict) -> tuple[list[str], list[list[str]]]:
    """The settings that were tried, and their scores on dev."""
    metrics = [m for m in result["metrics"] if not m.startswith("test ")]
    head = [
        "batch",
        "learning rate",
        "epochs",
        *map(facts.name_metric, metrics),
    ]
    rows = []
    for trial in result["grid"]:
        is_chosen = all(trial[k] == v for k, v in result["setting"].items())
        scores = [trial["metrics"].get(f"eval_{metric}") for metric in metrics]
        rows.append(
            [
                f"{trial['train_batch_size']:g}",
                f"{trial['learning_rate']:g}",
                f"{trial['num_train_epochs']:g}",
                *(
                    facts.format_number(100 * (score or 0.0))
                    for score in scores
                ),
                f"{trial['seconds']:.0f}",
                "chosen" if is_chosen else "",
            ]
        )
    return [*head, "seconds", ""], rows


def _page(results: Sequence[dict]) -> Page:
    page = Page(TITLE).add_text(_count(results))
    rows = [row for result in results for row in rows_of(result)]
    # One line each: the table scrolls where it is wider than the screen.
    rows = [[cell.replace(" ", NO_BREAK) for cell in row] for row in rows]
    page.add_table(COLUMNS, rows)
    for paragraph in _explain(results):
        page.add_text(paragraph)
    for result in results:
        with page.section(_title(result)):
            page.add_table(("", ""), facts.describe(result))
            for command in result["commands"]:
                page.add_code(_break_lines(command))
            if "flags" in result:
                page.add_text(FLAGS_TITLE).add_code(facts.list_flags(result))
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
    name = facts.name_metric(metric)
    page.add_chart(f"{name} on dev", series, "learning rate", name)


def _markdown(results: Sequence[dict]) -> str:
    rows = [row for result in results for row in rows_of(result)]
    lines = [f"# {TITLE}", "", _count(results), "", *_table(COLUMNS, rows)]
    for paragraph in _explain(results):
        lines += ["", paragraph]
    for result in results:
        lines += ["", f"## {_title(result)}", ""]
        lines += [
            f"- {name}: {value}" for name, value in facts.describe(result)
        ]
        for command in result["commands"]:
            lines += ["", "```", _break_lines(command), "```"]
        if "flags" in result:
            lines += [
                "",
                FLAGS_TITLE,
                "",
                "```",
                facts.list_flags(result),
                "```",
            ]
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
