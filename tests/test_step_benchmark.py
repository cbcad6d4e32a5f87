"""benchmarks/step.py: what is measured again, and what the report says."""

import importlib
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


@pytest.fixture
def results(tmp_path):
    step = importlib.import_module("step")
    return step.Results(tmp_path / "results.jsonl", label="new")


def add_round(results, ours: float, **peers: float) -> None:
    seconds = {"ours": ours, **peers}
    results.add(
        size="tiny",
        work="train",
        seconds=seconds,
        growth=dict.fromkeys(seconds, 100),
        peak=1e9,
    )


def test_rounds_that_are_there_are_not_measured_again(results, monkeypatch):
    step = importlib.import_module("step")
    monkeypatch.setattr(step, "describe", lambda: "a machine")
    key = {"size": "tiny", "work": "train"}
    assert results.count_rounds(name="hf", **key) == 0
    add_round(results, 1.0, hf=2.0)
    add_round(results, 1.0, hf=2.0, hub=3.0)
    results.add(**key, seconds={"ours": 1.0, "hub": 9.0}, others=0.4)
    results.add(**key, failed={"onnx": "no such thing"})
    again = step.Results(results.path, label="new")
    assert again.count_rounds(name="hf", **key) == 2
    assert again.count_rounds(name="hub", **key) == 1
    assert again.count_rounds(name="onnx", **key) > 100
    assert again.count_rounds(name="hf", size="base", work="train") == 0
    old = step.Results(results.path, label="old")
    assert old.count_rounds(name="hf", **key) == 0


def test_report_compares_the_same_rounds_with_the_best_peer(
    results, monkeypatch
):
    step, report = map(importlib.import_module, ("step", "step_report"))
    monkeypatch.setattr(step, "describe", lambda: "a machine")
    add_round(results, 1.0, hf=2.0)
    add_round(results, 1.5, hf=2.4)
    add_round(results, 2.0, hub=2.8)  # hf did not run beside it
    text = report.make_report(results.lines, "new")
    assert "a machine" in text
    row = "| tiny 2/128/2, 32 | Hugging Face, PyTorch | 0.5 | 0.8 | 1.76 "
    assert f"{row}(1.60 to 2.00)" in text
    assert "best peer: keras-hub | 1.40 | 1.50 | missed |" in text
    results.add(size="tiny", work="train", failed={"onnx": "no such thing"})
    text = report.make_report(results.lines, "new")
    assert "| tiny | ONNX Runtime | no such thing |" in text
    with pytest.raises(SystemExit, match="--label=old"):
        report.make_report(results.lines, "old")


def test_ours_predicts_by_length_and_peers_pad():
    step_work = importlib.import_module("step_work")
    jobs = {
        name: step_work.make_job("tiny", "infer_sst2", name)
        for name in ("ours", "hf", "hub_128")
    }
    ours, theirs = (
        [length for row in jobs[name]["lengths"] for length in row]
        for name in ("ours", "hf")
    )
    assert ours == sorted(theirs) != theirs
    hub = jobs["hub_128"]
    assert (hub["kind"], hub["pad_to"]) == ("hub", 128)
    assert jobs["hf"]["pad_to"] is None


def test_scaling_compares_point_by_point(tmp_path):
    scaling = importlib.import_module("scaling")
    lines = [{"run": "today", "machine": "a machine", "commit": "c"}]
    for point in scaling.points()[:3]:
        for ours in (1.0, 2.0, 4.0):
            seconds = {"ours": ours, "hf": 3.0}
            growth = {"ours": 100, "hf": 200}
            lines.append({**point, "seconds": seconds, "growth": growth})
    for ours, two in ((1.0, 1.2), (2.0, 2.5)):
        seconds = {"ours": ours, "replicas_2": two}
        growth = dict.fromkeys(seconds, 100)
        lines.append({"mode": "replicas", "seconds": seconds, "growth": growth})
    text = scaling.make_report(lines, "picture.png")
    assert "| Training | 1 | 1.50 | 1.50 | 1.50 | – | – | – |" in text
    assert "| 1 | 0.7 | 0% | 100 |\n| 2 | 0.5 | 23% | 100 |" in text
    scaling.draw(lines, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
