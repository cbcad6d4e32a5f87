"""The tasks of GLUE, and XNLI, as data: files, columns, labels, metrics.

Columns count from 0, negative ones from the end. Every file is tab-separated
without quoting. A task without labels has scores: regression.
"""

import dataclasses
import re
from collections.abc import Mapping

Column = int | str


@dataclasses.dataclass(frozen=True)
class Split:
    """A file of a task and where in it things stand.

    Attributes:
        name: begins the guid of every example.
        file: path below --data_dir.
        text_a: column of the sentence, or of the first of a pair; a name
            from the header will do as well.
        text_b: column of the second.
        label: column of the label; None for what is only predicted.
        has_header: bool. The first line is one.
        only: a column and what it must say; other rows are passed over.
        is_optional: bool. The file may be missing.
        suffix: of result files and keys, for what is not the main split.
        submission: name of the file that GLUE wants, without .tsv.
        tfds: config and split in TensorFlow Datasets' `glue`.
    """

    name: str
    file: str
    text_a: Column
    text_b: Column | None = None
    label: Column | None = None
    has_header: bool = True
    only: tuple[int, str] | None = None
    is_optional: bool = False
    suffix: str = ""
    submission: str = ""
    tfds: str = ""

    @property
    def columns(self) -> list[Column]:
        named = self.text_a, self.text_b, self.label
        return [column for column in named if column is not None]


@dataclasses.dataclass(frozen=True)
class Task:
    """A task; scores instead of classes if there are no labels.

    Attributes:
        name: as GLUE writes it.
        labels: classes, in the order of the model's outputs.
        metrics: official ones, see metrics/glue.py.
        aliases: other spellings of labels.
        skips_short_rows: bool. Pass over rows that break off, with a warning.
        tfds_texts: the sentences' names in TensorFlow Datasets.
    """

    name: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    train: tuple[Split, ...]
    dev: tuple[Split, ...]
    test: tuple[Split, ...]
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skips_short_rows: bool = False
    tfds_texts: tuple[str, ...] = ()

    @property
    def is_regression(self) -> bool:
        return not self.labels


BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
NLI = ("contradiction", "entailment", "neutral")


def _task(name, labels, metrics, columns, test_columns, texts, **kwargs):
    """A task with train.tsv, dev.tsv and test.tsv."""
    config = name.lower().replace("-", "")
    train = Split("train", "train.tsv", *columns, tfds=f"{config}/train")
    dev = dataclasses.replace(
        train, name="dev", file="dev.tsv", tfds=f"{config}/validation"
    )
    test = Split(
        "test",
        "test.tsv",
        *test_columns,
        submission=name,
        tfds=f"{config}/test",
    )
    return Task(
        name,
        labels,
        metrics,
        (train,),
        (dev,),
        (test,),
        tfds_texts=tuple(texts.split()),
        **kwargs,
    )


def _without_header(task: Task) -> Task:
    """CoLA alone has a header in its test file only."""
    train, dev = (
        tuple(dataclasses.replace(split, has_header=False) for split in splits)
        for splits in (task.train, task.dev)
    )
    return dataclasses.replace(task, train=train, dev=dev)


def _mnli(part: str, suffix: str = "") -> tuple[Split, Split]:
    """MNLI's dev and test files, from the same sources as train or not."""
    submission = {"matched": "MNLI-m", "mismatched": "MNLI-mm"}[part]
    is_optional = bool(suffix)
    dev = Split(
        f"dev_{part}",
        f"dev_{part}.tsv",
        *(8, 9, -1),
        suffix=suffix,
        is_optional=is_optional,
        tfds=f"mnli/validation_{part}",
    )
    test = Split(
        f"test_{part}",
        f"test_{part}.tsv",
        *(8, 9),
        suffix=suffix,
        is_optional=is_optional,
        submission=submission,
        tfds=f"mnli/test_{part}",
    )
    return dev, test


