"""What all commands share: help, flags, logs, errors."""

import os
import re
import signal
import subprocess
import sys

import pytest

from helpers import runners
from keras_bert_ref import commands, flags
from keras_bert_ref.commands import Interrupted

COMMANDS = {
    **{name: [f"{name}.py"] for name in runners.FLAG_MODULES},
    "vocabulary": ["-m", "keras_bert_ref.vocabulary"],
    "convert": ["-m", "keras_bert_ref.checkpoints.convert"],
    "demo": ["-m", "keras_bert_ref.demo"],
}


@pytest.fixture(scope="module")
def no_tensorflow(tmp_path_factory):
    """An environment in which importing TensorFlow fails."""
    folder = tmp_path_factory.mktemp("none")
    (folder / "tensorflow.py").write_text("raise SystemExit('imported!')")
    (folder / "keras.py").write_text("raise SystemExit('imported!')")
    paths = os.pathsep.join([str(folder), str(runners.ROOT)])
    return {**os.environ, "PYTHONPATH": paths}


def run(name: str, *arguments, env=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *COMMANDS[name], *arguments],
        cwd=runners.ROOT,
        capture_output=True,
        env=env,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("word", ["--help", "-h", "--helpshort"])
def test_help_in_every_form(word, no_tensorflow):
    result = run("run_squad", word, env=no_tensorflow)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Answers questions")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_all_our_flags_at_once(name, no_tensorflow):
    result = run(name, "--help", env=no_tensorflow)
    assert result.returncode == 0, result.stderr
    assert "imported!" not in result.stderr
    shown = re.findall(r"^  --(?:\[no\])?(\w+)$", result.stdout, re.MULTILINE)
    assert len(shown) == len(set(shown)) >= 3
    assert {"log_prefix", "verbosity"} < set(shown)
    if name not in runners.FLAG_MODULES:
        return
    first, _ = result.stdout.split("\nFurther flags:\n")
    assert "\nFlags of the original release:\n" in first
    with runners.load_runner(name):
        groups = {title: list(names) for title, names in flags.GROUPS.items()}
    assert set(shown) == set(groups[flags.ORIGINAL] + groups[flags.FURTHER])
    for flag in groups[flags.ORIGINAL]:
        assert re.search(rf"^  --(\[no\])?{flag}$", first, re.MULTILINE)
    if name.startswith("run_"):
        assert {"do_train", "bert_config_file", "output_dir"} < set(shown)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("run_squad", ["--no_such_flag"], "Unknown command line flag"),
        ("run_squad", [], "Flag --bert_config_file must have a value"),
        (
            "run_squad",
            ["--vocab_file=x", "--bert_config_file=x", "--output_dir=x"],
            "Nothing to do: set --do_train, --do_predict or both",
        ),
        ("run_pretraining", ["--train_batch_size=0"], "positive integer|>= 1"),
        ("vocabulary", ["--vocab_size=many"], "many"),
    ],
)
def test_errors_about_flags_do_not_wait_for_tensorflow(
    name, arguments, message, no_tensorflow
):
    result = run(name, *arguments, env=no_tensorflow)
    assert result.returncode == 1
    assert re.search(message, result.stderr), result.stderr
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr
    assert "imported!" not in result.stderr


NOISE = ("InitializeLog", "oneDNN", "cuInit", "cuda", "port.cc", "CPU instruc")


@pytest.mark.slow
def test_nothing_of_tensorflows_start_is_shown(tmp_path):
    """--verbosity brings it back."""
    text = tmp_path / "text.txt"
    text.write_text("some words and more words and some more\n" * 9)
    quiet, loud = (
        run(
            "vocabulary",
            f"--input_file={text}",
            f"--output_file={tmp_path}/{i}.txt",
            "--vocab_size=60",
            "--num_unused=0",
            *more,
            env={k: v for k, v in os.environ.items() if k[:6] != "TF_CPP"},
        )
        for i, more in enumerate([[], ["--verbosity=1", "--log_prefix"]])
    )
    assert quiet.returncode == loud.returncode == 0
    for words in NOISE:
        assert words not in quiet.stderr
    lines = quiet.stderr.splitlines()
    assert lines[0] == f"counting words: {text.stat().st_size} bytes"
    assert re.fullmatch(rf"\d+ tokens, in {tmp_path}/0\.txt\.", lines[-1])
    assert not re.search(r"\.py:\d+\]", quiet.stderr)
    assert "oneDNN" in loud.stderr
    assert re.search(r"^I\d{4} .* learning\.py:\d+\] ", loud.stderr, re.M)


