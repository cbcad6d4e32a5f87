"""Files of questions -> examples -> features, and what is wrong with them."""

import io
import json

import numpy as np
import pytest

from keras_bert_ref.choice import features, files, tasks
from keras_bert_ref.commands import Options
from keras_bert_ref.records import batches
from keras_bert_ref.tokenization import FullTokenizer

SWAG_HEADER = (
    ",video-id,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
)


def own(kind="csv", columns=("x", "y", "z")) -> tasks.Task:
    options = {
        "task_name": kind,
        "text_a_column": "question",
        "text_b_column": None,
        "choice_columns": list(columns),
        "label_column": "label",
    }
    return tasks.from_options(Options(options))


def read(tmp_path, task, text: str, split="train"):
    (tmp_path / task.names[split][0]).write_text(text)
    return files.read_examples(task, split, str(tmp_path))


def test_swag(tmp_path):
    """Quoted commas; every choice begins with the second sentence."""
    row = '0,v,"He runs, then",She,gold,a b,"c, d",e,f,{}\n'
    (example,) = read(tmp_path, tasks.SWAG, SWAG_HEADER + row.format(2))
    choices = ["She a b", "She c, d", "She e", "She f"]
    assert example == ("He runs, then", choices, 2)
    # Test files have no labels.
    text = SWAG_HEADER.replace(",label", "") + row.replace(",{}", "")
    (example,) = read(tmp_path, tasks.SWAG, text, "test")
    assert example == ("He runs, then", choices, 0)
    (tmp_path / "val.csv").write_text(SWAG_HEADER + row.format(1))
    assert files.read_examples(tasks.SWAG, "dev", str(tmp_path))[0].label == 1


OFFICIAL = {
    "question": {
        "stem": "Why?",
        "choices": [
            {"text": "one", "label": "A"},
            {"text": "two", "label": "B"},
        ],
    },
    "answerKey": "B",
}
SHORT = {"question": "Why?\n\nA. one\nB. two", "answer": "B. two"}


def test_openbookqa(tmp_path):
    """Both forms say the same."""
    text = json.dumps(OFFICIAL) + "\n" + json.dumps(SHORT) + "\n"
    first, second = read(tmp_path, tasks.OPENBOOKQA, text)
    assert first == second == ("Why?", ["one", "two"], 1)


def test_real_openbookqa(shared_dir):
    folder = str(shared_dir / "data/openbookqa")
    train, dev = (
        files.read_examples(tasks.OPENBOOKQA, split, folder)
        for split in ("train", "dev")
    )
    assert (len(train), len(dev)) == (4957, 500)
    assert {len(example.texts_b) for example in train + dev} == {4}
    assert {example.label for example in dev} == {0, 1, 2, 3}


@pytest.mark.parametrize("kind", tasks.OWN_KINDS)
def test_own_files(tmp_path, kind):
    """A label is a number, or the name of a column."""
    rows = [("q 1", "a", "b", "c", "1"), ("q 2", "d", "e", "f", "z")]
    names = ["question", "x", "y", "z", "label"]
    if kind == "jsonl":
        lines = [json.dumps(dict(zip(names, r, strict=True))) for r in rows]
    else:
        separator = {"csv": ",", "tsv": "\t"}[kind]
        lines = [separator.join(row) for row in [names, *rows]]
    found = read(tmp_path, own(kind), "\n".join(lines) + "\n")
    assert found == [("q 1", ["a", "b", "c"], 1), ("q 2", ["d", "e", "f"], 2)]


