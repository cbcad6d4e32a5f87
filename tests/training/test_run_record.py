"""run.json: one record of what a run was, and vocab.txt beside it."""

import json

import tensorflow as tf

from helpers import runners
from keras_bert_ref.commands import Options
from keras_bert_ref.training import run_record


def make_options(tmp_path, **changes) -> Options:
    (tmp_path / "words.txt").write_text("[PAD]\n[UNK]\n")
    return Options(
        {
            "output_dir": str(tmp_path / "out"),
            "vocab_file": str(tmp_path / "words.txt"),
            "do_lower_case": False,
            "max_seq_length": 32,
            "learning_rate": 1e-4,
            "log_steps": 5,
            "do_train": True,
            **changes,
        }
    )


def test_what_is_recorded(tmp_path):
    options = make_options(tmp_path)
    run_record.write(
        options.output_dir, options, task="MRPC", labels=["0", "1"]
    )
    written = json.loads((tmp_path / "out" / "run.json").read_text())
    assert written == run_record.read(options.output_dir)
    assert written["task"] == "MRPC" and written["labels"] == ["0", "1"]
    assert written["do_lower_case"] is False
    assert written["max_seq_length"] == 32
    assert written["flags"] == {
        "do_lower_case": False,
        "learning_rate": 1e-4,
        "max_seq_length": 32,
        "vocab_file": str(tmp_path / "words.txt"),
    }
    assert written["versions"]["tensorflow"] == tf.__version__
    vocabulary = (tmp_path / "out" / "vocab.txt").read_text()
    assert vocabulary == "[PAD]\n[UNK]\n"


def test_a_vocabulary_that_is_not_known(tmp_path):
    options = make_options(tmp_path, vocab_file=None, do_lower_case=None)
    run_record.write(options.output_dir, options, task="pretraining")
    assert run_record.read(options.output_dir)["do_lower_case"] is None
    assert not (tmp_path / "out" / "vocab.txt").exists()


def test_resuming_with_other_flags_is_told_and_kept(tmp_path, caplog):
    options = make_options(tmp_path)
    folder = options.output_dir
    run_record.write(folder, options, task="MRPC")
    other = options.replace(learning_rate=1e-5, vocab_file=None, log_steps=9)
    run_record.warn_of_no_effect(folder, options)
    assert not caplog.messages
    run_record.warn_of_no_effect(folder, other)
    (message,) = caplog.messages
    assert message.startswith(f"NO EFFECT: the training in {folder} is finish")
    assert "other flags: --learning_rate was 0.0001 and is 1e-05. " in message
    assert run_record.trained_with(other)["flags"]["learning_rate"] == 1e-4

    caplog.clear()
    run_record.write(folder, other, task="MRPC", step=7)
    (message,) = caplog.messages
    assert message == (
        "RESUMING WITH OTHER FLAGS from step 7 on: --learning_rate was 0.0001 "
        "and is 1e-05."
    )
    changes = [{"step": 7, "flags": {"learning_rate": [1e-4, 1e-5]}}]
    assert run_record.trained_with(other)["changes"] == changes
    run_record.write(folder, other, task="MRPC", step=9)
    assert run_record.read(folder)["changes"] == changes
    run_record.write(folder, options, task="MRPC")  # from the start
    assert "changes" not in run_record.read(folder)


def test_a_folder_without_a_record(tmp_path):
    assert run_record.read(str(tmp_path)) is None


def test_every_flag_without_effect_is_one():
    """A name that no command has would be a spelling mistake."""
    known = set()
    for name in runners.FLAG_MODULES:
        with runners.load_runner(name):
            for names in runners.shared_flags.GROUPS.values():
                known |= set(names)
    assert known > run_record.WITHOUT_EFFECT
