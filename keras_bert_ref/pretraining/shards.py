"""Shards: random handfuls of documents, each sampled on its own.

A corpus larger than memory is dealt out, document by document, to shards that
are small enough. Where a document goes and what is drawn from a shard depends
on the seed and on positions in the input, never on who does the work or when:
processes on one machine (sharded.py) and workers of a Beam pipeline (beam.py)
make the same records.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from keras_bert_ref.pretraining.corpus import Corpus, Encoded
from keras_bert_ref.pretraining.features import batch_size, make_records
from keras_bert_ref.pretraining.instances import sample_instances_at_once
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.summary import count_corpus, count_instances

# Of text: little enough for any machine, and documents enough to draw random
# next sentences from.
SHARD_BYTES = 4 << 20


def count_shards(num_bytes: int, shard_bytes: int) -> int:
    """How many shards a corpus of that size makes."""
    return max(1, round(num_bytes / shard_bytes))


def choose_shard(seed: int, file: int, document: int, num_shards: int) -> int:
    """The shard of a document, given its place in the input."""
    return random.Random(f"document {seed} {file} {document}").randrange(
        num_shards
    )


def split_documents(parts: Iterable[Encoded]) -> Iterator[Encoded]:
    """Yields the documents of encoded text, but for empty ones.

    A document may go on from one part to the next; the last one ends where
    the text ends.
    """
    document = []  # its pieces so far
    end = Encoded(np.empty(0, np.uint16), np.zeros(1, np.int32))
    for tokens, lengths in itertools.chain(parts, [end]):
        cuts = np.flatnonzero(lengths == 0)
        *ends, rest = zip(
            np.split(tokens, np.cumsum(lengths)[cuts]),
            np.split(lengths, cuts + 1),
            strict=True,
        )
        for piece in ends:
            pieces = zip(*document, piece, strict=True)
            document = []
            whole = Encoded(*map(np.concatenate, pieces))
            if len(whole.tokens):
                yield whole
        document.append(rest)


def sample_shard(
    corpus: Corpus, settings: Settings, shard: int, copy: int
) -> tuple[list[bytes], Counter[str]]:
    """Draws instances from all documents of a shard once.

    Args:
        corpus: the documents of the shard.
        settings: how to make instances.
        shard: int. Which shard it is.
        copy: int, from 0. How often it has been sampled before.

    Returns:
        records: serialized instances in random order.
        counts: what they are; with the first copy, the corpus as well.
    """
    rng = random.Random(f"shard {settings.random_seed} {shard} {copy}")
    instances, order = sample_instances_at_once(corpus, settings, rng)
    counts = count_instances(instances)
    if copy == 0:
        counts += count_corpus(corpus, settings)
    records = []
    size = batch_size(settings)
    for start in range(0, len(order), size):
        batch = instances[order[start : start + size]]
        records += make_records(corpus.tokens, settings, batch)
    return records, counts
