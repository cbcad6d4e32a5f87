"""Which positions are masked, and what is shown there instead.

Devlin et al. 2019, sec. 3.1, task 1, and A.1; masking of whole words is from
a later release. `Masker` draws random numbers in the order of the original,
instance by instance; `mask_at_once` gives the same distribution for many
instances together.
"""

import random
from itertools import chain

import numpy as np

from keras_bert_ref.pretraining.corpus import Corpus
from keras_bert_ref.pretraining.segments import Segments
from keras_bert_ref.pretraining.settings import KEEP, Settings
from keras_bert_ref.pretraining.shuffling import shuffle


class Masker:
    """Masks one instance at a time."""

    def __init__(self, corpus: Corpus, settings: Settings, rng: random.Random):
        vocab = settings.vocab
        self._tokens = memoryview(corpus.tokens)
        self._settings = settings
        self._rng = rng
        self._mask_id = vocab["[MASK]"]
        self._random_ids = list(vocab.values())
        self._pieces = {vocab[token] for token in vocab if token[:2] == "##"}
        # Of positions without [MASK]. Rounded, since 0.1 / (1 - 0.8) is a
        # shade more than the 0.5 of the original.
        not_masked = 1 - settings.mask_prob
        self._keep_share = (
            round(settings.keep_prob / not_masked, 12) if not_masked else 0
        )

    def draw_positions(self, segments: Segments) -> list[int]:
        """Positions to predict, in no particular order."""
        settings = self._settings
        sep = segments.a_length + 1
        length = sep + segments.b_length + 2
        count = min(
            settings.max_predictions_per_seq,
            max(1, round(length * settings.masked_lm_prob)),
        )
        candidates = [*range(1, sep), *range(sep + 1, length - 1)]
        if not settings.do_whole_word_mask:
            shuffle(candidates, self._rng)
            return candidates[:count]
        words = self._join_pieces(candidates, segments)
        shuffle(words, self._rng)
        positions = []
        for word in words:
            if len(positions) + len(word) <= count:
                positions += word
        return positions

    def draw_replacements(self, count: int) -> list[int]:
        """Ids that masked positions show, or KEEP."""
        random, mask_prob = self._rng.random, self._settings.mask_prob
        return [
            self._mask_id if random() < mask_prob else self._draw_other()
            for _ in range(count)
        ]

    def _draw_other(self) -> int:
        """What is shown where it is not [MASK]."""
        if self._rng.random() < self._keep_share:
            return KEEP
        last = len(self._random_ids) - 1
        return self._random_ids[self._rng.randint(0, last)]

    def _join_pieces(
        self, candidates: list[int], segments: Segments
    ) -> list[list[int]]:
        """Groups positions by word: `##` pieces go with what is before.

        Where B begins with a piece, that is the last word of A.
        """
        a_start, b_start, a_length, b_length, _ = segments
        tokens = chain(
            self._tokens[a_start : a_start + a_length],
            self._tokens[b_start : b_start + max(b_length, 0)],
        )
        words = []
        for position, token in zip(candidates, tokens, strict=True):
            if token in self._pieces and words:
                words[-1].append(position)
            else:
                words.append([position])
        return words


def mask_at_once(instances: np.ndarray, settings: Settings, seed: int) -> None:
    """Masks many instances; single tokens, not whole words.

    Shapes: N instances, S = max_seq_length, P = max_predictions_per_seq, but
    at most S.

    Args:
        instances: array [N] of `settings.instance_type()` with segments;
            the masked positions are filled in.
        settings: how much to mask, and how.
        seed: int.
    """
    rng = np.random.default_rng(seed)
    position = np.arange(settings.max_seq_length)
    rank = np.arange(settings.num_predictions)
    sep = instances["a_length"][:, None] + 1  # [N, 1]
    last_sep = sep + instances["b_length"][:, None] + 1  # [N, 1]
    is_special = (position == 0) | (position == sep) | (position >= last_sep)

    count = np.rint((last_sep + 1) * settings.masked_lm_prob)
    count = count.clip(1, len(rank)).astype(np.int32)
    count = np.minimum(count, (~is_special).sum(1, keepdims=True))  # [N, 1]

    # Every candidate gets a random number; the smallest ones are masked.
    keys = rng.random(is_special.shape, np.float32)  # [N, S]
    keys[is_special] = 2
    smallest = keys.argpartition(rank[-1], axis=1)[:, : len(rank)]
    order = np.take_along_axis(keys, smallest, 1).argsort(1)
    positions = np.take_along_axis(smallest, order, 1)  # [N, P]

    draw = rng.random(positions.shape)
    random_ids = np.array(list(settings.vocab.values()))
    replacements = rng.choice(random_ids, positions.shape)
    replacements[draw < settings.mask_prob + settings.keep_prob] = KEEP
    replacements[draw < settings.mask_prob] = settings.vocab["[MASK]"]

    is_used = rank < count
    instances["num_masked"] = count[:, 0]
    instances["masked_positions"] = positions * is_used
    instances["replacements"] = replacements * is_used
