"""ONNX and LiteRT files: ids in, with any number of sequences and tokens.

Inputs are those of a batch, outputs those of the model, by name. Tokenizing
is up to the caller; the vocabulary lies beside.
"""

import importlib
import os

import tensorflow as tf

from keras_bert_ref.export import comparison
from keras_bert_ref.export.graphs import run_model
from keras_bert_ref.export.saved_model import save
from keras_bert_ref.text.text_model import TextModel

ONNX_FILE, LITERT_FILE = "model.onnx", "model.tflite"
OPSET = 18
# What each format needs besides TensorFlow: to write, and to run it.
PACKAGES = {
    "onnx": ("tf2onnx", "onnx", "onnxruntime"),
    "litert": ("ai_edge_litert",),
}


def check_packages(format: str) -> None:
    """Raises, before any work is done, where packages are missing."""
    for package in PACKAGES.get(format, ()):
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"--format={format} needs {', '.join(PACKAGES[format])}, but "
                f"{package} cannot be imported ({error}); install the extra: "
                "pip install 'keras_bert_ref[export]'."
            ) from error


def write_onnx(text_model: TextModel, folder: str, quantize: bool) -> None:
    """Writes model.onnx; with matmuls of 8 bits if asked to."""
    import onnx
    import tf2onnx
    from onnxruntime.quantization import quantize_dynamic

    function, names = _make_function(text_model)
    signature = [
        tf.TensorSpec([None, None], tf.int32, name)
        for name in text_model.model.batch_signature()
    ]
    proto, _ = tf2onnx.convert.from_function(
        function, input_signature=signature, opset=OPSET
    )
    _rename_outputs(proto.graph, names)
    path = os.path.join(folder, ONNX_FILE)
    onnx.save(proto, path)
    if quantize:
        quantize_dynamic(path, path)


def _make_function(text_model: TextModel):
    """The model with positional arguments, and its outputs' names in the
    order in which they come."""
    inputs = list(text_model.model.batch_signature())
    batch = comparison.sample_batches(text_model)[0]
    names = sorted(run_model(text_model.model, batch))

    @tf.function(autograph=False)
    def function(*values):
        batch = dict(zip(inputs, values, strict=True))
        outputs = run_model(text_model.model, batch)
        return [outputs[name] for name in names]

    return function, names


def _rename_outputs(graph, names: list[str]) -> None:
    """Gives outputs the names that the model has for them."""
    new = dict(zip([o.name for o in graph.output], names, strict=True))
    for output in graph.output:
        output.name = new[output.name]
    for node in graph.node:
        for tensors in (node.input, node.output):
            for i, name in enumerate(tensors):
                tensors[i] = new.get(name, name)


def write_litert(text_model: TextModel, folder: str) -> None:
    """Writes model.tflite, with one signature."""
    module = tf.Module()
    module.weights = [v.value for v in text_model.model.variables]
    batch = {
        name: tf.TensorSpec([None, None], tf.int32, name)
        for name in text_model.model.batch_signature()
    }
    function = tf.function(
        lambda **batch: run_model(text_model.model, batch), autograph=False
    ).get_concrete_function(**batch)
    saved = os.path.join(folder, "saved_model")
    save(module, saved, function)
    converter = tf.lite.TFLiteConverter.from_saved_model(saved)
    content = converter.convert()
    tf.io.gfile.rmtree(saved)
    with tf.io.gfile.GFile(os.path.join(folder, LITERT_FILE), "wb") as file:
        file.write(content)


def compare(text_model: TextModel, path: str, format: str) -> float:
    """The largest difference between the file and the model."""
    batches = comparison.sample_batches(text_model)
    outputs = comparison.run(format, path, [["ids", b] for b in batches])
    return comparison.compare_batches(text_model, batches, outputs)
