"""Writes what a BERT makes of each token, or of each line (section 5.3)."""

import functools
import itertools

import tqdm
from absl import flags, logging

from keras_bert_ref import flags as shared_flags
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.features import files as feature_files
from keras_bert_ref.features import lines as feature_lines
from keras_bert_ref.modeling import BertModel

# After keras_bert_ref, which turns oneDNN on.
import tensorflow as tf  # isort: skip

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "input_file", None, "Text, an example a line; `a ||| b` is a pair."
)
flags.DEFINE_string("output_file", None, "Where the features go.")
flags.DEFINE_string("layers", "-1,-2,-3,-4", "Layers to write; -1 is the last.")
flags.DEFINE_string("init_checkpoint", None, "The checkpoint, as its prefix.")
flags.DEFINE_integer("batch_size", 32, "Lines in a batch.", lower_bound=1)
flags.DEFINE_bool("use_tpu", False, "Not supported any more.")
flags.DEFINE_string("master", None, "Of a TPU; not needed any more.")
flags.DEFINE_integer("num_tpu_cores", 8, "Not needed any more.")
flags.DEFINE_bool(
    "use_one_hot_embeddings", False, "Not needed any more: look-ups are fast."
)
flags.DEFINE_enum(
    "output_format",
    "json",
    ["json", "npz", "tfrecord"],
    "JSON lines as in the original, NumPy arrays, or tf.train.Examples.",
)
flags.DEFINE_enum(
    "pooling",
    "none",
    ["none", "cls", "mean"],
    "One vector a line: that of [CLS], or the mean of all its tokens, [CLS] "
    "and [SEP] included. none: a vector for each token.",
)
shared_flags.define_model_flags(max_seq_length=128)
flags.mark_flags_as_required(["input_file", "init_checkpoint", "output_file"])

# One vector a line takes little room, so many lines are put in order of
# length before they are put in batches.
POOLED_BATCHES = 64


def main(_):
    warn_of_old_flags()
    config = shared_flags.read_config()
    layers = read_layers(config.num_hidden_layers)
    tokenizer = shared_flags.read_tokenizer(config)
    model = BertModel(config)
    tf1.load(model, FLAGS.init_checkpoint)

    def read():
        return feature_lines.encode_lines(
            FLAGS.input_file, tokenizer, FLAGS.max_seq_length
        )

    lengths = [0, 0]  # lines, tokens: a first pass costs little
    for line in read():
        lengths[0] += 1
        lengths[1] += len(line.input_ids)
    num_rows = lengths[1] if FLAGS.pooling == "none" else lengths[0]
    open_output = {
        "json": functools.partial(feature_files.open_json, tokenizer=tokenizer),
        "tfrecord": feature_files.open_tfrecord,
        "npz": functools.partial(
            feature_files.open_npz,
            shape=(num_rows, len(layers), config.hidden_size),
        ),
    }[FLAGS.output_format]
    with (
        open_output(FLAGS.output_file, layers) as write,
        tqdm.tqdm(total=lengths[0], unit="line", mininterval=1) as bar,
    ):
        for line, values in extract(model, layers, read()):
            write(line.input_ids, values)
            bar.update()
    logging.info("Features of %d lines, in %s", lengths[0], FLAGS.output_file)


def warn_of_old_flags():
    if FLAGS.use_tpu:
        raise ValueError(
            "--use_tpu=True, but features are computed on the GPU or CPU of "
            "this machine; drop the flag."
        )
    for name in ("master", "use_one_hot_embeddings"):
        if FLAGS[name].value:
            logging.warning("--%s has no effect: it was for TPUs.", name)


def read_layers(num_layers):
    """The layers of --layers, which count from 0, or from the end from -1."""
    try:
        layers = [int(part) for part in FLAGS.layers.split(",")]
    except ValueError:
        layers = []
    if not layers or not all(-num_layers <= i < num_layers for i in layers):
        raise ValueError(
            f"--layers={FLAGS.layers}, but layers are numbers from "
            f"{-num_layers} to {num_layers - 1} with commas between them: the "
            f"model has {num_layers} layers."
        )
    return layers


def extract(model, layers, lines):
    """Yields each line with its values: [T, J, D], or pooled [J, D]."""

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3)
    def compute(input_ids, input_mask, segment_ids):
        all_layers = model(input_ids, input_mask, segment_ids)[
            "all_encoder_layers"
        ]
        values = tf.stack([all_layers[i] for i in layers], axis=2)  # [B,T,J,D]
        if FLAGS.pooling == "cls":
            return values[:, 0]
        if FLAGS.pooling == "mean":
            weights = tf.cast(input_mask, values.dtype)[:, :, None, None]
            return tf.reduce_sum(values * weights, 1) / tf.reduce_sum(
                weights, 1
            )
        return values

    batch_size, is_pooled = FLAGS.batch_size, FLAGS.pooling != "none"
    group_size = batch_size * (POOLED_BATCHES if is_pooled else 1)
    while group := list(itertools.islice(lines, group_size)):
        lengths = [len(line.input_ids) for line in group]
        order = sorted(range(len(group)), key=lengths.__getitem__)
        results = [None] * len(group)
        for first in range(0, len(group), batch_size):
            part = order[first : first + batch_size]
            batch = feature_lines.pad_lines(
                [group[i] for i in part],
                shared_flags.LENGTHS,
                FLAGS.max_seq_length,
            )
            for i, values in zip(part, compute(**batch).numpy(), strict=True):
                results[i] = values if is_pooled else values[: lengths[i]]
        yield from zip(group, results, strict=True)


def run():
    shared_flags.run(main)


if __name__ == "__main__":
    run()
