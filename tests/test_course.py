"""The course runs: every block, and every number it shows."""

import ast
import importlib.util
import pathlib
import re

import pytest

LEARN = pathlib.Path(__file__).parent.parent / "docs" / "learn"
spec = importlib.util.spec_from_file_location("build", LEARN / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)


def read(path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "is_long",
    [
        pytest.param(False, marks=pytest.mark.slow),
        pytest.param(True, marks=pytest.mark.exhaustive),
    ],
)
def test_chapters_run_and_print_what_they_show(is_long):
    """In order and in one folder: later ones use files of earlier ones."""
    num_compared = 0
    with build.workplace() as folder:
        for path in build.chapters():
            ran = build.run_chapter(read(path), folder, is_long)
            for block, shown, real in ran:
                if shown is not None:
                    found = shown.differs_from(real)
                    assert not found, f"{path.name}\n{block.content}\n{found}"
                    num_compared += 1
    assert num_compared >= 20


def test_a_wrong_output_is_noticed():
    assert build.difference("loss 2.31\n", "loss 2.33", 0.02) is None
    assert "shown: loss 2.31" in build.difference(
        "loss 2.31", "loss 2.51", 0.02
    )
    assert "real: true" in build.difference("True", "true", 0.02)
    assert build.difference("a\nb", "a", 0.02)
    assert build.difference("90%", "80%", 0.2) is None
    block = build.Block("text", ("mostly",), "boat 0.7, bag 0.1", 0, 0)
    assert block.differs_from("boat 0.5, hill 0.2") is None
    assert "real: hill" in block.differs_from("hill 0.5, sea 0.2")


@pytest.mark.parametrize("language", build.LANGUAGES)
def test_notebooks_are_made_from_the_chapters(language):
    for path in build.chapters(language):
        notebook = path.with_suffix(".ipynb")
        assert read(notebook) == build.to_notebook(read(path)), (
            "run python docs/learn/build.py"
        )


def defined_names(path) -> set[str]:
    """What a file defines: names, and methods as `Class.method`."""
    names = set()
    for node in ast.parse(read(path)).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = getattr(node, "targets", None) or [node.target]
            names |= {target.id for target in targets}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
            for inner in getattr(node, "body", ()):
                if isinstance(inner, ast.FunctionDef):
                    names.add(f"{node.name}.{inner.name}")
    return names


def test_names_of_the_map_from_paper_to_code():
    """Every file of docs/PAPER.md is there, and defines the names beside it."""
    package = LEARN.parent.parent / "keras_bert_ref"
    rows = re.findall(
        r"^\| .+ \| `(.+?\.py)` \| (.+) \|$",
        read(LEARN.parent / "PAPER.md"),
        re.MULTILINE,
    )
    assert len(rows) >= 25
    for file, names in rows:
        defined = defined_names(package / file)
        for name in re.findall(r"`(.+?)`", names):
            assert name in defined, f"{file} has no {name}"


@pytest.mark.parametrize("language", build.LANGUAGES)
def test_names_that_chapters_explain(language):
    """`Code: [file](path) (names)`: the file defines the names."""
    for path in build.chapters(language):
        (line,) = re.findall(r"^(?:Code|코드): .*", read(path), re.MULTILINE)
        links = re.findall(r"\]\((\S+\.py)\) \((.+?)\)", line)
        assert links and len(links) == line.count(".py)"), path.name
        for link, names in links:
            defined = defined_names(path.parent / link)
            for name in re.findall(r"`(.+?)`", names):
                assert name in defined, f"{path.name}: {link} has no {name}"


def test_korean_chapters_keep_in_step():
    """The same headings in number and level, and the same code."""
    korean = {path.name: path for path in build.chapters("ko")}
    for path in build.chapters():
        ours, theirs = read(path), read(korean.pop(path.name))
        for kind in ("python", "sh", "text"):
            english, translated = (
                [
                    (b.words, b.content)
                    for b in build.blocks_of(t)
                    if b.kind == kind
                ]
                for t in (ours, theirs)
            )
            assert english == translated, path.name
        levels = [
            re.findall(r"^(#+) ", build.BLOCK.sub("", text), re.MULTILINE)
            for text in (ours, theirs)
        ]
        assert levels[0] == levels[1], path.name
    assert not korean


def test_the_korean_readme_says_what_the_english_says():
    """The same headings, code, links and numbers of tables."""
    root = LEARN.parent.parent
    english, korean = (
        build.BLOCK.sub("", read(root / name))
        for name in ("README.md", "README.ko.md")
    )
    for pattern in (r"^(#+) ", r"^(\|[-:|]+\|)$"):
        ours, theirs = (
            re.findall(pattern, text, re.MULTILINE)
            for text in (english, korean)
        )
        assert ours == theirs
    for pattern in (r"`([^`\n]+)`", r"\]\((\S+)\)"):
        ours, theirs = (
            set(re.findall(pattern, text)) for text in (english, korean)
        )
        own = {"README.ko.md", "docs/learn/README.md"}  # of one language
        assert not ours - theirs - own
    rows = [
        re.findall(r"^\|.*", text, re.MULTILINE) for text in (english, korean)
    ]
    for ours, theirs in zip(*rows, strict=True):
        numbers = [re.findall(r"\d[\d,.]*\d", row) for row in (ours, theirs)]
        assert set(numbers[0]) <= set(numbers[1]), theirs
