"""How instances are made, and how they are laid out in memory.

An instance holds no text. It is two slices of the corpus, A and B, out of
which `[CLS] A [SEP] B [SEP]` is made at the very end (features.py), and the
masked positions with what is to be put there.
"""

import dataclasses

import numpy as np
from absl import logging

# As the length of B: there is no B, and no [SEP] after it either.
NO_SEGMENT = -1
# As a replacement: the token stays as it is.
KEEP = -1


@dataclasses.dataclass(frozen=True)
class Settings:
    """Names and defaults are those of the flags."""

    vocab: dict[str, int] = dataclasses.field(repr=False)
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    random_seed: int = 12345
    dupe_factor: int = 10
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    do_whole_word_mask: bool = False
    mask_prob: float = 0.8
    keep_prob: float = 0.1
    next_sentence_pairs: bool = True
    pack_sequences: bool = False

    def __post_init__(self):
        if "[MASK]" not in self.vocab:
            raise ValueError(
                "Pre-training needs the token [MASK], but the vocabulary "
                f"({len(self.vocab)} entries) lacks it; add it to the file."
            )
        if not 5 <= self.max_seq_length < 1 << 16:
            raise ValueError(
                "max_seq_length must be from 5 ([CLS] A [SEP] B [SEP]) to "
                f"65535, got {self.max_seq_length}; change --max_seq_length."
            )
        if self.max_predictions_per_seq < 1:
            raise ValueError(
                "Every instance has a masked position, but "
                f"max_predictions_per_seq={self.max_predictions_per_seq}; set "
                "--max_predictions_per_seq to 1 or more."
            )
        if self.dupe_factor < 1:
            raise ValueError(
                "The text is gone through at least once, but dupe_factor="
                f"{self.dupe_factor}; set --dupe_factor to 1 or more."
            )
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_prob") and not 0 <= value <= 1:
                raise ValueError(
                    f"A probability is from 0 to 1, but {field.name}={value}; "
                    f"change --{field.name}."
                )
        if self.mask_prob + self.keep_prob > 1:
            raise ValueError(
                "mask_prob and keep_prob may be 1 together, but "
                f"{self.mask_prob} + {self.keep_prob} is more; lower one."
            )
        warn_of_padding(self.max_seq_length, self.max_predictions_per_seq)
        wanted = round(self.max_seq_length * self.masked_lm_prob)
        if wanted > self.max_predictions_per_seq:
            logging.warning(
                "masked_lm_prob=%s asks for %d masked positions in a sequence "
                "of %d, but max_predictions_per_seq=%d; raise "
                "--max_predictions_per_seq or fewer will be masked.",
                self.masked_lm_prob,
                wanted,
                self.max_seq_length,
                self.max_predictions_per_seq,
            )

    @property
    def num_predictions(self) -> int:
        """Masked positions of an instance, at most: no more than it has."""
        return min(self.max_predictions_per_seq, self.max_seq_length)

    def instance_type(self) -> np.dtype:
        """The fields of an instance."""
        num_predictions = self.num_predictions
        return np.dtype(
            [
                ("a_start", "<i8"),
                ("b_start", "<i8"),
                ("a_length", "<i4"),
                ("b_length", "<i4"),
                ("is_random_next", "<i4"),
                ("num_masked", "<i4"),
                ("masked_positions", "<u2", num_predictions),
                ("replacements", "<i4", num_predictions),
            ]
        )


def warn_of_padding(max_seq_length: int, max_predictions_per_seq: int) -> None:
    """Says so where records have more room than anything can fill."""
    if max_predictions_per_seq > max_seq_length:
        logging.warning(
            "max_predictions_per_seq=%d, but a sequence has only "
            "max_seq_length=%d positions: the rest of each record is padding. "
            "Lower --max_predictions_per_seq, for records and for training.",
            max_predictions_per_seq,
            max_seq_length,
        )