HEADER = "question,x,y,z,label\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "q,a,b,c,3\n", "line 2 of .* has the label 3, but its 3 ch"),
        (HEADER + "q,a,b,c,-1\n", "line 2 of .* has the label -1"),
        (HEADER + "q,a,b,c,no\n", "number of the right choice.* has 'no'"),
        (
            HEADER + "q,a,b,c,0\nq,a, ,c,0\n",
            "Choice 1 of line 3 of .* is empty",
        ),
        (
            HEADER + "q,a,b,0\n",
            "line 2 .* has no column 'label'; it has question, x, y, z\\.",
        ),
        (HEADER + "q,a,b,c,0,1\n", "line 2 of .* more columns than the header"),
        ("question,x,y,label\nq,a,b,0\n", "no column 'z'; it has question, x"),
        (HEADER, "There is no question in .*train.csv"),
        (HEADER + 'q,a,b,"c,0\nq,a,b,c,0\n', "not CSV: at line 3, .* closed"),
        (HEADER + "q,a,\u200b,c,0\n", "Choice 1 of line 2 of .* is empty"),
        (
            "question,x,y,x,z,label\nq,a,b,c,d,0\n",
            "header of .*train.csv, line 1, names 'x' 2 times",
        ),
        (HEADER + "q,a,b,c,1.9\n", "number of the right choice.* has '1.9'"),
    ],
)
def test_bad_rows(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, own(), text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 of .* is not JSON"),
        ("[]", "line 2 of .* must be a JSON object"),
        (
            '{"question": "Why?"}',
            "line 2 of .* is not a question of OpenBookQA",
        ),
        (
            json.dumps({**SHORT, "answer": "E. what"}),
            "line 2 of .* which begins with one of their letters",
        ),
        (
            json.dumps({"question": "W\n\nA. a", "answer": "A. a"}),
            "same number of choices, 2, but line 2 of .* has 1",
        ),
        (
            json.dumps({**OFFICIAL, "answerKey": "E"}),
            "line 2 of .*E is none of A, B",
        ),
        (
            json.dumps({**SHORT, "question": "Why?\n\nA. one\nA. two"}),
            "line 2 of .*one letter twice: A, A",
        ),
        (json.dumps({**SHORT, "answer": ""}), "line 2 of .* not a question"),
        (json.dumps({**SHORT, "answer": []}), "line 2 of .* not a question"),
        (
            json.dumps(OFFICIAL).replace('"one"', "1"),
            "line 2 of .* not a question of .*1 is not a text",
        ),
        ('{"question": ' + "[" * 100_000, "line 2 of .* is not JSON"),
    ],
)
def test_bad_questions(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, tasks.OPENBOOKQA, json.dumps(OFFICIAL) + "\n" + line)


def test_other_encodings(tmp_path):
    path = tmp_path / "train.csv"
    path.write_bytes(HEADER.encode() + "q,a,b,café,0\n".encode("latin-1"))
    with pytest.raises(ValueError, match="UTF-8, but line 2 of .*train.csv"):
        files.read_examples(own(), "train", str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"x": ["a", "b"]},
            r"'x' of line 1 .* a text or a number, but it is \[",
        ),
        ({"label": 1.9}, "number of the right choice.* has 1.9"),
        ({"label": True}, "number of the right choice.* has True"),
    ],
)
def test_bad_values(tmp_path, changes, message):
    row = {"question": "q", "x": "a", "y": 2, "z": "c", "label": 1}
    with pytest.raises(ValueError, match=message):
        read(tmp_path, own("jsonl"), json.dumps({**row, **changes}))
    assert read(tmp_path, own("jsonl"), json.dumps(row)) == [
        ("q", ["a", "2", "c"], 1)
    ]


def test_long_columns(tmp_path):
    text = "a " * 100_000
    (found,) = read(tmp_path, own(), HEADER + f"q,{text},b,c,0\n")
    assert found.texts_b[0] == text


def test_columns_called_by_numbers(tmp_path):
    """A label that could be a name or a number is nobody's."""
    with pytest.raises(ValueError, match="label 1 could be the name of column"):
        own(columns=["1", "2", "3"])
    own(columns=["0", "1", "2"])
    own(columns=["7", "8"])


def test_bad_tasks(tmp_path):
    with pytest.raises(ValueError, match="no task 'nope'; --task_name must be"):
        own("nope")
    with pytest.raises(ValueError, match=r"names 1 column\(s\); a question"):
        own(columns=["x"])
    with pytest.raises(ValueError, match="=x,y,x names a column twice"):
        own(columns=["x", "y", "x"])
    with pytest.raises(
        ValueError, match="no file .*train.jsonl or .*OpenBookQ"
    ):
        files.read_examples(tasks.OPENBOOKQA, "train", str(tmp_path))


def test_records(tmp_path):
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]
    tokenizer = FullTokenizer(io.BytesIO("\n".join(vocab).encode()))
    examples = [
        files.ChoiceExample("a", ["b", "b c"], 1),
        files.ChoiceExample("c", ["a", "a"], 0),
    ]
    records = features.write_records(
        str(tmp_path / "x.tf_record"), examples, tokenizer, 16
    )
    (batch,) = batches.batches_in_order(records, 4, length_multiple=8)
    assert batch["input_ids"].shape == (2, 2, 8)
    ids = [[2, 5, 3, 6, 3, 0, 0, 0], [2, 5, 3, 6, 7, 3, 0, 0]]
    assert batch["input_ids"][0].numpy().tolist() == ids
    segments = batch["segment_ids"][0, 1].numpy().tolist()
    assert segments == [0, 0, 0, 1, 1, 1, 0, 0]
    assert batch["input_mask"][1].numpy().sum(-1).tolist() == [5, 5]
    np.testing.assert_array_equal(batch["label_ids"], [1, 0])
