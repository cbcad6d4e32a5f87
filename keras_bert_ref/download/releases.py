"""What was published, and where."""

import dataclasses
import difflib
import fnmatch
from collections.abc import Sequence

_MODELS = "https://storage.googleapis.com/bert_models/"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
_XNLI = "https://www.nyu.edu/projects/bowman/xnli/"
_BY_DATE = {
    "2018_10_18": [
        f"{casing}_{size}"
        for size in ("L-12_H-768_A-12", "L-24_H-1024_A-16")
        for casing in ("uncased", "cased")
    ],
    "2018_11_03": ["chinese_L-12_H-768_A-12", "multilingual_L-12_H-768_A-12"],
    "2018_11_23": ["multi_cased_L-12_H-768_A-12"],
    "2019_05_30": [
        f"wwm_{casing}_L-24_H-1024_A-16" for casing in ("uncased", "cased")
    ],
    "2020_02_20": [
        *(
            f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"
            for layers in (2, 4, 6, 8, 10, 12)
            for hidden in (128, 256, 512, 768)
        ),
        "all_bert_models",
    ],
}
# All miniatures in one zip.
ALL_MODELS = "2020_02_20/all_bert_models"
# File -> number of its questions.
_QUESTIONS = {
    "train-v1.1.json": 87599,
    "dev-v1.1.json": 10570,
    "train-v2.0.json": 130319,
    "dev-v2.0.json": 11873,
}
_TASKS = (
    *("ax", "cola", "mnli", "mrpc", "qnli"),
    *("qqp", "rte", "sst2", "stsb", "wnli"),
)


@dataclasses.dataclass(frozen=True)
class Item:
    """Something to download.

    Attributes:
        name: what a user calls it: date/name of a model, squad/..., xnli/...
        address: where it was published; "" for TensorFlow Datasets.
        kind: "model", "squad", "xnli" or "tfds".
        questions: of a SQuAD file.
    """

    name: str
    address: str
    kind: str
    questions: int = 0

    @property
    def file(self) -> str:
        """Its path below a mirror."""
        ending = "" if self.kind == "squad" else ".zip"
        return self.name + ending


ITEMS = [
    *(
        Item(f"{date}/{name}", f"{_MODELS}{date}/{name}.zip", "model")
        for date, names in _BY_DATE.items()
        for name in names
    ),
    *(
        Item(f"squad/{name}", _SQUAD + name, "squad", count)
        for name, count in _QUESTIONS.items()
    ),
    *(
        Item(f"xnli/{name}", f"{_XNLI}{name}.zip", "xnli")
        for name in ("XNLI-1.0", "XNLI-MT-1.0")
    ),
    *(Item(f"glue/{task}", "", "tfds") for task in _TASKS),
    Item("conll2003", "", "tfds"),
]


def find(words: Sequence[str]) -> list[Item]:
    """The items of these names or patterns, without repetition.

    A model may go without its date where that leaves no doubt.

    Raises:
        ValueError: there is no such item, or there are two.
    """
    found: list[Item] = []
    for word in words:
        items = [
            item
            for item in ITEMS
            if fnmatch.fnmatch(item.name, word)
            or item.name.startswith(f"{word}/")
        ]
        items = items or [i for i in ITEMS if i.name.endswith(f"/{word}")]
        if not items:
            names = [item.name for item in ITEMS]
            names += [name.split("/")[-1] for name in names]
            near = difflib.get_close_matches(word, names, cutoff=0.4)
            raise ValueError(
                f"Nothing to download is called {word}; the nearest: "
                f"{', '.join(near) or 'none'}. Without a name, all are shown."
            )
        if items[1:] and items[0].name.endswith(f"/{word}"):
            raise ValueError(
                f"Two releases are called {word}; name the one you want by its "
                f"date: {' or '.join(item.name for item in items)}."
            )
        found += [item for item in items if item not in found]
    return found
