"""The estimates of docs/SCALE.md: the formula, its checks, the page."""

import importlib
import pathlib

import pytest

from helpers import configs
from keras_bert_ref import heads

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture
def scale(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("scale")


@pytest.fixture
def machine(scale):
    """Nodes of four that compute, and send, one thing a second."""
    return scale.Machine(
        flops=2.0,
        utilisation={128: 0.5},
        node_size=4,
        node_rate=1.0,
        link_rate=1.0,
    )


def test_weights_are_those_of_the_model(scale):
    model = heads.BertPretraining(configs.tiny())
    model.build()
    count = sum(v.shape.num_elements() for v in model.trainable_variables)
    assert scale.num_weights(model.config) == count


def test_flops_of_a_sequence(scale):
    """Base at 128 tokens, by hand."""
    block = 12 * 768**2 + 2 * 128 * 768
    head = 20 * (768**2 + 768 * 30522) + 768**2 + 2 * 768
    expected = 6 * (128 * 12 * block + head)
    found = scale.flops_per_sequence(scale.get_config("Base"), scale.PAPER[0])
    assert found == pytest.approx(expected, rel=1e-12)


def test_compute_is_divided_and_all_reduce_is_not(scale, machine):
    config, phase = configs.tiny(), scale.Phase(128, 20, 64, 10)
    flops = 64 * scale.flops_per_sequence(config, phase)
    num_bytes = 4 * scale.num_weights(config)
    for count, sent in (
        (1, 0),
        (2, 1),  # 2 (n - 1) / n in a ring
        (4, 1.5),
        (8, 1.5 + 1 / 4),  # each of four sends a quarter to the other node
        (16, 1.5 + 1.5 / 4),
    ):
        times = scale.step_seconds(config, phase, count, machine)
        assert times == pytest.approx((flops / count, sent * num_bytes))
        total = scale.total_seconds(config, [phase], count, machine)
        assert total == pytest.approx([10 * x for x in times])


def test_large_batches_hold_the_papers_sequences(scale):
    for paper, large in zip(scale.PAPER, scale.LARGE_BATCHES, strict=True):
        wanted = paper.steps * paper.batch_size
        assert 0 <= large.steps * large.batch_size - wanted < large.batch_size


def test_the_papers_days_agree_between_models(scale):
    base, large = (
        scale.paper_utilisation(model, scale.TPU_V2_FLOPS)
        for model in scale.MODELS
    )
    assert large == pytest.approx(base, rel=0.2)


def test_formula_is_near_what_nvidia_measured(scale):
    for key, published in scale.NVIDIA_NODES.items():
        ratio = scale.nvidia_throughput(*key) / published
        assert 1.0 <= ratio < 1.12, key


def test_page_is_what_the_formula_gives(scale):
    page = (ROOT / "docs/SCALE.md").read_text(encoding="utf-8")
    assert page == scale.make_page(), "python benchmarks/scale.py writes it"
