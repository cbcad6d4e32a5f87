"""How long the paper's pre-training takes on many accelerators: an estimate.

    python benchmarks/scale.py > docs/SCALE.md

A formula and published rates, no measurement. tests/test_scale.py checks the
formula, and that the page is what this program writes.
"""

import pathlib
from typing import NamedTuple

from measuring import table

from keras_bert_ref.config import BertConfig, find_model
from keras_bert_ref.training.progress import train_flops_per_token

MODELS = {
    "Base": "uncased_L-12_H-768_A-12",
    "Large": "uncased_L-24_H-1024_A-16",
}
BYTES_OF_A_GRADIENT = 4  # float32, as our loop adds them up
HALF = 2  # NVIDIA's runs add them up in float16
DAY = 24 * 3600


class Phase(NamedTuple):
    """Part of a pre-training: sequences of one length."""

    length: int
    predictions: int
    batch_size: int
    steps: int


PAPER = (Phase(128, 20, 256, 900_000), Phase(512, 80, 256, 100_000))
# The paper's sequences in the batches that LAMB allows.
LARGE_BATCHES = (Phase(128, 20, 65_536, 3_516), Phase(512, 80, 32_768, 782))
NVIDIA_RUN = (Phase(128, 20, 61_440, 7_506), Phase(512, 80, 30_720, 1_668))


class Machine(NamedTuple):
    """Accelerators in nodes.

    Attributes:
        flops: a second, at the peak, of one accelerator.
        utilisation: the share of it that a step reaches, by length.
        node_size: accelerators of a node.
        node_rate: bytes a second of an all-reduce within a node.
        link_rate: bytes a second of one accelerator's link to other nodes.
    """

    flops: float
    utilisation: dict[int, float]
    node_size: int
    node_rate: float
    link_rate: float


A100_FLOPS = 312e12
TPU_V2_FLOPS, TPU_V3_FLOPS = 46e12, 123e12
PAPER_DAYS = 4
PAPER_CHIPS = {"Base": 16, "Large": 64}
# NVIDIA, Large, mixed precision, sequences a second by length: one A100, and
# nodes of eight, with gradients added up after so many sequences.
ONE_A100 = {128: 485.59, 512: 96.52}
NVIDIA_NODES = {
    (1, 128): 3_803.82,
    (2, 128): 7_551.37,
    (8, 128): 29_711.11,
    (32, 128): 110_280.73,
    (1, 512): 749.73,
    (2, 512): 1_491.87,
    (8, 512): 5_870.83,
    (32, 512): 22_506.23,
}
NVIDIA_BATCHES = {128: 79_872, 512: 30_720}
NVIDIA_HOURS = 2.02


def get_config(model: str) -> BertConfig:
    return BertConfig.from_json_file(find_model(MODELS[model]))


def flops_per_sequence(config: BertConfig, phase: Phase) -> float:
    """Operations of all matmuls of a pre-training step on one sequence."""
    hidden = config.hidden_size
    encoder = phase.length * train_flops_per_token(config, phase.length)
    word = hidden * hidden + hidden * config.vocab_size
    next_sentence = hidden * hidden + 2 * hidden
    return encoder + 6.0 * (phase.predictions * word + next_sentence)


def num_weights(config: BertConfig) -> int:
    """Trainable weights of BertPretraining."""
    hidden, inner = config.hidden_size, config.intermediate_size
    dense, norm = hidden * hidden + hidden, 2 * hidden
    rows = (
        config.vocab_size
        + config.max_position_embeddings
        + config.type_vocab_size
    )
    feed_forward = 2 * hidden * inner + inner + hidden
    block = 4 * dense + feed_forward + 2 * norm
    masked_lm = dense + norm + config.vocab_size
    next_sentence = 2 * hidden + 2
    embeddings = rows * hidden + norm
    encoder = embeddings + config.num_hidden_layers * block + dense
    return encoder + masked_lm + next_sentence


