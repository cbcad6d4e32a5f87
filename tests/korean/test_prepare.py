"""Korean data sets in the layouts of the commands."""

import json

import pytest

from keras_bert_ref import commands
from keras_bert_ref.korean import prepare

HEADER = "id\tdocument\tlabel"


def options(tmp_path, **changes):
    values = {
        "data_dir": str(tmp_path / "data"),
        "output_dir": str(tmp_path / "out"),
        "num_dev": 2,
        "dev_articles": 1,
    }
    return commands.Options({**values, **changes})


def write_nsmc(tmp_path, rows) -> None:
    folder = tmp_path / "data" / "nsmc"
    folder.mkdir(parents=True)
    for name in ("train", "test"):
        text = "\n".join([HEADER, *rows]) + "\n"
        (folder / f"ratings_{name}.txt").write_text(text, encoding="utf-8")


def read(path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")


def test_nsmc(tmp_path):
    reviews = [f"{i}\t좋은 영화 {i}\t{i % 2}" for i in range(6)]
    write_nsmc(tmp_path, [*reviews[:3], "9\t\t1", *reviews[3:]])
    prepare.main(options(tmp_path))
    out = tmp_path / "out" / "nsmc"
    assert read(out / "dev.tsv") == [HEADER, reviews[0], reviews[3], ""]
    train = read(out / "train.tsv")
    assert train == [HEADER, *reviews[1:3], *reviews[4:], ""]
    assert read(out / "test.tsv") == [HEADER, *reviews, ""]
    corpus = read(out / "corpus.txt")
    assert corpus[:3] == ["좋은 영화 1", "", "좋은 영화 2"]
    assert "좋은 영화 0" not in corpus  # held out


def test_korquad_is_split_by_article(tmp_path):
    folder = tmp_path / "data" / "korquad"
    folder.mkdir(parents=True)
    articles = [
        {"title": t, "paragraphs": [{"context": t, "qas": []}]}
        for t in "가나다"
    ]
    content = {"version": "KorQuAD_v1.0_dev", "data": articles}
    path = folder / "KorQuAD_v1.0_dev.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    prepare.main(options(tmp_path))
    parts = [
        json.loads((tmp_path / "out" / "korquad" / f"{name}.json").read_text())
        for name in ("train", "dev")
    ]
    titles = [[a["title"] for a in part["data"]] for part in parts]
    assert titles == [["가", "나"], ["다"]]
    with pytest.raises(ValueError, match="--dev_articles=3 articles"):
        prepare.main(options(tmp_path, dev_articles=3))


def test_korsts(tmp_path):
    folder = tmp_path / "data" / "korsts"
    folder.mkdir(parents=True)
    text = "score\tsentence1\tsentence2\n5.0\t가\t나\n"
    for name in ("train", "dev", "test"):
        (folder / f"sts-{name}.tsv").write_text(text, encoding="utf-8")
    prepare.main(options(tmp_path))
    dev = tmp_path / "out" / "korsts" / "dev.tsv"
    assert dev.read_text(encoding="utf-8") == text
    (folder / "sts-dev.tsv").write_text("a\tb\n")
    with pytest.raises(ValueError, match="needs the column score"):
        prepare.main(options(tmp_path))


@pytest.mark.parametrize(
    ("rows", "changes", "message"),
    [
        (["1\t가\t2"], {}, "label 0 or 1.*line 2 of"),
        (["1\t가"], {}, "line 2 of"),
        (["1\t가\t1"], {}, "--num_dev=2 leaves nothing to train on"),
    ],
)
def test_bad_reviews(tmp_path, rows, changes, message):
    write_nsmc(tmp_path, rows)
    with pytest.raises(ValueError, match=message):
        prepare.main(options(tmp_path, **changes))


def test_other_files(tmp_path):
    write_nsmc(tmp_path, ["1\t가\t1"])
    path = tmp_path / "data" / "nsmc" / "ratings_train.txt"
    path.write_text("text\tlabel\n")
    with pytest.raises(ValueError, match="begins with text, label"):
        prepare.main(options(tmp_path))
    path.write_bytes(HEADER.encode() + b"\n1\t\xb0\xa1\t1\n")  # EUC-KR
    with pytest.raises(ValueError, match="must be UTF-8, but line 2"):
        prepare.main(options(tmp_path))


def test_nothing_there(tmp_path):
    with pytest.raises(ValueError, match="None of nsmc, korsts, korquad is in"):
        prepare.main(options(tmp_path))


def test_real_data(tmp_path, shared_dir):
    """Every review but the empty ones, in one part."""
    prepare.main(
        options(
            tmp_path,
            data_dir=str(shared_dir / "data" / "korean"),
            num_dev=10000,
            dev_articles=28,
        )
    )
    out = tmp_path / "out"
    sizes = {
        name: len(read(out / "nsmc" / f"{name}.tsv")) - 2
        for name in ("train", "dev", "test")
    }
    assert sizes == {"train": 139995, "dev": 10000, "test": 49997}
    parts = [
        json.loads((out / "korquad" / f"{name}.json").read_text())["data"]
        for name in ("train", "dev")
    ]
    assert [len(part) for part in parts] == [112, 28]
