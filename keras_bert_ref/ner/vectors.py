"""Features of words from a frozen encoder, kept on disk (section 5.3).

Shapes: N words of a file, B sequences, W words of a sequence, J layers, D
hidden size.

The encoder runs once over the windows of a file. Of each word the output at
its first piece is kept, layer by layer: <split>.layer_<i>.npy, float16 [N, D],
where layer 0 is the embeddings and layer i the output of block i. What is
trained on them reads words instead of pieces: its `input_ids` are the numbers
of the words in the file, which are the rows of these arrays.
"""

import dataclasses
import glob
import hashlib
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.bars import progress_bar
from keras_bert_ref.config import BertConfig
from keras_bert_ref.ner.records import write_records
from keras_bert_ref.ner.rows import layers_of
from keras_bert_ref.ner.splits import PreparedSplit
from keras_bert_ref.ner.windows import TaggedWindow
from keras_bert_ref.records import batches
from keras_bert_ref.training import loop, state

FOLDER = "features"
# In that folder: what its arrays were made of.
DIGESTS_FILE = "digests.json"
# In output_dir, since what was trained on features outlives them: the encoder.
ENCODER_FILE = "features.json"
# What is wrong if a digest is another.
CAUSES = {
    "checkpoint": "by another checkpoint than --init_checkpoint",
    "config": "with another --bert_config_file",
}


def prepare(
    folder: str,
    encoder_digests: dict[str, str],
    splits: dict[str, PreparedSplit],
    layers: Sequence[int],
    load_encoder,
    **kwargs,
) -> None:
    """Computes what is not there yet, of all splits.

    Args:
        folder: on a local disk.
        encoder_digests: see `digests_of_encoder`.
        layers: those that are asked for; others are not kept.
        load_encoder: makes the BertModel, if it is needed.
        **kwargs: see `_compute`.

    Raises:
        ValueError: what is there was made by another checkpoint, or of other
            data or windows.
    """
    if "://" in folder:
        raise ValueError(
            f"Features are kept on a local disk, but --output_dir is {folder}; "
            "choose another."
        )
    digests = {name: digest_of_windows(s) for name, s in splits.items()}
    digests = {**encoder_digests, **digests}
    path = os.path.join(folder, DIGESTS_FILE)
    before = files.read_json(path) if files.exists(path) else {}
    _check_digests(folder, before, digests)
    encoder = None
    for name, split in splits.items():
        missing = [
            i for i in layers if not files.exists(_path(folder, name, i))
        ]
        if missing:
            if encoder is None:
                encoder = load_encoder()
                files.replace_json(path, {**before, **digests})
            paths = [_path(folder, name, i) for i in missing]
            _compute(encoder, split, missing, paths, **kwargs)


def check_trained(output_dir: str, encoder_digests: dict[str, str]) -> None:
    """Raises if something was trained here on features of another encoder."""
    path = os.path.join(output_dir, ENCODER_FILE)
    pattern = os.path.join(glob.escape(output_dir), f"{FOLDER}_*", "**")
    trained = os.path.join(pattern, "*.index")
    if not files.exists(path) or not glob.glob(trained, recursive=True):
        return
    before = files.read_json(path)
    for name, digest in encoder_digests.items():
        if before.get(name) != digest:
            raise ValueError(
                f"What was trained in {output_dir} reads features that were "
                f"made {CAUSES[name]}; use another --output_dir."
            )


def _path(folder: str, name: str, layer: int | str) -> str:
    return os.path.join(folder, f"{name}.layer_{layer}.npy")


def keep_encoder(output_dir: str, encoder_digests: dict[str, str]) -> None:
    files.replace_json(os.path.join(output_dir, ENCODER_FILE), encoder_digests)


def digests_of_encoder(prefix: str, config: BertConfig) -> dict[str, str]:
    return {
        "checkpoint": digest_of_checkpoint(prefix),
        "config": digest_of_config(config),
    }


def digest_of_checkpoint(prefix: str) -> str:
    """Of the bytes of a checkpoint's files."""
    digest = hashlib.sha256()
    for path in [f"{prefix}.index", *files.starting_with(f"{prefix}.data-")]:
        with files.open_file(path, "rb") as file:
            while chunk := file.read(1 << 24):
                digest.update(chunk)
    return digest.hexdigest()


def digest_of_config(config: BertConfig) -> str:
    """Of what the encoder's numbers depend on besides its weights."""
    values = [(key, getattr(config, key)) for key in state.ARCHITECTURE]
    return hashlib.sha256(repr(values).encode()).hexdigest()