def reduce_seconds(num_bytes: float, count: int, machine: Machine) -> float:
    """An all-reduce: rings within the nodes, then rings between them.

    A ring of n sends 2 (n - 1) / n of what it adds up through each link.
    Between nodes every accelerator adds up its own part of the gradients.
    """
    inside = min(count, machine.node_size)
    nodes = -(-count // machine.node_size)
    within = 2 * (inside - 1) / inside * num_bytes / machine.node_rate
    part = num_bytes / inside
    between = 2 * (nodes - 1) / nodes * part / machine.link_rate
    return within + between


def step_seconds(
    config: BertConfig,
    phase: Phase,
    count: int,
    machine: Machine,
    gradient_bytes: int = BYTES_OF_A_GRADIENT,
) -> tuple[float, float]:
    """Seconds of one step: computation, and adding up gradients after it."""
    flops = phase.batch_size / count * flops_per_sequence(config, phase)
    rate = machine.flops * machine.utilisation[phase.length]
    num_bytes = gradient_bytes * num_weights(config)
    return flops / rate, reduce_seconds(num_bytes, count, machine)


def total_seconds(config, phases, count, machine, **kwargs):
    """Seconds of a pre-training: computation, and adding up gradients."""
    parts = [
        [
            phase.steps * x
            for x in step_seconds(config, phase, count, machine, **kwargs)
        ]
        for phase in phases
    ]
    return tuple(map(sum, zip(*parts, strict=True)))


def total_flops(config: BertConfig, phases) -> float:
    return sum(
        phase.steps * phase.batch_size * flops_per_sequence(config, phase)
        for phase in phases
    )


def paper_utilisation(model: str, chip_flops: float) -> float:
    """The share of the peak at which the paper's days come out."""
    available = PAPER_DAYS * DAY * PAPER_CHIPS[model] * chip_flops
    return total_flops(get_config(model), PAPER) / available


def a100() -> Machine:
    """Nodes of eight A100, as fast as NVIDIA measured one with Large."""
    config = get_config("Large")
    utilisation = {
        phase.length: ONE_A100[phase.length]
        * flops_per_sequence(config, phase)
        / A100_FLOPS
        for phase in PAPER
    }
    return Machine(A100_FLOPS, utilisation, 8, 230e9, 200e9 / 8)


def nvidia_throughput(nodes: int, length: int) -> float:
    """Our formula for what NVIDIA measured, in sequences a second."""
    phase = Phase(length, 20 * length // 128, NVIDIA_BATCHES[length], 1)
    times = step_seconds(
        get_config("Large"), phase, 8 * nodes, a100(), gradient_bytes=HALF
    )
    return phase.batch_size / sum(times)


def format_time(seconds: float) -> str:
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:.1f} days"
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} hours"
    return f"{seconds / 60:.0f} minutes"


def time_rows(phases, machine: Machine) -> list[list[str]]:
    rows = []
    for count in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
        row = [str(count)]
        for model in MODELS:
            if min(phase.batch_size for phase in phases) < count:
                row += ["–", "–"]
                continue
            times = total_seconds(get_config(model), phases, count, machine)
            share = times[1] / sum(times)
            row += [format_time(sum(times)), f"{share:.0%}"]
        rows.append(row)
    return rows


def make_page() -> str:
    machine = a100()
    counts = [
        [
            model,
            f"{num_weights(config) / 1e6:.1f}",
            f"{BYTES_OF_A_GRADIENT * num_weights(config) / 1e6:.0f}",
            *(f"{flops_per_sequence(config, x) / 1e9:.1f}" for x in PAPER),
            f"{total_flops(config, PAPER):.2e}",
        ]
        for model in MODELS
        for config in [get_config(model)]
    ]
    v2 = {model: paper_utilisation(model, TPU_V2_FLOPS) for model in MODELS}
    v3 = {model: paper_utilisation(model, TPU_V3_FLOPS) for model in MODELS}
    nodes = [
        [
            *(str(length), str(8 * count)),
            f"{published:,.0f}",
            f"{nvidia_throughput(count, length):,.0f}",
            f"{nvidia_throughput(count, length) / published:.2f}",
        ]
        for (count, length), published in NVIDIA_NODES.items()
    ]
    run = total_seconds(
        get_config("Large"), NVIDIA_RUN, 256, machine, gradient_bytes=HALF
    )
    titles = "A100|Base|of it all-reduce|Large|of it all-reduce"
    return PAGE.read_text().format(
        counts=table(
            "Model|Weights, millions|Gradients, MB|GFLOPs a sequence of 128|"
            "of 512|FLOPs of the paper's pre-training",
            counts,
            texts=1,
        ),
        v2=v2,
        v3=v3,
        large_days=PAPER_DAYS * v2["Large"] / v2["Base"],
        one_a100=ONE_A100,
        utilisation=machine.utilisation,
        nodes=table(
            "Length|A100|NVIDIA's sequences/s|Formula|Formula / NVIDIA",
            nodes,
            texts=0,
        ),
        worst=max(
            nvidia_throughput(*key) / published
            for key, published in NVIDIA_NODES.items()
        ),
        run_hours=sum(run) / 3600,
        nvidia_hours=NVIDIA_HOURS,
        paper_times=table(titles, time_rows(PAPER, machine), texts=0),
        large_batch_times=table(
            titles, time_rows(LARGE_BATCHES, machine), texts=0
        ),
    )


# The page with places for the numbers.
PAGE = pathlib.Path(__file__).with_name("scale_page.md")

if __name__ == "__main__":
    print(make_page(), end="")
