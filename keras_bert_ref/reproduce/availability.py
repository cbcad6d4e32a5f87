"""What can be made with the models and data at hand, and what is missing."""

from collections.abc import Sequence

from absl import logging

from keras_bert_ref.reproduce import report, steps, trainings
from keras_bert_ref.reproduce.catalogue import Row
from keras_bert_ref.reproduce.checks import CHECKS
from keras_bert_ref.reproduce.materials import Materials


def find_lacks(
    rows: Sequence[Row], materials: Materials
) -> dict[str, list[str]]:
    """Name -> what keeps a row from being made here."""
    return {row.name: _find_lacks(row, materials) for row in rows}


def _find_lacks(row: Row, materials: Materials) -> list[str]:
    if row.runner in CHECKS:
        return materials.missing(row)
    if not row.runner or not row.flagfiles:
        return [f"nothing makes it yet: {row.note}"]
    if not steps.has_runner(row):
        return [f"there is no {row.runner}.py yet"]
    absent = [f for f in row.flagfiles if not trainings.has_flagfile(f)]
    if absent:
        return [f"there is no flagfile {', '.join(absent)} yet"]
    return materials.missing(row)


def format_list(rows: Sequence[Row], lacking: dict) -> str:
    """All rows: first what can be made here, then what cannot, and why."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        reason = "; ".join(lacking[row.name])
        values = "; ".join(
            f"{split} {report.format_values(metrics)}"
            for split, metrics in row.values.items()
        )
        line = f"  {row.name:38} {values} ({row.source})"
        groups.setdefault(reason, []).append(line)
    parts = []
    for reason in sorted(groups, key=bool):
        title = "Can be made here:"
        if reason:
            title = f"Lack {reason}:"
        parts.append("\n".join([title, *groups[reason]]))
    count = len(groups.get("", ()))
    parts.append(f"{len(rows)} published results; {count} can be made here.")
    return "\n\n".join(parts)


def choose_ready(
    rows: Sequence[Row], lacking: dict, words: Sequence[str]
) -> list[Row]:
    """The rows that can be made; raises if one that was named cannot."""
    ready = [row for row in rows if not lacking[row.name]]
    for row in rows:
        if row.name in words and lacking[row.name]:
            raise ValueError(
                f"{row.name} cannot be made here; it lacks: "
                f"{'; '.join(lacking[row.name])}."
            )
    if not ready:
        raise ValueError(
            f"None of {len(rows)} results can be made here; --list shows what "
            f"each lacks. {rows[0].name}, for one: "
            f"{'; '.join(lacking[rows[0].name])}."
        )
    if len(ready) < len(rows):
        logging.info(
            "%d of %d results can be made here; --list shows what the others "
            "lack.",
            len(ready),
            len(rows),
        )
    return ready
