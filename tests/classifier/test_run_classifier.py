"""The command: flags, every task, trials and grids, interruptions."""

import json
import pathlib
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from absl import flags

from helpers import glue_files, model_folders, runners
from keras_bert_ref import commands, heads
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.classifier import metrics
from keras_bert_ref.classifier import predictions as classification
from keras_bert_ref.classifier import splits as classifier_data
from keras_bert_ref.classifier import tasks as glue
from keras_bert_ref.config import BertConfig
from keras_bert_ref.records import batches
from keras_bert_ref.tokenization import FullTokenizer
from keras_bert_ref.training import (
    evaluations,
    loop,
    run_record,
    state,
    trials,
)

# Name, type, default, required: all flags of the original.
ORIGINAL_FLAGS = """
data_dir string None required
bert_config_file string None required
task_name string None required
vocab_file string None required
output_dir string None required
init_checkpoint string None -
do_lower_case bool True -
max_seq_length int 128 -
do_train bool False -
do_eval bool False -
do_predict bool False -
train_batch_size int 32 -
eval_batch_size int 8 -
predict_batch_size int 8 -
learning_rate float 5e-05 -
num_train_epochs float 3.0 -
warmup_proportion float 0.1 -
save_checkpoints_steps int 1000 -
iterations_per_loop int 1000 -
use_tpu bool False -
tpu_name string None -
tpu_zone string None -
gcp_project string None -
master string None -
num_tpu_cores int 8 -
"""
LENGTH = 32
TIMEOUT = 300
RUNS = pathlib.Path(runners.ROOT, "configs", "runs")


@pytest.fixture(scope="module")
def run_classifier():
    with runners.load_runner("run_classifier") as runner:
        yield runner


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """A tiny model: vocabulary and config."""
    folder = tmp_path_factory.mktemp("model")
    model_folders.write_untrained(
        folder,
        hidden_size=8,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LENGTH,
    )
    return folder


@pytest.fixture
def arguments(model_dir, tmp_path):
    """Flags for two steps."""
    return [
        f"--vocab_file={model_dir}/vocab.txt",
        f"--bert_config_file={model_dir}/bert_config.json",
        f"--output_dir={tmp_path}/out",
        f"--max_seq_length={LENGTH}",
        "--train_batch_size=3",
        "--num_train_epochs=1",
        "--learning_rate=1e-2",
    ]


def task_flags(tmp_path, name) -> list[str]:
    data_dir = glue_files.write(tmp_path / "data", name)
    return [f"--task_name={name.lower()}", f"--data_dir={data_dir}"]


