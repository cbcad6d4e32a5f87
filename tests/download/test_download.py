"""Downloads from a server that breaks off, lies, and sends hostile zips."""

import functools
import http.server
import json
import os
import shutil
import stat
import threading
import zipfile

import numpy as np
import pytest

from helpers import glue_files
from keras_bert_ref import BertConfig, BertModel, save_checkpoint
from keras_bert_ref.classifier.tasks import get_task
from keras_bert_ref.commands import Options
from keras_bert_ref.config import find_model
from keras_bert_ref.download import archives, releases, run, transfer

CONTENT = np.random.default_rng(0).bytes(200_000)
TINY = "2020_02_20/uncased_L-2_H-128_A-2"


class Server(http.server.BaseHTTPRequestHandler):
    """What it does depends on the first part of the path; `requests` has the
    path and Range of what it was asked for."""

    requests = ()
    folder = ""

    def do_GET(self):
        self.requests.append((self.path, self.headers.get("Range")))
        kind, _, rest = self.path.strip("/").partition("/")
        asked = [path for path, _ in self.requests].count(self.path)
        content = CONTENT
        if kind == "mirror":
            path = f"{self.folder}/{rest}"
            if not os.path.exists(path):
                return self.send_error(404)
            with open(path, "rb") as file:
                content = file.read()
        if kind == "redirect":
            self.send_response(302)
            self.send_header("Location", f"/{rest}")
            return self.end_headers()
        if kind == "missing" or (kind == "ill" and asked < 3):
            return self.send_error(404 if kind == "missing" else 503)
        if kind == "changed":
            content = content if asked == 1 else content[::-1]
        is_range = kind not in ("ignores", "always_broken")
        start = 0
        if is_range and "Range" in self.headers:
            start = int(self.headers["Range"].split("=")[1].rstrip("-"))
            version = self.headers.get("If-Range")
            if version and version != self.version(content):
                start = 0
        self.send_response(206 if start else 200)
        if start:
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.send_header("Content-Range", span)
        announced = len(content) - start
        if kind == "lies_short":
            announced //= 2
        if kind == "lies_long":
            announced += 1000
        self.send_header("ETag", self.version(content))
        self.send_header("Content-Length", str(announced))
        self.end_headers()
        body = content[start:]
        breaks = ("breaks", "ignores", "changed")
        if kind == "always_broken" or (kind in breaks and asked == 1):
            body = body[:70_000]
        self.wfile.write(body)

    @staticmethod
    def version(content):
        return f'"{hash(content)}"'

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """The address of a server, and what it was asked for."""
    monkeypatch.setattr(transfer, "FIRST_WAIT", 0.01)
    kind = type("Server", (Server,), {"requests": [], "folder": tmp_path})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as running:
        serve = functools.partial(running.serve_forever, poll_interval=0.02)
        threading.Thread(target=serve, daemon=True).start()
        host, port = running.server_address
        yield f"http://{host}:{port}", kind.requests
        running.shutdown()


def ranges(requests) -> list:
    return [asked for _, asked in requests]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("good", [None]),
        ("redirect/good", [None, None]),
        ("breaks", [None, "bytes=70000-"]),
        ("ignores", [None, "bytes=70000-"]),
        ("ill", [None, None, None]),
    ],
)
def test_arrives(server, tmp_path, kind, expected):
    address, requests = server
    path = tmp_path / "new" / "file"
    transfer.fetch(f"{address}/{kind}/file", str(path))
    assert path.read_bytes() == CONTENT
    assert ranges(requests) == expected
    assert os.listdir(tmp_path / "new") == ["file"]
    transfer.fetch(f"{address}/{kind}/file", str(path))
    assert len(requests) == len(expected), "what is there is not fetched again"


