"""CoNLL-2003 from TensorFlow Datasets, as the lines of CoNLL's own files.

It has sentences but not where documents begin.
"""

import functools

from keras_bert_ref import prepared
from keras_bert_ref.ner.files import TaggedFile, parse

NAME = "conll2003"
COLUMNS = ("tokens", "pos", "chunks", "ner")


def read_file(source: str, split: str) -> TaggedFile:
    """Reads a split: `train`, `dev` or `test`.

    Args:
        source: `tfds`, or `tfds:` and the folder of prepared data sets.
    """
    make = functools.partial(make_lines, source)
    lines = prepared.read_apart(make, source, NAME, split)
    return parse(lines, f"{NAME}/{split} of tfds")


def make_lines(source: str, rows) -> list[str]:
    """A line for each word, a blank one after each sentence."""
    import tensorflow_datasets as tfds

    builder = tfds.builder(NAME, data_dir=prepared.folder_of(source))
    names = [builder.info.features[c].feature for c in COLUMNS[1:]]
    lines = []
    for row in rows:
        for word, *numbers in zip(*(row[c] for c in COLUMNS), strict=True):
            tags = [n.int2str(i) for n, i in zip(names, numbers, strict=True)]
            lines.append(" ".join([word.decode(), *tags]))
        lines.append("")
    return lines