def read_lines(folder) -> list[dict]:
    text = (folder / "results.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def read_table(path) -> np.ndarray:
    return np.loadtxt(path, delimiter="\t", ndmin=2)


def test_flags(run_classifier):
    runners.check_flags(ORIGINAL_FLAGS, 25)


EVAL_KEYS = {
    "CoLA": "eval_accuracy eval_matthews_correlation",
    "MNLI": "eval_accuracy eval_mismatched_accuracy eval_mismatched_loss",
    "MRPC": "eval_accuracy eval_f1",
    "QQP": "eval_accuracy eval_f1",
    "STS-B": "eval_pearson eval_spearman",
}
SUBMITTED = {
    "MNLI": {"MNLI-m": 4, "MNLI-mm": 4, "AX": 3},
    "MNLI-mm": {"MNLI-mm": 4},
    "XNLI": {},
}


# Their files, labels and metrics are like those of others.
LIKE_OTHERS = ("MNLI-mm", "QNLI", "QQP", "RTE", "WNLI")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.long] if name in LIKE_OTHERS else []
        )
        for name in glue_files.LAYOUTS
        if name != "AX"
    ],
)
def test_every_task(run_classifier, arguments, tmp_path, model_dir, name):
    """Two steps, evaluation and prediction; the numbers are the model's."""
    runners.run(
        run_classifier,
        *arguments,
        *task_flags(tmp_path, name),
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--eval_batch_size=2",
        "--predict_batch_size=3",
    )
    out = tmp_path / "out"
    assert state.latest(str(out)) == f"{out}/model.ckpt-2"
    results = runners.read_results(out)
    keys = EVAL_KEYS.get(name, "eval_accuracy").split()
    assert sorted(results) == sorted(
        [*keys, "eval_loss", "global_step", "loss"]
    )
    assert results["global_step"] == 2

    task = glue.get_task(name)
    written = run_record.read(str(out))
    assert written["task"] == name
    assert tuple(written["labels"]) == task.labels
    assert written["flags"]["train_batch_size"] == 3
    assert (out / "vocab.txt").read_bytes() == (
        model_dir / "vocab.txt"
    ).read_bytes()
    config = BertConfig.from_json_file(f"{model_dir}/bert_config.json")
    model = heads.BertClassifier(config, len(task.labels) or 1)
    tf1.load(model, str(out))
    data = classifier_data.prepare(
        task,
        FullTokenizer(model_dir / "vocab.txt"),
        max_seq_length=LENGTH,
        data_dir=str(tmp_path / "data" / name),
        output_dir=str(tmp_path / "again"),
        names=["eval", "predict"],
    )
    check_eval(model, task, data["eval"][0], results)
    for split in data["predict"]:
        check_predictions(model, task, split, out)
    folder = out / "submission"
    counts = {
        path.stem: len(path.read_text().splitlines()) - 1
        for path in (folder.iterdir() if folder.exists() else [])
    }
    assert counts == SUBMITTED.get(name, {name: 4})
    if name == "MNLI":
        table = (out / "results.txt").read_text()
        assert re.search(r"epochs 1 +mismatched accuracy +1 ", table)
        assert re.search(r"test: Base +mismatched accuracy +83\.4\n", table)


def logits_of(model, data) -> np.ndarray:
    """What the model says, called directly, all examples at once."""
    (batch,) = batches.batches_in_order(data.records, 100)
    return model(batch).numpy()