def test_a_file_that_changes_meanwhile_is_fetched_anew(server, tmp_path):
    address, _ = server
    transfer.fetch(f"{address}/changed/file", str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == CONTENT[::-1]


def test_goes_on_in_another_process(server, tmp_path):
    """What has arrived stays; a part of another address does not count."""
    address, requests = server
    path = tmp_path / "file"
    with pytest.raises(ValueError, match="broke off after 70,000 of 200,000"):
        transfer.fetch(f"{address}/breaks/file", str(path), retries=0)
    assert not path.exists()
    part = tmp_path / ".file.part"
    assert part.read_bytes() == CONTENT[:70_000]
    transfer.fetch(f"{address}/breaks/file", str(path), retries=0)
    assert path.read_bytes() == CONTENT
    assert ranges(requests) == [None, "bytes=70000-"]
    part.write_bytes(b"other")
    other = tmp_path / "other"
    shutil.copy(part, tmp_path / ".other.part")
    transfer.fetch(f"{address}/good/other", str(other))
    assert other.read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", r"cannot be had: the server says 404 .* --mirror"),
        ("ill", r"does not arrive \(the server says 503; 2 attempts\)"),
        ("always_broken", "broke off after 70,000 of 200,000 bytes; 2 att"),
        ("lies_long", "has changed from 201,000 to 200,000 bytes; 2 attempts"),
    ],
)
def test_does_not_arrive(server, tmp_path, kind, message):
    address, _ = server
    with pytest.raises(ValueError, match=message):
        transfer.fetch(f"{address}/{kind}/x", str(tmp_path / "x"), retries=1)
    assert not (tmp_path / "x").exists()


def test_nobody_listens(tmp_path):
    with pytest.raises(ValueError, match="does not arrive .*[Rr]efused"):
        transfer.fetch("http://127.0.0.1:9/x", str(tmp_path / "x"), retries=0)


def test_no_redirect_to_an_open_address():
    import urllib.request

    request = urllib.request.Request("https://example.org/a")
    with pytest.raises(ValueError, match="redirects to http://b, which is not"):
        transfer._SafeRedirects().redirect_request(
            request, None, 302, "Found", {}, "http://b"
        )


def test_no_room(server, tmp_path, monkeypatch):
    address, _ = server
    free = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    with pytest.raises(ValueError, match="GB more, but 0.00 GB are free"):
        transfer.fetch(f"{address}/good/x", str(tmp_path / "x"))
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", bytes(2000))
    with pytest.raises(ValueError, match="unpacks to 0.00 GB, but"):
        archives.unpack(str(path), str(tmp_path / "x"))


def write_zip(path, members) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(name, content, zipfile.ZIP_DEFLATED)
    return str(path)


def link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../evil", "x")], "'../evil' would not stay in its folder"),
        ([("a/../../evil", "x")], "would not stay in its folder"),
        ([("/evil", "x")], "'/evil' would not stay in its folder"),
        ([("a\\..\\evil", "x")], "would not stay in its folder"),
        ([("C:evil", "x")], "would not stay in its folder"),
        ([(link("evil"), "/etc/passwd")], "'evil' is a link or a device"),
        ([("a", "x"), ("A", "y")], "'A' is there twice"),
        ([("bomb", bytes(10_000_000))], "bytes would become 10,000,000"),
        ([("empty/", "")], "there is no file in it"),
    ],
)
def test_hostile_zips(tmp_path, members, message):
    folder = tmp_path / "inner"
    folder.mkdir()
    path = write_zip(folder / "x.zip", members)
    with pytest.raises(ValueError, match=f"is not unpacked: .*{message}"):
        archives.unpack(path, str(folder / "x"))
    assert os.listdir(folder) == ["x.zip"]
    assert os.listdir(tmp_path) == ["inner"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "no zip", "empty"])
def test_broken_zips(tmp_path, damage):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("file", CONTENT)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[1000] ^= 1
    path.write_bytes(
        {
            "cut": whole[:100_000],
            "flipped": bytes(flipped),
            "no zip": b"<html>not found</html>",
            "empty": b"",
        }[damage]
    )
    with pytest.raises(
        ValueError, match="is not a whole zip .* downloaded again"
    ):
        archives.unpack(str(path), str(tmp_path / "x"))
    assert os.listdir(tmp_path) == ["x.zip"]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """The smallest released model, with random weights: folder of its files."""
    folder = tmp_path_factory.mktemp("tiny")
    path = find_model("uncased_L-2_H-128_A-2")
    config = BertConfig.from_json_file(path)
    save_checkpoint(BertModel(config), str(folder / "bert_model.ckpt"))
    shutil.copy(path, folder / "bert_config.json")
    lines = "".join(f"word{i}\n" for i in range(config.vocab_size))
    (folder / "vocab.txt").write_text(lines)
    return folder


