"""The command: flags, files, errors and interruptions, as users see them."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest
import tensorflow as tf

from helpers import runners

RUNNER = (
    pathlib.Path(__file__).parent.parent.parent / "create_pretraining_data.py"
)

# Name, type, default, required: those of the original, then our own.
FLAGS = """
input_file string None required
output_file string None required
vocab_file string None required
do_lower_case bool true -
do_whole_word_mask bool false -
max_seq_length int 128 -
max_predictions_per_seq int 20 -
random_seed int 12345 -
dupe_factor int 10 -
masked_lm_prob float 0.15 -
short_seq_prob float 0.1 -
num_workers int None -
sharded bool false -
beam_runner string None -
beam_option multi_string [] -
mask_prob float 0.8 -
keep_prob float 0.1 -
next_sentence_pairs bool true -
pack_sequences bool false -
"""


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, RUNNER, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def read_files(folder: pathlib.Path) -> dict[str, list[bytes]]:
    return {
        path.name: list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
        for path in sorted(folder.iterdir())
    }


@pytest.mark.slow
def test_flags():
    result = run("--helpxml")
    tags = "name", "type", "default"
    flags = [
        [(flag.findtext(tag) or "None").replace(" ", "_") for tag in tags]
        for flag in ET.fromstring(result.stdout).iter("flag")
        if flag.findtext("file").endswith("create_data_flags")
    ]
    table = [line.split() for line in FLAGS.split("\n") if line]
    assert sorted(flags) == sorted(row[:3] for row in table)
    result = run("--do_lower_case")
    for name, _, _, required in table:
        message = f"--{name} must have a value other than None"
        assert (message in result.stderr) == (required == "required")


@pytest.mark.slow
def test_golden_command(golden_dir, tmp_path):
    """Every flag of the original reaches what it should."""
    cases = json.loads((golden_dir / "pretraining_cases.json").read_text())
    case = max(cases, key=lambda case: case["num_output_files"])
    own = ("name", "num_output_files", "instances", "inputs")
    outputs = [
        tmp_path / f"{index}.tfrecord"
        for index in range(case["num_output_files"])
    ]
    result = run(
        f"--input_file={','.join(str(golden_dir / i) for i in case['inputs'])}",
        f"--output_file={','.join(map(str, outputs))}",
        f"--vocab_file={golden_dir / 'vocab.txt'}",
        *(f"--{name}={case[name]}" for name in case if name not in own),
    )
    assert result.returncode == 0, result.stderr
    golden = np.load(golden_dir / f"pretraining_{case['name']}.npz")
    files = read_files(tmp_path)
    sizes = [len(files[path.name]) for path in outputs]
    assert sizes == np.bincount(golden["file_index"]).tolist()
    records = [record for path in outputs for record in files[path.name]]
    for record, ids in zip(records, golden["input_ids"], strict=True):
        features = tf.train.Example.FromString(record).features.feature
        assert features["input_ids"].int64_list.value == ids.tolist()
    assert f"instances: {case['instances']:,}" in result.stderr
    assert "Example: [CLS]" in result.stderr


@pytest.mark.slow
def test_sharded_command(golden_dir, tmp_path):
    result = run(
        f"--input_file={golden_dir}/corpus*.txt",
        f"--output_file={tmp_path}/out.tfrecord@2",
        f"--vocab_file={golden_dir}/vocab.txt",
        "--sharded",
        "--nonext_sentence_pairs",
        "--dupe_factor=2",
    )
    assert result.returncode == 0, result.stderr
    files = read_files(tmp_path)
    assert list(files) == [
        "out.tfrecord-00000-of-00002",
        "out.tfrecord-00001-of-00002",
    ]
    first, second = map(len, files.values())
    assert first - second in (0, 1)
    assert "random next: 0 (0.00%)" in result.stderr


@pytest.mark.slow
def test_bad_input_command(golden_dir, tmp_path):
    """An error says what is wrong before any work, and leaves no file."""
    result = run(
        f"--input_file={golden_dir}/corpus.txt",
        f"--output_file={tmp_path},{tmp_path}/a",
        f"--vocab_file={golden_dir}/vocab.txt",
    )
    assert result.returncode != 0
    assert f"must be writable, but {tmp_path} is not" in result.stderr
    assert "tokenizing" not in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("output", ["corpus.txt", "./corpus.txt", "link"])
@pytest.mark.parametrize("is_beam", [False, True])
def test_input_is_no_output(tmp_path, monkeypatch, output, is_beam):
    monkeypatch.chdir(tmp_path)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("text")
    (tmp_path / "link").symlink_to(corpus)
    beam = ["--beam_runner=DirectRunner"] if is_beam else []
    with (
        runners.load_runner("create_pretraining_data") as command,
        pytest.raises(ValueError, match="no output under the name of an"),
    ):
        runners.run(
            command,
            "--input_file=corpus.txt",
            f"--output_file=new,{output}",
            "--vocab_file=vocab.txt",
            *beam,
        )
    assert corpus.read_text() == "text"


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_command(golden_dir, tmp_path, signal_number):
    """Ctrl-C reaches the workers too; what comes from `kill` does not."""
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [
            sys.executable,
            RUNNER,
            f"--input_file={golden_dir}/corpus.txt",
            f"--output_file={tmp_path}/a.tfrecord@3",
            f"--vocab_file={golden_dir}/vocab.txt",
            "--dupe_factor=100000",
            "--num_workers=2",
            "--sharded",
        ],
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        start_new_session=True,
    )
    progress = b""
    while b"sampling and writing" not in progress:
        progress += os.read(process.stderr.fileno(), 1000)
        assert process.poll() is None, progress
    time.sleep(0.5)
    if signal_number == signal.SIGINT:
        os.killpg(process.pid, signal_number)
    else:
        process.send_signal(signal_number)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 128 + signal_number
    assert b"Interrupted: unfinished files are removed" in errors
    assert b"Traceback" not in errors
    assert list(tmp_path.rglob("*")) == [tmp_path / "tmp"]
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
