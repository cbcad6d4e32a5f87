"""Records -> batches: one stream of examples, the same for every worker.

The stream goes through all records again and again, each time in another
order; the order follows from the seed alone. So a place in the stream is one
number, how many records were seen, whatever the number of workers: each reads
the whole stream and parses only its share of every batch.
"""

import contextlib
import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref.records import damage, limits
from keras_bert_ref.records.files import open_file, read_records

# Features with a value for each token.
PER_TOKEN = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "sequence_ids",
    "tag_ids",
    "tag_mask",
)


@dataclasses.dataclass(frozen=True)
class Records:
    """TFRecord files whose examples all have the same features.

    Attributes:
        paths: the files.
        schema: features by name, as tf.io.parse_example takes them.
        num_records: in all files together.
        vocab_size: ids of words must be smaller.
        type_vocab_size: likewise those of segments.
        num_labels: likewise labels; None: there are none, or scores.
        shuffle_buffer: how many are held, serialized, to shuffle among; of
            smaller data, all.
        prepare: what happens to each batch before it is used.
    """

    paths: Sequence[str]
    schema: Mapping[str, tf.io.FixedLenFeature]
    num_records: int
    vocab_size: int
    shuffle_buffer: int = 100_000
    prepare: Callable[[dict], dict] = lambda batch: batch
    type_vocab_size: int = 2
    num_labels: int | None = None

    @property
    def limits(self) -> dict[str, int]:
        return limits.find_limits(
            self.schema, self.vocab_size, self.type_vocab_size, self.num_labels
        )

    def fingerprint(self) -> int:
        """A number that differs where the stream of records does: by the
        names of files, not their folders, the count and the features."""
        features = [(n, list(f.shape)) for n, f in sorted(self.schema.items())]
        names = [path.rsplit("/", 1)[-1] for path in self.paths]
        known = json.dumps([names, self.num_records, features])
        return int(hashlib.sha256(known.encode()).hexdigest()[:15], 16)


def find_records(
    paths: Sequence[str],
    schema: Mapping,
    vocab_size: int,
    type_vocab_size: int = 2,
) -> Records:
    """Counts records and checks each file's first against the schema."""
    counts = [damage.count_records(path) for path in paths]
    records = Records(
        list(paths),
        schema,
        sum(counts),
        vocab_size,
        type_vocab_size=type_vocab_size,
    )
    if not records.num_records:
        raise ValueError(
            f"There is no record in {', '.join(paths)}; training needs at "
            "least one. Make them with create_pretraining_data.py."
        )
    with readable_errors(records):
        for path, count in zip(paths, counts, strict=True):
            if count:
                limits.check_first_record(path, schema)
            else:
                logging.warning("%s is EMPTY: it holds no record.", path)
    return records


