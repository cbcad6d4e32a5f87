"""Where multiple-choice questions stand: SWAG, OpenBookQA, own files."""

import dataclasses

OWN_KINDS = ("csv", "tsv", "jsonl")
TASKS = ("swag", "openbookqa")


@dataclasses.dataclass(frozen=True)
class Task:
    """A task and the columns of its files.

    Attributes:
        name: as in --task_name.
        names: of the files by split, the first that exists counts.
        text_a: column of the question, or of what is to be continued.
        text_b: column of what every choice begins with; None: nothing.
        choices: columns of the choices; () where they stand in one field.
        label: column of the right one.
    """

    name: str
    names: dict[str, tuple[str, ...]]
    text_a: str = ""
    text_b: str | None = None
    choices: tuple[str, ...] = ()
    label: str = "label"


SWAG = Task(
    "swag",
    {"train": ("train.csv",), "dev": ("val.csv",), "test": ("test.csv",)},
    text_a="sent1",
    text_b="sent2",
    choices=("ending0", "ending1", "ending2", "ending3"),
)
OPENBOOKQA = Task(
    "openbookqa",
    {
        split: (f"{split}.jsonl", f"OpenBookQA-{split}.jsonl")
        for split in ("train", "dev", "test")
    },
)
# Accuracy in percent, table 4 of Devlin et al. 2019.
PUBLISHED = {
    "swag": {"dev: Base": 81.6, "dev: Large": 86.6, "test: Large": 86.3}
}


def from_options(options) -> Task:
    """The task of --task_name; for own files, with the columns given."""
    name = options.task_name.lower()
    for task in (SWAG, OPENBOOKQA):
        if name == task.name:
            return task
    if name not in OWN_KINDS:
        raise ValueError(
            f"There is no task {options.task_name!r}; --task_name must be one "
            f"of {', '.join(TASKS)}, or {', '.join(OWN_KINDS)} for files of "
            "your own."
        )
    columns = tuple(options.choice_columns)
    if len(columns) < 2:
        raise ValueError(
            f"--choice_columns names {len(columns)} column(s); a question of "
            "your own needs two or more, with commas between them."
        )
    if len(set(columns)) < len(columns):
        raise ValueError(
            f"--choice_columns={','.join(columns)} names a column twice; name "
            "each choice's once."
        )
    for i, column in enumerate(columns):
        if column in map(str, range(len(columns))) and column != str(i):
            raise ValueError(
                f"A label {column} could be the name of column {column!r}, "
                f"choice {i} of --choice_columns, or the number of another "
                "choice, from 0; give the column another name."
            )
    return Task(
        name,
        {split: (f"{split}.{name}",) for split in ("train", "dev", "test")},
        text_a=options.text_a_column,
        text_b=options.text_b_column,
        choices=columns,
        label=options.label_column,
    )