def zip_model(tiny, path, top="", **changes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(tiny.iterdir()):
            content = file.read_bytes()
            content = changes.get(file.name.split(".")[0], content)
            if content is not None:
                archive.writestr(f"{top}{file.name}", content)


def options(tmp_path, **changes) -> Options:
    values = {
        "models_dir": str(tmp_path / "models"),
        "data_dir": str(tmp_path / "data"),
        "mirror": None,
        "retries": 1,
        "keep_zips": False,
    }
    return Options({**values, **changes})


@pytest.mark.parametrize("top", ["", "uncased_L-2_H-128_A-2/"])
@pytest.mark.parametrize("mirror", ["folder", "server", "variable"])
def test_models(server, tmp_path, tiny, monkeypatch, top, mirror):
    """In a folder of their own within the zip, or flat."""
    zip_model(tiny, tmp_path / f"{TINY}.zip", top)
    place = str(tmp_path)
    if mirror == "server":
        place = f"{server[0]}/mirror"
    if mirror == "variable":
        monkeypatch.setenv("BERT_MIRROR", place)
        place = None
    given = options(tmp_path, mirror=place)
    run.main(given, ["uncased_L-2_H-128_A-2"])
    folder = tmp_path / "models" / TINY
    names = {path.name for path in tiny.iterdir()}
    assert {path.name for path in folder.iterdir()} == names
    assert os.listdir(folder.parent) == [folder.name]
    before = folder.stat().st_mtime_ns
    run.main(given, [TINY])
    assert folder.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab": b"a\nb\n"}, "its vocab.txt has 2 lines, not 30522"),
        ({"vocab": None}, "it has no vocab.txt"),
        ({"bert_config": b"{}"}, "its config lacks "),
        ({"bert_config": b'{"hidden_size": 5}'}, "hidden_size=5, not 128"),
        ({"bert_model": b"x"}, "its checkpoint cannot be read"),
    ],
)
def test_models_of_another_kind(tmp_path, tiny, changes, message):
    zip_model(tiny, tmp_path / f"{TINY}.zip", **changes)
    with pytest.raises(ValueError, match=f"not uncased_L-2_.*{message}"):
        run.main(options(tmp_path, mirror=str(tmp_path)), [TINY])
    assert not (tmp_path / "models" / TINY).exists()


def test_a_zip_that_arrives_cut_is_fetched_again(server, tmp_path, tiny):
    """The server announces half of it, and nothing looks wrong so far."""
    zip_model(tiny, tmp_path / f"{TINY}.zip")
    for kind, is_whole in (("lies_short", False), ("mirror", True)):
        given = options(tmp_path, mirror=f"{server[0]}/{kind}")
        if is_whole:
            run.main(given, [TINY])
        else:
            with pytest.raises(ValueError, match="is not a whole zip"):
                run.main(given, [TINY])
        folder = tmp_path / "models" / "2020_02_20"
        names = [folder.parent.parent / TINY] if is_whole else []
        assert os.listdir(folder) == [path.name for path in names]


def test_model_with_other_layers(tmp_path, tiny):
    """The name says four layers, the config, too; the checkpoint has two."""
    name = "2020_02_20/uncased_L-4_H-128_A-2"
    with open(find_model("uncased_L-4_H-128_A-2"), "rb") as file:
        config = file.read()
    zip_model(tiny, tmp_path / f"{name}.zip", bert_config=config)
    with pytest.raises(ValueError, match="has 2 layers, not 4"):
        run.main(options(tmp_path, mirror=str(tmp_path)), [name])


def test_all_models_at_once(tmp_path, tiny):
    inner = tmp_path / "inner.zip"
    zip_model(tiny, inner)
    outer = tmp_path / "2020_02_20" / "all_bert_models.zip"
    outer.parent.mkdir()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.write(inner, "uncased_L-2_H-128_A-2.zip")
    run.main(options(tmp_path, mirror=str(tmp_path)), ["all_bert_models"])
    assert (tmp_path / "models" / TINY / "vocab.txt").exists()


