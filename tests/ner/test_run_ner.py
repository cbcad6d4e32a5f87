"""The command: training, predictions, trials, resuming, bad input."""

import json
import re

import numpy as np
import pytest

from helpers import model_folders, ner_files, runners
from keras_bert_ref import modeling
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig
from keras_bert_ref.ner import files, metrics, predictions
from keras_bert_ref.training import evaluations, run_record, state

LENGTH = 16


@pytest.fixture(scope="module")
def run_ner():
    with runners.load_runner("run_ner") as runner:
        yield runner


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    model_folders.write_untrained(folder)
    return folder


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    ner_files.write_splits(folder, train=60, dev=12, test=9)
    return folder


@pytest.fixture
def arguments(model_dir, data_dir, tmp_path):
    return [
        f"--vocab_file={model_dir}/vocab.txt",
        f"--bert_config_file={model_dir}/bert_config.json",
        f"--data_dir={data_dir}",
        f"--output_dir={tmp_path}/out",
        f"--max_seq_length={LENGTH}",
        "--train_batch_size=4",
        "--learning_rate=1e-2",
        "--num_train_epochs=4",
    ]


def test_flagfiles(run_ner):
    runners.check_flagfiles("ner_*.flags", 3)


ALL = ("--do_train", "--do_eval", "--do_predict")


def test_learns(run_ner, arguments, tmp_path, data_dir):
    """A rule that a model can learn; the files say what the results say."""
    watched = "--eval_every_steps=30", "--keep_best"
    runners.run(run_ner, *arguments, *ALL, *watched, "--eval_on_test")
    out = tmp_path / "out"
    results = runners.read_results(out)
    lines = evaluations.read_evals(str(out))
    assert [line["step"] for line in lines] == [30, 60]
    assert lines[1]["eval_f1"] == pytest.approx(results["eval_f1"])
    assert evaluations.read_best(str(out)) in lines
    report = (out / "report.html").read_text()
    assert '"both", "B-PER"]' in report
    assert results["eval_f1"] > 0.9 and results["test_f1"] > 0.9
    assert results["global_step"] == 60
    for name, prefix in (("dev", "eval_"), ("test", "test_")):
        path = str(out / f"{name}_predictions.txt")
        scores = metrics.score_files(path).as_dict()
        for key, value in scores.items():
            assert results[prefix + key] == pytest.approx(value)
        assert set(scores) >= {"LOC_precision", "PER_recall", "PER_f1"}
        written = files.read_file(path)
        before = files.read_file(str(data_dir / f"{name}.txt"))
        assert len(written.lines) == len(before.lines)
        assert written.sentences[3].words == before.sentences[3].words
    record = run_record.read(str(out))
    assert record["task"] == "ner"
    assert record["labels"] == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert "published" not in (out / "results.txt").read_text()
    # Words alone are predicted too, by what was trained before.
    (tmp_path / "words").mkdir()
    words = "\n".join(
        re.sub(r" .*", "", line)
        for line in ner_files.make_lines(9, 2).split("\n")
    )
    (tmp_path / "words" / "test.txt").write_text(words)
    runners.run(
        run_ner, *arguments, f"--data_dir={tmp_path}/words", "--do_predict"
    )
    again = files.read_file(str(out / "test_predictions.txt"))
    assert again.lines[2].split()[1] == written.lines[2].split()[-1]
    assert again.tags == written.tags


@pytest.mark.slow
def test_contexts_and_trials(run_ner, arguments, tmp_path):
    """Seeds in a context of documents; finished ones are not repeated."""
    many = [
        *arguments,
        *ALL,
        "--num_trials=2",
        "--num_train_epochs=1",
        "--context=document",
        "--doc_stride=4",
    ]
    runners.run(run_ner, *many)
    out = tmp_path / "out"
    lines = (out / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["run"] for line in lines] == ["trial_0", "trial_1"]
    assert re.search(r"epochs 1 +f1 +2 ", (out / "results.txt").read_text())
    assert (out / "test_predictions.txt").exists()
    before = state.latest(str(out / "trial_1"))
    runners.run(run_ner, *many)
    assert (out / "results.jsonl").read_text().splitlines() == lines
    assert state.latest(str(out / "trial_1")) == before


@pytest.mark.slow
def test_one_direction(run_ner, arguments, model_dir, tmp_path):
    """A left-to-right checkpoint is refused by a model that reads both ways,
    before anything is made."""
    config = BertConfig.from_json_file(f"{model_dir}/bert_config.json")
    config.directionality = "ltr"
    config.to_json_file(f"{tmp_path}/ltr.json")
    prefix = f"{tmp_path}/ltr.ckpt"
    tf1.save(modeling.BertModel(config), prefix)
    flags = [
        *(*arguments, "--do_train", "--do_eval", "--num_train_epochs=1"),
        *(f"--init_checkpoint={prefix}", "--context=sentence_in_document"),
    ]
    with pytest.raises(ValueError, match="ltr.ckpt .*ltr"):
        runners.run(run_ner, *flags)
    assert not (tmp_path / "out").exists()
    right = f"--bert_config_file={tmp_path}/ltr.json"
    runners.run(run_ner, *flags, right, "--bilstm_units=4")
    kept = tf1.read(state.latest(f"{tmp_path}/out"))
    assert kept[tf1.DIRECTION] == 1
    assert kept["output_weights"].shape == (5, 8)


