"""A model's logits for the windows of SQuAD questions."""

from collections.abc import Iterator

import numpy as np
import tqdm

from keras_bert_ref.records import batches
from keras_bert_ref.squad.spans import RawResult
from keras_bert_ref.training import loop


def predict(
    model,
    records: batches.Records,
    batch_size: int,
    trim_to: int | None = None,
) -> Iterator[RawResult]:
    """Yields the logits of every window, with its id.

    Args:
        model: BertSpan.
        records: of windows, see `squad.write_records`.
        trim_to: int. Leave out padding beyond a multiple of this; windows of
            one length then come together, in another order. None: all comes
            in order, with all padding.
    """

    def compute(batch, training):
        outputs = model(batch, training=training)
        return {"unique_ids": batch["unique_ids"], **outputs}

    if trim_to:
        windows = batches.batches_by_length(records, batch_size, trim_to)
    else:
        windows = batches.batches_in_order(records, batch_size)
    with tqdm.tqdm(
        desc="predicting",
        total=records.num_records,
        unit="window",
        mininterval=1,
    ) as bar:
        for results in loop.predict(compute, windows):
            unique_ids = results["unique_ids"].tolist()
            yield from map(
                RawResult,
                unique_ids,
                results["start_logits"].astype(np.float32),
                results["end_logits"].astype(np.float32),
            )
            bar.update(len(unique_ids))
