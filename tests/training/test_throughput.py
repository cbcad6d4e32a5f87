"""Counting operations, and the peak that they are compared with."""

import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref.training import throughput


def test_flops():
    """Three matmuls of forward and backward, 2 operations each; one layer:
    four D x D, two D x F, and two T x D of attention."""
    config = configs.tiny(
        vocab_size=9,
        hidden_size=4,
        num_hidden_layers=2,
        num_attention_heads=1,
        intermediate_size=8,
        type_vocab_size=16,
        max_position_embeddings=512,
    )
    one_layer = 4 * 4 * 4 + 2 * 4 * 8 + 2 * 10 * 4
    flops = throughput.train_flops_per_token(config, 10)
    assert flops == 3 * 2 * 2 * one_layer


def test_matmul_peak(monkeypatch):
    monkeypatch.setattr(throughput, "PEAK_SIZE", 64)
    assert 1e6 < throughput.matmul_peak() < 1e15


@pytest.fixture
def peaks(monkeypatch):
    """The precisions whose peak was measured; it is always 1."""
    asked = []
    monkeypatch.setattr(
        throughput, "matmul_peak", lambda dtype: asked.append(dtype) or 1.0
    )
    return asked


def test_replicas_on_one_cpu_share_its_peak(peaks, logical_cpus):
    for count in (1, 2, 4):
        strategy = tf.distribute.MirroredStrategy(
            logical_cpus(count), tf.distribute.ReductionToOneDevice()
        )
        assert throughput.total_peak(strategy, "float32") == 1.0
    assert peaks == ["float32"] * 3


def test_peak_is_that_of_the_precision(peaks):
    strategy = tf.distribute.get_strategy()
    throughput.total_peak(strategy, "bfloat16")
    assert peaks == ["bfloat16"]


class SeveralWorkers:
    """What is asked of a strategy for two hosts."""

    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})
    )


def test_no_peak_of_machines_that_are_elsewhere(peaks):
    assert throughput.total_peak(SeveralWorkers(), "float32") is None
    assert not peaks
