"""What can be made with the models and data at hand, and what is missing."""

import os
import shutil
from collections.abc import Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.config import find_run
from keras_bert_ref.reproduce import facts, plans
from keras_bert_ref.reproduce.catalogue import Row
from keras_bert_ref.reproduce.materials import Materials

# A checkpoint has weights and Adam's two averages; one more is being written.
COPIES = 2 * 3


def find_lacks(
    rows: Sequence[Row], materials: Materials
) -> dict[str, list[str]]:
    """Name -> what keeps a row from being made here, in sentences."""
    return {row.name: _find_lacks(row, materials) for row in rows}


def _find_lacks(row: Row, materials: Materials) -> list[str]:
    if not row.is_check and not row.flagfiles:
        return [f"no command makes it: {row.note}"]
    absent = [f for f in row.flagfiles if not os.path.exists(find_run(f))]
    if absent:
        return [f"there is no flagfile {', '.join(absent)}"]
    return [f"lacks {lack}" for lack in materials.missing(row)]


def format_list(rows: Sequence[Row], lacking: dict) -> str:
    """All rows: first what can be made here, then what cannot, and why."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        values = "; ".join(
            f"{split} {facts.format_values(metrics)}"
            for split, metrics in row.values.items()
        )
        line = f"    {row.name:38} {values}"
        groups.setdefault(tuple(lacking[row.name]), []).append(line)
    parts = []
    for reasons in sorted(groups, key=bool):
        title = [f"{r[0].upper()}{r[1:]}" for r in reasons]
        title = title or ["Can be made here"]
        parts.append("\n".join([*title, *groups[reasons]]))
    count = len(groups.get((), ()))
    parts.append(f"{count} of {len(rows)} published results can be made here.")
    return "\n\n".join(parts)


def choose_ready(
    rows: Sequence[Row], lacking: dict, words: Sequence[str]
) -> list[Row]:
    """The rows that can be made; raises if one that was named cannot."""
    ready = [row for row in rows if not lacking[row.name]]
    for row in rows:
        if row.name in words and lacking[row.name]:
            raise ValueError(
                f"{row.name} cannot be made here: "
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


def check_room(row: Row, materials: Materials, folder: str) -> None:
    """Raises if the disk has no room for the checkpoints of a row's last
    command."""
    if row.pretrains:
        return  # nothing has the size of its model yet
    flags = plans.read_flags(row)
    model = materials.model_folder(row.model)
    paths = files.glob(os.path.join(model, "*.data-*"))
    paths += files.glob(os.path.join(model, "variables", "*.data-*"))
    size = sum(map(files.size, paths))
    count = int(flags.get("num_trials", 1)) + row.seeds
    for grid in plans.GRIDS:
        count *= len(flags.get(grid, "x").split(","))
    needed = size * (3 * count + COPIES)
    os.makedirs(folder, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ValueError(
            f"{row.name} needs some {needed / 1e9:.1f} GB for checkpoints in "
            f"{folder}, but {free / 1e9:.1f} GB are free; make room, or "
            "choose another --output_dir."
        )
