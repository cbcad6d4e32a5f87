"""Evaluation while training: its lines, the best checkpoint, the same bits."""

import json
import math

import numpy as np
import pytest

from helpers import pretraining_files, runners
from keras_bert_ref import commands, files, flags
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.heads import BertPretraining
from keras_bert_ref.training import curves, evaluations, state
from keras_bert_ref.training.evaluations import Evaluation, Evaluations

LENGTH = 12
FOLDER = "out"


@pytest.fixture
def watch(tmp_path):
    """A function that trains, so to speak, over some steps whose results are
    known; returns the steps of evals.jsonl and of the best checkpoint."""

    def run(scores: dict, first_step: int = 0, **changes):
        folder = str(tmp_path / FOLDER)
        current = []

        def save(folder):
            prefix = f"{folder}/model.ckpt-{current[-1]}"
            for ending in (".index", ".data-00000-of-00001"):
                files.replace(prefix + ending, "weights")
            files.replace(
                f"{folder}/checkpoint",
                f'model_checkpoint_path: "model.ckpt-{current[-1]}"\n',
            )

        watched = Evaluations(
            Evaluation(lambda: {"f1": scores[current[-1]]}, ("f1",), **changes),
            folder,
            every_steps=10,
            keep_best=True,
            first_step=first_step,
        )
        for step in scores:
            current.append(step)
            watched.add(step, save)
        best = state.latest(f"{folder}/best")
        steps = [line["step"] for line in evaluations.read_evals(folder)]
        return steps, state.step_of(best)

    return run


def test_the_best_is_kept(watch):
    assert watch({10: 0.1, 20: 0.5, 30: 0.5, 40: 0.3}) == ([10, 20, 30, 40], 20)


def test_lower_may_be_better(watch):
    assert watch({10: 3.0, 20: 1.0, 30: 2.0}, lower_is_better=True)[1] == 20


def test_what_is_not_a_number_is_never_best(watch, tmp_path):
    assert watch({10: math.nan, 20: 0.1, 30: math.nan})[1] == 20
    first = json.loads((tmp_path / FOLDER / "evals.jsonl").open().readline())
    assert first == {"step": 10, "f1": None}


def test_an_interrupted_run_goes_on(watch, tmp_path):
    """Killed after step 30, it goes on from 15: later lines are dropped, but
    the best checkpoint is worth as much as before."""
    watch({10: 0.1, 20: 0.2, 30: 0.9})
    assert watch({20: 0.3}, first_step=15) == ([10, 20], 30)
    assert watch({30: 0.95}, first_step=25) == ([10, 20, 30], 30)
    assert "f1 = 0.95" in (
        tmp_path / FOLDER / "best" / "eval_results.txt"
    ).read_text().split("\n")
    # The step it goes on from is evaluated again, if its turn had come.
    assert watch({20: 0.3}, first_step=20) == ([10, 20], 30)


def test_another_run_begins_anew(watch, tmp_path):
    watch({10: 0.9})
    assert watch({20: 0.1}) == ([20], 20)
    left = sorted(p.name for p in (tmp_path / FOLDER / "best").glob("model*"))
    assert left == ["model.ckpt-20.data-00000-of-00001", "model.ckpt-20.index"]


def test_when_it_is_due(tmp_path):
    watched = Evaluations(
        Evaluation(dict, ("f1",)),
        None,
        every_steps=10,
        keep_best=False,
        first_step=0,
    )
    assert not watched.is_due(0, 9) and watched.is_due(9, 10)
    assert watched.is_due(5, 25) and not watched.is_due(10, 11)
    assert not watched.starts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep_best": True}, "--keep_best compares .* --eval_every_steps too"),
        (
            {"eval_every_steps": 5, "do_train": True},
            "--eval_every_steps=5 .* set --do_eval.",
        ),
        (
            {"eval_every_steps": 5, "do_eval": True},
            "needs --do_train and --do_eval; set --do_train.",
        ),
    ],
)
def test_flags_that_cannot_work(changes, message):
    values = {
        "keep_best": False,
        "eval_every_steps": None,
        "do_train": False,
        "do_eval": False,
    }
    options = commands.Options({**values, **changes})
    with pytest.raises(ValueError, match=message):
        flags.check_watch_flags(options, "do_eval")


@pytest.fixture(scope="module")
def run_pretraining():
    with runners.load_runner("run_pretraining") as runner:
        yield runner


@pytest.mark.slow
def test_a_watched_run_has_the_same_bits(run_pretraining, tmp_path):
    """Also where it breaks off in an evaluation and goes on."""
    config = pretraining_files.write_config(tmp_path)
    train = pretraining_files.write_records(tmp_path / "a.tfrecord", LENGTH)
    held_out = pretraining_files.write_records(tmp_path / "b.tfrecord", LENGTH)

    def run(name, *more):
        given = pretraining_files.flags(config, train, LENGTH, tmp_path / name)
        runners.run(
            run_pretraining, *given, "--save_checkpoints_steps=1", *more
        )

    watched = [
        f"--eval_input_file={held_out}",
        *("--eval_every_steps=2", "--keep_best"),
        *("--eval_batch_size=4", "--max_eval_steps=2"),
    ]
    run("plain", "--keep_checkpoint_max=0")
    run("watched", *watched)
    evaluate, calls = run_pretraining.body.evaluate, []

    def break_off(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    run_pretraining.body.evaluate = break_off
    try:
        with pytest.raises(KeyboardInterrupt):
            run("broken", *watched)
        assert state.step_of(state.latest(str(tmp_path / "broken"))) == 3
        run("broken", *watched)
    finally:
        run_pretraining.body.evaluate = evaluate

    for name in ("watched", "broken"):
        folder = str(tmp_path / name)
        lines = evaluations.read_evals(folder)
        assert [line["step"] for line in lines] == [2, 4, 6]
        best = min(lines, key=lambda line: line["loss"])["step"]
        for kept in (
            f"{folder}/model.ckpt-6",
            f"{folder}/best/model.ckpt-{best}",
        ):
            expected = tf1.read(f"{tmp_path}/plain/{kept.rpartition('/')[2]}")
            found = tf1.read(kept)
            assert found.keys() == expected.keys()
            for key, value in expected.items():
                np.testing.assert_array_equal(found[key], value, key)
        BertPretraining.from_checkpoint(f"{folder}/best")
        loss = curves.read_curves(folder, ["loss"])["loss"]
        assert [step for step, _ in loss["evaluation"]] == [2, 4, 6]
        assert [step for step, _ in loss["training"]][-1] == 6
        names = {path.name for path in (tmp_path / name).iterdir()}
        assert {"curves.png", "report.html"} <= names
        names = {path.name for path in (tmp_path / name / "best").iterdir()}
        assert {"bert_config.json", "run.json", "eval_results.txt"} <= names
    assert evaluations.read_evals(f"{tmp_path}/watched") == lines
