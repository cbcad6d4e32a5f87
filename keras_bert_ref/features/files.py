"""Files of extracted features: JSON lines, NumPy arrays or TFRecords.

Shapes: T tokens of a line, J layers, D hidden size.

Each writer is a context manager. It yields a function that takes one line
after the other: ids of its tokens, and its values as float32 [T, J, D], or
[J, D] where a line has but one vector for each layer. Values are not kept, and
the file appears when it is whole.
"""

import array
import contextlib
import io
import itertools
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_ref.files import unfinished
from keras_bert_ref.records.files import open_outputs
from keras_bert_ref.tokenization import FullTokenizer

Write = Callable[[list[int], np.ndarray], None]
# Of values in JSON, as the original writes them.
DECIMALS = 6


@contextlib.contextmanager
def open_json(
    path: str, layers: Sequence[int], tokenizer: FullTokenizer
) -> Iterator[Write]:
    """The original's format, one object a line.

    Its keys are `linex_index` (the original spells it so) and `features`, a
    list of tokens, each with its `layers`; where a line has one vector, it
    has its `layers` directly.
    """
    with unfinished([path]) as (name,), tf.io.gfile.GFile(name, "w") as file:
        count = itertools.count()

        def write(input_ids: list[int], values: np.ndarray) -> None:
            # A float32 times 10**6 is exact in float64: so is the rounding.
            rounded = np.round(values.astype(np.float64), DECIMALS).tolist()
            line = {"linex_index": next(count)}
            if values.ndim == 2:
                line["layers"] = _name_layers(layers, rounded)
            else:
                tokens = tokenizer.convert_ids_to_tokens(input_ids)
                line["features"] = [
                    {"token": token, "layers": _name_layers(layers, vectors)}
                    for token, vectors in zip(tokens, rounded, strict=True)
                ]
            file.write(json.dumps(line) + "\n")

        yield write


def _name_layers(layers: Sequence[int], vectors: list) -> list[dict]:
    return [
        {"index": index, "values": vector}
        for index, vector in zip(layers, vectors, strict=True)
    ]


@contextlib.contextmanager
def open_tfrecord(path: str, layers: Sequence[int]) -> Iterator[Write]:
    """A `tf.train.Example` a line.

    Its features are `linex_index`, `input_ids`, and for each layer
    `layer_<index>`: T * D floats, or D where a line has one vector.
    """
    with open_outputs([path]) as write_records:
        count = itertools.count()

        def write(input_ids: list[int], values: np.ndarray) -> None:
            example = tf.train.Example()
            feature = example.features.feature
            feature["linex_index"].int64_list.value.append(next(count))
            feature["input_ids"].int64_list.value.extend(input_ids)
            for i, index in enumerate(layers):
                floats = values[..., i, :].ravel()
                feature[f"layer_{index}"].float_list.value.extend(floats)
            write_records([example.SerializeToString(deterministic=True)])

        yield write


class _Stream(io.RawIOBase):
    """A file to write to from start to end: zipfile must not go back."""

    def __init__(self, file: tf.io.gfile.GFile):
        self.file = file

    def write(self, data: bytes) -> int:
        self.file.write(bytes(data))
        return len(data)


@contextlib.contextmanager
def open_npz(
    path: str, layers: Sequence[int], shape: Sequence[int]
) -> Iterator[Write]:
    """Arrays for `np.load`: `layers` [J], and `values` of all lines.

    With a vector for each token, `input_ids` are the tokens of all lines,
    and line i is `values[offsets[i]:offsets[i + 1]]`.

    Args:
        shape: of `values`, [lines, J, D] or [tokens of all lines, J, D]; it
            stands before them in the file.
    """
    all_ids, offsets = array.array("i"), array.array("q", [0])
    with (
        unfinished([path]) as (name,),
        tf.io.gfile.GFile(name, "wb") as file,
        zipfile.ZipFile(_Stream(file), "w") as archive,
    ):
        with archive.open("values.npy", "w", force_zip64=True) as values_file:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(values_file, header)

            def write(input_ids: list[int], values: np.ndarray) -> None:
                values_file.write(values.astype("<f4").tobytes())
                if values.ndim == 3:
                    all_ids.extend(input_ids)
                    offsets.append(len(all_ids))

            yield write
        arrays = {"layers": layers}
        if all_ids:
            arrays |= {"input_ids": all_ids, "offsets": offsets}
        for key, content in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.array(content))