def distribute(
    strategy: tf.distribute.Strategy,
    records: Records,
    batch_size: int,
    num_batches: int | None = None,
    **kwargs,
):
    """Batches of all replicas together, for the replicas of a strategy.

    Args:
        batch_size: int. Must be a multiple of the number of replicas.
        num_batches: int. How many; None: without end.
        **kwargs: see `stream_batches`.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"A batch of {batch_size} cannot be shared evenly by {replicas} "
            "replicas; make the batch size a multiple of that."
        )
    _check_memory(records, batch_size)

    def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local
        dataset = stream_batches(
            records,
            batch_size // replicas,
            parts=replicas,
            own_parts=range(first, first + local),
            **kwargs,
        )
        return dataset.take(-1 if num_batches is None else num_batches * local)

    return strategy.distribute_datasets_from_function(make)


def _check_memory(records: Records, batch_size: int) -> None:
    """Refuses batches whose features alone are larger than this machine."""
    values = sum(math.prod(f.shape) for f in records.schema.values())
    needed = 4 * values * batch_size
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise ValueError(
            f"A batch of {batch_size} examples takes {needed >> 30} GiB, "
            f"before any work on it, and this machine has {memory >> 30}; "
            "lower the batch size."
        )


def stream_batches(
    records: Records,
    batch_size: int,
    seed: int = 0,
    shuffle: bool = False,
    records_seen: int = 0,
    length_multiple: int | None = None,
    parts: int = 1,
    own_parts: range = range(1),
) -> tf.data.Dataset:
    """Batches without end, of one worker.

    Args:
        batch_size: int. Of one replica.
        records_seen: int. Where in the stream to begin.
        length_multiple: int. Cut padding that all examples of a batch share,
            leaving a length that is a multiple of this; None: leave all
            padding.
        parts: int. How many replicas share the stream, batch by batch.
        own_parts: which of them are this worker's.
    """
    epochs_seen, offset = divmod(records_seen, records.num_records)
    stream = (
        tf.data.Dataset.range(epochs_seen, np.iinfo(np.int64).max)
        .flat_map(lambda epoch: _one_epoch(records, seed, epoch, shuffle))
        .skip(offset)
        .batch(batch_size, drop_remainder=True)
    )
    if len(own_parts) < parts:

        def is_ours(i, _):
            turn = i % parts
            return (turn >= own_parts.start) & (turn < own_parts.stop)

        stream = stream.enumerate().filter(is_ours).map(lambda _, batch: batch)
    return _parse_batches(stream, records, length_multiple)


def batches_in_order(
    records: Records, batch_size: int, length_multiple: int | None = None
) -> tf.data.Dataset:
    """Batches of all records, each once, in order; the last may be smaller."""
    stream = read_records(records.paths).batch(batch_size)
    return _parse_batches(stream, records, length_multiple)


def batches_by_length(
    records: Records, batch_size: int, length_multiple: int
) -> tf.data.Dataset:
    """Batches of all records, each once, those of one length together.

    So short examples do not pay for long ones. Lengths are as in a trimmed
    batch; of each length, one batch may be smaller.
    """

    def length(serialized):
        schema = {"input_mask": records.schema["input_mask"]}
        mask = tf.io.parse_single_example(serialized, schema)["input_mask"]
        return (tf.reduce_sum(mask) + length_multiple - 1) // length_multiple

    stream = read_records(records.paths).group_by_window(
        length, lambda _, group: group.batch(batch_size), batch_size
    )
    return _parse_batches(stream, records, length_multiple)


def _parse_batches(
    stream: tf.data.Dataset, records: Records, length_multiple: int | None
) -> tf.data.Dataset:
    # The tuner of TensorFlow 2.21 sleeps, longer each time, and the end of a
    # run would wait for it: up to half a minute. Without it all cores parse.
    options = tf.data.Options()
    options.autotune.enabled = False
    return (
        stream.map(
            lambda batch: records.prepare(
                trim(parse(batch, records), length_multiple)
            ),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def parse(serialized, records: Records) -> dict:
    """A batch of serialized examples -> features, whole numbers as int32."""
    batch = tf.io.parse_example(serialized, dict(records.schema))
    with tf.control_dependencies([limits.check(batch, records.limits)]):
        return {
            name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in batch.items()
        }


def trim(batch: dict, multiple: int | None) -> dict:
    """Cuts off padding that all examples of a batch share."""
    batch = _cut_predictions(batch)
    if multiple is None:
        return batch
    mask = batch["input_mask"]
    longest = tf.reduce_max(mask * tf.range(1, tf.shape(mask)[-1] + 1))
    if "masked_lm_positions" in batch:
        last = tf.reduce_max(batch["masked_lm_positions"])
        longest = tf.maximum(longest, last + 1)
    length = (longest + multiple - 1) // multiple * multiple
    return {
        name: value[..., :length] if name in PER_TOKEN else value
        for name, value in batch.items()
    }


def _cut_predictions(batch: dict) -> dict:
    """No sequence has more masked words than tokens; what goes beyond, as
    --max_predictions_per_seq may, is padding."""
    length = batch["input_ids"].shape[-1]
    positions = batch.get("masked_lm_positions")
    if positions is None or None in (length, positions.shape[-1]):
        return batch
    if positions.shape[-1] <= length:
        return batch
    return {
        name: value[:, :length] if name.startswith("masked_lm_") else value
        for name, value in batch.items()
    }


@contextlib.contextmanager
def readable_errors(records: Records) -> Iterator[None]:
    """Says in plain words what is wrong with a record, and where."""
    try:
        yield
    except tf.errors.DataLossError as error:
        raise damage.make_error(records.paths) from error
    except tf.errors.InvalidArgumentError as error:
        if limits.MESSAGE in str(error):
            where = limits.find_misfit(records.paths, records.limits)
            raise ValueError(
                f"A record does not fit the model: {where}. Make the records "
                "with the vocabulary and the lengths of --bert_config_file, "
                "or copy the file again."
            ) from error
        if "Key: " in str(error):
            reason = re.search(r"Key: .*", str(error))
            raise ValueError(
                f"A record in {', '.join(records.paths[:3])} does not fit the "
                f"flags, unlike the first of its file ({reason[0]}); were "
                "records of several kinds joined, such as packed and unpacked "
                "ones, or of several lengths?"
            ) from error
        raise


def _one_epoch(records: Records, seed: int, epoch, shuffle: bool):
    """Goes through all records once, in an order of this epoch's own."""
    files = tf.data.Dataset.from_tensor_slices(list(records.paths))
    if not shuffle:
        return files.flat_map(open_file)
    # This function's own, else the seed of the process would have a say; and
    # beside an epoch that is a tensor, TensorFlow cannot do with 0.
    tf.random.set_seed(seed or -1)
    num_files = len(records.paths)
    return (
        files.shuffle(num_files, seed=epoch)
        .interleave(
            open_file,
            cycle_length=min(num_files, 8),
            block_length=16,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        .shuffle(min(records.num_records, records.shuffle_buffer), seed=epoch)
    )
