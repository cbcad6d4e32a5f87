"""ONNX and LiteRT; `make test-export` has the packages."""

import json

import pytest

from helpers import model_folders, runners
from keras_bert_ref.export import ids_formats

FORMATS = {"onnx": "model.onnx", "litert": "model.tflite"}


@pytest.fixture(scope="module")
def export():
    with runners.load_runner("export") as runner:
        yield runner


@pytest.mark.slow
@pytest.mark.parametrize("kind", model_folders.KINDS)
@pytest.mark.parametrize("format", FORMATS)
def test_file_gives_what_the_model_gives(
    format, kind, export, golden_dir, tmp_path
):
    """The command compares, on batches of two shapes."""
    skip_without(format)
    model = model_folders.make(kind, tmp_path, golden_dir / "vocab.txt")
    output = tmp_path / "served"
    runners.run(
        export, f"--model={model}", f"--output={output}", f"--format={format}"
    )
    names = {"config.json", "vocab.txt", FORMATS[format]}
    assert {p.name for p in (output / "1").iterdir()} == names
    config = json.loads((output / "1" / "config.json").read_text())
    assert config["inputs"][:3] == ["input_ids", "input_mask", "segment_ids"]


@pytest.mark.slow
def test_int8(export, golden_dir, tmp_path):
    skip_without("onnx")
    model = model_folders.make("pairs", tmp_path, golden_dir / "vocab.txt")
    arguments = [f"--model={model}", f"--output={tmp_path}/served"]
    for more in ([], ["--quantize"]):
        runners.run(export, *arguments, "--format=onnx", *more)
    assert [has_int8(tmp_path / "served" / v) for v in "12"] == [False, True]


def has_int8(folder):
    import onnx

    weights = onnx.load(folder / "model.onnx").graph.initializer
    return any(w.data_type == onnx.TensorProto.INT8 for w in weights)


def test_missing_packages(monkeypatch):
    packages = {"onnx": ("json", "no_such_package")}
    monkeypatch.setattr(ids_formats, "PACKAGES", packages)
    with pytest.raises(ImportError, match=r"no_such_package .*\[export\]"):
        ids_formats.check_packages("onnx")


def skip_without(format):
    for package in ids_formats.PACKAGES[format]:
        pytest.importorskip(package, reason="see make test-export")
