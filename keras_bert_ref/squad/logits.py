"""A model's logits for the windows of SQuAD questions."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from absl import logging

from keras_bert_ref.bars import progress_bar
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.records import batches
from keras_bert_ref.squad.spans import RawResult
from keras_bert_ref.training import loop, resumable


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


def restore_and_predict(
    model,
    records: batches.Records,
    *,
    output_dir: str,
    init_checkpoint: str | None,
    ensemble_checkpoints: Sequence[str] = (),
    **kwargs,
) -> tuple[Iterable[RawResult], int]:
    """The logits of the model that was trained, and its step; or the mean of
    those of several checkpoints, and 0. Further arguments: see `predict`."""
    if not ensemble_checkpoints:
        step = resumable.restore_for_eval(model, output_dir, init_checkpoint)
        return predict(model, records, **kwargs), step

    def load_and_predict(prefix: str) -> Iterator[RawResult]:
        logging.info("USING the checkpoint %s, among others.", prefix)
        tf1.load(model, prefix)
        return predict(model, records, **kwargs)

    for prefix in ensemble_checkpoints:  # a bad one is found before the work
        missing = tf1.check(model, prefix).missing
        if missing:
            raise ValueError(
                f"{prefix} lacks {missing[0]}; --ensemble_checkpoints takes "
                "checkpoints that were fine-tuned on questions."
            )
    return average(map(load_and_predict, ensemble_checkpoints)), 0


def average(models: Iterable[Iterable[RawResult]]) -> list[RawResult]:
    """The mean of several models' logits, window by window."""
    sums, count = {}, 0
    for results in models:
        count += 1
        for result in results:
            start, end = sums.get(result.unique_id, (0.0, 0.0))
            sums[result.unique_id] = (
                start + result.start_logits,
                end + result.end_logits,
            )
    return [
        RawResult(unique_id, start / count, end / count)
        for unique_id, (start, end) in sums.items()
    ]
