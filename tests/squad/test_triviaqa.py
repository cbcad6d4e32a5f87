"""TriviaQA's files as SQuAD's."""

import json
import sys

import pytest

from helpers import runners
from keras_bert_ref.squad import examples, triviaqa
from keras_bert_ref.squad.tfds import read_articles


@pytest.fixture
def folder(tmp_path):
    words = " ".join(f"w{i}" for i in range(500))
    documents = {
        "a.txt": f"Nobody\nknows The  Moon, or so. {words}",
        "late.txt": f"{words} the moon",
        "inside.txt": "the moonlight and amoon",
    }
    for name, text in documents.items():
        (tmp_path / name).write_text(text)
    question = {
        "QuestionId": "q1",
        "Question": "Where to?",
        "EntityPages": [{"Filename": name} for name in documents],
        "Answer": {"Value": "moon", "Aliases": ["the moon", ""]},
    }
    (tmp_path / "qa.json").write_text(json.dumps({"Data": [question]}))
    return tmp_path


def test_conversion(folder):
    target = str(folder / "squad.json")
    assert triviaqa.convert(f"{folder}/qa.json", str(folder), target) == 1
    articles = read_articles(target, "train", False)
    (paragraph,) = articles[0]["paragraphs"]
    assert len(paragraph["context"].split()) == 400
    (question,) = paragraph["qas"]
    assert question["id"] == "q1--a.txt"
    (answer,) = question["answers"]
    assert answer == {"text": "Moon", "answer_start": 18}
    (example,) = examples.make_examples(articles, True, False, source=target)
    assert example.orig_answer_text == "Moon"


def test_longest_answer_first():
    found = triviaqa.find_answer("On the Moon.", {"moon", "the moon"})
    assert found[0] == "the Moon"


def test_other_files(folder):
    path = folder / "other.json"
    path.write_text(json.dumps({"data": []}))
    with pytest.raises(ValueError, match="has no list `Data`; a file of Triv"):
        triviaqa.convert(str(path), str(folder), "x")
    path.write_text(json.dumps({"Data": [{"Question": "?"}]}))
    with pytest.raises(ValueError, match=r"Data\[0\] of .*KeyError: 'Questio"):
        triviaqa.convert(str(path), str(folder), "x")
    question = json.loads((folder / "qa.json").read_text())["Data"][0]
    question["Answer"]["Value"] = 7
    path.write_text(json.dumps({"Data": [question]}))
    with pytest.raises(ValueError, match=r"Data\[0\] of .*TypeError: .* int"):
        triviaqa.convert(str(path), str(folder), "x")
    path.write_text(json.dumps({"Data": []}))
    with pytest.raises(ValueError, match="No document of .* in its first 400"):
        triviaqa.convert(str(path), str(folder), "x")


def test_command(folder, monkeypatch, capsys):
    target = folder / "squad.json"

    def call(name: str) -> None:
        flags = {
            "input_file": folder / name,
            "evidence_dir": folder,
            "output_file": target,
        }
        arguments = [f"--{key}={value}" for key, value in flags.items()]
        monkeypatch.setattr(sys, "argv", ["triviaqa", *arguments])
        triviaqa.main()

    runners.check_refused(
        lambda: call("none.json"), capsys, "Error: There is no file"
    )
    assert not target.exists()
    call("qa.json")
    assert target.exists()
    assert capsys.readouterr().out.startswith(
        "Questions with a document each: 1, in "
    )
