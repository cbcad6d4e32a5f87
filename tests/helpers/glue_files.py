"""A few rows of every task, in the exact layout of its files."""

import pathlib

import numpy as np

from keras_bert_ref.classifier import files as classifier_files

# Headers; a:, b: and l: mark the texts and the label. A leading - means that
# the file has no header line.
_MNLI = (
    "index promptID pairID genre sentence1_binary_parse "
    "sentence2_binary_parse sentence1_parse sentence2_parse "
    "a:sentence1 b:sentence2"
)
_MNLI_DEV = f"{_MNLI} label1 label2 label3 label4 label5 l:gold_label"
_XNLI = (
    "language l:gold_label sentence1_binary_parse sentence2_binary_parse "
    "sentence1_parse sentence2_parse a:sentence1 b:sentence2 promptID pairID"
)
_PAIR = "index a:sentence1 b:sentence2"
_STS = (
    "index genre filename year old_index source1 source2 a:sentence1 "
    "b:sentence2"
)


def _usual(train: str, test: str, dev: str | None = None) -> dict[str, str]:
    return {"train.tsv": train, "dev.tsv": dev or train, "test.tsv": test}


LAYOUTS = {
    "CoLA": _usual("- source l:label mark a:sentence", "index a:sentence"),
    "MNLI": {
        "train.tsv": f"{_MNLI} label1 l:gold_label",
        "dev_matched.tsv": _MNLI_DEV,
        "dev_mismatched.tsv": _MNLI_DEV,
        "test_matched.tsv": _MNLI,
        "test_mismatched.tsv": _MNLI,
        "../diagnostic/diagnostic.tsv": _PAIR,
    },
    "MNLI-mm": {
        "train.tsv": f"{_MNLI} label1 l:gold_label",
        "dev_mismatched.tsv": _MNLI_DEV,
        "test_mismatched.tsv": _MNLI,
    },
    "MRPC": _usual(
        "l:Quality #1_ID #2_ID a:#1_String b:#2_String",
        "index #1_ID #2_ID a:#1_String b:#2_String",
    ),
    "QNLI": _usual(
        "index a:question b:sentence l:label", "index a:question b:sentence"
    ),
    "QQP": _usual(
        "id qid1 qid2 a:question1 b:question2 l:is_duplicate",
        "id a:question1 b:question2",
    ),
    "RTE": _usual(f"{_PAIR} l:label", _PAIR),
    "SST-2": _usual("a:sentence l:label", "index a:sentence"),
    "STS-B": _usual(f"{_STS} l:score", _STS),
    "WNLI": _usual(f"{_PAIR} l:label", _PAIR),
    "AX": {"diagnostic.tsv": _PAIR},
    "XNLI": {
        "multinli/multinli.train.zh.tsv": "a:premise b:hypo l:label",
        "xnli.dev.tsv": _XNLI,
        "xnli.test.tsv": _XNLI,
    },
}
_NLI = ["neutral", "contradiction", "entailment"]
_ENTAILMENT = ["entailment", "not_entailment"]
LABELS = {
    "MNLI": _NLI,
    "MNLI-mm": _NLI,
    "XNLI": _NLI,
    "QNLI": _ENTAILMENT,
    "RTE": _ENTAILMENT,
    "STS-B": ["5.000", "0.250", "3.800"],
}
NUM_ROWS = {"train": 6, "dev": 5, "test": 4, "diagnostic": 3}


def text(file: str, role: str, number: int) -> str:
    """What stands in a row's column."""
    return f"{role} {pathlib.Path(file).stem} 'sentence' {number} \""


def label(task_name: str, number: int) -> str:
    labels = LABELS.get(task_name, ["1", "0"])
    return labels[number % len(labels)]


def num_rows(file: str) -> int:
    (count,) = [n for name, n in NUM_ROWS.items() if name in file]
    return count


def write(folder: pathlib.Path, task_name: str) -> pathlib.Path:
    """Writes a task's files; returns its data_dir."""
    data_dir = folder / task_name
    data_dir.mkdir(parents=True)
    for file, layout in LAYOUTS[task_name].items():
        columns = layout.removeprefix("- ").split()
        header = [c.split(":")[-1].replace("_S", " S") for c in columns]
        rows = [] if layout.startswith("- ") else [header]
        for i in range(num_rows(file)):
            values = {
                "a": text(file, "a", i),
                "b": text(file, "b", i),
                "l": label(task_name, i),
            }
            row = [values[c[0]] if c[1] == ":" else f"{c} {i}" for c in columns]
            if task_name == "XNLI" and "train" in file:
                row[2] = row[2].replace("contradiction", "contradictory")
            if task_name == "XNLI" and "xnli." in file:
                row[0] = "zh"
                rows.append(["de", *row[1:]])
            rows.append(row)
        path = data_dir / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return data_dir


TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def write_vocabulary(path: pathlib.Path) -> int:
    """Letters, digits and signs; returns how many."""
    characters = "abcdefghijklmnopqrstuvwxyz0123456789'\"_."
    pieces = [*characters, *(f"##{c}" for c in characters)]
    path.write_text("\n".join([*TOKENS, *pieces]) + "\n")
    return len(TOKENS) + len(pieces)


TFDS_LABELS = {
    "CoLA": ["unacceptable", "acceptable"],
    "MNLI": ["entailment", "neutral", "contradiction"],
    "MRPC": ["not_equivalent", "equivalent"],
}


def store_as_tfds(data_dir, task, splits, folder):
    """Writes splits with tfds itself, shuffled as it shuffles them."""
    import tensorflow_datasets as tfds

    labels = TFDS_LABELS.get(task.name)
    names = task.tfds_texts
    features = {name: tfds.features.Text() for name in names}
    features["label"] = (
        tfds.features.ClassLabel(names=labels) if labels else np.float32
    )
    features["idx"] = np.int32

    def number(label):
        if labels is None:
            return float(label)
        return labels.index(label) if label in labels else int(label)

    rows = {}
    for split in splits:
        examples = classifier_files.read_examples(task, split, str(data_dir))
        rows[split.tfds.split("/")[1]] = [
            (
                i,
                {
                    **dict(zip(names, [e.text_a, e.text_b], strict=False)),
                    "label": -1 if split.label is None else number(e.label),
                    "idx": i,
                },
            )
            for i, e in enumerate(examples)
        ]
    config = splits[0].tfds.split("/")[0]
    tfds.dataset_builders.store_as_tfds_dataset(
        name="glue",
        config=config,
        version="2.0.0",
        data_dir=folder,
        features=tfds.features.FeaturesDict(features),
        split_datasets=rows,
    )
