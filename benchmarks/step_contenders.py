"""The processes that benchmarks/step.py measures.

Each reads jobs from standard input, a line of JSON each: first what to build,
then how many steps to take; and answers with a line each.
"""

import functools
import json
import pathlib
import random
import re
import sys
import time

LENGTH = 128
VOCABULARY = 30522
DROPOUT = 0.1
NUM_REAL_BATCHES = 6


def flops(layers: int, hidden: int, mode: str) -> float:
    """Operations in the matmuls of one sequence of full length."""
    weights = 12 * layers * hidden**2
    attention = 2 * layers * LENGTH * hidden
    forward = 2 * LENGTH * (weights + attention)
    return forward * (3 if mode == "train" else 1)


def draw_batches(lengths: list[int], batch_size: int) -> list[list[int]]:
    generator = random.Random(0)
    return [
        generator.sample(lengths, batch_size) for _ in range(NUM_REAL_BATCHES)
    ]


def make_batches(job: dict) -> list[dict]:
    """Random words as NumPy arrays, padded to the longest of each batch."""
    import numpy as np

    random_state = np.random.default_rng(0)
    batches = []
    for lengths in job["lengths"] or [[LENGTH] * job["batch_size"]]:
        shape = (len(lengths), max(lengths))
        mask = np.arange(shape[1]) < np.array(lengths)[:, None]
        ids = random_state.integers(1000, 30000, shape) * mask
        batches.append(
            {
                "input_ids": ids.astype("int32"),
                "input_mask": mask.astype("int32"),
                "segment_ids": np.zeros(shape, "int32"),
                "label_ids": random_state.integers(0, 2, shape[0], "int32"),
            }
        )
    return batches


def make_ours(job: dict, jit_compile: bool):
    import tensorflow as tf

    from keras_bert_ref import heads, optimization
    from keras_bert_ref.classifier import objective
    from keras_bert_ref.config import BertConfig
    from keras_bert_ref.training import loop

    layers, hidden, num_heads = job["shape"]
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=num_heads,
        intermediate_size=4 * hidden,
        type_vocab_size=2,
    )
    model = heads.BertClassifier(
        config, num_labels=2, skip_padding=not jit_compile
    )
    model.build()

    @functools.cache  # made when it is needed: inference wants no averages
    def make_step():
        optimizer = optimization.create_optimizer(2e-5, 100_000, 1000)
        optimizer.build(model.trainable_variables)
        step = loop.make_train_step(
            model,
            optimizer,
            objective.CLASSIFICATION,
            jit_compile=jit_compile,
        )
        return tf.function(step, reduce_retracing=True)

    infer = tf.function(
        lambda batch: model(batch, training=False),
        jit_compile=jit_compile,
        reduce_retracing=True,
    )
    batches = [
        {name: tf.constant(value) for name, value in batch.items()}
        for batch in make_batches(job)
    ]
    return {
        "train": lambda i: float(
            make_step()(batches[i % len(batches)])["loss"]
        ),
        "infer": lambda i: infer(batches[i % len(batches)]).numpy(),
    }


def make_hugging_face(job: dict, is_compiled: bool):
    import torch
    import transformers

    layers, hidden, num_heads = job["shape"]
    model = transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=num_heads,
            intermediate_size=4 * hidden,
            hidden_act="gelu_new",
            hidden_dropout_prob=DROPOUT,
            attention_probs_dropout_prob=DROPOUT,
            num_labels=2,
        )
    )
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=2e-5, weight_decay=0.01, fused=True
    )
    call = torch.compile(model) if is_compiled else model
    batches = [
        {
            "input_ids": torch.tensor(batch["input_ids"], dtype=torch.long),
            "attention_mask": torch.tensor(batch["input_mask"]).long(),
            "token_type_ids": torch.tensor(batch["segment_ids"]).long(),
            "labels": torch.tensor(batch["label_ids"], dtype=torch.long),
        }
        for batch in make_batches(job)
    ]

    def train(i):
        model.train()
        loss = call(**batches[i % len(batches)]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def infer(i):
        model.eval()
        with torch.inference_mode():
            return call(**batches[i % len(batches)]).logits.numpy()

    return {"train": train, "infer": infer}


def make_hub(job: dict, jit_compile: bool):
    import keras
    import keras_hub

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
    model = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, preprocessor=None
    )
    model.compile(
        optimizer=keras.optimizers.AdamW(
            2e-5, weight_decay=0.01, global_clipnorm=1.0
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    batches = [
        (
            {
                "token_ids": batch["input_ids"],
                "padding_mask": batch["input_mask"],
                "segment_ids": batch["segment_ids"],
            },
            batch["label_ids"],
        )
        for batch in make_batches(job)
    ]
    return {
        "train": lambda i: model.train_on_batch(*batches[i % len(batches)]),
        "infer": lambda i: model.predict_on_batch(batches[i % len(batches)][0]),
    }


MAKERS = {
    "ours": lambda job: make_ours(job, jit_compile=False),
    "ours_xla": lambda job: make_ours(job, jit_compile=True),
    "hf": lambda job: make_hugging_face(job, is_compiled=False),
    "hf_compiled": lambda job: make_hugging_face(job, is_compiled=True),
    "hf_longest": lambda job: make_hugging_face(job, is_compiled=False),
    "hub": lambda job: make_hub(job, jit_compile=False),
    "hub_xla": lambda job: make_hub(job, jit_compile=True),
}


def peak_memory() -> float:
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1000


def answer(message: dict, steps: dict) -> dict:
    if message["mode"] == "memory":
        return {"memory": peak_memory()}
    if message["mode"] == "peak":
        from keras_bert_ref.training import progress

        return {"peak": progress.matmul_peak()}
    start = time.perf_counter()
    for i in range(message["steps"]):
        steps[message["mode"]](i)
    return {"seconds": time.perf_counter() - start}


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # whatever the frameworks have to say
    job = json.loads(sys.stdin.readline())
    steps = MAKERS[job["kind"]](job)
    print(json.dumps({}), file=answers, flush=True)
    for line in sys.stdin:
        print(
            json.dumps(answer(json.loads(line), steps)),
            file=answers,
            flush=True,
        )


if __name__ == "__main__":
    main()
