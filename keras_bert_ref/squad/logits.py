"""A model's logits for the windows of SQuAD questions."""

from collections.abc import Iterator

import numpy as np

from keras_bert_ref.bars import progress_bar
from keras_bert_ref.records import batches
from keras_bert_ref.squad.spans import RawResult
from keras_bert_ref.training import loop


def predict(
    model,
    records: batches.Records,
    *,
    batch_size: int,
    length_multiple: int | None = None,
    jit_compile: bool = False,
) -> Iterator[RawResult]:
    """Yields the logits of every window, with its id.

    Args:
        model: BertSpan.
        records: of windows, see squad/records.py.
        length_multiple: int. Leave out padding beyond a multiple of this;
            windows of one length then come together, in another order. None:
            all comes in order, with all padding.
        jit_compile: bool. Compile the model with XLA.
    """

    def compute(batch, training):
        outputs = model(batch, training=training)
        return {"unique_ids": batch["unique_ids"], **outputs}

    if length_multiple:
        windows = batches.batches_by_length(
            records, batch_size, length_multiple
        )
    else:
        windows = batches.batches_in_order(records, batch_size)
    with progress_bar(
        desc="predicting", total=records.num_records, unit="windows"
    ) as bar:
        for results in loop.predict(compute, windows, jit_compile=jit_compile):
            unique_ids = results["unique_ids"].tolist()
            yield from map(
                RawResult,
                unique_ids,
                results["start_logits"].astype(np.float32),
                results["end_logits"].astype(np.float32),
            )
            bar.update(len(unique_ids))
