"""The body of extract_features.py; docs/FEATURES.md tells how to use it."""

import functools
import itertools

import tensorflow as tf
from absl import logging

from keras_bert_ref.bars import progress_bar
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.commands import Options
from keras_bert_ref.config import find_model
from keras_bert_ref.features import files, lines
from keras_bert_ref.files import check_apart
from keras_bert_ref.interruptions import discard_on_signals
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.records.lengths import compute_by_length
from keras_bert_ref.training import setup

# One vector a line takes little room, so many lines are put in order of
# length before they are put in batches.
POOLED_BATCHES = 64


@discard_on_signals()
def main(options: Options, _words=()) -> None:
    warn_of_old_flags(options)
    check_apart(
        [
            options.input_file,
            options.vocab_file,
            find_model(options.bert_config_file),
            f"{options.init_checkpoint}.index",
        ],
        [options.output_file],
    )
    config = setup.read_config(options)
    layers = read_layers(options.layers, config.num_hidden_layers)
    tokenizer = setup.read_tokenizer(options, config)
    model = BertModel(config)
    tf1.load(model, options.init_checkpoint)

    def read():
        return lines.encode_lines(
            options.input_file, tokenizer, options.max_seq_length
        )

    lengths = [0, 0]  # lines, tokens: a first pass costs little
    for line in read():
        lengths[0] += 1
        lengths[1] += len(line.input_ids)
    num_rows = lengths[1] if options.pooling == "none" else lengths[0]
    open_output = {
        "json": functools.partial(files.open_json, tokenizer=tokenizer),
        "tfrecord": files.open_tfrecord,
        "npz": functools.partial(
            files.open_npz,
            shape=(num_rows, len(layers), config.hidden_size),
        ),
    }[options.output_format]
    with (
        open_output(options.output_file, layers) as write,
        progress_bar(desc="extracting", total=lengths[0], unit="lines") as bar,
    ):
        for line, values in extract(options, model, layers, read()):
            write(line.input_ids, values)
            bar.update()
    logging.info(
        "Features of %d lines, in %s.", lengths[0], options.output_file
    )


def warn_of_old_flags(options: Options) -> None:
    for name in ("master", "use_one_hot_embeddings"):
        if getattr(options, name):
            logging.warning("--%s has no effect: it was for TPUs.", name)


def read_layers(text: str, num_layers: int) -> list[int]:
    """The layers of --layers, which count from 0, or from the end from -1."""
    try:
        layers = [int(part) for part in text.split(",")]
    except ValueError:
        layers = []
    if not layers or not all(-num_layers <= i < num_layers for i in layers):
        raise ValueError(
            f"--layers={text}, but layers are numbers from "
            f"{-num_layers} to {num_layers - 1} with commas between them: the "
            f"model has {num_layers} layers."
        )
    return layers


def extract(options: Options, model, layers, encoded_lines):
    """Yields each line with its values: [T, J, D], or pooled [J, D]."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3)
    def compute(input_ids, input_mask, segment_ids):
        all_layers = model(input_ids, input_mask, segment_ids)[
            "all_encoder_layers"
        ]
        values = tf.stack([all_layers[i] for i in layers], axis=2)  # [B,T,J,D]
        if options.pooling == "cls":
            return values[:, 0]
        if options.pooling == "mean":
            weights = tf.cast(input_mask, values.dtype)[:, :, None, None]
            return tf.reduce_sum(values * weights, 1) / tf.reduce_sum(
                weights, 1
            )
        return values

    batch_size, is_pooled = options.batch_size, options.pooling != "none"
    group_size = batch_size * (POOLED_BATCHES if is_pooled else 1)
    while group := list(itertools.islice(encoded_lines, group_size)):
        results = compute_by_length(
            group,
            lambda batch: compute(**batch).numpy(),
            batch_size=batch_size,
            max_length=options.max_seq_length,
            length_multiple=setup.LENGTH_MULTIPLE,
        )
        for line, values in zip(group, results, strict=True):
            yield line, values if is_pooled else values[: len(line.input_ids)]
