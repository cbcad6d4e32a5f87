"""GLUE from TensorFlow Datasets."""

from collections.abc import Sequence

from absl import logging

from keras_bert_ref import prepared
from keras_bert_ref.classifier.files import InputExample
from keras_bert_ref.classifier.tasks import Split, Task


def read_splits(task: Task, splits: Sequence[Split], data_dir: str) -> list:
    """Reads splits one after the other; see `read_examples`."""
    return [read_examples(task, split, data_dir) for split in splits]


def read_examples(
    task: Task, split: Split, data_dir: str
) -> list[InputExample] | None:
    """Reads a split, in the order of GLUE's own files.

    Args:
        data_dir: `tfds`, or `tfds:` and the folder of prepared data sets.

    Returns:
        None if the split is optional and its data set not prepared.
    """
    if not split.tfds:
        raise ValueError(
            f"TensorFlow Datasets' glue has no {task.name}; set --data_dir to "
            "a folder with its files."
        )
    import tensorflow_datasets as tfds

    config, part = split.tfds.split("/")
    name = f"glue/{config}"
    folder = prepared.folder_of(data_dir)
    builder = tfds.builder(name, data_dir=folder)
    try:
        dataset = builder.as_dataset(split=part)
    except AssertionError as error:
        if split.is_optional:
            logging.info("%s is not prepared and left out", name)
            return None
        where = f", data_dir={folder!r}" if folder else ""
        raise ValueError(
            f"{name} is not prepared in {builder.data_dir}; once, run "
            f"tfds.builder({name!r}{where}).download_and_prepare()."
        ) from error
    rows = sorted(tfds.as_numpy(dataset), key=lambda row: row["idx"])
    return [
        InputExample(
            f"{split.name}-{row['idx']}",
            *_texts(task, row),
            _label(task, split, row["label"], builder.info.features["label"]),
        )
        for row in rows
    ]


def _texts(task: Task, row: dict) -> list[str | None]:
    texts = [row[name].decode() for name in task.tfds_texts]
    return [*texts, None][:2]


def _label(task: Task, split: Split, value, feature) -> str | float:
    if task.is_regression:
        return 0.0 if split.label is None else float(value)
    if split.label is None:
        return task.labels[0]
    name = feature.int2str(value)
    # It has words where most of GLUE's files have 0 and 1.
    return name if name in task.labels else str(value)
