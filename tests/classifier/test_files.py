"""Tasks, their files, tfds, submissions, and what is wrong with them."""

import re
import zipfile

import numpy as np
import pytest

from helpers import glue_files, runners
from keras_bert_ref import prepared
from keras_bert_ref.classifier import files as classifier_files
from keras_bert_ref.classifier import splits as classifier_data
from keras_bert_ref.classifier import submission as glue_submission
from keras_bert_ref.classifier import tasks as glue
from keras_bert_ref.classifier import tfds as glue_tfds
from keras_bert_ref.tokenization import FullTokenizer

TASK_NAMES = list(glue_files.LAYOUTS)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_every_task_reads_its_layout(tmp_path, name):
    task = glue.get_task(name)
    data_dir = glue_files.write(tmp_path, name)
    splits = [*task.train, *task.dev, *task.test]
    assert [split.file for split in splits] == list(glue_files.LAYOUTS[name])
    is_pair = name not in ("CoLA", "SST-2")
    for split in splits:
        examples = classifier_files.read_examples(task, split, str(data_dir))
        assert len(examples) == glue_files.num_rows(split.file)
        for i, example in enumerate(examples):
            assert re.fullmatch(rf"{split.name}-\d+", example.guid)
            assert example.text_a == glue_files.text(split.file, "a", i)
            expected = glue_files.text(split.file, "b", i) if is_pair else None
            assert example.text_b == expected
            label = glue_files.label(name, i)
            if name == "STS-B":
                label = float(label) if split.label else 0.0
            elif split.label is None:
                label = task.labels[0]
            assert example.label == label


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("MRPC", "MRPC"),
        ("sst2", "SST-2"),
        ("Sst-2", "SST-2"),
        ("sts_b", "STS-B"),
        ("mnli", "MNLI"),
        ("mnli-mm", "MNLI-mm"),
        ("xnli", "XNLI"),
    ],
)
def test_names_in_any_spelling(spelling, name):
    assert glue.get_task(spelling).name == name


def test_unknown_task():
    with pytest.raises(ValueError, match="'mnlii'.*CoLA, MNLI,.*XNLI, or tsv"):
        glue.get_task("mnlii")


def test_xnli_language(tmp_path):
    data_dir = glue_files.write(tmp_path, "XNLI")
    task = glue.get_task("xnli", "de")
    assert task.train[0].file == "multinli/multinli.train.de.tsv"
    examples = classifier_files.read_examples(task, task.dev[0], str(data_dir))
    assert [e.guid for e in examples] == [f"dev-{i}" for i in (1, 3, 5, 7, 9)]


def read_changed(tmp_path, name, change, part="train"):
    """Reads a task's file after a change to its text."""
    data_dir = glue_files.write(tmp_path, name)
    task = glue.get_task(name)
    (split,) = getattr(task, part)
    path = data_dir / split.file
    path.write_bytes(change(path.read_bytes()))
    return classifier_files.read_examples(task, split, str(data_dir))


def cut_line(number, columns):
    def cut(content):
        lines = content.split(b"\n")
        cells = lines[number - 1].split(b"\t")[:columns]
        lines[number - 1] = b"\t".join(cells)
        return b"\n".join(lines)

    return cut


@pytest.mark.parametrize(
    ("name", "needed"), [("MRPC", 5), ("CoLA", 4), ("STS-B", 10), ("XNLI", 3)]
)
def test_wrong_shape(tmp_path, name, needed):
    message = (
        rf"A row of {tmp_path}/.*train.*tsv needs {needed} columns, but "
        rf"line 3 has {needed - 1}"
    )
    with pytest.raises(ValueError, match=message):
        read_changed(tmp_path, name, cut_line(3, needed - 1))


def test_rows_that_break_off_in_qqp(tmp_path, caplog):
    with caplog.at_level("WARNING", logger="absl"):
        examples = read_changed(tmp_path, "QQP", cut_line(3, 4))
    assert [e.guid for e in examples] == [f"train-{i}" for i in (1, 3, 4, 5, 6)]
    assert "needs 6 columns, but line 3 has 4; it is left out" in caplog.text
    with pytest.raises(ValueError, match="test.tsv needs 3 columns, but line"):
        read_changed(tmp_path / "test", "QQP", cut_line(3, 2), part="test")


