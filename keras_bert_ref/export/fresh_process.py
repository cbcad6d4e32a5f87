"""Runs an exported model in a process that knows nothing of this package.

    python fresh_process.py FORMAT MODEL REQUESTS ANSWERS

REQUESTS is JSON, a list of [signature, inputs]; ANSWERS gets the list of
outputs. Nothing but the runtime of the format is imported.
"""

import json
import sys


def run_saved_model(path, requests):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401 - it brings the tokenizer's operations

    signatures = tf.saved_model.load(path).signatures
    for name, inputs in requests:
        specs = signatures[name].structured_input_signature[1]
        tensors = {n: tf.constant(x, specs[n].dtype) for n, x in inputs.items()}
        outputs = signatures[name](**tensors)
        yield {n: x.numpy().tolist() for n, x in outputs.items()}


def run_onnx(path, requests):
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(f"{path}/model.onnx")
    names = [output.name for output in session.get_outputs()]
    for _, inputs in requests:
        arrays = {n: np.array(x, np.int32) for n, x in inputs.items()}
        values = session.run(names, arrays)
        yield {n: x.tolist() for n, x in zip(names, values, strict=True)}


def run_litert(path, requests):
    import numpy as np
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(f"{path}/model.tflite")
    runner = interpreter.get_signature_runner()
    for _, inputs in requests:
        arrays = {n: np.array(x, np.int32) for n, x in inputs.items()}
        yield {n: x.tolist() for n, x in runner(**arrays).items()}


def decode(value):
    """Strings are bytes in TensorFlow."""
    if isinstance(value, list):
        return [decode(x) for x in value]
    return value.decode() if isinstance(value, bytes) else value


def main(format, path, requests_file, answers_file):
    run = {
        "saved_model": run_saved_model,
        "onnx": run_onnx,
        "litert": run_litert,
    }[format]
    with open(requests_file, encoding="utf-8") as file:
        requests = json.load(file)
    answers = [
        {name: decode(value) for name, value in outputs.items()}
        for outputs in run(path, requests)
    ]
    if "keras_bert_ref" in sys.modules:
        raise ImportError("This process must do without keras_bert_ref.")
    with open(answers_file, "w", encoding="utf-8") as file:
        json.dump(answers, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
