"""Pre-training as papers describe it: without next sentences, in two phases,
with LAMB."""

import json
import os
import pathlib
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from helpers import pretraining_files, runners
from keras_bert_ref import commands
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.training import state

HELPER = pathlib.Path(__file__).parent.parent / "helpers" / "in_turn.py"
TIMEOUT = 300


@pytest.fixture
def run(tmp_path):
    """A function that runs the command in this process; returns its folder."""
    config = pretraining_files.write_config(tmp_path)
    short = pretraining_files.write_records(tmp_path / "8" / "a.tfrecord", 8)
    long = pretraining_files.write_records(tmp_path / "16" / "a.tfrecord", 16)
    paths = {8: short, 16: long}
    with runners.load_runner("run_pretraining") as command:

        def run_command(folder, *arguments, length=8):
            output_dir = tmp_path / folder
            flags = pretraining_files.flags(
                config, paths[length], length, output_dir
            )
            runners.run(command, *flags, *arguments)
            return output_dir

        yield run_command


def values(output_dir, step) -> dict[str, np.ndarray]:
    return tf1.read(f"{output_dir}/model.ckpt-{step}")


@pytest.mark.slow
def test_no_next_sentence_loss(run):
    """The head of next sentences and the pooler, which only it reads, stay
    as they were; all else is trained."""
    out = run("out", "--nonext_sentence_loss", "--do_eval")
    before, after = values(out, 0), values(out, 6)
    for name, value in before.items():
        if not name.startswith(("bert/", "cls/")) or "adam" in name:
            continue
        is_unused = "pooler" in name or "seq_relationship" in name
        assert np.array_equal(value, after[name]) == is_unused, name
    results = runners.read_results(out)
    assert list(results) == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "masked_lm_perplexity",
    ]
    assert results["masked_lm_perplexity"] == pytest.approx(
        np.exp(results["masked_lm_loss"]), rel=1e-5
    )


@pytest.mark.slow
def test_second_phase_of_its_own(run):
    """As NVIDIA does it: weights carry over, step and averages do not."""
    first = run("first", "--optimizer=lamb", "--decay_power=0.5")
    second = run(
        "second",
        f"--init_checkpoint={first}/model.ckpt-6",
        "--optimizer=lamb",
        "--num_train_steps=3",
        length=16,
    )
    end, start = values(first, 6), values(second, 0)
    assert end.keys() == start.keys()
    assert start["global_step"] == 0
    for name, value in start.items():
        if name.endswith(("adam_m", "adam_v")):
            assert not value.any(), name
        elif name.startswith(("bert/", "cls/")):
            np.testing.assert_array_equal(value, end[name], err_msg=name)
    assert values(second, 3)["global_step"] == 3


@pytest.mark.slow
def test_position_starts_anew_with_new_input(run):
    out = run("out", "--stop_at_step=4")
    assert values(out, 4)[state.RECORDS_SEEN] == 16
    run("out", "--stop_at_step=5")  # the same input
    assert values(out, 5)[state.RECORDS_SEEN] == 20
    run("out", length=16)
    assert values(out, 6)[state.RECORDS_SEEN] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "words"), [("ltr", "next_word"), ("rtl", "previous_word")]
)
def test_one_direction(run, tmp_path, direction, words):
    """It learns every next word; nothing of next sentences."""
    pretraining_files.write_config(tmp_path, directionality=direction)
    out = run("out", "--do_eval", "--num_train_steps=40")
    results = runners.read_results(out)
    assert list(results) == [
        "global_step",
        "loss",
        f"{words}_accuracy",
        f"{words}_loss",
        f"{words}_perplexity",
    ]
    assert results[f"{words}_perplexity"] < 20  # chance: 29
    kept = tf1.read(str(out / "model.ckpt-0"))
    name = "cls/seq_relationship/output_weights"
    np.testing.assert_array_equal(kept[name], values(out, 40)[name])
    pretraining_files.write_config(tmp_path)
    with pytest.raises(ValueError, match=f"direction is {direction} there and"):
        run("out")


def test_two_directions_are_trained_apart(run, tmp_path):
    pretraining_files.write_config(tmp_path, directionality="ltr+rtl")
    with pytest.raises(ValueError, match="=ltr.rtl stands for two encoders"):
        run("out")