def test_errors_come_through_a_quiet_start(capfd):
    with commands.quiet_start(is_verbose=False):
        os.write(2, b"WARNING: All log messages before absl::InitializeLog\n")
        os.write(2, b"I0000 00:00:1.1 5 port.cc:153] oneDNN is on\n")
        os.write(2, b"E0000 00:00:1.1 5 x.cc:1] failed call to cuInit: no\n")
        os.write(2, b"2026-11-17 20:10:16.6: E x.cc:5] failed call to cuInit\n")
        os.write(2, b"E0000 00:00:1.1 5 x.cc:2] out of memory\n")
        os.write(2, b"Fatal: something\n")
    shown = capfd.readouterr().err
    assert shown == (
        "E0000 00:00:1.1 5 x.cc:2] out of memory\nFatal: something\n"
    )


def test_last_words_come_through_a_quiet_start():
    code = """
import os
from keras_bert_ref import commands
with commands.quiet_start():
    os.write(2, b"F0000 00:00:1.1 5 x.cc:2] this CPU lacks AVX")
    os.abort()
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == -signal.SIGABRT
    assert b"this CPU lacks AVX" in result.stderr


def test_ctrl_c_ends_a_start_at_once(tmp_path):
    """Nothing of the command runs on, in this process or the filter's."""
    code = """
import os, signal
from keras_bert_ref import commands
try:
    with commands.quiet_start():
        os.write(2, b"before\\n")
        os.killpg(0, signal.SIGINT)
        os.write(2, b"not reached\\n" * 2)
finally:
    print("ended", flush=True)
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=False,
        text=True,
        start_new_session=True,
        timeout=120,
    )
    assert result.returncode == -signal.SIGINT
    assert result.stdout == "ended\n"  # once, not by the filter too
    assert result.stderr.startswith("before\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--flagfile=glue_mrpc_base"],
        ["-flagfile=glue_mrpc_base"],
        ["--flagfile", "glue_mrpc_base"],
    ],
)
def test_flagfiles_by_name(words, no_tensorflow):
    result = run("run_classifier", *words, env=no_tensorflow)
    assert "--data_dir must have a value" in result.stderr
    result = run("run_classifier", "--flagfile=nothing", env=no_tensorflow)
    assert result.stderr.startswith("Error: Unable to open flagfile")


def test_warnings_come_without_file_and_line(caplog):
    commands._show_warning("check the spelling", UserWarning, "a.py", 7)
    assert caplog.messages == ["check the spelling"]


def test_what_a_quiet_start_held_is_shown_if_it_fails(capfd):
    with (
        pytest.raises(ImportError),
        commands.quiet_start(is_verbose=False),
    ):
        os.write(2, b"libcuda.so has the wrong version\n")
        raise ImportError
    assert "wrong version" in capfd.readouterr().err


def fail(error):
    raise error


@pytest.mark.parametrize(
    "error", [ValueError("a"), OSError("b"), FloatingPointError("c")]
)
def test_errors_of_users_come_without_traceback(error, caplog):
    with pytest.raises(SystemExit) as end:
        commands.guard(lambda: fail(error))
    assert end.value.code == 1
    assert caplog.messages == [str(error)]


def test_errors_of_ours_keep_their_traceback():
    with pytest.raises(KeyError):
        commands.guard(lambda: fail(KeyError("bug")))


def test_interrupted(caplog):
    with pytest.raises(SystemExit) as end:
        commands.guard(lambda: fail(Interrupted("all is saved")))
    assert end.value.code == 128 + signal.SIGTERM
    assert caplog.messages == ["all is saved"]


def test_options_cannot_be_set():
    options = commands.Options({"seed": 1, "dtype": "float32"})
    with pytest.raises(AttributeError, match="--seed is set already"):
        options.seed = 2
    other = options.replace(seed=2)
    assert (options.seed, other.seed, other.dtype) == (1, 2, "float32")
    assert other.as_dict() == {"seed": 2, "dtype": "float32"}
    with pytest.raises(AttributeError, match="There is no --sede"):
        options.replace(sede=2)


def test_importing_the_library_changes_nobodys_logging():
    code = """
import logging, sys
before = logging.getLogger().handlers[:], logging.getLogger().level
import keras_bert_ref.commands
after = logging.getLogger().handlers[:], logging.getLogger().level
assert before == after, after
logging.basicConfig(format="mine: %(message)s", stream=sys.stdout)
logging.warning("hello")
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "mine: hello\n"


def test_sigterm_is_heard_and_handed_back():
    before = signal.getsignal(signal.SIGTERM)
    with commands.watch_for_sigterm() as received:
        assert not received
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == before
