"""Files that appear when they are whole, and only then."""

import json
import os
import subprocess
import sys

import pytest

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


def test_processes_do_not_share_names(tmp_path):
    name = files.unfinished_name(str(tmp_path / "a.txt"))
    assert str(os.getpid()) in name
    assert os.path.basename(name).startswith(".a.txt.")


def test_leftovers_of_dead_processes_are_removed(tmp_path):
    """Those of the living, and of other machines, are not ours."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    path = str(tmp_path / "a.txt")
    own = files.unfinished_name(path)
    prefix = own.removesuffix(str(os.getpid()))
    others = [f"{prefix}1", own.replace("unfinished-", "unfinished-elsewhere-")]
    for name in (f"{prefix}{child.pid}", *others):
        with open(name, "w") as file:
            file.write("half")
    files.replace(path, "whole")
    assert {str(p) for p in tmp_path.iterdir()} == {path, *others}


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
    [("{", "is not JSON .*; copy or download"), ("[]", "holds a JSON list")],
)
def test_json_that_is_none(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=f"a.json {message}"):
        files.read_json(str(tmp_path), "a.json")


def test_json_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    assert files.read_json_lines(str(path)) == []
    lines = [{"a": 1}, {"b": [2]}]
    whole = "".join(json.dumps(line) + "\n" for line in lines)
    path.write_text(whole + '{"c": ')
    assert files.read_json_lines(str(path)) == lines
