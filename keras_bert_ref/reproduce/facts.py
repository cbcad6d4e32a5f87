"""What one has to know of a result, in words."""

from collections.abc import Mapping

from keras_bert_ref.bars import format_duration
from keras_bert_ref.reproduce.catalogue import Value

# Names of metrics that are not just words.
METRICS = {
    "HasAns_exact": "EM, answerable",
    "HasAns_f1": "F1, answerable",
    "NoAns_exact": "EM, unanswerable",
    "exact": "EM",
    "exact_match": "EM",
    "f1": "F1",
    "matthews_correlation": "Matthews",
    "pearson": "Pearson",
    "spearman": "Spearman",
}


def format_number(value: float, digits: int = 2) -> str:
    """Small differences in scientific notation, scores with two digits."""
    if value and abs(value) < 10**-digits:
        return f"{value:.1e}"
    return f"{value:.{digits}f}"


def format_values(values: Mapping[str, Value]) -> str:
    return ", ".join(
        f"{name_metric(metric)} {format_published(value)}"
        for metric, value in values.items()
    )


def format_published(value: Value) -> str:
    if isinstance(value, list):
        return " to ".join(f"{end:.8g}" for end in value)
    return f"{value:.8g}"


def name_metric(metric: str) -> str:
    """As a reader knows it: f1 is F1; test f1 is F1 on test."""
    *split, name = metric.rsplit(" ", 1)
    shown = METRICS.get(name, name.replace("_", " "))
    return f"{shown} on {split[0]}" if split else shown


def describe(result: dict) -> list[tuple[str, str]]:
    """Names of facts, and the facts."""
    row = result["row"]
    facts = [("Source", row.source)]
    if row.hardware:
        facts.append(("Published with", f"{row.hardware}, {row.time}"))
    facts.append(("How", result["how"]))
    if "setting" in result:
        facts.append(("Setting", _setting(result)))
    for metric, cell in result["metrics"].items():
        name = name_metric(metric)
        if cell["values"][1:]:
            values = ", ".join(map(format_number, cell["values"]))
            facts.append((f"Each seed, {name}", values))
        if cell["error"] is not None:
            facts.append((f"Error, {name}", _error(cell)))
    facts += [("Note", note) for note in result["notes"]]
    facts.append(("Time", _time(result)))
    if "examples_per_second" in result:
        rate = f"{result['examples_per_second']:,.0f} examples/s in training"
        facts.append(("Speed", rate))
    facts.append(("Machine", result["machine"]))
    versions = [f"{k} {v}" for k, v in result["versions"].items()]
    facts.append(("Versions", ", ".join(versions)))
    return facts


def _setting(result: dict) -> str:
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


def _error(cell: dict) -> str:
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


def _time(result: dict) -> str:
    text = format_duration(result["seconds"])
    count = len(result.get("grid", ()))
    if result["row"].seeds:
        count += result["row"].seeds
    return f"{text} for {count} trainings" if count > 1 else text


def list_flags(result: dict) -> str:
    flags = result["flags"].items()
    return "\n".join(f"--{k}={v}" for k, v in flags if v not in (None, []))