def test_stop_beyond_the_schedule(run):
    with pytest.raises(ValueError, match="--stop_at_step=7 lies beyond the "):
        run("out", "--stop_at_step=7")


@pytest.mark.long
def test_two_phases_killed_in_each(tmp_path):
    """One schedule over two inputs; killed in both phases and resumed, the
    last checkpoint is the same to the bit as undisturbed."""
    config = pretraining_files.write_config(tmp_path)
    switch, end = 60, 120

    def start(name):
        commands = []
        for length, last in ((8, switch), (16, end)):
            path = tmp_path / str(length) / "a.tfrecord"
            records = pretraining_files.write_records(path, length)
            output_dir = tmp_path / name
            flags = [
                *pretraining_files.flags(config, records, length, output_dir),
                f"--num_train_steps={end}",
                f"--stop_at_step={last}",
                "--save_checkpoints_steps=5",
                "--keep_checkpoint_max=0",
                "--deterministic",
            ]
            commands.append(json.dumps(flags) + "\n")
        lines = tmp_path / f"{name}.json"
        lines.write_text("".join(commands))
        with open(tmp_path / f"{name}.log", "a") as log:
            return subprocess.Popen(
                [sys.executable, HELPER, lines],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
            )

    def kill_at(step):
        process = start("disturbed")
        deadline = time.monotonic() + TIMEOUT
        while not (tmp_path / f"disturbed/model.ckpt-{step}.index").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
        process.kill()
        process.wait()

    undisturbed = start("undisturbed")
    kill_at(random.randrange(1, switch // 5) * 5)
    kill_at(random.randrange(switch // 5 + 1, end // 5) * 5)
    assert start("disturbed").wait(TIMEOUT) == 0
    assert undisturbed.wait(TIMEOUT) == 0
    ours = values(tmp_path / "disturbed", end)
    theirs = values(tmp_path / "undisturbed", end)
    assert ours[state.RECORDS_SEEN] == 4 * (end - switch)
    assert ours.keys() == theirs.keys()
    assert [n for n in ours if ours[n].tobytes() != theirs[n].tobytes()] == []


def test_flagfiles(run):
    """They parse, name themselves, and their schedules are the published."""
    paths = sorted((runners.ROOT / "configs/runs").glob("pretraining_*.flags"))
    steps, others = {}, {}
    for path in paths:
        assert f"--flagfile=configs/runs/{path.name}" in path.read_text()
        runners.parse(f"--flagfile={path}", "--input_file=x", "--output_dir=x")
        options = commands.read_options()
        assert pathlib.Path(runners.ROOT, options.bert_config_file).exists()
        steps[path.stem.removeprefix("pretraining_")] = (
            options.max_seq_length,
            options.num_train_steps,
            options.stop_at_step,
        )
        others[path.stem.removeprefix("pretraining_")] = (
            options.train_batch_size,
            options.learning_rate,
            options.num_warmup_steps,
            options.optimizer,
        )
    assert steps["base_phase1"] == (128, 1_000_000, 900_000)
    assert steps["base_phase2"] == (512, 1_000_000, None)
    assert steps["lamb_large_phase1"] == (128, 7038, None)
    assert steps["lamb_large_phase2"] == (512, 1563, None)
    lamb = {name: others.pop(name) for name in list(others) if "lamb" in name}
    assert lamb == {
        "lamb_large_phase1": (65536, 6e-3, 2000, "lamb"),
        "lamb_large_phase2": (32768, 4e-3, 200, "lamb"),
    }
    assert set(others.values()) == {(256, 1e-4, 10_000, "adamw")}


def test_masking_flagfiles():
    """The rows of table 8, each named by its shares."""
    paths = sorted((runners.ROOT / "configs/runs").glob("masking_*.flags"))
    assert len(paths) == 6
    with runners.load_runner("create_pretraining_data"):
        for path in paths:
            required = ["input_file", "output_file", "vocab_file"]
            runners.parse(
                f"--flagfile={path}", *(f"--{name}=x" for name in required)
            )
            options = commands.read_options()
            mask, same, changed = map(int, path.stem.split("_")[1:])
            assert mask + same + changed == 100
            assert options.mask_prob == mask / 100
            assert options.keep_prob == same / 100
