"""The report: ours beside the published values, in HTML, Markdown, text."""

import os
import statistics
from collections.abc import Mapping, Sequence

from keras_bert_ref import files
from keras_bert_ref.bars import format_duration
from keras_bert_ref.pages.page import Page
from keras_bert_ref.reproduce.catalogue import Catalogue

COLUMNS = (
    "result",
    "metric",
    "published",
    "ours",
    "difference",
    "error",
    "verdict",
    "how",
)
TITLE = "Published results of BERT, made again"
EXPLANATION = (
    "The error joins the spread of our seeds and the sampling error of our "
    "split: with other seeds, or as many other examples, the difference would "
    "be another by about so much. A difference of up to twice its error "
    "agrees. Scores are in percent. Where dev is compared with test, two sets "
    "of examples are compared."
)


def format_number(value: float, digits: int = 2) -> str:
    """Small differences in scientific notation, scores with two digits."""
    if value and abs(value) < 10**-digits:
        return f"{value:.1e}"
    return f"{value:.{digits}f}"


def format_values(values: Mapping[str, float | list[float]]) -> str:
    return ", ".join(
        f"{metric} {_published(value)}" for metric, value in values.items()
    )


def _published(value: float | list[float]) -> str:
    if isinstance(value, list):
        return " to ".join(f"{end:.8g}" for end in value)
    return f"{value:.8g}"


def rows_of(result: dict) -> list[list[str]]:
    """Lines of the table, one for each metric."""
    lines = []
    for metric, cell in result["metrics"].items():
        split = cell.get("split", result["split"])
        theirs = cell.get("split", result["published_split"])
        error = cell["error"]
        ours = format_number(cell["mean"])
        if error is None:  # all digits count
            ours = f"{cell['mean']:.8g}"
        if cell["spread"] is not None:
            ours += f" ± {format_number(cell['spread'])}"
        verdict = cell["verdict"]
        if split != theirs:
            verdict += f" ({split} against {theirs})"
        lines.append(
            [
                result["name"],
                metric,
                f"{_published(cell['published'])} ({theirs})",
                f"{ours} ({split})",
                format_number(cell["difference"]),
                "-" if error is None else format_number(error),
                verdict,
                result["how"],
            ]
        )
    return lines


def format_text(results: Sequence[dict]) -> str:
    """For a terminal."""
    lines = []
    for result in results:
        for name, metric, published, ours, diff, error, word, how in rows_of(
            result
        ):
            lines.append(
                f"{name}, {metric}: {ours}, published {published}; "
                f"difference {diff}, error {error}: {word} [{how}]"
            )
    return "\n".join(lines)


def write(
    output_dir: str, catalogue: Catalogue, results: Mapping[str, dict]
) -> None:
    """Writes report.html and report.md."""
    made = [results[row.name] for row in catalogue.rows if row.name in results]
    files.replace(os.path.join(output_dir, "report.md"), _markdown(made))
    _page(made).write(os.path.join(output_dir, "report.html"))


def _facts(result: dict) -> list[tuple[str, str]]:
    """What one has to know of a result."""
    facts = [("How", result["how"])]
    if "setting" in result:
        setting = [f"{k} {v:g}" for k, v in result["setting"].items()]
        facts.append(("Setting", ", ".join(setting)))
    for metric, cell in result["metrics"].items():
        if cell["values"][1:]:
            values = ", ".join(map(format_number, cell["values"]))
            facts.append((f"Each seed, {metric}", values))
    facts += [("Note", note) for note in result["notes"]]
    facts.append(("Time", format_duration(result["seconds"])))
    if "examples_per_second" in result:
        rate = f"{result['examples_per_second']:.0f} examples/s in training"
        facts.append(("Speed", rate))
    facts.append(("Machine", result["machine"]))
    versions = [f"{k} {v}" for k, v in result["versions"].items()]
    facts.append(("Versions", ", ".join(versions)))
    return facts


def _grid(result: dict) -> tuple[list[str], list[list[str]]]:
    """The settings that were tried, and the mean of the metrics compared."""
    names = [f"eval_{metric.replace(' ', '_')}" for metric in result["metrics"]]
    head = ["batch", "learning rate", "epochs", *result["metrics"], "seconds"]
    rows = [
        [
            f"{trial['train_batch_size']:g}",
            f"{trial['learning_rate']:g}",
            f"{trial['num_train_epochs']:g}",
            *(
                format_number(100 * (trial["metrics"].get(name) or 0.0))
                for name in names
            ),
            f"{trial['seconds']:.0f}",
        ]
        for trial in result["grid"]
    ]
    return head, rows


def _page(results: Sequence[dict]) -> Page:
    page = Page(TITLE).add_text(EXPLANATION)
    page.add_table(COLUMNS, [row for r in results for row in rows_of(r)])
    for result in results:
        with page.section(result["name"]):
            page.add_table(("", ""), _facts(result))
            for command in result["commands"]:
                page.add_code(_break_lines(command))
            if len(result.get("grid", ())) > 1:
                page.add_table(*_grid(result), caption="Settings, on dev")
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
    page.add_chart(f"{metric} on dev", series, "learning rate", metric)


def _markdown(results: Sequence[dict]) -> str:
    lines = [f"# {TITLE}", "", EXPLANATION, "", _line(COLUMNS)]
    lines.append("|---" * len(COLUMNS) + "|")
    lines += [_line(row) for result in results for row in rows_of(result)]
    for result in results:
        lines += ["", f"## {result['name']}", ""]
        lines += [f"- {name}: {value}" for name, value in _facts(result)]
        for command in result["commands"]:
            lines += ["", "```", _break_lines(command), "```"]
        if len(result.get("grid", ())) > 1:
            head, rows = _grid(result)
            lines += ["", _line(head), "|---" * len(head) + "|"]
            lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _break_lines(command: str) -> str:
    return command.replace(" --", " \\\n    --")
