"""TFRecord files of `tf.train.Example`s: names, writing, reading.

A file whose name ends in .gz is compressed, in writing as in reading.
"""

import collections
import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the generator, which needs the names alone, starts sooner
    import tensorflow as tf

from keras_bert_ref.files import unfinished


def expand_outputs(names: str) -> list[str]:
    """Returns the files that comma-separated output names stand for.

    `name@2` stands for name-00000-of-00002 and name-00001-of-00002;
    `name.gz@2` and `name@2.gz` for the same with .gz at the end.
    """
    paths = []
    for name in map(str.strip, names.split(",")):
        prefix, count, suffix = split_output(name)
        paths += [
            f"{prefix}-{i:05d}-of-{count:05d}{suffix}" for i in range(count)
        ] or [name]
    for path, times in collections.Counter(paths).items():
        if times > 1:
            raise ValueError(
                "Every output file needs a name of its own, but --output_file "
                f"names {path} {times} times; drop or rename one."
            )
    return paths


def split_output(name: str) -> tuple[str, int, str]:
    """Splits `prefix@count` and .gz apart; without `@` the count is 0."""
    match = re.fullmatch(r"(.+?)(\.gz)?@(\d+)(\.gz)?", name)
    if not match:
        suffix = ".gz" if name.endswith(".gz") else ""
        return name.removesuffix(suffix), 0, suffix
    prefix, before, count, after = match.groups()
    if int(count) == 0:
        raise ValueError(
            f"name@count needs a count of 1 or more, but {name} asks for 0 "
            "files; change --output_file."
        )
    return prefix, int(count), before or after or ""


@contextlib.contextmanager
def open_outputs(
    paths: Sequence[str],
) -> Iterator[Callable[[Iterable[bytes]], None]]:
    """Yields a function that deals records out to the files in turn.

    The files appear when all are whole.
    """
    import tensorflow as tf

    with unfinished(paths) as names:
        writers = [
            tf.io.TFRecordWriter(name, "GZIP" if path.endswith(".gz") else None)
            for path, name in zip(paths, names, strict=True)
        ]
        turns = itertools.cycle(writers)

        def write(records: Iterable[bytes]) -> None:
            for record in records:
                next(turns).write(record)

        yield write
        for writer in writers:
            writer.close()


def read_records(paths: Sequence[str]) -> "tf.data.Dataset":
    """Serialized examples, one file after the other, compressed or not."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(list(paths)).flat_map(open_file)


def open_file(path: "tf.Tensor") -> "tf.data.Dataset":
    """Serialized examples of one file."""
    import tensorflow as tf

    is_compressed = tf.strings.regex_full_match(path, r".*\.gz")
    return tf.data.TFRecordDataset(
        path, compression_type=tf.where(is_compressed, "GZIP", "")
    )
