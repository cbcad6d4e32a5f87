"""SavedModels that take text, as TensorFlow Serving loads them."""

import os

import tensorflow as tf
from absl import logging

from keras_bert_ref import heads
from keras_bert_ref.export import comparison
from keras_bert_ref.export.graphs import ServedModel
from keras_bert_ref.text.text_model import TextModel

# Where TensorFlow looks for nothing.
EXTRA = "assets.extra"


def write(
    text_model: TextModel, path: str, inputs: tuple[str, ...], top_k: int
) -> str:
    """Writes the SavedModel; returns the folder for what goes with it."""
    served = ServedModel(text_model, inputs, top_k)
    save(served, path, served.signatures())
    return os.path.join(path, EXTRA)


def save(module: tf.Module, path: str, signatures) -> None:
    """TensorFlow's `save`, for a model that nobody trains any more."""
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    verbosity = logging.get_verbosity()
    try:
        if verbosity == logging.INFO:  # it tells how long shards took
            logging.set_verbosity(logging.WARNING)
        tf.saved_model.save(module, path, signatures, options)
    finally:
        logging.set_verbosity(verbosity)


def compare(
    text_model: TextModel, path: str, inputs: tuple[str, ...], top_k: int
) -> float:
    """The largest difference between the SavedModel and the model."""
    rows = comparison.sample_rows(text_model, inputs)
    texts = {name: [row[name] for row in rows] for name in inputs}
    batches = comparison.sample_batches(text_model)
    requests = [["serving_default", texts], *(["ids", b] for b in batches)]
    answers, *outputs = comparison.run("saved_model", path, requests)
    if isinstance(text_model.model, heads.BertSpan):
        answers = comparison.cut_words(answers, rows)
    expected = comparison.expect_texts(text_model, rows, top_k)
    return max(
        comparison.measure(expected, answers),
        comparison.compare_batches(text_model, batches, outputs),
    )
