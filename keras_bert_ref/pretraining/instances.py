"""Corpus -> training instances: segments with masked positions."""

import random
import struct
from array import array
from collections.abc import Callable, Iterable

import numpy as np

from keras_bert_ref.pretraining.corpus import Corpus
from keras_bert_ref.pretraining.masking import Masker, mask_at_once
from keras_bert_ref.pretraining.segments import Segments, SegmentSampler
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.shuffling import shuffled_range


def sample_instances(
    corpus: Corpus,
    settings: Settings,
    rng: random.Random,
    dupe_factor: int = 1,
    progress: Callable[[range], Iterable[int]] = iter,
) -> tuple[np.ndarray, array]:
    """Draws instances from all documents, `dupe_factor` times over.

    The same arguments give the same instances as the original.

    Args:
        corpus: at least one document.
        settings: how to make instances.
        rng: source of all random numbers.
        dupe_factor: int. How often to go through the documents.
        progress: wraps the range over documents, to watch it pass.

    Returns:
        instances: array of `settings.instance_type()`.
        order: a random order to use them in.
    """
    sampler = SegmentSampler(corpus, settings, rng)
    masker = Masker(corpus, settings, rng)
    num_predictions = settings.num_predictions
    pack = struct.Struct(f"<2q4i{num_predictions}H{num_predictions}i").pack
    packed = bytearray()
    for step in progress(range(dupe_factor * corpus.num_documents)):
        for segments in sampler.sample(step % corpus.num_documents):
            positions = masker.draw_positions(segments)
            replacements = masker.draw_replacements(len(positions))
            padding = [0] * (num_predictions - len(positions))
            packed += pack(
                *segments,
                len(positions),
                *positions,
                *padding,
                *replacements,
                *padding,
            )
    instances = np.frombuffer(packed, settings.instance_type())
    return instances, shuffled_range(len(instances), rng)


def sample_instances_at_once(
    corpus: Corpus, settings: Settings, rng: random.Random
) -> tuple[np.ndarray, array]:
    """Draws other instances of the same distribution, in half the time.

    Whole words are masked one instance after the other all the same.
    """
    if settings.do_whole_word_mask:
        return sample_instances(corpus, settings, rng)
    sampler = SegmentSampler(corpus, settings, rng)
    segments = [
        segments
        for index in range(corpus.num_documents)
        for segments in sampler.sample(index)
    ]
    instances = np.zeros(len(segments), settings.instance_type())
    for name, values in zip(
        Segments._fields, np.array(segments).T, strict=True
    ):
        instances[name] = values
    mask_at_once(instances, settings, seed=rng.getrandbits(128))
    return instances, shuffled_range(len(instances), rng)
