"""Files that appear when they are whole, and only then."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

from keras_bert_ref import files


def test_file_appears_when_whole(tmp_path):
    path = tmp_path / "a.txt"
    with files.unfinished([str(path)]) as (name,):
        with open(name, "w") as file:
            file.write("new")
        assert not path.exists()
    assert [p.read_text() for p in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_there_stays(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(error), files.unfinished([str(path)]) as (name,):
        with open(name, "w") as file:
            file.write("half")
        raise error
    assert [p.read_text() for p in tmp_path.iterdir()] == ["old"]


def test_all_or_none(tmp_path):
    paths = [str(tmp_path / name) for name in "ab"]
    with pytest.raises(OSError), files.unfinished(paths) as names:
        with open(names[0], "w") as file:
            file.write("whole")
        raise OSError
    assert not list(tmp_path.iterdir())


def test_nobody_shares_names(tmp_path):
    path = str(tmp_path / "a.txt")
    names = {files.unfinished_name(path) for _ in range(10)}
    assert len(names) == 10
    for name in names:
        assert f"-{os.getpid()}-" in name
        assert os.path.basename(name).startswith(".a.txt.")


def test_the_last_of_two_writers_wins_whole(tmp_path):
    path = tmp_path / "a.txt"
    with files.unfinished([str(path)]) as (first,):
        with files.unfinished([str(path)]) as (second,):
            pathlib.Path(second).write_text("the second")
            pathlib.Path(first).write_text("the first, half")
        assert path.read_text() == "the second"
        pathlib.Path(first).write_text("the first, whole")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["the first, whole"]


def test_leftovers_of_dead_processes_are_removed(tmp_path):
    """Those of the living, and of other machines, are not ours."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    path = str(tmp_path / "a.txt")
    own = files.unfinished_name(path)
    mine, pid = f"-{os.getpid()}-", child.pid
    others = [
        own,
        own.replace(mine, "-1-"),
        own.replace(mine, f"-{pid}-").replace("unfinished-", "unfinished-b-"),
    ]
    for name in (own.replace(mine, f"-{pid}-"), *others):
        pathlib.Path(name).write_text("half")
    pathlib.Path(own.replace(mine, "-999999999-")).mkdir()
    files.replace(path, "whole")
    assert {str(p) for p in tmp_path.iterdir()} == {path, *others}


@pytest.mark.parametrize(
    "pattern",
    ["*", "a*.txt", "*/a?", "?/[ab]1", "b/[^a]*", "b/[!a]*", "b", "c*", "x/*"],
)
def test_patterns_match_as_tensorflow_has_it(tmp_path, monkeypatch, pattern):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "ab.txt", "b/a1", "b/b1", "b/.c", ".d/a1"):
        pathlib.Path(name).parent.mkdir(exist_ok=True)
        pathlib.Path(name).touch()
    for full in (pattern, str(tmp_path / pattern)):
        theirs = map(os.path.normpath, tf.io.gfile.glob(full))
        assert files.glob(full) == sorted(theirs)


def test_places_that_are_not_on_disk():
    """Such as gs://; ram:// is one that every machine has."""
    path = "ram://files/new folder/a.txt"
    files.replace(path, "text")
    assert files.read(path) == b"text"
    assert files.size(path) == 4
    assert files.glob("ram://files/*/a.*") == [path]
    assert files.starting_with("ram://files/new folder/a") == [path]
    files.remove(path)
    assert not files.exists(path)


def test_no_output_replaces_an_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("text")
    (tmp_path / "link").symlink_to(corpus)
    (tmp_path / "hard link").hardlink_to(corpus)
    (tmp_path / "other").write_text("text")
    message = "no output under the name of an input, but {} is the input corpus"
    for name in (str(corpus), "./corpus.txt", "link", "hard link"):
        with pytest.raises(ValueError, match=message.format(name)):
            files.check_apart(["other", "corpus.txt"], ["new", name])
    files.check_apart(["corpus.txt", "gs://b/a"], ["new", "other", "gs://b/b"])
    with pytest.raises(ValueError, match="gs://b/a is the input"):
        files.check_apart(["gs://b/a"], ["gs://b/a"])


def check_refused(path, message: str, **kwargs) -> None:
    """An error must come before the work is done, not after it."""
    with pytest.raises(ValueError, match=message):
        files.unfinished([str(path)], **kwargs).__enter__()


def test_new_files_replace_nothing(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("mine")
    message = r"new file, but .*vocab\.txt exists; remove it or"
    check_refused(path, message, must_be_new=True)
    assert [p.read_text() for p in tmp_path.iterdir()] == ["mine"]


def test_places_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name in ("file/a.txt", "folder"):
        check_refused(tmp_path / name, rf"writable, but .*{name} is not \(.*\)")


@pytest.mark.parametrize("content", ["text\nü\n", b"\x00\xff"])
def test_replace(tmp_path, content):
    path = str(tmp_path / "new folder" / "file")
    files.replace(path, b"before")
    files.replace(path, content)
    expected = content if isinstance(content, bytes) else content.encode()
    assert files.read(path) == expected


def test_missing_file_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=f"no file {tmp_path}/vocab.txt"
    ):
        files.read(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON .*copy or download"),
        ("[]", "holds a JSON list"),
        ("[" * 100_000, "is not JSON .*too deep to read"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "is not JSON .*'c' is there twice"),
        ('{"a": "\udcff"}', "is not JSON .*can't decode byte"),
    ],
)
def test_json_that_is_none(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=f"a.json {message}"):
        files.read_json(str(tmp_path), "a.json")


def test_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    assert files.read_json_lines(str(path)) == []
    lines = [{"a": 1}, {"b": [2]}]
    whole = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_text(whole + '{"c": ')
    assert files.read_json_lines(str(path)) == lines


@pytest.mark.parametrize("line", ["{", "[]", '{"b": 1}', "{}{}"])
def test_damaged_json_lines_are_named(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1}}\n{line}\n{{"a": 2}}\n')
    with pytest.raises(ValueError, match="line 2 of .*a.jsonl"):
        files.read_json_lines(str(path), keys=["a"])