@pytest.mark.slow
def test_resumes_to_the_bit(run_ner, arguments, tmp_path):
    arguments += ["--context=document", "--num_train_epochs=2", "--do_train"]
    runners.run(run_ner, *arguments)
    out = tmp_path / "out"
    whole = tf1.read(state.latest(str(out)))
    other = f"--output_dir={tmp_path}/other"
    flags = [*arguments, other]
    steps = int(whole["global_step"])
    runners.run(run_ner, *flags, f"--save_checkpoints_steps={steps - 3}")
    for path in (tmp_path / "other").glob(f"model.ckpt-{steps}.*"):
        path.unlink()  # as if it had been killed before
    assert state.latest(str(tmp_path / "other")).endswith(f"-{steps - 3}")
    runners.run(run_ner, *flags)
    resumed = tf1.read(state.latest(str(tmp_path / "other")))
    for name, value in whole.items():
        np.testing.assert_array_equal(value, resumed[name], err_msg=name)


def test_bad_input(run_ner, arguments, tmp_path, data_dir):
    with pytest.raises(ValueError, match="Nothing to do: set --do_train"):
        runners.run(run_ner, *arguments)
    with pytest.raises(ValueError, match="--context=document needs documents"):
        runners.run(
            run_ner,
            *arguments,
            *("--data_dir=tfds", "--context=document", "--do_train"),
        )
    with pytest.raises(ValueError, match="no run.json in .* set --do_train"):
        runners.run(run_ner, *arguments, "--do_eval")
    folder = tmp_path / "bad"
    folder.mkdir()
    flag = f"--data_dir={folder}"
    with pytest.raises(ValueError, match="There is no train file in"):
        runners.run(run_ner, *arguments, flag, "--do_train")
    (folder / "train.txt").write_text("a O\n\nb O\n")
    with pytest.raises(ValueError, match="All tags of .*train.txt are O"):
        runners.run(run_ner, *arguments, flag, "--do_train")
    (folder / "train.txt").write_text("a B-X\n\nb O\n")
    (folder / "dev.txt").write_text("a B-X\n\nb B-Z\n")
    both = "--do_train", "--do_eval"
    with pytest.raises(
        ValueError, match="line 3 of .*dev.txt has the tag 'B-Z'"
    ):
        runners.run(run_ner, *arguments, flag, *both)
    assert not (tmp_path / "out").exists()  # refused before anything is made
    with pytest.raises(ValueError, match="2 examples .* do not fill one batch"):
        runners.run(
            run_ner, *arguments, flag, "--do_train", "--num_train_epochs=1"
        )
    assert not list((tmp_path / "out").glob("model.ckpt*"))


def test_other_labels_are_refused(run_ner, arguments, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "run.json").write_text(json.dumps({"labels": ["O", "B-Z", "I-Z"]}))
    with pytest.raises(
        ValueError, match="has the labels O, B-LOC.* with O, B-Z"
    ):
        runners.run(run_ner, *arguments, "--do_train")


def test_a_model_of_another_task_is_refused(run_ner, arguments, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    record = {"task": "MRPC", "labels": ["0", "1"]}
    (out / "run.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="trained for the task 'MRPC', not to"):
        runners.run(run_ner, *arguments, "--do_predict")


def test_a_type_called_test(run_ner, arguments, tmp_path):
    """Its scores on dev are not those of the test file."""
    folder = tmp_path / "clinical"
    folder.mkdir()
    lines = ner_files.make_lines(8, 0)
    for name in ("train", "dev", "test"):
        (folder / f"{name}.txt").write_text(lines.replace("-PER", "-test"))
    runners.run(
        run_ner,
        *arguments,
        *(f"--data_dir={folder}", "--do_train", "--do_eval"),
        *("--num_train_epochs=1", "--eval_on_test"),
    )
    results = runners.read_results(tmp_path / "out")
    assert {"eval_test_f1", "test_f1", "test_test_f1"} <= results.keys()


def test_examples_of_iob1(tmp_path):
    """What the report shows as right is right, whatever the file's scheme."""
    path = tmp_path / "dev.txt"
    path.write_text("a I-ORG\nb I-ORG\nc O\n\nd I-LOC\n")
    data = files.read_file(str(path))
    found = predictions.read_examples(data, [["B-ORG", "I-ORG", "O"], ["O"]])
    assert [example.is_right for example in found] == [True, False]


def test_an_evaluation_leaves_the_records_of_a_training(
    run_ner, arguments, tmp_path
):
    runners.run(
        *(run_ner, *arguments, "--do_train", "--do_eval"),
        "--num_train_epochs=1",
    )
    out = tmp_path / "out"
    names = "dev.tf_record", "bert_config.json"
    before = [(out / name).stat().st_mtime_ns for name in names]
    folder = tmp_path / "short"
    folder.mkdir()
    (folder / "dev.txt").write_text(ner_files.make_lines(3, 9))
    runners.run(run_ner, *arguments, f"--data_dir={folder}", "--do_eval")
    assert [(out / name).stat().st_mtime_ns for name in names] == before


def test_documents_that_nothing_marks(run_ner, arguments, tmp_path, caplog):
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "train.txt").write_text("a B-X\n\nb O\n")
    runners.run(
        run_ner,
        *arguments,
        *(f"--data_dir={folder}", "--context=document", "--do_train"),
        *("--train_batch_size=1", "--num_train_epochs=1"),
    )
    assert "has no -DOCSTART- line: all of it is taken for one" in caplog.text