def test_line_ends_and_byte_order_mark(tmp_path):
    usual = read_changed(tmp_path / "1", "SST-2", lambda x: x)

    def change(content):
        return b"\xef\xbb\xbf" + content.replace(b"\n", b"\r\n").rstrip()

    assert read_changed(tmp_path / "2", "SST-2", change) == usual


def test_only_lf_ends_a_line(tmp_path):
    def change(content):
        return content.replace(b"'sentence' 0", "\u2028x\x0b\x85y".encode())

    examples = read_changed(tmp_path, "MRPC", change)
    assert len(examples) == 6
    assert "\u2028x" in examples[0].text_a


def test_unknown_label(tmp_path):
    message = (
        "line 2 of .*train.tsv has the label 'maybe', but RTE knows "
        "entailment, not_entailment"
    )
    with pytest.raises(ValueError, match=message):
        read_changed(
            tmp_path, "RTE", lambda x: x.replace(b"\tentailment", b"\tmaybe", 1)
        )


@pytest.mark.parametrize("score", [b"high", b"nan", b"-inf"])
def test_score_that_is_no_number(tmp_path, score):
    message = (
        "must be a finite number, but line 3 of .*train.tsv has "
        f"'{score.decode()}'"
    )
    with pytest.raises(ValueError, match=message):
        read_changed(tmp_path, "STS-B", lambda x: x.replace(b"0.250", score, 1))


def test_latin1_is_named(tmp_path):
    message = "must be UTF-8, but line 3 of .*train.tsv is not .*0xe4"

    def change(content: bytes) -> bytes:
        lines = content.split(b"\n")
        lines[2] += "ä".encode("latin1")
        return b"\n".join(lines)

    with pytest.raises(ValueError, match=message):
        read_changed(tmp_path, "CoLA", change)


def test_missing_and_empty_file(tmp_path):
    task = glue.get_task("MRPC")
    message = f"no file {tmp_path}/train.tsv; --data_dir must be the folder"
    with pytest.raises(ValueError, match=message):
        classifier_files.read_examples(task, task.train[0], str(tmp_path))
    for content in ("", "a header\n"):
        (tmp_path / "train.tsv").write_text(content)
        with pytest.raises(ValueError, match="There is no example in .*tsv"):
            classifier_files.read_examples(task, task.train[0], str(tmp_path))


def make_own(tmp_path, kind, columns, is_training=True, is_regression=False):
    output_dir = str(tmp_path / "out")
    task = classifier_data.make_own_task(
        kind,
        columns=columns,
        is_regression=is_regression,
        data_dir=str(tmp_path),
        output_dir=output_dir,
        kept_labels=classifier_data.read_labels(output_dir),
        is_training=is_training,
    )
    if task.labels:
        classifier_data.write_labels(output_dir, task.labels)
    return task


def read_train(task, tmp_path):
    return classifier_files.read_examples(task, task.train[0], str(tmp_path))


def test_own_tsv_with_header(tmp_path):
    (tmp_path / "train.tsv").write_text(
        "kind\tid\tone\ttwo\nx y\t0\ta\tb\nb\t1\tc\td\nx y\t2\te\tf\n"
    )
    task = make_own(tmp_path, "tsv", ["one", "two", "kind"])
    assert task.labels == ("b", "x y")
    assert (tmp_path / "out" / "labels.txt").read_text() == "b\nx y\n"
    assert [
        (e.text_a, e.text_b, e.label) for e in read_train(task, tmp_path)
    ] == [("a", "b", "x y"), ("c", "d", "b"), ("e", "f", "x y")]
    (tmp_path / "test.tsv").write_text("two\tone\nb\ta\n")
    (example,) = classifier_files.read_examples(
        task, task.test[0], str(tmp_path)
    )
    assert (example.text_a, example.text_b, example.label) == ("a", "b", "b")
    # Later the labels come from where the model is, not from the data.
    (tmp_path / "train.tsv").unlink()
    later = make_own(tmp_path, "tsv", ["one", "two", "kind"], is_training=False)
    assert later == task


def test_own_tsv_without_header(tmp_path):
    (tmp_path / "train.tsv").write_text("0\tyes\ta\n1\tno\tb\n")
    task = make_own(tmp_path, "tsv", ["-1", None, "1"])
    assert task.labels == ("no", "yes")
    assert [(e.text_a, e.label) for e in read_train(task, tmp_path)] == [
        ("a", "yes"),
        ("b", "no"),
    ]