def check_eval(model, task, data, results):
    logits = logits_of(model, data)
    losses = metrics.losses(logits, data.labels)
    assert len(losses) == 5
    means = [losses[:2].mean(), losses[2:4].mean(), losses[4]]
    assert results["eval_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert results["loss"] == pytest.approx(np.mean(means), rel=1e-5)
    chosen = classification.choose(logits)
    for metric in task.metrics:
        expected = metrics.METRICS[metric](data.labels, chosen)
        # Predictions that hardly differ make correlations sensitive.
        assert results[f"eval_{metric}"] == pytest.approx(expected, abs=0.01)


def check_predictions(model, task, data, out):
    logits = logits_of(model, data)
    suffix = f"_{data.split.suffix}" if data.split.suffix else ""
    table = read_table(out / f"test_results{suffix}.tsv")
    expected = logits if task.is_regression else metrics.softmax(logits)
    np.testing.assert_allclose(table, expected, atol=1e-5)
    if not data.split.submission:
        return
    path = out / "submission" / f"{data.split.submission}.tsv"
    header, *rows = path.read_text().splitlines()
    assert header == "index\tprediction"
    places, answers = zip(*(row.split("\t") for row in rows), strict=True)
    assert places == tuple(map(str, range(len(logits))))
    if task.is_regression:
        clipped = np.clip(logits[:, 0], 0, 5)
        np.testing.assert_allclose(
            list(map(float, answers)), clipped, atol=1e-3
        )
    else:
        likeliest = table.argmax(axis=1)
        assert answers == tuple(task.labels[i] for i in likeliest)


def test_ax_with_a_model_of_mnli(
    run_classifier, arguments, tmp_path, model_dir
):
    ax = task_flags(tmp_path, "AX")
    config = BertConfig.from_json_file(f"{model_dir}/bert_config.json")
    prefix = str(tmp_path / "mnli" / "model.ckpt-7")
    tf1.save(heads.BertClassifier(config, 3), prefix)
    flag = f"--init_checkpoint={prefix}"
    runners.run(run_classifier, *arguments, *ax, flag, "--do_predict")
    text = (tmp_path / "out" / "submission" / "AX.tsv").read_text()
    answers = [line.split("\t")[1] for line in text.splitlines()[1:]]
    assert len(answers) == 3 and set(answers) <= set(glue.NLI)
    assert read_table(tmp_path / "out/test_results_diagnostic.tsv").shape == (
        3,
        3,
    )
    with pytest.raises(ValueError, match="AX has test data only; set --do_pre"):
        runners.run(run_classifier, *arguments, *ax, "--do_train")


@pytest.mark.slow
def test_own_task(run_classifier, arguments, tmp_path):
    """Labels are found, kept, and used when the model predicts later."""
    for name, count in (("train", 6), ("dev", 5), ("test", 4)):
        lines = [
            json.dumps({"q": f"a {i}", "p": f"b {i}", "y": f"c{i % 3}"})
            for i in range(count)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    own = [
        *arguments,
        "--task_name=jsonl",
        f"--data_dir={tmp_path}",
        "--text_a_column=q",
        "--text_b_column=p",
        "--label_column=y",
    ]
    both = "--do_train", "--do_eval"
    runners.run(run_classifier, *own, *both, "--num_trials=2")
    out = tmp_path / "out" / "trial_1"
    assert (out / "labels.txt").read_text() == "c0\nc1\nc2\n"
    assert "eval_accuracy" in runners.read_results(out)
    (tmp_path / "train.jsonl").unlink()
    own.append(f"--output_dir={out}")
    runners.run(run_classifier, *own, "--do_predict")
    assert read_table(out / "test_results.tsv").shape == (4, 3)
    assert not (out / "submission").exists()


def weights(folder) -> dict[str, np.ndarray]:
    return tf1.read(state.latest(str(folder)))


def assert_equal_weights(folder, other) -> None:
    ours, theirs = weights(folder), weights(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


@pytest.mark.slow
def test_trials(run_classifier, arguments, tmp_path):
    """Seeds one after the other; what is finished is not done again."""
    task = task_flags(tmp_path, "MRPC")
    both = "--do_train", "--do_eval"
    out = tmp_path / "out"
    many = [*arguments, *task, *both, "--num_trials=2", "--seed=5"]
    runners.run(run_classifier, *many)
    lines = read_lines(out)
    assert [line["run"] for line in lines] == ["trial_0", "trial_1"]
    assert [line["flags"]["seed"] for line in lines] == [5, 6]
    for line in lines:
        assert line["task"] == "MRPC" and line["seconds"] > 0
        results = runners.read_results(out / line["run"])
        assert line["metrics"] == results
    assert lines[0]["metrics"] != lines[1]["metrics"]
    losses = [line["metrics"]["eval_loss"] for line in lines]
    assert losses[0] != losses[1]
    table = (out / "results.txt").read_text()
    assert re.search(r"lr 0\.01 batch 3 epochs 1 +f1 +2( +[\d.]+){4}\n", table)
    for action in ("--do_eval", "--do_predict"):
        with pytest.raises(
            ValueError, match="no model in .* its trials; set .* best of 2"
        ):
            runners.run(run_classifier, *arguments, *task, action)
    assert re.search(r"published, test: Base +f1 +88\.9\n", table)

    # A trial is what a run of its own with that seed is.
    alone = [*arguments, *task, *both, "--seed=6"]
    runners.run(run_classifier, *alone, f"--output_dir={tmp_path}/alone")
    assert_equal_weights(out / "trial_1", tmp_path / "alone")
    table = (tmp_path / "alone" / "results.txt").read_text()
    assert re.search(r"epochs 1 +accuracy +1 +[\d.]+ +- ", table)
    assert re.search(r"published, test: Base +f1 +88\.9\n", table)
    # Nothing is left to train, so nothing was trained with this rate.
    (line,) = read_lines(tmp_path / "alone")
    runners.run(
        run_classifier,
        *alone,
        f"--output_dir={tmp_path}/alone",
        "--learning_rate=0.02",
    )
    assert read_lines(tmp_path / "alone") == [line]

    def change_times():
        paths = [out / f"trial_{k}" / "eval_results.txt" for k in range(2)]
        return [path.stat().st_mtime_ns for path in paths]

    before = change_times()
    (out / "results.jsonl").write_text(json.dumps(lines[0]) + "\n")
    runners.run(run_classifier, *many)
    after = change_times()
    assert before[0] == after[0] and before[1] < after[1]
    again = read_lines(out)
    assert again[0] == lines[0]
    assert again[1]["metrics"] == lines[1]["metrics"]
    message = r"trial_0 was made with --learning_rate=0\.01, now it is 0\.02"
    with pytest.raises(ValueError, match=message):
        runners.run(run_classifier, *many, "--learning_rate=0.02")
    with pytest.raises(ValueError, match="--data_dir=.*/data/MRPC, now it is"):
        runners.run(
            run_classifier, *many, *task_flags(tmp_path / "other", "MRPC")
        )


@pytest.mark.slow
def test_grid_predicts_with_the_best(run_classifier, arguments, tmp_path):
    runners.run(
        run_classifier,
        *arguments,
        *task_flags(tmp_path, "STS-B"),
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--learning_rates=1e-9,1e-1",
        "--epochs_grid=2",
    )
    out = tmp_path / "out"
    names = ["lr_1e-09-epochs_2", "lr_0.1-epochs_2"]
    lines = read_lines(out)
    assert [line["run"] for line in lines] == names
    assert [line["metrics"]["global_step"] for line in lines] == [4, 4]
    scores = [
        (line["metrics"]["eval_pearson"] or -9)
        + (line["metrics"]["eval_spearman"] or -9)
        for line in lines
    ]
    best = names[int(np.argmax(scores))]
    assert f"The best on dev: {out}/{best}\n" in (
        (out / "results.txt").read_text()
    )
    chosen = read_table(out / "test_results.tsv")
    runners.run(
        run_classifier,
        *arguments,
        *task_flags(tmp_path / "again", "STS-B"),
        f"--output_dir={out}/{best}",
        "--do_predict",
    )
    alone = read_table(out / best / "test_results.tsv")
    np.testing.assert_array_equal(chosen, alone)


MISTAKES = [
    ([], "Nothing to do: set --do_train, --do_eval or --do_predict"),
    (
        ["--do_eval", "--num_trials=3"],
        "3 trials are compared .* set --do_train",
    ),
    (["--do_train", "--task_name=mrcp"], "no task 'mrcp'.*MRPC, QNLI"),
    (
        ["--do_train", "--max_seq_length=64"],
        f"--max_seq_length=64 exceeds max_position_embeddings={LENGTH}",
    ),
    (
        ["--do_train", "--train_batch_size=8"],
        r"6 examples for --num_train_epochs=1.0 .*--train_batch_size=8",
    ),
    (
        ["--do_eval", "--init_checkpoint=x/cased_L-12_H-768_A-12/bert.ckpt"],
        "--do_lower_case=True, but cased_L-12_H-768_A-12",
    ),
    (["--do_eval", "--data_dir=nowhere"], "no file nowhere/dev.tsv"),
    (["--do_eval"], "nothing to evaluate: no checkpoint in"),
]


@pytest.mark.parametrize(("more", "message"), MISTAKES)
def test_mistakes(run_classifier, arguments, tmp_path, more, message):
    task = task_flags(tmp_path, "MRPC")
    with pytest.raises(ValueError, match=message):
        runners.run(run_classifier, *arguments, *task, *more)


def test_vocabulary_of_another_model(run_classifier, arguments, tmp_path):
    path = tmp_path / "vocab.txt"
    size = glue_files.write_vocabulary(path)
    with open(path, "a") as file:
        file.write("more\n")
    with pytest.raises(
        ValueError, match=f"has {size + 1} entries, .* vocab_size is {size}"
    ):
        runners.run(
            run_classifier,
            *arguments,
            *task_flags(tmp_path, "MRPC"),
            f"--vocab_file={path}",
            "--do_eval",
        )


def run_files() -> list[pathlib.Path]:
    files = sorted(RUNS.glob("*.flags"))
    return [f for f in files if "run_classifier.py" in f.read_text()]


@pytest.mark.slow
def test_one_direction_with_a_bilstm(
    run_classifier, arguments, model_dir, tmp_path
):
    config = BertConfig.from_json_file(f"{model_dir}/bert_config.json")
    config.directionality = "ltr"
    config.to_json_file(f"{tmp_path}/ltr.json")
    flags = [
        *arguments,
        f"--bert_config_file={tmp_path}/ltr.json",
        *task_flags(tmp_path, "CoLA"),
        "--do_train",
        "--do_eval",
    ]
    runners.run(run_classifier, *flags, "--bilstm_units=5")
    kept = tf1.read(state.latest(f"{tmp_path}/out"))
    assert kept["output_weights"].shape == (2, 10)
    assert kept[tf1.DIRECTION] == 1
    with pytest.raises(ValueError, match="on a BiLSTM, .*set --bilstm_units=5"):
        runners.run(run_classifier, *flags)


def test_flagfiles(run_classifier):
    """Every one is complete, but for the paths its command shows."""
    files = run_files()
    assert len(files) >= 27
    for path in files:
        header = [x for x in path.read_text().split("\n") if x.startswith("#")]
        text = "\n".join(header)
        assert f"--flagfile=configs/runs/{path.name}" in text, path
        assert "Published: " in text and "Not run here" in text, path
        paths = re.findall(r"(--\w+)=\$", text)
        runners.parse(f"--flagfile={path}", *(f"{flag}=x" for flag in paths))
        assert flags.FLAGS.do_eval
        assert flags.FLAGS.do_train or path.stem == "xnli_zero_shot"
        runs = trials.plan_from_options(commands.read_options())
        task = glue.get_task(flags.FLAGS.task_name)
        if "base" in path.name and task.name != "XNLI":
            assert len(runs) == 4
        if "miniatures" in path.name:
            assert len(runs) == 20


def test_folder_of_a_released_model_can_be_evaluated(
    run_classifier, arguments, tmp_path, model_dir, caplog
):
    """Its `checkpoint` file names bert_model.ckpt, which has no step."""
    config = BertConfig.from_json_file(f"{model_dir}/bert_config.json")
    out = tmp_path / "out"
    tf1.save(heads.BertClassifier(config, 2), str(out / "bert_model.ckpt"))
    (out / "checkpoint").write_text('model_checkpoint_path: "bert_model.ckpt"')
    task = task_flags(tmp_path, "MRPC")
    both = "--do_eval", "--do_predict"
    with caplog.at_level("INFO", logger="absl"):
        runners.run(run_classifier, *arguments, *task, *both, "--verbosity=0")
    assert runners.read_results(out)["global_step"] == 0
    # Whoever predicts is told where, and of no training.
    assert f"Predictions for 4 examples, in {out}/test_results.tsv" in (
        caplog.text
    )
    assert "Training" not in caplog.text
    assert not (out / "run.json").exists()


def write_own(tmp_path, labels) -> list[str]:
    """A task of one's own; its flags."""
    rows = "".join(f"a b\t{label}\n" for label in labels)
    for name in ("train", "dev", "test"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + rows)
    return ["--task_name=tsv", f"--data_dir={tmp_path}"]


def test_scores_are_not_taken_for_classes(run_classifier, arguments, tmp_path):
    own = [*arguments, *write_own(tmp_path, [0.5, 1.5, 2.5])]
    runners.run(run_classifier, *own, "--regression", "--do_train")
    for action in ("--do_eval", "--do_predict", "--do_train"):
        with pytest.raises(ValueError, match="trained with --regression=True"):
            runners.run(run_classifier, *own, action)


def test_record_is_of_what_was_trained(run_classifier, arguments, tmp_path):
    """A finished run has nothing to train, whatever the flags say now."""
    own = [*arguments, *write_own(tmp_path, "xyx"), "--do_train"]
    runners.run(run_classifier, *own)
    before = (tmp_path / "out" / "run.json").read_bytes()
    runners.run(run_classifier, *own, "--learning_rate=0.5")
    assert (tmp_path / "out" / "run.json").read_bytes() == before
    assert b'"learning_rate": 0.01' in before


@pytest.mark.slow
def test_a_trials_folder_is_complete(run_classifier, arguments, tmp_path):
    own = [*arguments, *write_own(tmp_path, "xyx"), "--do_train", "--do_eval"]
    runners.run(run_classifier, *own, "--learning_rates=0.1,0.2")
    folder = tmp_path / "out" / "lr_0.2"
    model = heads.BertClassifier.from_checkpoint(str(folder), num_labels=2)
    assert model.config.hidden_size == 8
    for name in ("run.json", "vocab.txt", "labels.txt", "eval_results.txt"):
        assert (folder / name).exists()


def test_labels_are_written_once(
    run_classifier, arguments, tmp_path, monkeypatch
):
    own = write_own(tmp_path, "xyx")
    written = []
    write = classifier_data.replace
    monkeypatch.setattr(
        classifier_data,
        "replace",
        lambda path, text: (written.append(path), write(path, text)),
    )
    runners.run(run_classifier, *arguments, *own, "--do_train")
    assert written == [f"{tmp_path}/out/labels.txt"]


@pytest.mark.slow
def test_jit_compile_reaches_evaluation(
    run_classifier, arguments, tmp_path, monkeypatch
):
    compiled, lengths = [], []
    predict = loop.predict

    def watched(model, batches, *, jit_compile):
        compiled.append(jit_compile)
        for batch in batches:
            lengths.append(batch["input_ids"].shape[1])
        return predict(model, batches, jit_compile=jit_compile)

    monkeypatch.setattr(loop, "predict", watched)
    runners.run(
        run_classifier,
        *arguments,
        *task_flags(tmp_path, "MRPC"),
        *("--do_train", "--do_eval", "--do_predict", "--jit_compile"),
    )
    assert compiled == [True, True]
    assert set(lengths) == {LENGTH}  # few lengths: each compiles anew
    assert (tmp_path / "out" / "test_results.tsv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["MRPC", "STS-B"])
def test_half_precision(run_classifier, arguments, tmp_path, name):
    """Logits come in float16, results in float32."""
    runners.run(
        run_classifier,
        *arguments,
        *task_flags(tmp_path, name),
        *("--do_train", "--do_eval", "--do_predict", "--dtype=float16"),
    )
    out = tmp_path / "out"
    assert runners.read_results(out)["global_step"] == 2
    # float16 has at most five digits.
    cells = (out / "test_results.tsv").read_text().split()
    assert max(map(len, cells)) > len("0.12345")


@pytest.mark.long  # pre-training has such a test, too
def test_two_workers(arguments, tmp_path):
    """They train together; the first one evaluates and predicts."""
    hosts = ",".join(runners.free_addresses(2))
    flags = [
        *arguments,
        *task_flags(tmp_path, "MRPC"),
        *("--do_train", "--do_eval", "--do_predict"),
        *(f"--worker_hosts={hosts}", "--train_batch_size=2"),
        *("--eval_every_steps=2", "--keep_best"),
    ]
    logs = [tmp_path / f"worker_{i}.log" for i in range(2)]
    workers = [
        runners.start("run_classifier", log, *flags, f"--task_index={i}")
        for i, log in enumerate(logs)
    ]
    try:
        for worker, log in zip(workers, logs, strict=True):
            assert worker.wait(timeout=TIMEOUT) == 0, log.read_text()
    finally:
        for worker in workers:
            worker.kill()
    out = tmp_path / "out"
    results = runners.read_results(out)
    assert results["global_step"] == 3
    assert read_table(out / "test_results.tsv").shape == (4, 2)
    first, last = evaluations.read_evals(str(out))
    assert (first["step"], last["step"]) == (2, 3)
    assert last["eval_f1"] == results["eval_f1"]
    assert evaluations.read_best(str(out)) in (first, last)
    report = (out / "report.html").read_text()
    assert "published, test: Base" in report and '["Second text", ' in report


@pytest.mark.long
def test_tfds_leaves_the_choice_of_devices(arguments, tmp_path):
    """Data sets are read before TensorFlow starts here."""
    data_dir = glue_files.write(tmp_path, "MRPC")
    task = glue.get_task("MRPC")
    splits = task.train + task.dev
    glue_files.store_as_tfds(data_dir, task, splits, tmp_path / "tfds")
    log = tmp_path / "log"
    process = runners.start(
        "run_classifier",
        log,
        *arguments,
        *("--task_name=MRPC", f"--data_dir=tfds:{tmp_path}/tfds"),
        *("--do_train", "--do_eval", "--num_replicas=2"),
        "--train_batch_size=2",
    )
    assert process.wait(timeout=TIMEOUT) == 0, log.read_text()
    results = runners.read_results(tmp_path / "out")
    assert results["global_step"] == 3


@pytest.mark.long
def test_killed_trials_resume(arguments, tmp_path):
    """Killed in its second trial, a comparison ends like an undisturbed one:
    to the bit, and without doing the first trial again."""
    task = task_flags(tmp_path, "RTE")

    def start(name) -> subprocess.Popen:
        return runners.start(
            "run_classifier",
            tmp_path / f"{name}.log",
            *(*arguments, *task, "--do_train", "--do_eval"),
            f"--output_dir={tmp_path}/{name}",
            "--num_trials=2",
            "--num_train_epochs=60",  # 120 steps
            "--save_checkpoints_steps=5",
            "--deterministic",
        )

    def end_well(process, name) -> str:
        code = process.wait(timeout=TIMEOUT)
        log = (tmp_path / f"{name}.log").read_text()
        assert code == 0, log
        return log

    undisturbed, killed = start("undisturbed"), start("killed")
    try:
        trial = tmp_path / "killed" / "trial_1"
        deadline = time.monotonic() + TIMEOUT
        while state.step_of(state.latest(str(trial)) or "-0") < 30:
            assert killed.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
        first = tmp_path / "killed" / "trial_0" / "eval_results.txt"
        time_of_first = first.stat().st_mtime_ns
        killed = start("killed")
        log = end_well(killed, "killed")
        end_well(undisturbed, "undisturbed")
    finally:
        undisturbed.kill()
        killed.kill()
    assert "Already finished: trial_0" in log
    assert f"RESUMING from {trial}/model.ckpt-" in log
    assert first.stat().st_mtime_ns == time_of_first
    for k in range(2):
        name = f"trial_{k}"
        assert_equal_weights(
            tmp_path / "killed" / name, tmp_path / "undisturbed" / name
        )
    ours, theirs = (
        [line["metrics"] for line in read_lines(tmp_path / name)]
        for name in ("killed", "undisturbed")
    )
    assert ours == theirs and len(ours) == 2
