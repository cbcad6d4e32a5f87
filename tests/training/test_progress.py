"""What a person sees: lines, metrics, events, curves."""

import json
import re

import pytest
import tensorflow as tf

from keras_bert_ref.training import progress


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
    assert first.endswith("compiled just now")
    assert second.startswith("step 5/10: loss 0.2, ")
    assert second.endswith(" left")
    assert last.endswith(", 0 s left")


def test_curves(tmp_path):
    report(tmp_path, 0, [1, 5, 7])
    path = progress.draw_curves(str(tmp_path), ["loss", "not_there"])
    assert path == str(tmp_path / progress.CURVES_FILE)
    image = tf.io.decode_png(tf.io.read_file(path))
    assert image.shape[0] > 100 and image.shape[1] > 100
    assert len(set(image.numpy().reshape(-1).tolist())) > 10


def test_no_curves_of_a_single_point(tmp_path):
    report(tmp_path, 0, [1])
    assert progress.draw_curves(str(tmp_path), ["loss"]) is None
    report(tmp_path, 1, [2])
    assert progress.draw_curves(str(tmp_path), ["not_there"]) is None
