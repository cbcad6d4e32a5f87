"""The documents tell the truth: what they name exists, what they show runs."""

import ast
import configparser
import functools
import pathlib
import re
import string

import pytest

from helpers import configs
from keras_bert_ref import BertPretraining, __version__, save_checkpoint

ROOT = pathlib.Path(__file__).parent.parent
PACKAGE = ROOT / "keras_bert_ref"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *DOCS,
    *sorted((ROOT / "docs" / "learn").glob("**/*.md")),
    ROOT / "tests" / "golden" / "README.md",
    PACKAGE / "demo" / "README.md",
]
FOLDERS = ("keras_bert_ref", "tests", "benchmarks", "configs", "docs")


@functools.cache
def read(path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


README = read("README.md")


def relative(path) -> str:
    return str(path.relative_to(ROOT))


every_page = pytest.mark.parametrize("page", PAGES, ids=relative)


CODE_BLOCK = re.compile(r"^```.*?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def code_of(page) -> list[str]:
    """What stands in backticks, and the lines of code blocks."""
    text = read(page)
    blocks = CODE_BLOCK.findall(text)
    lines = [line for block in blocks for line in block.split("\n")]
    return lines + re.findall(r"`([^`\n]+)`", prose_of(page))


def prose_of(page) -> str:
    return CODE_BLOCK.sub("", read(page))


def section(text: str, title: str) -> str:
    """What stands below a heading, up to the next of the same level."""
    (level,) = re.findall(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    rest = text.split(f"{level} {title}\n")[1]
    return re.split(rf"^#{{1,{len(level)}}} ", rest, flags=re.MULTILINE)[0]


def table_rows(text: str) -> list[list[str]]:
    """The cells of all tables, headers included."""
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    rows = [[cell.strip() for cell in x.split(" | ")] for x in lines]
    return [[cell.strip("| ") for cell in row] for row in rows]


def find_module(name: str) -> pathlib.Path | None:
    """The file or folder of a dotted name below keras_bert_ref."""
    path = PACKAGE.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path):
        if candidate.exists():
            return candidate
    return None


@functools.cache
def names_in(path: pathlib.Path) -> set[str]:
    """What a module defines; of a class also its methods."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign):
            names |= {getattr(node.target, "id", "")}
    return names


def test_example_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (folder,) = re.findall(r'open_model\("(.*?)"', code)
    letters = string.ascii_lowercase
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *letters]
    vocab += [f"##{letter}" for letter in letters]
    config = configs.tiny(vocab_size=len(vocab), max_position_embeddings=64)
    released = tmp_path / folder
    save_checkpoint(BertPretraining(config), str(released / "bert_model.ckpt"))
    config.to_json_file(str(released / "bert_config.json"))
    (released / "vocab.txt").write_text("\n".join(vocab) + "\n")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    masks, shape = capsys.readouterr().out.splitlines()
    assert masks.count("Word(word=") == 5 and shape == "(2, 24)"


def test_first_screen():
    """What it is, the commands, the example, three results, a picture."""
    screen = README.split("\n## ")[0]
    assert len(screen.split("\n")) <= 42
    assert "make demo" in screen and "make test" in screen
    assert "```python" in screen and "![" in screen
    assert len(table_rows(screen)) == 1 + 3
    assert "docs/RESULTS.md" in screen


@every_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", prose_of(page)):
        if "://" in target:
            continue
        name, _, fragment = target.partition("#")
        path = page.parent / name if name else page
        assert path.exists(), target
        if fragment:
            headings = re.findall(r"^#+ (.*)", read(path), re.MULTILINE)
            assert fragment in {anchor(h) for h in headings}, target


def anchor(heading: str) -> str:
    """How GitHub names a heading in addresses."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@every_page
def test_make_targets_exist(page):
    for code in code_of(page):
        for target in re.findall(r"(?:^|[A-Z]=\S+ )make ([a-z][\w-]*)", code):
            makefile = read("Makefile")
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@every_page
def test_commands_exist(page):
    for code in code_of(page):
        for name in re.findall(r"python -m keras_bert_ref\.([\w.]+)", code):
            path = find_module(name)
            assert path, name
            if path.is_dir():
                assert (path / "__main__.py").exists(), name
            else:
                assert '__name__ == "__main__"' in path.read_text(), name
        for name in re.findall(r"python ([\w/]+\.py)", code):
            assert (ROOT / name).exists(), name


@every_page
def test_named_files_exist(page):
    """Paths from the top of the project; Python files also from the package."""
    for code in code_of(page):
        start = rf"(?<![\w./$:-])(?:{'|'.join(FOLDERS)})/"
        for name in re.findall(start + r"[\w./*-]+", code):
            assert list(ROOT.glob(name.rstrip("/"))), name
        if re.fullmatch(r"\w+/[\w/]+\.py", code):
            assert (ROOT / code).exists() or (PACKAGE / code).exists(), code


def test_file_map_is_the_tree():
    block = section(README, "File map").split("```")[1]
    top, below = block.split("keras_bert_ref/\n")
    for name in re.findall(r"^([\w./]+(?:\.py|/))", top, re.MULTILINE):
        assert (ROOT / name).exists(), name
    mapped = set(re.findall(r"^  ([\w]+(?:\.py|/))", below, re.MULTILINE))
    modules = {p.name for p in PACKAGE.glob("*.py")} - {"__init__.py"}
    folders = {f"{p.parent.name}/" for p in PACKAGE.glob("*/__init__.py")}
    assert mapped == modules | folders


def test_installed_commands_are_listed():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    scripts = setup["options.entry_points"]["console_scripts"]
    installed = re.findall(r"^(\w+) =", scripts, re.MULTILINE)
    rows = table_rows(section(README, "Commands"))[1:]
    assert sorted(row[1].strip("`") for row in rows) == sorted(installed)


def test_extras_exist():
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = set(setup["options.extras_require"])
    for page in PAGES:
        for names in re.findall(
            r"pip install '(?:\.|keras_bert_ref)\[([\w,]+)\]'", read(page)
        ):
            assert set(names.split(",")) <= extras, names


def test_index_has_every_page():
    linked = set(re.findall(r"\]\((\w+\.md)", read("docs/README.md")))
    assert linked == {path.name for path in DOCS} - {"README.md"}


def test_architecture_names_what_exists():
    """Rows that number the way of the data: files, then functions in them."""
    rows = [
        row
        for row in table_rows(read("docs/ARCHITECTURE.md"))
        if row[0].isdecimal() and len(row) == 4
    ]
    assert len(rows) > 30
    for _, where, functions, _ in rows:
        paths = [PACKAGE / name for name in re.findall(r"`(.*?)`", where)]
        defined = set().union(*map(names_in, paths))
        for name in re.findall(r"`(.*?)`", functions):
            assert set(name.split(".")) <= defined, (where, name)


def test_moved_names_have_arrived():
    text = section(
        read("docs/MIGRATION.md"), "Names that moved within this package"
    )
    rows = [row for row in table_rows(text) if row[0].startswith("`")]
    assert len(rows) > 30
    for before, now in rows:
        assert "`" in before
        for name in re.findall(r"`([\w.]+)`", now):
            module, _, attribute = name.rpartition(".")
            # A function named alone: its module stands beside it.
            if find_module(name) or not module:
                continue
            path = find_module(module)
            assert path, name
            assert attribute in names_in(path), name


def test_korean_readme_keeps_in_step():
    """The same headings in number and level, and the same code blocks."""
    english, korean = ROOT / "README.md", ROOT / "README.ko.md"
    ours, theirs = (
        re.findall(r"^(#+) ", prose_of(page), re.MULTILINE)
        for page in (english, korean)
    )
    assert ours == theirs, "give README.ko.md the sections of README.md"
    ours, theirs = (CODE_BLOCK.findall(read(p)) for p in (english, korean))
    assert ours == theirs, "run python docs/learn/build.py"


def test_citation_names_paper_and_version():
    citation = read("CITATION.cff")
    assert f"version: {__version__}\n" in citation
    assert "arXiv:1810.04805" in citation and "N19-1423" in citation
