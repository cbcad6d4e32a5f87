"""The processes that benchmarks/step.py and scaling.py measure.

Each reads jobs from standard input, a line of JSON each: first what to build,
then how many steps to take; and answers with a line each. A process does one
kind of work (a mode), so that its memory is that of this work alone.
"""

import json
import pathlib
import re
import sys
import tempfile
import time

import step_ours
import step_torch
from step_torch import DROPOUT, LEARNING_RATE, VOCABULARY, WEIGHT_DECAY

LENGTH = 128
# A sequence of 128 tokens has 20 masked words in pre-training.
PREDICTIONS_PER_TOKEN = 20 / 128


def num_predictions(length: int) -> int:
    return max(1, round(PREDICTIONS_PER_TOKEN * length))


def flops(layers: int, hidden: int, length: int, mode: str) -> float:
    """Operations in the matmuls of one sequence of full length.

    The last block counts as a whole, also where only some of its rows are
    computed: the share of the peak is that of the model as it is defined.
    """
    weights = 12 * layers * hidden**2
    attention = 2 * layers * length * hidden
    forward = 2 * length * (weights + attention)
    if mode == "pretrain":
        head = hidden**2 + hidden * VOCABULARY
        forward += 2 * num_predictions(length) * head
    return forward * (1 if mode == "infer" else 3)


def make_batches(job: dict) -> list[dict]:
    """Random words as NumPy arrays, padded to the longest of each batch."""
    import numpy as np

    generator = np.random.default_rng(0)
    batches = []
    for lengths in job["lengths"]:
        shape = (len(lengths), job.get("pad_to") or max(lengths))
        mask = np.arange(shape[1]) < np.array(lengths)[:, None]
        ids = generator.integers(1000, 30000, shape) * mask
        batch = {
            "input_ids": ids.astype("int32"),
            "input_mask": mask.astype("int32"),
            "segment_ids": np.zeros(shape, "int32"),
            "label_ids": generator.integers(0, 2, shape[0], "int32"),
        }
        if job["mode"] == "pretrain":
            count = num_predictions(shape[1])
            positions = [
                np.sort(generator.permutation(length - 1)[:count] + 1)
                for length in lengths
            ]
            words = generator.integers(1000, 30000, (shape[0], count), "int32")
            batch |= {
                "masked_lm_positions": np.array(positions, "int32"),
                "masked_lm_ids": words,
                "masked_lm_weights": np.ones(words.shape, "float32"),
                "next_sentence_labels": batch["label_ids"][:, None],
            }
        batches.append(batch)
    return batches


def make_hub(job: dict, jit_compile: bool):
    """keras-hub; in pre-training masked words only, it has nothing else.

    Its GELU is the tanh form whatever the job says.
    """
    import keras
    import keras_hub

    def make():
        layers, hidden, num_heads = job["shape"]
        backbone = keras_hub.models.BertBackbone(
            vocabulary_size=VOCABULARY,
            num_layers=layers,
            num_heads=num_heads,
            hidden_dim=hidden,
            intermediate_dim=4 * hidden,
            dropout=DROPOUT,
            max_sequence_length=512,
        )
        if job["mode"] == "pretrain":
            model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
        else:
            model = keras_hub.models.BertTextClassifier(
                backbone, num_classes=2, preprocessor=None
            )
        model.compile(
            optimizer=keras.optimizers.AdamW(
                LEARNING_RATE, weight_decay=WEIGHT_DECAY, global_clipnorm=1.0
            ),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=jit_compile,
        )
        names = {
            "token_ids": "input_ids",
            "padding_mask": "input_mask",
            "segment_ids": "segment_ids",
        }
        label = "label_ids"
        if job["mode"] == "pretrain":
            names["mask_positions"] = "masked_lm_positions"
            label = "masked_lm_ids"
        batches = [
            ({theirs: b[ours] for theirs, ours in names.items()}, b[label])
            for b in make_batches(job)
        ]
        if job["mode"] == "infer":
            return lambda i: model.predict_on_batch(
                batches[i % len(batches)][0]
            )
        return lambda i: model.train_on_batch(*batches[i % len(batches)])

    return make


def make_onnx(job: dict):
    """ONNX Runtime, on the graph its own tool optimised.

    The export runs in a process of its own: its memory is not inference's.
    """
    import subprocess

    import onnxruntime

    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name, "model.onnx")
    subprocess.run(
        [sys.executable, step_torch.__file__, json.dumps(job), path],
        check=True,
        stdout=subprocess.DEVNULL,
    )

    def make():
        session = onnxruntime.InferenceSession(
            path, providers=["CPUExecutionProvider"]
        )
        folder.cleanup()
        batches = [
            {
                "input_ids": batch["input_ids"].astype("int64"),
                "attention_mask": batch["input_mask"].astype("int64"),
                "token_type_ids": batch["segment_ids"].astype("int64"),
            }
            for batch in make_batches(job)
        ]
        return lambda i: session.run(None, batches[i % len(batches)])

    return make


# A maker imports what it needs and returns a function that makes the step.
MAKERS = {
    "ours": lambda job: step_ours.make_step(job, make_batches, False),
    "ours_xla": lambda job: step_ours.make_step(job, make_batches, True),
    "replicas": lambda job: step_ours.make_replicas(job, make_batches),
    "hf": lambda job: step_torch.make_step(job, make_batches, False),
    "hf_compiled": lambda job: step_torch.make_step(job, make_batches, True),
    "hub": lambda job: make_hub(job, jit_compile=False),
    "hub_xla": lambda job: make_hub(job, jit_compile=True),
    "onnx": make_onnx,
}


def read_memory(key: str) -> float:
    """A line of /proc/self/status, in MB."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1000


def answer(message: dict, take_step, memory: float) -> dict:
    if message["ask"] == "memory":
        peak = read_memory("VmHWM")
        return {"memory": peak, "growth": peak - memory}
    if message["ask"] == "peak":
        from keras_bert_ref.training import progress

        return {"peak": progress.matmul_peak()}
    start = time.perf_counter()
    for i in range(message["steps"]):
        take_step(i)
    return {"seconds": time.perf_counter() - start}


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever the frameworks have to say
    job = json.loads(sys.stdin.readline())
    make = MAKERS[job["kind"]](job)
    memory = read_memory("VmRSS")  # everything is imported, nothing is made
    take_step = make()
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        print(
            json.dumps(answer(json.loads(line), take_step, memory)),
            file=answers,
            flush=True,
        )


if __name__ == "__main__":
    main()