def test_own_jsonl(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text('{"t": "a\\tb", "y": 1}\n{"t": "c", "u": null, "y": 2}\n')
    task = make_own(tmp_path, "jsonl", ["t", None, "y"])
    assert task.labels == ("1", "2")
    assert read_train(task, tmp_path)[0].text_a == "a\tb"
    task = make_own(tmp_path, "jsonl", ["t", None, "y"], is_regression=True)
    assert task.is_regression
    assert [e.label for e in read_train(task, tmp_path)] == [1.0, 2.0]
    pairs = make_own(tmp_path, "jsonl", ["t", "u", "y"], is_regression=True)
    message = r"keys t, u, y, but line 1 is not: {'t': "
    with pytest.raises(ValueError, match=message):
        read_train(pairs, tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"t": "a", "y": null}', "None is in line 2 of .*train.jsonl: y"),
        ('{"t": "a", "y": NaN}', "nan is in line 2 of .*train.jsonl: y"),
        ('{"t": "a", "y": 1e999}', "inf is in line 2 of .*train.jsonl: y"),
        ('{"t": "a", "y": [1]}', r"\[1\] is in line 2 of .*train.jsonl: y"),
        ('{"t": {"a": 1}, "y": 1}', "{'a': 1} is in line 2 of .*: t"),
        ('{"t": null, "y": 1}', "None is in line 2 of .*: t"),
        ('{"t": "a", "y": "b\\nc"}', r"single line, but 'b\\nc' is in line 2"),
        ('{"t": "a", "y": 1, "y": 2}', "line 2 of .*'y' is there twice"),
        ("[" * 100_000, "line 2 of .*train.jsonl .*too deep to read"),
    ],
)
def test_values_of_jsonl(tmp_path, row, message):
    text = f'{{"t": "x", "y": "u"}}\n{row}\n{{"t": "z", "y": "v"}}\n'
    (tmp_path / "train.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        make_own(tmp_path, "jsonl", ["t", None, "y"])


def test_own_mistakes(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("text\tlabel\na\t1\nb\t1\n")
    with pytest.raises(ValueError, match=r"train.tsv has 1 different label"):
        make_own(tmp_path, "tsv", ["text", None, "label"])
    message = "no column 'txt'; its header, line 1, has text, label"
    with pytest.raises(ValueError, match=message):
        make_own(tmp_path, "tsv", ["txt", None, "label"])
    columns = ["text", None, "label"]
    with pytest.raises(ValueError, match="no labels.txt in .*, which training"):
        make_own(tmp_path, "tsv", columns, is_training=False)
    path.write_text("text\tlabel\na\t1\nb\t2\n")
    make_own(tmp_path, "tsv", columns)
    path.write_text("text\tlabel\na\t1\nb\t3\n")
    with pytest.raises(ValueError, match="labels 1, 3, but .* with 1, 2"):
        make_own(tmp_path, "tsv", columns)


COUNTS = {
    "CoLA": (8551, 1043, 1063),
    "MRPC": (3668, 408, 1725),
    "RTE": (2490, 277, 3000),
    "SST-2": (67349, 872, 1821),
    "STS-B": (5749, 1500, 1379),
    "WNLI": (635, 71, 146),
    "QNLI": (None, 5463, 5463),
    "AX": (1104,),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_files(shared_dir, name):
    task = glue.get_task(name)
    folder = "diagnostic" if name == "AX" else name
    data_dir = str(shared_dir / "data" / "glue" / folder)
    splits = (*task.train, *task.dev, *task.test)
    for split, count in zip(splits, COUNTS[name], strict=True):
        if count:
            examples = classifier_files.read_examples(task, split, data_dir)
            assert len(examples) == count
            assert all(e.text_a for e in examples)
            if len(split.columns) > 1 + (split.label is not None):
                assert all(e.text_b for e in examples)


def test_prepare_leaves_out_what_is_optional(tmp_path):
    data_dir = glue_files.write(tmp_path, "MNLI")
    glue_files.write_vocabulary(tmp_path / "vocab.txt")
    tokenizer = FullTokenizer(tmp_path / "vocab.txt")

    def suffixes(name):
        data = classifier_data.prepare(
            glue.get_task("MNLI"),
            tokenizer,
            max_seq_length=32,
            data_dir=str(data_dir),
            output_dir=str(tmp_path / "out"),
            names=[name],
        )
        for d in data[name]:  # all of them are shuffled among each other
            assert d.records.shuffle_buffer == len(d.labels) > 0
        return [d.split.suffix for d in data[name]]

    assert suffixes("predict") == ["", "mismatched", "diagnostic"]
    (data_dir / "dev_mismatched.tsv").unlink()
    assert suffixes("eval") == [""]
    (data_dir / "dev_matched.tsv").unlink()
    with pytest.raises(ValueError, match="no file .*dev_matched.tsv"):
        suffixes("eval")


@pytest.mark.parametrize("name", ["CoLA", "MNLI", "MRPC", "STS-B"])
def test_tfds(tmp_path, name):
    """What tfds has stored gives the examples of the files, in their order."""
    data_dir = glue_files.write(tmp_path, name)
    task = glue.get_task(name)
    splits = [
        split
        for split in (*task.train, *task.dev, *task.test)
        if split.submission != "AX"
    ]
    glue_files.store_as_tfds(data_dir, task, splits, tmp_path / "tfds")
    for split in splits:
        expected = classifier_files.read_examples(task, split, str(data_dir))
        actual = glue_tfds.read_examples(task, split, f"tfds:{tmp_path}/tfds")
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            assert (a.text_a, a.text_b) == (b.text_a, b.text_b)
            assert a.label == pytest.approx(b.label) or a.label == b.label


def test_tfds_not_there(tmp_path):
    assert prepared.is_tfds("tfds") and prepared.is_tfds("tfds:/data")
    assert not prepared.is_tfds("tfds_files")
    task = glue.get_task("RTE")
    message = "glue/rte is not prepared.*run tfds.builder.*download_and_prep"
    with pytest.raises(ValueError, match=message):
        glue_tfds.read_examples(task, task.dev[0], f"tfds:{tmp_path}")
    mnli = glue.get_task("MNLI")
    diagnostic = mnli.test[-1]
    assert diagnostic.is_optional
    assert glue_tfds.read_examples(mnli, diagnostic, f"tfds:{tmp_path}") is None
    xnli = glue.get_task("XNLI")
    with pytest.raises(ValueError, match="glue has no XNLI; set --data_dir"):
        glue_tfds.read_examples(xnli, xnli.dev[0], "tfds")


def test_submission(tmp_path, capsys, monkeypatch):
    def write(folder, name, predictions):
        task = glue.get_task(name)
        path = glue_submission.write_submission(
            str(tmp_path / folder), task, task.test[0], np.array(predictions)
        )
        with open(path) as file:
            return path.rsplit("/", 1)[1], file.read()

    assert write("1", "RTE", [1, 0]) == (
        "RTE.tsv",
        "index\tprediction\n0\tnot_entailment\n1\tentailment\n",
    )
    assert write("2", "STS-B", [-0.5, 2.34567, 5.1]) == (
        "STS-B.tsv",
        "index\tprediction\n0\t0.000\n1\t2.346\n2\t5.000\n",
    )
    zip_file = str(tmp_path / "glue.zip")
    folders = [str(tmp_path / "1"), str(tmp_path / "2")]
    monkeypatch.setattr("sys.argv", ["zip", zip_file, *folders])
    glue_submission.main()
    shown = capsys.readouterr().out
    missing = "AX, CoLA, MNLI-m, MNLI-mm, MRPC, QNLI, QQP, SST-2, WNLI"
    assert f"Missing: {missing}. GLUE wants all but AX." in shown
    with zipfile.ZipFile(zip_file) as archive:
        assert archive.namelist() == ["RTE.tsv", "STS-B.tsv"]
        assert archive.read("RTE.tsv").startswith(b"index\tprediction\n0\t")
    for wrong, message in (
        ([folders[0], folders[0]], "Both .*1/.* and .*1/.* are there"),
        ([str(tmp_path)], "There is no submission"),
    ):
        monkeypatch.setattr("sys.argv", ["zip", zip_file, *wrong])
        runners.check_refused(glue_submission.main, capsys, message)


def test_submission_names():
    assert set(glue.SUBMISSIONS) == {
        *("AX", "CoLA", "MNLI-m", "MNLI-mm", "MRPC", "QNLI", "QQP", "RTE"),
        *("SST-2", "STS-B", "WNLI"),
    }


def test_submission_replaces_no_prediction(tmp_path):
    path = tmp_path / "submission" / "RTE.tsv"
    path.parent.mkdir()
    path.write_text("index\tprediction\n")
    with pytest.raises(ValueError, match="RTE.tsv is the input"):
        glue_submission.zip_submissions(str(path), [str(tmp_path)])
