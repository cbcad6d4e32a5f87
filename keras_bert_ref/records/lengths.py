"""Work on sequences of many lengths, without padding short ones to long."""

from collections.abc import Callable, Sequence

from keras_bert_ref.records.serialization import pad_rows

LENGTH_MULTIPLE = 8


def compute_by_length(
    rows: Sequence,
    compute: Callable[[dict], Sequence],
    *,
    batch_size: int,
    max_length: int,
    length_multiple: int = LENGTH_MULTIPLE,
    report: Callable[[int], object] | None = None,
) -> list:
    """Computes something of each row, in batches of similar length.

    Args:
        rows: things with `input_ids` and `segment_ids`.
        compute: takes a batch, gives a result for each of its rows.
        max_length: int. No row is longer.
        length_multiple: int. Batches are padded to a multiple of this.
        report: is told how many rows are done, after each batch.

    Returns:
        The results, in the order of the rows.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i].input_ids))
    results = [None] * len(rows)
    for first in range(0, len(rows), batch_size):
        part = order[first : first + batch_size]
        longest = len(rows[part[-1]].input_ids)
        length = -(-longest // length_multiple) * length_multiple
        batch = pad_rows([rows[i] for i in part], min(length, max_length))
        for i, result in zip(part, compute(batch), strict=True):
            results[i] = result
        if report:
            report(len(part))
    return results