def squad(count: int) -> bytes:
    paragraphs = [{"context": "", "qas": [{}] * count}]
    content = {"version": "1.1", "data": [{"paragraphs": paragraphs}]}
    return json.dumps(content).encode()


def test_squad(tmp_path):
    (tmp_path / "squad").mkdir()
    path = tmp_path / "squad" / "dev-v1.1.json"
    path.write_bytes(squad(10_570))
    given = options(tmp_path, mirror=str(tmp_path))
    run.main(given, ["squad/dev-v1.1.json"])
    assert (tmp_path / "data/squad/dev-v1.1.json").exists()
    (tmp_path / "squad" / "train-v1.1.json").write_bytes(squad(3))
    with pytest.raises(ValueError, match="has 3 questions, .* with 87,599"):
        run.main(given, ["squad/train-v1.1.json"])
    assert not (tmp_path / "data/squad/train-v1.1.json").exists()
    with pytest.raises(ValueError, match="The mirror has no file .*v2.0.json"):
        run.main(given, ["squad/*-v2.0.json"])


def test_xnli(tmp_path):
    """Two zips make the folder that run_classifier.py reads."""
    (tmp_path / "xnli").mkdir()
    for name, members in {
        "XNLI-1.0": ["xnli.dev.tsv", "xnli.test.tsv", "README.md"],
        "XNLI-MT-1.0": ["multinli/multinli.train.zh.tsv", "README.md"],
    }.items():
        files = [(f"{name}/{member}", name) for member in members]
        files.append((f"__MACOSX/{name}/._x", "noise"))
        write_zip(tmp_path / "xnli" / f"{name}.zip", files)
    run.main(options(tmp_path, mirror=str(tmp_path)), ["xnli"])
    folder = tmp_path / "data" / "xnli"
    task = get_task("XNLI", "zh")
    for split in (*task.train, *task.dev, *task.test):
        assert (folder / split.file).exists()
    assert os.listdir(tmp_path / "data") == ["xnli"]
    write_zip(tmp_path / "xnli" / "XNLI-1.0.zip", [("other", "x")])
    (folder / "xnli.dev.tsv").unlink()
    with pytest.raises(ValueError, match="has no xnli.dev.tsv"):
        run.main(options(tmp_path, mirror=str(tmp_path)), ["xnli/XNLI-1.0"])


def test_what_tfds_prepared_is_left_alone(tmp_path):
    data_dir = glue_files.write(tmp_path, "MRPC")
    task = get_task("MRPC")
    splits = [*task.train, *task.dev, *task.test]
    folder = tmp_path / "data" / "tfds"
    glue_files.store_as_tfds(data_dir, task, splits, folder)
    run.main(options(tmp_path), ["glue/mrpc"])


def test_releases():
    models = [item for item in releases.ITEMS if item.kind == "model"]
    assert len(models) == len({item.address for item in models}) == 34
    for item in models:
        name = item.name.split("/")[1]
        if item.name != releases.ALL_MODELS:
            assert find_model(name) != name
    (tiny,) = releases.find([TINY])
    assert tiny.address == (
        "https://storage.googleapis.com/bert_models/2020_02_20/"
        "uncased_L-2_H-128_A-2.zip"
    )
    assert len(releases.find(["squad"])) == 4
    assert (
        len(releases.find(["squad", "squad/*", "xnli", "glue"])) == 4 + 2 + 10
    )
    assert len(releases.find(["2020_02_20/*"])) == 25


def test_names(capsys, tmp_path):
    with pytest.raises(
        ValueError,
        match="by its date: 2018_10_18/uncased_L-12_H-768_A-12 or 2020_02_20/",
    ):
        releases.find(["uncased_L-12_H-768_A-12"])
    with pytest.raises(ValueError, match="nearest: .*uncased_L-2_H-128_A-2"):
        releases.find(["uncased_L-2_H-128"])
    run.main(options(tmp_path), [])
    assert len(capsys.readouterr().out.split("\n")) == len(releases.ITEMS) + 1