def digest_of_windows(split: PreparedSplit) -> str:
    """Of all that the encoder sees, and where its words stand in it."""
    digest = hashlib.sha256()
    for window in split.windows:
        for values in (window.input_ids, window.positions, window.words):
            digest.update(np.asarray(values, np.int64).tobytes() + b"|")
    return digest.hexdigest()


def _check_digests(folder: str, before: dict, digests: dict[str, str]) -> None:
    """Compares what arrays were made of with what they would be made of.

    Args:
        before: the digests of what is there; empty if nothing is known.
        digests: of the encoder, and of each split.
    """
    for name, digest in digests.items():
        part = "*" if name in CAUSES else name
        is_made = glob.glob(_path(glob.escape(folder), part, "*"))
        if not is_made or before.get(name) == digest:
            continue
        cause = f"of other data, words or windows than {name} has now"
        cause = CAUSES.get(name, cause)
        if name not in before:
            cause = f"of something that no {DIGESTS_FILE} tells"
        raise ValueError(
            f"The features in {folder} were made {cause}; use another "
            "--output_dir, or remove that folder to have them made again."
        )


def _compute(
    encoder,
    split: PreparedSplit,
    layers: Sequence[int],
    paths: Sequence[str],
    *,
    batch_size: int,
    length_multiple: int | None,
    skip_padding: bool,
) -> None:
    """Runs the encoder over a split; writes an array for each layer."""

    def compute(batch, training):
        outputs = encoder(
            batch["input_ids"],
            batch["input_mask"],
            batch["segment_ids"],
            training=training,
            skip_padding=skip_padding,
        )
        every = [outputs["embedding_output"], *outputs["all_encoder_layers"]]
        values = tf.stack([every[i] for i in layers], axis=2)  # [B, T, J, D]
        return tf.cast(values, tf.float16)

    shape = (split.data.num_words, encoder.config.hidden_size)
    logging.info("Computing features, in %s.", os.path.dirname(paths[0]))
    dataset = batches.batches_in_order(
        split.records, batch_size, length_multiple
    )
    windows = iter(split.windows)
    with (
        files.unfinished(paths) as names,
        batches.readable_errors(split.records),
        progress_bar(
            desc="encoding", total=len(split.windows), unit="windows"
        ) as bar,
    ):
        arrays = [create_array(name, shape) for name in names]
        for values in loop.predict(compute, dataset):
            for row, window in zip(values, windows, strict=False):
                for j, array in enumerate(arrays):
                    array[window.words] = row[window.positions, j]
            bar.update(len(values))
        for array in arrays:
            array.flush()


def create_array(path: str, shape: tuple[int, ...]) -> np.memmap:
    """A float16 array on disk, of zeros; raises OSError if there is no room:
    found out later, that would end the process without a word."""
    array = np.lib.format.open_memmap(path, "w+", np.float16, shape)
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, os.path.getsize(path))
    return array


def word_split(split: PreparedSplit, path: str) -> PreparedSplit:
    """The same split with words in the place of pieces, written to a file.

    A sequence is what is predicted in one window.
    """
    windows = [
        TaggedWindow(
            input_ids=window.words,
            segment_ids=np.zeros_like(window.words),
            positions=np.arange(len(window.words)),
            words=window.words,
        )
        for window in split.windows
    ]
    records = write_records(
        path,
        windows,
        split.label_ids,
        max_seq_length=max(len(window.words) for window in windows),
        vocab_size=split.data.num_words,
    )
    return split._replace(windows=windows, records=records)


def add_vectors(
    split: PreparedSplit, folder: str, name: str, row: str, num_layers: int
) -> PreparedSplit:
    """A split of words whose batches have `vectors`, float16 [B, W, J, D]: the
    layers of a row of table 7."""
    tables = [
        np.load(_path(folder, name, layer), mmap_mode="r")
        for layer in layers_of(row, num_layers)
    ]

    def gather(words):
        return np.stack([table[words] for table in tables], axis=-2)

    def look_up(batch: dict) -> dict:
        words = batch["input_ids"]
        vectors = tf.numpy_function(gather, [words], tf.float16)
        shape = [*words.shape, len(tables), tables[0].shape[1]]
        return {**batch, "vectors": tf.ensure_shape(vectors, shape)}

    records = dataclasses.replace(split.records, prepare=look_up)
    return split._replace(records=records)
