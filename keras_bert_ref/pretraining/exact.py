"""The original's generator: all in memory, one stream of random numbers.

Tokenizing and serializing are spread over processes. Sampling cannot be:
every random number depends on all that were drawn before it.
"""

import functools
import random
from collections.abc import Iterator

from keras_bert_ref.bars import progress_bar
from keras_bert_ref.pretraining.corpus import (
    Corpus,
    check_documents,
    encode_files,
)
from keras_bert_ref.pretraining.features import batch_size, make_records
from keras_bert_ref.pretraining.instances import sample_instances
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.summary import (
    Summary,
    count_corpus,
    count_instances,
)
from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.tokenization import FullTokenizer


def generate(
    paths: list[str],
    tokenizer: FullTokenizer,
    settings: Settings,
    num_workers: int,
    summary: Summary,
) -> Iterator[list[bytes]]:
    """Yields the instances of the original, serialized, in its order.

    Args:
        paths: text files, read as one stream.
        tokenizer: of the vocabulary in `settings`.
        settings: how to make instances.
        num_workers: int. Number of processes; changes nothing but the time.
        summary: is filled in.
    """
    with summary.phase("tokenizing"):
        encoded = encode_files(paths, tokenizer, num_workers)
        corpus = Corpus.from_encoded(part for _, part in encoded)
        check_documents(corpus.num_documents, settings.next_sentence_pairs)
        summary.counts.update(count_corpus(corpus, settings))
    with summary.phase("sampling"):
        instances, order = sample_instances(
            corpus,
            settings,
            random.Random(settings.random_seed),
            settings.dupe_factor,
            functools.partial(progress_bar, desc="sampling", unit="documents"),
        )
        summary.counts.update(count_instances(instances))
    with summary.phase("writing"):
        size = batch_size(settings)
        starts = range(0, len(order), size)
        batches = (instances[order[i : i + size]] for i in starts)
        make = functools.partial(make_records, corpus.tokens, settings)
        with progress_bar(
            desc="writing", total=len(order), unit="instances"
        ) as bar:
            made = map_in_order(make, batches, num_workers)
            for start, records in zip(starts, made, strict=True):
                yield records
                bar.update(min(size, len(order) - start))
