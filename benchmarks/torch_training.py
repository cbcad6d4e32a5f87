"""BERT's optimizer and schedule for models of transformers on PyTorch."""

import argparse
import math
import pathlib
from collections.abc import Iterable

import torch

BETAS = 0.9, 0.999
EPSILON = 1e-6
WEIGHT_DECAY = 0.01


def make_parser(description: str) -> argparse.ArgumentParser:
    """The flags of a training on a folder of data."""
    parser = argparse.ArgumentParser(description=description)
    for name in ("data_dir", "model", "output_dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name in ("max_seq_length", "batch_size", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("learning_rate", "epochs"):
        parser.add_argument(f"--{name}", type=float, required=True)
    return parser


def load(model_class, path: str, **kwargs):
    """Loads a model that has to have our runs' activation and dropout."""
    model = model_class.from_pretrained(path, dtype=torch.float32, **kwargs)
    config = model.config
    is_gelu = config.hidden_act in ("gelu", "gelu_new")
    if not is_gelu or config.hidden_dropout_prob != 0.1:
        raise ValueError(f"Not what our runs have: {config}")
    return model


def choose_order(num_examples: int, num_steps: int, batch_size: int):
    """Rows of all batches, from one pass to the next: [steps, batch]."""
    passes = math.ceil(num_steps * batch_size / num_examples)
    order = torch.cat([torch.randperm(num_examples) for _ in range(passes)])
    return order[: num_steps * batch_size].view(num_steps, batch_size)


class Optimizer:
    """BERT's Adam: without bias correction, which PyTorch's always has.

    In a run of a hundred steps that is much: the correction would make the
    steps three to six times smaller. PyTorch's own, which is fast, is told
    the numbers with which it comes to the same steps. Biases and layer
    normalization do not decay. The rate rises for a tenth of the steps, then
    falls to 0.
    """

    def __init__(self, model, learning_rate: float, num_steps: int):
        self.model = model
        self.learning_rate = learning_rate
        self.num_steps = num_steps
        self.num_warmup_steps = int(num_steps * 0.1)
        groups = [{"params": [], "decays": x} for x in (True, False)]
        for name, p in model.named_parameters():
            groups["bias" in name or "LayerNorm" in name]["params"].append(p)
        self.adam = torch.optim.AdamW(groups, betas=BETAS, fused=True)
        self.step = 0

    def minimize(self, losses: Iterable[torch.Tensor]) -> float:
        """Takes a step down the sum of losses, computed one by one."""
        self.adam.zero_grad()
        total = 0.0
        for loss in losses:
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        rate = self.learning_rate * (1 - self.step / self.num_steps)
        if self.step < self.num_warmup_steps:
            rate = self.learning_rate * self.step / self.num_warmup_steps
        self.step += 1
        first, second = (1 - beta**self.step for beta in BETAS)
        correction = math.sqrt(second) / first
        for group in self.adam.param_groups:
            group["lr"] = rate / correction
            group["eps"] = EPSILON / math.sqrt(second)
            group["weight_decay"] = WEIGHT_DECAY * correction * group["decays"]
        self.adam.step()
        return total