_MNLI_TRAIN = Split("train", "train.tsv", 8, 9, -1, tfds="mnli/train")
_DIAGNOSTIC = Split(
    "diagnostic",
    "diagnostic.tsv",
    *(1, 2),
    suffix="diagnostic",
    submission="AX",
    tfds="ax/test",
)
_PREMISE = ("premise", "hypothesis")


def _make_mnli() -> Task:
    dev, test = _mnli("matched")
    more_dev, more_test = _mnli("mismatched", "mismatched")
    diagnostic = dataclasses.replace(
        _DIAGNOSTIC,
        file="../diagnostic/diagnostic.tsv",  # a folder beside MNLI
        is_optional=True,
    )
    return Task(
        "MNLI",
        NLI,
        ("accuracy",),
        (_MNLI_TRAIN,),
        (dev, more_dev),
        (test, more_test, diagnostic),
        tfds_texts=_PREMISE,
    )


def _make_mnli_mm() -> Task:
    dev, test = _mnli("mismatched")
    return Task(
        "MNLI-mm",
        NLI,
        ("accuracy",),
        (_MNLI_TRAIN,),
        (dev,),
        (test,),
        tfds_texts=_PREMISE,
    )


def _make_xnli(language: str) -> Task:
    columns = {"text_a": 6, "text_b": 7, "only": (0, language)}
    return Task(
        "XNLI",
        NLI,
        ("accuracy",),
        (Split("train", f"multinli/multinli.train.{language}.tsv", 0, 1, 2),),
        (Split("dev", "xnli.dev.tsv", label=1, **columns),),
        (Split("test", "xnli.test.tsv", **columns),),
        aliases={"contradictory": "contradiction"},
    )


_PAIR = "sentence1 sentence2"
_ACCURACY = ("accuracy",)
_F1 = ("f1", "accuracy")
_TASKS = (
    _without_header(
        _task(
            "CoLA",
            BINARY,
            ("matthews_correlation",),
            (3, None, 1),
            (1,),
            "sentence",
        )
    ),
    _make_mnli(),
    _make_mnli_mm(),
    _task("MRPC", BINARY, _F1, (3, 4, 0), (3, 4), _PAIR),
    _task(
        "QNLI", ENTAILMENT, _ACCURACY, (1, 2, 3), (1, 2), "question sentence"
    ),
    _task(
        "QQP",
        BINARY,
        _F1,
        (3, 4, 5),
        (1, 2),
        "question1 question2",
        skips_short_rows=True,  # the official train.tsv has a few
    ),
    _task("RTE", ENTAILMENT, _ACCURACY, (1, 2, 3), (1, 2), _PAIR),
    _task("SST-2", BINARY, _ACCURACY, (0, None, 1), (1,), "sentence"),
    _task("STS-B", (), ("pearson", "spearman"), (-3, -2, -1), (-2, -1), _PAIR),
    _task("WNLI", BINARY, _ACCURACY, (1, 2, 3), (1, 2), _PAIR),
    Task("AX", NLI, (), (), (), (_DIAGNOSTIC,), tfds_texts=_PREMISE),
)
TASKS = {task.name: task for task in _TASKS}
SUBMISSIONS = tuple(
    sorted({s.submission for task in _TASKS for s in task.test})
)
DEFAULT_LANGUAGE = "zh"
OWN_KINDS = ("tsv", "jsonl")


def get_task(name: str, xnli_language: str = DEFAULT_LANGUAGE) -> Task:
    """Finds a task; case and hyphens in its name do not matter."""
    known = {_plain(task.name): task for task in _TASKS}
    known["xnli"] = _make_xnli(xnli_language)
    if _plain(name) not in known:
        names = ", ".join(task.name for task in known.values())
        raise ValueError(
            f"There is no task {name!r}; --task_name must be one of {names}, "
            "or tsv or jsonl for a task of your own."
        )
    return known[_plain(name)]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
