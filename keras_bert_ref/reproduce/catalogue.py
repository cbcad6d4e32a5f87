"""The catalogue: every published result of BERT, as data (catalogue.json)."""

import dataclasses
import difflib
import fnmatch
import importlib.resources
from collections.abc import Mapping, Sequence

from keras_bert_ref import files

# Commands, with the module of their flags.
RUNNERS = {
    "create_pretraining_data": "pretraining.create_data_flags",
    "extract_features": "features.flags",
    "run_classifier": "classifier.flags",
    "run_multiple_choice": "choice.flags",
    "run_ner": "ner.flags",
    "run_pretraining": "pretraining.flags",
    "run_squad": "squad.flags",
}
# Functions of checks.py.
CHECKS = ("bleurt_scores", "minilm_stsb", "squad_predictions")
# A value; or, where only a range was published, its two ends.
Value = float | list[float]


@dataclasses.dataclass(frozen=True)
class Row:
    """A published result, and what makes it again.

    Attributes:
        name: table/task/model, such as table1/mrpc/base.
        source: where it was published.
        values: split -> metric -> value, in percent where it is a share.
        model: a released model, with the date of its release; or a model
            from a wheel; "" if none was released.
        data: the data set.
        runner: the command that makes it, one of RUNNERS, the last of
            several; or one of CHECKS; "" if there is none.
        flagfiles: of configs/runs, in the order of the commands.
        flags: besides those of the last flagfile.
        seeds: fresh seeds to train the best setting with.
        published_seeds: how many the published value is a mean of.
        at_step: of pre-training, the step to fine-tune from; 0: the last.
        tolerance: the largest difference that is none; for checks.
        note: what one has to know of it.
        hardware, time: where they were published.
    """

    name: str
    source: str
    values: Mapping[str, Mapping[str, Value]]
    model: str
    data: str
    runner: str
    flagfiles: Sequence[str] = ()
    flags: Sequence[str] = ()
    seeds: int = 0
    published_seeds: int = 1
    at_step: int = 0
    tolerance: float | None = None
    note: str = ""
    hardware: str = ""
    time: str = ""

    @property
    def table(self) -> str:
        return self.name.split("/")[0]

    @property
    def line(self) -> str:
        """Which line of its table it stands in."""
        return self.name.split("/")[-1]

    @property
    def pretrains(self) -> bool:
        """Whether its model has to be pre-trained first."""
        return any(name.startswith("pretraining_") for name in self.flagfiles)

    @property
    def is_check(self) -> bool:
        """Whether it is computed, and nothing is trained."""
        return self.runner in CHECKS


@dataclasses.dataclass(frozen=True)
class Catalogue:
    """All rows, and how many examples the splits of the data sets have.

    Attributes:
        rows: in the order of the paper.
        sizes: data set -> split -> number of examples.
    """

    rows: Sequence[Row]
    sizes: Mapping[str, Mapping[str, int]]

    def find(self, patterns: Sequence[str]) -> list[Row]:
        """The rows of these names or patterns, such as table7/*.

        Raises:
            ValueError: nothing has such a name; the nearest are named.
        """
        found: list[Row] = []
        for pattern in patterns:
            rows = [r for r in self.rows if fnmatch.fnmatch(r.name, pattern)]
            if not rows:
                names = [row.name for row in self.rows]
                near = difflib.get_close_matches(pattern, names, cutoff=0.3)
                raise ValueError(
                    f"No published result is called {pattern}; the nearest: "
                    f"{', '.join(near) or 'none'}. --list shows all."
                )
            found += [row for row in rows if row not in found]
        return found


def read_catalogue(path: str | None = None) -> Catalogue:
    """The catalogue of this package, or another file like it.

    Raises:
        ValueError: the file is not like it.
    """
    if path is None:
        path = str(importlib.resources.files(__package__) / "catalogue.json")
    content = files.read_json(path)
    try:
        rows = [Row(**row) for row in content["rows"]]
        sizes = content["sizes"]
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is no catalogue of results ({error}); it needs what "
            "keras_bert_ref/reproduce/catalogue.json has."
        ) from None
    for row in rows:
        if row.runner not in ("", *RUNNERS, *CHECKS):
            raise ValueError(
                f"{row.name} of {path} has runner={row.runner!r}, but it must "
                f"be one of {', '.join([*RUNNERS, *CHECKS])}, or empty."
            )
    return Catalogue(rows, sizes)
