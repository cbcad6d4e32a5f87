"""What a person sees: lines, metrics, events, curves."""

import json
import re

import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref.training import curves, progress


def report(folder, first_step: int, steps, num_steps: int = 10) -> None:
    seen = progress.Progress(str(folder), first_step, num_steps)
    for step in steps:
        seen.report(step, {"loss": 1.0 / step}, {"sequences": 32})


def test_a_line_a_report(tmp_path):
    report(tmp_path, 0, [1, 5])
    text = (tmp_path / progress.METRICS_FILE).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines == progress.read_metrics(str(tmp_path))
    assert [line["step"] for line in lines] == [1, 5]
    assert [line["loss"] for line in lines] == [1.0, 0.2]
    assert all(line["sequences_per_second"] > 0 for line in lines)
    assert lines[0]["seconds"] < lines[1]["seconds"]


def test_what_is_no_number_is_null(tmp_path):
    seen = progress.Progress(str(tmp_path), 0, 10)
    seen.report(1, {"loss": float("nan"), "gradient_norm": float("inf")}, {})
    seen.report(2, {"loss": 2.0, "gradient_norm": 1.0}, {})
    first, second = progress.read_metrics(str(tmp_path))
    assert first["loss"] is first["gradient_norm"] is None
    assert second["loss"] == 2.0
    drawn = curves.read_curves(str(tmp_path), ["loss", "gradient_norm"])
    assert drawn["loss"]["training"] == [(2, 2.0)]


def test_resuming_drops_what_will_come_again(tmp_path):
    report(tmp_path, 0, [2, 4, 6])
    report(tmp_path, 4, [5, 6])
    metrics = progress.read_metrics(str(tmp_path))
    assert [line["step"] for line in metrics] == [2, 4, 5, 6]


def test_half_a_line_is_no_line(tmp_path):
    report(tmp_path, 0, [1, 2])
    path = tmp_path / progress.METRICS_FILE
    path.write_text(path.read_text()[:-8])
    metrics = progress.read_metrics(str(tmp_path))
    assert [line["step"] for line in metrics] == [1]
    report(tmp_path, 1, [2])
    metrics = progress.read_metrics(str(tmp_path))
    assert [line["step"] for line in metrics] == [1, 2]


def test_no_metrics(tmp_path):
    assert progress.read_metrics(str(tmp_path)) == []


def test_events(tmp_path):
    report(tmp_path, 0, [1, 5])
    (path,) = tmp_path.glob("events.out.tfevents.*")
    scalars = {}
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        event = tf.compat.v1.Event.FromString(record)
        for value in event.summary.value:
            assert value.metadata.plugin_data.plugin_name == "scalars"
            number = tf.make_ndarray(value.tensor)
            scalars.setdefault(value.tag, {})[event.step] = float(number)
    assert scalars["loss"] == pytest.approx({1: 1.0, 5: 0.2})
    assert scalars["sequences_per_second"].keys() == {1, 5}


def test_workers_that_are_not_chief_write_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    progress.Progress(None, 0, 10).report(1, {"loss": 1.0}, {})
    assert not list(tmp_path.iterdir())


def test_the_line(tmp_path, caplog):
    with caplog.at_level("INFO", logger="absl"):
        report(tmp_path, 0, [1, 5, 10])
    first, second, last = caplog.messages
    assert re.match(r"step 1/10: loss 1, [\d.e+]+ sequences/s, ", first)
    assert first.endswith("first step, with compilation")
    assert second.startswith("step 5/10: loss 0.2, ")
    assert second.endswith(" left")
    assert last.endswith(", 0 s left")


def test_curves(tmp_path):
    report(tmp_path, 0, [1, 5, 7])
    path = curves.draw_curves(str(tmp_path), ["loss", "not_there"])
    assert path == str(tmp_path / curves.CURVES_FILE)
    image = tf.io.decode_png(tf.io.read_file(path))
    assert image.shape[0] > 100 and image.shape[1] > 100
    assert len(set(image.numpy().reshape(-1).tolist())) > 10


def test_no_curves_of_a_single_point(tmp_path):
    report(tmp_path, 0, [1])
    assert curves.draw_curves(str(tmp_path), ["loss"]) is None
    report(tmp_path, 1, [2])
    assert curves.draw_curves(str(tmp_path), ["not_there"]) is None


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
    flops = progress.train_flops_per_token(config, 10)
    assert flops == 3 * 2 * 2 * one_layer
    keys_and_values = 2 * 4 * 4
    flops = progress.train_flops_per_token(config, 10, reads_all=False)
    assert flops == 3 * 2 * (one_layer + keys_and_values)


def test_matmul_peak(monkeypatch):
    monkeypatch.setattr(progress, "PEAK_SIZE", 64)
    assert 1e6 < progress.matmul_peak() < 1e15


@pytest.fixture
def peaks(monkeypatch):
    """The precisions whose peak was measured; it is always 1."""
    asked = []
    monkeypatch.setattr(
        progress, "matmul_peak", lambda dtype: asked.append(dtype) or 1.0
    )
    return asked


def test_replicas_on_one_cpu_share_its_peak(peaks, logical_cpus):
    for count in (1, 2, 4):
        strategy = tf.distribute.MirroredStrategy(
            logical_cpus(count), tf.distribute.ReductionToOneDevice()
        )
        assert progress.total_peak(strategy, "float32") == 1.0
    assert peaks == ["float32"] * 3


def test_peak_is_that_of_the_precision(peaks):
    strategy = tf.distribute.get_strategy()
    progress.total_peak(strategy, "bfloat16")
    assert peaks == ["bfloat16"]


class SeveralWorkers:
    """What is asked of a strategy for two hosts."""

    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})
    )


def test_no_peak_of_machines_that_are_elsewhere(peaks):
    assert progress.total_peak(SeveralWorkers(), "float32") is None
    assert not peaks
