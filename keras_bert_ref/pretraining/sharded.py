"""The generator for corpora of any size: shards on disk, all processors.

First the documents are tokenized and dealt out to shards, which wait in
temporary files; then each shard is loaded and sampled on its own. Memory is
that of a few shards, and disk space is about half the size of the text.
"""

import functools
import itertools
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import numpy as np
from absl import logging

from keras_bert_ref.bars import progress_bar
from keras_bert_ref.files import temporary_folder
from keras_bert_ref.pretraining.corpus import (
    Corpus,
    Encoded,
    check_documents,
    encode_files,
    id_type,
)
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.shards import (
    SHARD_BYTES,
    choose_shard,
    count_shards,
    sample_shard,
    split_documents,
)
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.text_files import count_bytes
from keras_bert_ref.tokenization import FullTokenizer

BUFFERED_TOKENS = 1 << 22


def generate(
    paths: list[str],
    tokenizer: FullTokenizer,
    settings: Settings,
    num_workers: int,
    summary: Summary,
    shard_bytes: int = SHARD_BYTES,
) -> Iterator[list[bytes]]:
    """Yields serialized instances, shard by shard, `dupe_factor` times over.

    The arguments are those of `exact.generate`, and how much text a shard
    has; the instances are others, drawn in the same way. A document ends
    where its file ends.
    """
    num_shards = count_shards(count_bytes(paths), shard_bytes)
    with temporary_folder("bert-shards") as folder:
        with summary.phase("tokenizing"):
            encoded = encode_files(paths, tokenizer, num_workers)
            sizes = _deal_documents(
                encoded, folder, settings.random_seed, num_shards
            )
        check_documents(sizes.total(), settings.next_sentence_pairs)
        num_lonely = list(sizes.values()).count(1)
        if num_lonely and settings.next_sentence_pairs and len(sizes) > 1:
            logging.warning(
                "A shard needs 2 documents or more for next-sentence "
                "prediction, but %d of %d shards have 1: their random next "
                "segments will come from the same document. Split documents "
                "of many megabytes, or leave out --sharded.",
                num_lonely,
                len(sizes),
            )
        with summary.phase("sampling and writing"):
            tasks = [
                (shard, copy)
                for copy in range(settings.dupe_factor)
                for shard in sorted(sizes)
            ]
            sample = functools.partial(_sample_file, folder, settings)
            for records, counts in progress_bar(
                map_in_order(sample, tasks, num_workers),
                desc="sampling and writing",
                total=len(tasks),
                unit="shards",
            ):
                yield records
                summary.counts.update(counts)


def _deal_documents(
    encoded: Iterable[tuple[int, Encoded]],
    folder: str,
    random_seed: int,
    num_shards: int,
) -> Counter[int]:
    """Appends each document to the files of its shard.

    Returns:
        How many documents each shard has.
    """
    sizes = Counter()
    buffers = defaultdict(list)
    num_buffered = 0
    for file, parts in itertools.groupby(encoded, key=lambda pair: pair[0]):
        documents = split_documents(part for _, part in parts)
        for index, document in enumerate(documents):
            shard = choose_shard(random_seed, file, index, num_shards)
            sizes[shard] += 1
            buffers[shard].append(document)
            num_buffered += len(document.tokens)
            if num_buffered > BUFFERED_TOKENS:
                _append(folder, buffers)
                num_buffered = 0
    _append(folder, buffers)
    return sizes


def _append(folder: str, buffers: dict[int, list[Encoded]]) -> None:
    """Empties the buffers into the files."""
    for shard, documents in buffers.items():
        for path, arrays in zip(
            _paths(folder, shard), zip(*documents, strict=True), strict=True
        ):
            with open(path, "ab") as file:
                np.concatenate(arrays).tofile(file)
    buffers.clear()


def _paths(folder: str, shard: int) -> tuple[str, str]:
    """Where the tokens and the lengths of a shard are."""
    path = os.path.join(folder, str(shard))
    return f"{path}.tokens", f"{path}.lengths"


def _sample_file(
    folder: str, settings: Settings, task: tuple[int, int]
) -> tuple[list[bytes], Counter[str]]:
    """Loads a shard and samples it."""
    shard, copy = task
    tokens, lengths = _paths(folder, shard)
    encoded = Encoded(
        np.fromfile(tokens, id_type(settings.vocab)),
        np.fromfile(lengths, np.int32),
    )
    corpus = Corpus.from_encoded([encoded])
    return sample_shard(corpus, settings, shard, copy)
