"""Writes a model for servers and phones, and compares it with the model."""

import os

import tensorflow as tf
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.commands import Options
from keras_bert_ref.export import comparison, ids_formats, saved_model
from keras_bert_ref.text.interfaces import find_inputs
from keras_bert_ref.text.loading import open_model
from keras_bert_ref.text.text_model import TextModel
from keras_bert_ref.version import __version__


def main(options: Options, _words=()) -> None:
    ids_formats.check_packages(options.format)
    text_model = open_model(
        options.model,
        vocab_file=options.vocab_file,
        do_lower_case=options.do_lower_case,
        labels=options.labels,
        max_seq_length=options.max_seq_length,
    )
    inputs = find_inputs(text_model, options.model, options.pairs)
    path = next_version(options.output)
    with files.unfinished_folder(path) as folder:
        difference = write(text_model, folder, inputs, options)
    logging.info(
        "Wrote %s. Loaded again in a fresh process, it differs from the model "
        "by %.1e at most.",
        path,
        difference,
    )


def write(
    text_model: TextModel,
    folder: str,
    inputs: tuple[str, ...],
    options: Options,
) -> float:
    """Writes the export into a folder; returns how far it differs."""
    format, top_k = options.format, options.top_k
    beside = folder
    if format == "saved_model":
        beside = saved_model.write(text_model, folder, inputs, top_k)
        difference = saved_model.compare(text_model, folder, inputs, top_k)
    else:
        inputs = tuple(text_model.model.batch_signature())
        if format == "onnx":
            ids_formats.write_onnx(text_model, folder, options.quantize)
        else:
            ids_formats.write_litert(text_model, folder)
        difference = ids_formats.compare(text_model, folder, format)
    if not options.quantize:
        check_difference(difference)
    write_description(text_model, beside, format, inputs)
    return difference


def next_version(output: str) -> str:
    """The folder of the next version, one above the highest there is."""
    names = []
    if tf.io.gfile.isdir(output):
        names = [n.rstrip("/") for n in tf.io.gfile.listdir(output)]
    versions = [int(n) for n in names if n.isascii() and n.isdigit()]
    return os.path.join(output, str(1 + max(versions, default=0)))


def check_difference(difference: float) -> None:
    if not difference <= comparison.TOLERANCE:
        raise ValueError(
            f"An export must give the model's results within "
            f"{comparison.TOLERANCE:g}, but it differs by {difference:.1e}; "
            "nothing was written."
        )


def write_description(
    text_model: TextModel, folder: str, format: str, inputs: tuple[str, ...]
) -> None:
    """Leaves vocab.txt, and what else one has to know, in config.json."""
    tokenizer = text_model.tokenizer
    size = 1 + max(tokenizer.vocab.values())
    lines = [tokenizer.inv_vocab.get(i, "") for i in range(size)]
    files.replace(os.path.join(folder, "vocab.txt"), "\n".join(lines) + "\n")
    description = {
        "bert_config": text_model.model.config.to_dict(),
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
        "format": format,
        "head": type(text_model.model).__name__,
        "inputs": inputs,
        "labels": text_model.labels,
        "max_seq_length": text_model.max_seq_length,
        "written_by": f"keras_bert_ref {__version__}",
    }
    files.replace_json(os.path.join(folder, "config.json"), description)
