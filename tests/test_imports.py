"""The direction of imports, and what importing costs."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "keras_bert_ref"
RUNNERS = sorted(path.stem for path in ROOT.glob("*.py"))
MODULES = sorted(PACKAGE.rglob("*.py"))

# A module may import what stands below it, never what stands above.
ORDER = [
    "training",
    "checkpoints",
    "optimization",
    "heads",
    "modeling",
    "losses",
    "config",
]


def imports(path):
    """Dotted names of all modules a file imports, wherever it does so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{a.name}" for a in node.names)


def part_of(name):
    """`heads` for keras_bert_ref.heads, `data` for keras_bert_ref.data.x."""
    parts = name.split(".")
    return parts[1] if parts[0] == "keras_bert_ref" and parts[1:] else None


def relative(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_imports_point_one_way(path):
    home = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    used = {part_of(name) for name in imports(path)} - {None, home}
    if home in ("data", "metrics"):
        assert not used & set(ORDER[:5]), f"{home} knows nothing of the model"
    if home in ORDER:
        above = set(ORDER[: ORDER.index(home)])
        if home == "modeling":
            above.discard("checkpoints")  # BertModel.from_checkpoint
        assert not used & above


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_nothing_imports_a_runner(path):
    if path.parts[-2:] == ("samples", "demo.py"):
        return  # the demo plays the user
    assert not {name.split(".")[0] for name in imports(path)} & set(RUNNERS)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_runners_touch_flags(path):
    is_command = 'if __name__ == "__main__"' in path.read_text()
    if path.name == "flags.py" or is_command:
        return
    names = {
        n.id
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Name)
    }
    assert "FLAGS" not in names
    assert "absl.flags" not in set(imports(path))


@pytest.mark.parametrize(
    "runner", [name for name in RUNNERS if name != "create_pretraining_data"]
)
def test_runners_turn_onednn_on(runner):
    """TensorFlow looks at what keras_bert_ref sets once, when imported."""
    names = [name.split(".")[0] for name in imports(ROOT / f"{runner}.py")]
    before = names[: names.index("keras_bert_ref")]
    assert not {"tensorflow", "keras"} & set(before)


def test_no_utils():
    assert not [path for path in MODULES if "util" in path.stem]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import keras_bert_ref", {"numpy", "tensorflow"}),
        ("from keras_bert_ref import FullTokenizer", {"tensorflow"}),
        ("from keras_bert_ref import precision", {"tensorflow"}),
        (
            "from keras_bert_ref import BertModel",
            {"keras_hub", "tensorflow_text", "tensorflow_datasets"},
        ),
    ],
)
def test_import_stays_quick(statement, absent):
    check = f"{statement}; import sys; assert not {absent!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_every_public_name_loads():
    import keras_bert_ref

    for name in keras_bert_ref.__all__:
        assert getattr(keras_bert_ref, name)
    assert set(keras_bert_ref.__all__) <= set(dir(keras_bert_ref))
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = keras_bert_ref.Nope
