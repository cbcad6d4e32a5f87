"""Chunks and their scores, by the rules of conlleval."""

import random
import sys

import pytest
import seqeval.metrics as seqeval_metrics

from helpers import runners
from keras_bert_ref.ner import files, metrics, tags

# The entities of each file, as published with the data.
ENTITIES = {"train": 23_499, "testa": 5_942, "testb": 5_648}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("B-X I-X O", [(0, 2, "X")]),
        ("O I-X I-X", [(1, 3, "X")]),  # I after O starts a chunk
        ("I-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]),
        ("B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")]),  # the type changes
        ("B-X B-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("I-X O I-X", [(0, 1, "X"), (2, 3, "X")]),
        ("B-O I-O O", [(0, 2, "O")]),  # a type may have any name
        ("O O", []),
        ("", []),
    ],
)
def test_chunks(text, expected):
    assert tags.find_chunks(text.split()) == expected


def test_sentences_end_chunks():
    gold = [["B-X"], ["I-X"]]
    assert metrics.score(gold, gold).overall == (2, 2, 2)


def test_iob2():
    """IOB1 becomes IOB2, IOB2 stays."""
    assert tags.to_iob2(["I-X", "I-X", "B-X", "O", "I-Y", "I-X"]) == (
        ["B-X", "I-X", "B-X", "O", "B-Y", "B-X"]
    )
    iob2 = ["B-X", "I-X", "B-X", "O", "B-Y", "I-Y"]
    assert tags.to_iob2(iob2) == iob2


def test_labels():
    found = tags.find_labels([["O", "I-PER"], ["B-LOC"]])
    assert found == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def test_scores_by_hand():
    gold = [["B-X", "I-X", "O", "B-Y"], ["O", "B-X"]]
    predicted = [["B-X", "I-X", "B-Y", "I-Y"], ["O", "I-X"]]
    scores = metrics.score(gold, predicted)
    assert scores.by_type == {"X": (2, 2, 2), "Y": (1, 1, 0)}
    assert scores.overall == (3, 3, 2)
    assert scores.num_words == 6
    values = scores.as_dict()
    assert values["f1"] == pytest.approx(2 / 3)
    assert values["X_f1"] == 1 and values["Y_precision"] == 0
    assert values["accuracy"] == pytest.approx(4 / 6)
    assert metrics.score([["O"]], [["O"]]).as_dict()["f1"] == 0


def test_equals_seqeval():
    """Its default mode, on any sequences at all."""
    random.seed(0)
    names = ["O", "O", "B-X", "I-X", "B-Y", "I-Y", "B-Z-1", "I-Z-1"]

    def draw(lengths):
        return [random.choices(names, k=n) for n in lengths]

    for _ in range(100):
        lengths = [random.randint(1, 12) for _ in range(100)]
        gold, predicted = draw(lengths), draw(lengths)
        scores = metrics.score(gold, predicted)
        for name in ("precision", "recall", "f1"):
            theirs = getattr(seqeval_metrics, f"{name}_score")
            assert getattr(scores.overall, name) == pytest.approx(
                theirs(gold, predicted), abs=1e-12
            )


@pytest.mark.parametrize("name", ENTITIES)
def test_gold_against_itself(shared_dir, name):
    """All of CoNLL-2003, which is IOB1, and the same in IOB2."""
    data = files.read_file(str(shared_dir / f"data/conll2003/eng.{name}"))
    count = ENTITIES[name]
    iob2 = [tags.to_iob2(sentence) for sentence in data.tags]
    assert iob2 != data.tags
    for gold in (data.tags, iob2):
        scores = metrics.score(gold, iob2)
        assert scores.overall == (count, count, count)
        assert scores.overall.f1 == scores.accuracy == 1


def write(path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_files(tmp_path):
    """Two files, or one with both tags; documents and blank lines between."""
    gold = write(tmp_path / "a", "-DOCSTART- -X-\n\na B-X\nb O\n\n\nc O\n")
    predicted = write(tmp_path / "b", "a B-X\nb B-X\n\nc O\n")
    both = write(tmp_path / "c", "a z B-X B-X\nb z O B-X\n\nc z O O\n")
    assert metrics.score_files(gold, predicted).overall == (1, 2, 1)
    assert metrics.score_files(both) == metrics.score_files(gold, predicted)


def test_files_that_do_not_fit(tmp_path):
    gold = write(tmp_path / "a", "a B-X\nb O\n\nc O\n")
    with pytest.raises(ValueError, match="has 2 columns; alone it needs three"):
        metrics.score_files(gold)
    other = write(tmp_path / "b", "a B-X\n\nb O\n\nc O\n")
    with pytest.raises(ValueError, match="same sentences, but the one on line"):
        metrics.score_files(gold, other)
    short = write(tmp_path / "c", "a B-X\nb O\n")
    with pytest.raises(ValueError, match="has 2 and .*c has 1"):
        metrics.score_files(gold, short)
    both = write(tmp_path / "d", "a I- B-X\n")
    with pytest.raises(ValueError, match="line 1 of .*d has 'I-'"):
        metrics.score_files(both)


def test_command(tmp_path, capsys, monkeypatch):
    path = write(tmp_path / "a", "a B-X B-X\nb O B-Y\n")
    monkeypatch.setattr(sys, "argv", ["score_ner", path])
    metrics.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2 words, accuracy 50.00%"
    assert " ".join(lines[-1].split()) == "all 50.00 100.00 66.67 1 2 1"
    write(tmp_path / "a", "a B-all B-all\nb B-X O\n")  # a type of that name
    metrics.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["X", "all", "all"]
    monkeypatch.setattr(sys, "argv", ["score_ner", path + "?"])
    message = "Not scored. There is no file"
    runners.check_refused(metrics.main, capsys, message)


def test_ctrl_c(tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["score_ner", "x"])
    monkeypatch.setattr(metrics, "score_files", interrupt)
    with pytest.raises(SystemExit, match="^130$"):
        metrics.main()
    assert "Not scored. Interrupted" in capsys.readouterr().err
