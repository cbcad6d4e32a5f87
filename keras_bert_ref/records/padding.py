"""Token lists of many lengths -> arrays of one length."""

from collections.abc import Sequence

import numpy as np


def pad_rows(rows: Sequence, length: int) -> dict[str, np.ndarray]:
    """Makes `input_ids`, `input_mask` and `segment_ids`, int32 [N, length].

    Args:
        rows: N things with `input_ids` and `segment_ids`, none of them longer
            than `length`.
    """
    batch = {
        name: np.zeros((len(rows), length), np.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    for i, row in enumerate(rows):
        real = len(row.input_ids)
        batch["input_ids"][i, :real] = row.input_ids
        batch["input_mask"][i, :real] = 1
        batch["segment_ids"][i, :real] = row.segment_ids
    return batch
