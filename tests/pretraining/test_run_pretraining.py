"""The command: golden run, devices, flags, results, interruptions.

Every run is a process of its own, as users start it; they are few, since
each spends most of its time on starting TensorFlow.
"""

import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import tensorflow as tf

from helpers import golden_training, runners
from keras_bert_ref import heads, lock, losses, optimization
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig
from keras_bert_ref.pretraining import objective as pretraining
from keras_bert_ref.training import evaluations, loop, run_record, state

RUNNER = pathlib.Path(__file__).parent.parent.parent / "run_pretraining.py"
TOLERANCE = 1e-5
TIMEOUT = 300
# Ten, now and then: KERAS_BERT_KILLS=10 pytest -k undisturbed
KILLS = int(os.environ.get("KERAS_BERT_KILLS", "1"))

# Name, type, default, required: all flags of the original.
ORIGINAL_FLAGS = """
bert_config_file string None required
input_file string None required
output_dir string None required
init_checkpoint string None -
max_seq_length int 128 -
max_predictions_per_seq int 20 -
do_train bool false -
do_eval bool false -
train_batch_size int 32 -
eval_batch_size int 8 -
learning_rate float 5e-05 -
num_train_steps int 100000 -
num_warmup_steps int 10000 -
save_checkpoints_steps int 1000 -
iterations_per_loop int 1000 -
max_eval_steps int 100 -
use_tpu bool false -
tpu_name string None -
tpu_zone string None -
gcp_project string None -
master string None -
num_tpu_cores int 8 -
"""
ORIGINAL_TABLE = [line.split() for line in ORIGINAL_FLAGS.split("\n") if line]


