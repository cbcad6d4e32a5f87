"""The direction of imports, and what importing costs."""

import ast
import os
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
    "lamb",
    "optimization",
    "heads",
    "bert_head",
    "bilstm",
    "recurrence",
    "modeling",
    "attention_mask",
    "network",
    "layers",
    "losses",
    "kernels",
    "unpadding",
    "config",
]
MODEL = set(ORDER[: ORDER.index("losses")])  # what data know nothing of
TASKS = {
    "pretraining",
    "classifier",
    "squad",
    "ner",
    "choice",
    "features",
    "vocabulary",
}
# They play the user, and may call any command.
USERS = {
    "demo",
    "download",
    "export",
    "korean",
    "reproduce",
    "serve",
    "text",
    "view",
}
# All other files of a task read data or score predictions.
FILES_WITH_A_MODEL = {
    "objective",
    "predictions",
    "logits",
    "vectors",
    "feature_tagger",
    "run",
}
BODIES = {"run", "create_data"}
# Besides all modules named flags.
COMMANDS = ("commands.py", "convert.py")


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
    if home in ORDER:
        above = TASKS | USERS | set(ORDER[: ORDER.index(home)])
        if home == "network":
            above.discard("checkpoints")  # BertNetwork.from_checkpoint
        assert not used & above
    elif home in TASKS:
        assert not used & (TASKS | USERS), "a task knows nothing of another"
        if path.stem not in FILES_WITH_A_MODEL:
            assert not used & MODEL, "data know nothing of the model"
    elif home not in (*USERS, "metrics"):  # what all of the above share
        assert not used & (TASKS | MODEL)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_nothing_imports_a_body(path):
    """commands.py does, by name, once the flags are right."""
    names = {tuple(name.split(".")) for name in imports(path)}
    assert not [
        name
        for name in names
        if name[0] == "keras_bert_ref" and name[-1] in BODIES
    ]
    assert not {name[0] for name in names} & set(RUNNERS)


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_definitions_touch_flags(path):
    if path.stem.endswith("flags") or path.name in COMMANDS:
        return
    names = {
        n.id
        for n in ast.walk(ast.parse(path.read_text()))
        if isinstance(n, ast.Name)
    }
    assert "FLAGS" not in names
    assert "absl.flags" not in set(imports(path))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_nobody_writes_to_flags(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            assert getattr(node.value, "id", "") != "FLAGS"
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", "")
            assert called != "setattr", "nor in a roundabout way"


@pytest.mark.parametrize("runner", RUNNERS)
def test_runners_are_thin(runner):
    """They import nothing but their command, so they cannot do it in a wrong
    order: what TensorFlow looks at when it starts is always set before."""
    names = {name.split(".")[0] for name in imports(ROOT / f"{runner}.py")}
    assert names == {"keras_bert_ref"}


def test_no_body_is_long():
    for path in MODULES:
        if path.stem in BODIES:
            assert len(path.read_text().split("\n")) <= 201, path


FLAG_MODULES = [
    "keras_bert_ref." + ".".join(p.relative_to(PACKAGE).with_suffix("").parts)
    for p in MODULES
    if p.stem.endswith("flags") or p.name in COMMANDS
]


@pytest.mark.slow
def test_flags_do_not_wait_for_tensorflow():
    check = (
        f"import {', '.join(FLAG_MODULES)}, sys; "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["keras_bert_ref", "tensorflow"])
def test_order_of_imports_is_harmless(first):
    """Ours first: oneDNN is on. TensorFlow first: it is as TensorFlow has
    it, and nobody's environment is changed."""
    check = f"""
import os
import {first}
import keras_bert_ref, tensorflow
from keras_bert_ref import BertModel
from tensorflow.python.util import _pywrap_util_port
if {first!r} == "keras_bert_ref":
    assert _pywrap_util_port.IsMklEnabled()
else:
    assert "TF_ENABLE_ONEDNN_OPTS" not in os.environ
"""
    environment = {**os.environ}
    environment.pop("TF_ENABLE_ONEDNN_OPTS", None)
    subprocess.run([sys.executable, "-c", check], check=True, env=environment)


def test_no_utils():
    assert not [path for path in MODULES if "util" in path.stem]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import keras_bert_ref", {"numpy", "tensorflow"}),
        ("from keras_bert_ref import FullTokenizer", {"tensorflow"}),
        ("from keras_bert_ref import precision", {"tensorflow"}),
        # For --list, and for the wait while a command trains.
        ("import keras_bert_ref.reproduce.run", {"tensorflow", "keras"}),
        ("import keras_bert_ref.download.run", {"tensorflow", "keras"}),
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
