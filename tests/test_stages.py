"""Long benchmarks go on where they were."""

import importlib.util
import pathlib

import pytest

PATH = pathlib.Path(__file__).parent.parent / "benchmarks" / "stages.py"
spec = importlib.util.spec_from_file_location("stages", PATH)
stages = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stages)


def test_a_stage_is_done_once(tmp_path):
    done = []

    def work():
        done.append(1)
        return {"accuracy": 0.5}

    first = stages.Stages(tmp_path)
    assert first.run("a", work)["accuracy"] == 0.5
    again = stages.Stages(tmp_path)
    assert again.run("a", work) == first.results["a"]
    assert len(done) == 1


def test_a_stage_that_fails_is_done_again(tmp_path):
    with pytest.raises(ZeroDivisionError):
        stages.Stages(tmp_path).run("a", lambda: 1 // 0)
    assert stages.Stages(tmp_path).run("a", dict)["name"] == "a"


def test_stops_where_it_is_told_to(tmp_path):
    with pytest.raises(SystemExit):
        stages.Stages(tmp_path, stop_after="a").run("a", dict)
    assert "a" in stages.Stages(tmp_path).results


def test_results_may_stand_elsewhere(tmp_path):
    path = tmp_path / "results" / "all.jsonl"
    path.parent.mkdir()
    stages.Stages(tmp_path / "a", results=path).run("x", lambda: {"y": 1})
    assert stages.Stages(tmp_path / "b", results=path).results["x"]["y"] == 1
    assert not (tmp_path / "a" / "results.jsonl").exists()
