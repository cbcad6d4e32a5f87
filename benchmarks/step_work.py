"""What benchmarks/step.py measures: sizes, kinds of work, peers, targets."""

from collections.abc import Mapping
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

import lengths


class Size(NamedTuple):
    """A model and the batch it is measured with.

    Attributes:
        shape: layers, hidden size, heads.
        batch_size: sequences of a batch.
        is_erf: whether GELU is the erf form.
        together: how many peers are in memory at a time, beside ours.
    """

    shape: tuple[int, int, int]
    batch_size: int
    is_erf: bool = False
    together: int = 6


SIZES = {
    "tiny": Size((2, 128, 2), 32),
    "minilm": Size((6, 384, 12), 16, is_erf=True),
    "small": Size((4, 512, 8), 16),
    "base": Size((12, 768, 12), 8, together=2),
}
NAMES = {
    "ours": "keras_bert_ref",
    "ours_xla": "keras_bert_ref, `--jit_compile`",
    "hf": "Hugging Face, PyTorch",
    "hf_compiled": "Hugging Face, torch.compile",
    "hub": "keras-hub",
    "hub_xla": "keras-hub, XLA",
    "onnx": "ONNX Runtime",
    "hf_128": "Hugging Face, padded to 128",
    "hf_sorted": "Hugging Face, sorted by length",
    "hub_128": "keras-hub, padded to 128",
    "hub_xla_128": "keras-hub, XLA, padded to 128",
}
TRAINERS = ("hf", "hf_compiled", "hub", "hub_xla", "ours_xla")
EQUAL = (*TRAINERS, "onnx")
# XLA compiles a graph for each length, so it gets one.
REAL_TRAINERS = ("hf", "hf_compiled", "hf_128", "hub_128", "hub_xla_128")
REAL = ("hf", "hf_compiled", "onnx", "hub_128", "hub_xla_128", "hf_sorted")
# Not what a peer does by itself, so the targets leave it out.
NOT_A_PEER = ("ours_xla", "hf_sorted")


class Work(NamedTuple):
    """A kind of work.

    Attributes:
        title: of its table.
        mode: `train`, `pretrain` or `infer`.
        peers: contenders beside ours.
        batch_size: None: that of the model's size.
        length: of every sequence, and what `_128` pads to.
        task: the lengths of its examples instead.
        targets: ours / the best peer, by size.
        longest_target: ours / the best peer that pads to the longest.
        eager_target: ours / Hugging Face without torch.compile.
    """

    title: str
    mode: str
    peers: tuple[str, ...]
    batch_size: int | None = None
    length: int = 128
    task: str | None = None
    targets: Mapping[str, float] = MappingProxyType({})
    longest_target: float | None = None
    eager_target: float | None = None


WORKS = {
    "train": Work(
        "Training a classifier, all sequences 128 tokens",
        "train",
        TRAINERS,
        targets={"tiny": 1.5, "small": 1.3, "base": 1.15},
    ),
    "pretrain": Work(
        "Pre-training, all sequences 128 tokens, 20 masked words",
        "pretrain",
        TRAINERS,
        targets=dict.fromkeys(SIZES, 1.1),
    ),
    "infer": Work(
        "Inference, all sequences 128 tokens",
        "infer",
        EQUAL,
        targets={"tiny": 1.1, "small": 1.1, "base": 1.0},
    ),
    "latency": Work(
        "Latency of one sequence of 128 tokens", "infer", EQUAL, batch_size=1
    ),
    "latency_16": Work(
        "Latency of one sequence of 16 tokens",
        "infer",
        EQUAL,
        batch_size=1,
        length=16,
    ),
}
for task, texts in (("MRPC", "sentence pairs"), ("SST-2", "sentences")):
    name = task.lower().replace("-", "")
    WORKS[f"train_{name}"] = Work(
        f"Training on the lengths of {task}'s {texts}",
        "train",
        REAL_TRAINERS,
        task=task,
        longest_target=1.5,
    )
    WORKS[f"infer_{name}"] = Work(
        f"Inference on the lengths of {task}'s {texts}",
        "infer",
        REAL,
        task=task,
        targets=dict.fromkeys(SIZES, 1.3),
        eager_target=2.0,
    )
NUM_BATCHES = {"train": 6, "infer": 8}  # of real lengths


def make_job(size: str, work: str, contender: str) -> dict:
    """What a contender has to build, see step_contenders.py."""
    model, kind = SIZES[size], WORKS[work]
    batch_size = kind.batch_size or model.batch_size
    rows = [[kind.length] * batch_size]
    if kind.task:
        split = {"train": "train", "infer": "dev"}[kind.mode]
        rows = lengths.draw(
            kind.task, split, batch_size, NUM_BATCHES[kind.mode]
        )
    is_ours_predicting = contender == "ours" and kind.mode == "infer"
    if kind.task and (is_ours_predicting or contender.endswith("_sorted")):
        rows = lengths.split_batches(sorted(chain(*rows)), batch_size)
    return {
        "kind": contender.removesuffix("_128").removesuffix("_sorted"),
        "shape": model.shape,
        "is_erf": model.is_erf,
        "mode": kind.mode,
        "lengths": rows,
        "pad_to": kind.length if contender.endswith("_128") else None,
    }
