"""What all commands share: help, flags, logs, errors."""

import itertools
import os
import re
import signal
import subprocess
import sys

import absl.flags
import pytest

from helpers import runners
from keras_bert_ref import commands, files, flags
from keras_bert_ref.tokenization import load_vocab

OF_THE_ORIGINAL = {
    "create_pretraining_data",
    "run_pretraining",
    "run_classifier",
    "run_squad",
    "extract_features",
}
COMMANDS = {
    **{name: [f"{name}.py"] for name in runners.FLAG_MODULES},
    "export": ["-m", "keras_bert_ref.export"],
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


def test_the_generator_needs_no_tensorflow(tmp_path, no_tensorflow):
    vocab = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c".replace(" ", "\n")
    (tmp_path / "vocab.txt").write_text(vocab)
    (tmp_path / "corpus.txt").write_text("a b c\nb c\n\nc b\n" * 20)
    result = run(
        "create_pretraining_data",
        f"--input_file={tmp_path}/corp*.txt",
        f"--output_file={tmp_path}/out@2.gz",
        f"--vocab_file={tmp_path}/vocab.txt",
        "--num_workers=2",
        env=no_tensorflow,
    )
    assert result.returncode == 0, result.stderr
    assert "Example: [CLS]" in result.stderr
    assert len(list(tmp_path.glob("out-*.gz"))) == 2


@pytest.mark.parametrize(
    "words",
    [["squad.metrics", "x", "x"], ["ner.metrics", "x"]],
)
def test_scorers_need_no_tensorflow(tmp_path, no_tensorflow, words):
    module, *arguments = words
    result = subprocess.run(
        [sys.executable, "-m", f"keras_bert_ref.{module}", *arguments],
        cwd=tmp_path,
        capture_output=True,
        env=no_tensorflow,
        text=True,
        check=False,
    )
    assert "no file x" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_all_our_flags_at_once(name, no_tensorflow):
    result = run(name, "--help", env=no_tensorflow)
    assert result.returncode == 0, result.stderr
    assert "imported!" not in result.stderr
    shown = re.findall(r"^  --(?:\[no\])?(\w+)$", result.stdout, re.MULTILINE)
    assert len(shown) == len(set(shown)) >= 3
    assert {"log_prefix", "verbosity"} < set(shown)
    if name not in OF_THE_ORIGINAL:
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
        ("convert", ["--source=a", "--target=b", "c"], "word 'c' belongs to"),
        ("run_squad", ["--flagfile=/"], "Unable to open flagfile|directory"),
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


SQUAD = ["--vocab_file=x", "--bert_config_file=x", "--output_dir=x"]
PRETRAINING = ["--input_file=x", "--bert_config_file=x", "--output_dir=x"]
CLASSIFIER = [*SQUAD, "--data_dir=x", "--task_name=cola", "--do_eval"]
DATA = ["--vocab_file=x", "--input_file=x", "--output_file=x"]
FEATURES = [*DATA, "--bert_config_file=x", "--init_checkpoint=x"]
NUMBERS = [
    ("run_pretraining", PRETRAINING, "max_eval_steps", "-1 0 1e3 99999999999"),
    ("run_pretraining", PRETRAINING, "eval_batch_size", "0 -8"),
    ("run_pretraining", PRETRAINING, "num_train_steps", "0 99999999999"),
    ("run_pretraining", PRETRAINING, "num_warmup_steps", "-1"),
    ("run_pretraining", PRETRAINING, "max_predictions_per_seq", "0"),
    ("run_pretraining", PRETRAINING, "max_seq_length", "0"),
    ("run_pretraining", PRETRAINING, "learning_rate", "nan inf -inf 0 -1"),
    ("run_pretraining", PRETRAINING, "seed", "-1 4294967296"),
    ("run_pretraining", PRETRAINING, "train_batch_size", "0 1" + "0" * 30),
    ("run_classifier", CLASSIFIER, "learning_rate", "nan inf 0"),
    ("run_classifier", CLASSIFIER, "num_train_epochs", "inf nan -1 1e300"),
    ("run_classifier", CLASSIFIER, "warmup_proportion", "nan inf -0.1"),
    ("run_classifier", CLASSIFIER, "train_batch_sizes", "0,4 4,x 8.5"),
    ("run_classifier", CLASSIFIER, "learning_rates", "1e-5,nan inf 0 -1 x"),
    ("run_classifier", CLASSIFIER, "epochs_grid", "nan 3,inf 0 1e300"),
    ("run_classifier", CLASSIFIER, "num_trials", "0"),
    ("run_classifier", CLASSIFIER, "task_index", "-1"),
    ("run_squad", SQUAD, "learning_rate", "nan"),
    ("run_squad", SQUAD, "null_score_diff_threshold", "nan"),
    ("run_squad", SQUAD, "doc_stride", "0"),
    ("run_squad", SQUAD, "max_query_length", "-1"),
    ("run_squad", SQUAD, "max_answer_length", "0"),
    ("run_squad", SQUAD, "n_best_size", "0"),
    ("create_pretraining_data", DATA, "masked_lm_prob", "nan inf"),
    ("create_pretraining_data", DATA, "num_workers", "0 1000000000"),
    ("extract_features", FEATURES, "batch_size", "0"),
]


@pytest.mark.parametrize(("name", "required", "flag", "values"), NUMBERS)
def test_numbers_that_cannot_work_are_refused(name, required, flag, values):
    with runners.load_runner(name):
        for value in values.split():
            with pytest.raises(absl.flags.Error, match=f"--{flag}="):
                runners.parse(*required, f"--{flag}={value}")


def test_every_number_of_every_command_is_checked():
    """A float of a new command is, too."""
    for name in runners.FLAG_MODULES:
        with runners.load_runner(name):
            for flag in itertools.chain(*flags.GROUPS.values()):
                if runners.FLAGS[flag].flag_type() == "float":
                    with pytest.raises(absl.flags.Error, match=flag):
                        runners.FLAGS([name, f"--{flag}=nan"])


def test_numbers_that_are_odd_but_work():
    with runners.load_runner("run_squad"):
        runners.parse(*SQUAD, "--null_score_diff_threshold=-inf")
        runners.parse(*SQUAD, "--warmup_proportion=2", "--num_train_epochs=0")
    with runners.load_runner("create_pretraining_data"):
        data = [*DATA, "--max_predictions_per_seq=1000000"]
        runners.parse(*data, f"--random_seed={10**30}")


@pytest.mark.parametrize("takes_words", [False, True])
def test_stray_words(takes_words):
    message = "'false' belongs to no flag.*--nodo_train or --do_train=false"
    with pytest.raises(ValueError, match=message):
        commands.check_words(["false"], takes_words)
    commands.check_words([], takes_words)


def test_further_files_are_no_stray_words():
    commands.check_words(["b.tfrecord", "c.tfrecord"], takes_words=True)
    with pytest.raises(ValueError, match=r"'b\.tfrecord' belongs to no flag"):
        commands.check_words(["b.tfrecord"], takes_words=False)


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


def test_ctrl_c_before_training(tmp_path):
    """While TensorFlow starts; here it is one that sends the signal."""
    (tmp_path / "tensorflow.py").write_text(
        "import os, signal, time\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)\n"
        "except BaseException:\n"
        "    pass  # as its own code might\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(runners.ROOT)])
    env = {**os.environ, "PYTHONPATH": paths}
    result = run("run_squad", *SQUAD, "--do_train", "--train_file=x", env=env)
    assert result.returncode == 130, result.stderr
    assert result.stderr == "Interrupted.\n"


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


def test_help_to_a_reader_that_stops():
    """`--help | head -1` ends without a word about pipes."""
    script = f"{sys.executable} run_classifier.py --help | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=runners.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.split("\n")) == 2


def test_errors_of_a_vocabulary_name_its_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("a\nb\n")
    with pytest.raises(ValueError, match=f"but {re.escape(str(path))}"):
        load_vocab(files.open_bytes(str(path)))