@dataclasses.dataclass
class Command:
    """A run of the runner; what it logs goes to a file beside its output."""

    process: subprocess.Popen
    log: pathlib.Path

    def wait(self) -> int:
        return self.process.wait(timeout=TIMEOUT)

    def end_well(self) -> str:
        assert self.wait() == 0, self.log.read_text()
        return self.log.read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def start(tmp_path):
    """A function that starts the runner; none outlives its test."""
    commands = []

    def start_command(*arguments) -> Command:
        log = tmp_path / f"log-{len(commands)}.txt"
        with open(log, "w") as file:
            process = subprocess.Popen(
                [sys.executable, RUNNER, *map(str, arguments)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
            )
        commands.append(Command(process, log))
        return commands[-1]

    yield start_command
    for command in commands:
        command.kill()


def golden_flags(golden_dir, output_dir) -> list[str]:
    """What the golden run was made with, whatever the set."""
    golden = golden_training.load(golden_dir)
    batch_size, length = golden["batch0/input_ids"].shape
    return [
        f"--bert_config_file={golden_dir}/model/bert_config.json",
        f"--init_checkpoint={golden_dir}/model/bert_model.ckpt",
        f"--output_dir={output_dir}",
        f"--max_seq_length={length}",
        f"--max_predictions_per_seq={golden['batch0/masked_lm_ids'].shape[1]}",
        f"--train_batch_size={batch_size}",
        f"--learning_rate={golden['learning_rate']}",
        f"--num_train_steps={golden['num_train_steps']}",
        f"--num_warmup_steps={golden['num_warmup_steps']}",
        f"--save_checkpoints_steps={len(golden['losses'])}",
        "--log_steps=1",
        "--noshuffle",
        "--do_train",
    ]


def read_metrics(output_dir) -> list[dict]:
    lines = (output_dir / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def assert_equal_to_the_bit(prefix, other) -> None:
    ours, theirs = tf1.read(str(prefix)), tf1.read(str(other))
    assert ours.keys() == theirs.keys()
    different = [n for n in ours if ours[n].tobytes() != theirs[n].tobytes()]
    assert not different


def write_vocabulary(golden_dir, folder) -> pathlib.Path:
    """As many words as the model has, none with a capital letter."""
    config = BertConfig.from_json_file(f"{golden_dir}/model/bert_config.json")
    words = [f"word{i}" for i in range(config.vocab_size - 5)]
    words[:0] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path = folder / "words.txt"
    path.write_text("\n".join(words) + "\n")
    return path


@pytest.mark.slow
def test_golden_run(golden_dir, tmp_path, start):
    """Trains and evaluates; files come as a shell expands a star."""
    golden = golden_training.load(golden_dir)
    rows = golden_training.examples(golden_dir)
    third = len(rows) // 3
    files = [
        golden_training.write_records(tmp_path / f"{i}.tfrecord", part)
        for i, part in enumerate(
            [rows[:third], rows[third : 2 * third], rows[2 * third :]]
        )
    ]
    output_dir = tmp_path / "out"
    max_eval_steps = 1 + len(rows) // 5  # a little more than all
    log = start(
        "--input_file",
        *files,
        *golden_flags(golden_dir, output_dir),
        "--do_eval",
        "--eval_batch_size=5",
        f"--max_eval_steps={max_eval_steps}",
        f"--vocab_file={write_vocabulary(golden_dir, tmp_path)}",
    ).end_well()
    assert f"Training on {len(rows)} examples: " in log
    assert "STARTING from --init_checkpoint" in log
    assert "one_device: no GPU found" in log or "GPU found" in log

    written = run_record.read(str(output_dir))
    assert written["task"] == "pretraining"
    assert written["do_lower_case"] is True  # as the vocabulary shows
    assert (output_dir / "vocab.txt").exists()

    steps = len(golden["losses"])
    expected = tf1.read(str(golden_dir / "model" / f"model.ckpt-{steps}"))
    actual = tf1.read(str(output_dir / f"model.ckpt-{steps}"))
    own = {name for name in actual if name.startswith(tf1.RESUME_PREFIX)}
    assert actual.keys() - own == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, name
        np.testing.assert_allclose(
            actual[name], value, rtol=0, atol=TOLERANCE, err_msg=name
        )
    metrics = read_metrics(output_dir)
    assert [line["step"] for line in metrics] == list(
        range(1, int(golden["num_train_steps"]) + 1)
    )
    np.testing.assert_allclose(
        [
            [line["loss"], line["masked_lm_loss"], line["next_sentence_loss"]]
            for line in metrics[:steps]
        ],
        golden["losses"],
        rtol=0,
        atol=TOLERANCE,
    )
    check_results(output_dir, golden_dir, rows, 5, max_eval_steps)
    assert (output_dir / "curves.png").exists()


def check_results(output_dir, golden_dir, rows, batch_size, num_batches):
    """eval_results.txt against the model called directly."""
    lines = (output_dir / "eval_results.txt").read_text().split("\n")
    assert lines.pop() == ""
    pairs = [line.split(" = ") for line in lines]
    assert [key for key, _ in pairs] == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "masked_lm_perplexity",
        "next_sentence_accuracy",
        "next_sentence_loss",
    ]
    results = dict(pairs)
    steps = int(golden_training.load(golden_dir)["num_train_steps"])
    assert results.pop("global_step") == str(steps)

    config = BertConfig.from_json_file(f"{golden_dir}/model/bert_config.json")
    model = heads.BertPretraining(config)
    tf1.load(model, str(output_dir / f"model.ckpt-{steps}"))
    batch_losses, word_scores, next_scores = [], [], []
    for i in range(num_batches):
        places = range(i * batch_size, (i + 1) * batch_size)
        picked = [rows[place % len(rows)] for place in places]
        batch = {k: np.stack([row[k] for row in picked]) for k in picked[0]}
        outputs = {k: v.numpy() for k, v in model(batch).items()}
        loss, _, _ = losses.pretraining_losses(outputs, batch)
        batch_losses.append(float(loss))
        is_real = batch["masked_lm_weights"] > 0
        word_scores += score(
            outputs["masked_lm_logits"][is_real],
            batch["masked_lm_ids"][is_real],
        )
        next_scores += score(
            outputs["next_sentence_logits"],
            batch["next_sentence_labels"].reshape(-1),
        )
    expected = {"loss": np.mean(batch_losses)}
    for name, scores in (
        ("masked_lm", word_scores),
        ("next_sentence", next_scores),
    ):
        is_right, loss = np.mean(scores, axis=0)
        expected |= {f"{name}_accuracy": is_right, f"{name}_loss": loss}
    expected["masked_lm_perplexity"] = np.exp(expected["masked_lm_loss"])
    for name, value in expected.items():
        assert float(results[name]) == pytest.approx(value, abs=1e-5), name


def score(logits, labels) -> list[tuple[bool, float]]:
    """Of each prediction, whether it is right and its loss."""
    logits = logits.astype("float64")
    log_sums = np.log(np.exp(logits).sum(axis=-1))
    own = logits[np.arange(len(labels)), labels]
    return list(
        zip(logits.argmax(axis=-1) == labels, log_sums - own, strict=True)
    )


@pytest.fixture
def shared_run(golden_dir, tmp_path):
    """Twenty steps that can be shared by two; their losses on one device."""
    rows = golden_training.examples(golden_dir)
    golden_training.write_records(tmp_path / "rows.tfrecord", rows)
    batch_size = len(golden_training.batches(golden_dir)[0]["input_ids"])
    batch_size += batch_size % 2
    learning_rate, num_steps, num_warmup_steps = 1e-3, 20, 5
    config = BertConfig.from_json_file(f"{golden_dir}/model/bert_config.json")
    model = heads.BertPretraining(config)
    tf1.load(model, str(golden_dir / "model" / "bert_model.ckpt"))
    optimizer = optimization.create_optimizer(
        learning_rate, num_steps, num_warmup_steps
    )
    optimizer.build(model.trainable_variables)
    stream = [rows[i % len(rows)] for i in range(num_steps * batch_size)]
    batches = tf.data.Dataset.from_tensor_slices(
        {k: np.stack([row[k] for row in stream]) for k in stream[0]}
    ).batch(batch_size)
    steps = loop.take_steps(
        tf.distribute.get_strategy(),
        loop.make_train_step(model, optimizer, pretraining.PRETRAINING),
        batches,
        num_steps=num_steps,
    )
    expected = [float(step.metrics["loss"]) for step in steps]
    flags = [
        *golden_flags(golden_dir, tmp_path / "out"),
        f"--input_file={tmp_path}/*.tfrecord",
        f"--train_batch_size={batch_size}",
        f"--learning_rate={learning_rate}",
        f"--num_train_steps={num_steps}",
        f"--num_warmup_steps={num_warmup_steps}",
        f"--save_checkpoints_steps={num_steps // 2}",
    ]
    return flags, expected


def assert_losses(output_dir, expected) -> None:
    actual = [line["loss"] for line in read_metrics(output_dir)]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.slow
def test_golden_two_replicas(tmp_path, start, shared_run):
    flags, expected = shared_run
    log = start(*flags, "--num_replicas=2").end_well()
    assert "Running on 2 replicas (mirrored: --num_replicas=2)" in log
    for noise in ("Collective", "MirroredStrategy", "oneDNN", "cuInit"):
        assert noise not in log
    # There XLA tells of its first compilation, whatever the log level.
    if not tf.__version__.startswith("2.19."):
        assert "InitializeLog" not in log
    assert_losses(tmp_path / "out", expected)


@pytest.mark.slow
def test_golden_two_workers(tmp_path, start, shared_run):
    """Two processes train as one. One of them is killed; started again, both
    go on from the last checkpoint and the losses are those of one device."""
    flags, expected = shared_run
    output_dir = tmp_path / "out"
    watched = [
        f"--eval_input_file={tmp_path}/rows.tfrecord",
        *("--eval_every_steps=10", "--max_eval_steps=1", "--keep_best"),
    ]

    def start_workers():
        hosts = f"--worker_hosts={','.join(runners.free_addresses(2))}"
        more = hosts, "--save_checkpoints_steps=1", *watched
        return [start(*flags, *more, f"--task_index={i}") for i in range(2)]

    first, second = start_workers()
    wait_for_step(first, output_dir, len(expected) // 4)
    second.kill()
    killed = time.monotonic()
    assert first.wait() == 1, first.log.read_text()
    assert time.monotonic() - killed < 60
    log = first.log.read_text()
    assert re.search(r"\nError: worker_1 at localhost:\d+ is gone, and ", log)
    assert "Traceback" not in log
    assert 0 < latest_step(output_dir) < len(expected)

    logs = [worker.end_well() for worker in start_workers()]
    for log in logs:
        assert "2 replicas (multi_worker: 2 --worker_hosts)" in log
        assert "RESUMING from" in log
    assert "Saved" in logs[0] and "Saved" not in logs[1]
    assert_losses(output_dir, expected)
    lines = evaluations.read_evals(str(output_dir))
    assert [line["step"] for line in lines] == [10, 20]
    assert evaluations.read_best(str(output_dir)) in lines


@pytest.mark.slow
def test_another_training_in_the_folder(golden_dir, tmp_path, start):
    output_dir = tmp_path / "out"
    with lock.hold(str(output_dir)):
        flags = golden_flags(golden_dir, output_dir)
        command = start(*flags, "--input_file=none")
        assert command.wait() == 1
    log = command.log.read_text()
    assert f"trains in {output_dir}, and process {os.getpid()} on " in log
    assert "Traceback" not in log


def latest_step(output_dir) -> int:
    newest = state.latest(str(output_dir))
    return state.step_of(newest) if newest else -1


def wait_for_step(command: Command, output_dir, step: int) -> None:
    """Until a checkpoint of that step or a later one is there."""
    deadline = time.monotonic() + TIMEOUT
    while latest_step(output_dir) < step:
        assert command.process.poll() is None, command.log.read_text()
        assert time.monotonic() < deadline, command.log.read_text()
        time.sleep(0.005)


@pytest.mark.slow
def test_disturbed_run_ends_like_an_undisturbed_one(
    golden_dir, tmp_path, start
):
    """Asked to end, then killed at random moments, and resumed each time:
    the last checkpoint is the same to the bit."""
    rows = golden_training.examples(golden_dir)
    for i, part in enumerate([rows[:30], rows[30:]]):
        golden_training.write_records(tmp_path / f"{i}.tfrecord", part)
    config = json.loads((golden_dir / "model/bert_config.json").read_text())
    config["hidden_dropout_prob"] = 0.1
    config["attention_probs_dropout_prob"] = 0.1
    config_file = tmp_path / "bert_config.json"
    config_file.write_text(json.dumps(config))
    num_steps = 100 * (KILLS + 2)

    def start_in(name):
        return start(
            *golden_flags(golden_dir, tmp_path / name),
            f"--bert_config_file={config_file}",
            f"--input_file={tmp_path}/*.tfrecord",
            f"--num_train_steps={num_steps}",
            "--learning_rate=1e-4",
            "--save_checkpoints_steps=7",
            "--log_steps=20",
            "--deterministic",
            "--shuffle",
        )

    undisturbed = start_in("undisturbed")
    output_dir = tmp_path / "disturbed"
    for number in (signal.SIGTERM, signal.SIGINT):
        command = start_in("disturbed")
        wait_for_step(command, output_dir, latest_step(output_dir) + 30)
        command.process.send_signal(number)
        assert command.wait() == 128 + number, command.log.read_text()
        log = command.log.read_text()
        asked = rf"end at step (\d+) of {num_steps}; all is saved"
        (stopped_at,) = re.findall(asked, log)
        assert int(stopped_at) == latest_step(output_dir)
        assert "Traceback" not in log

    for _ in range(KILLS):
        command = start_in("disturbed")
        steps = random.randrange(20, 100)
        wait_for_step(command, output_dir, latest_step(output_dir) + steps)
        time.sleep(random.uniform(0.0, 0.1))
        command.kill()
        assert command.process.returncode == -signal.SIGKILL
    log = start_in("disturbed").end_well()
    assert f"RESUMING from {output_dir}/model.ckpt-" in log
    undisturbed.end_well()
    name = f"model.ckpt-{num_steps}"
    assert_equal_to_the_bit(output_dir / name, tmp_path / "undisturbed" / name)
    steps = [line["step"] for line in read_metrics(output_dir)]
    assert steps == sorted(set(steps)) and steps[-1] == num_steps


@pytest.mark.slow
def test_flags(start):
    command = start("--helpxml")
    command.wait()
    text = command.log.read_text()
    found = {
        flag.findtext("name"): (
            flag.findtext("type"),
            flag.findtext("default") or "None",
        )
        for flag in ET.fromstring(text[text.index("<?xml") :]).iter("flag")
    }
    assert len(ORIGINAL_TABLE) == 22
    for name, kind, default, _ in ORIGINAL_TABLE:
        assert found[name] == (kind, default), name


@pytest.mark.slow
def test_required_flags(start):
    command = start("--do_train")
    assert command.wait() != 0
    log = command.log.read_text()
    for name, _, _, required in ORIGINAL_TABLE:
        message = f"--{name} must have a value other than None"
        assert (message in log) == (required == "required"), name


@pytest.mark.slow
def test_nothing_to_do(golden_dir, tmp_path, start):
    """An error is a line that says what to change, without a traceback."""
    flags = golden_flags(golden_dir, tmp_path / "out")
    command = start(*flags, "--input_file=none", "--nodo_train")
    assert command.wait() == 1
    log = command.log.read_text()
    assert "Nothing to do: set --do_train, --do_eval or both." in log
    assert "Traceback" not in log
    assert not (tmp_path / "out").exists()
