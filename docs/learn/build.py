"""Runs the chapters of the course, and makes notebooks of them.

    python docs/learn/build.py             # notebooks, and Korean blocks
    python docs/learn/build.py --outputs   # run them, write what they print
                                           # and the pictures they draw
    python docs/learn/build.py --outputs --long  # minutes of training too

A chapter is a Markdown file. Its blocks run in order, all chapters in one
folder, as a reader types them. Translations, README.ko.md too, get the blocks
of the English page, code and output. The word behind three backticks says how:

    python, sh     runs
    ... long       takes minutes: runs with --long only
    ... shared     needs ../shared or .wheels: is left out without them
    text           what the block before it prints; numbers are compared with
                   a tolerance, 0.02 of their size or as `tolerance=` has it
    text mostly    half of its words are enough: what a training gives differs
                   from machine to machine
"""

import argparse
import ast
import collections
import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parent.parent.parent
LEARN = ROOT / "docs" / "learn"
LANGUAGES = ("", "ko")  # "": English, beside this file
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?%?")
TOLERANCE = 0.02
# What chapters read of a checkout.
LINKED = (
    "configs",
    "create_pretraining_data.py",
    "extract_features.py",
    "keras_bert_ref",
    "run_classifier.py",
    "run_pretraining.py",
    "run_squad.py",
    ".wheels",
)


class Block(NamedTuple):
    """A block of code or output.

    Attributes:
        kind: python, sh or text.
        words: further words behind the backticks.
        start, end: where its content stands in the chapter.
    """

    kind: str
    words: tuple[str, ...]
    content: str
    start: int
    end: int

    def differs_from(self, real: str) -> str | None:
        """What is wrong with a block of output; None if nothing is."""
        if "mostly" in self.words:
            return difference_of_words(self.content, real)
        return difference(self.content, real, self.tolerance)

    @property
    def tolerance(self) -> float:
        for word in self.words:
            if word.startswith("tolerance="):
                return float(word.removeprefix("tolerance="))
        return TOLERANCE


def chapters(language: str = "") -> list[pathlib.Path]:
    """In the order of their numbers: 10 is the last."""
    paths = (LEARN / language).glob("[0-9]*.md")
    return sorted(paths, key=lambda path: int(path.name.split("_")[0]))


def blocks_of(text: str) -> list[Block]:
    return [
        Block(m[1], tuple(m[2].split()), m[3], m.start(3), m.end(3))
        for m in BLOCK.finditer(text)
    ]


@contextlib.contextmanager
def workplace() -> Iterator[pathlib.Path]:
    """An empty folder that looks like a checkout to the chapters."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "checkout"
        folder.mkdir()
        for linked in LINKED:
            if (ROOT / linked).exists():
                (folder / linked).symlink_to(ROOT / linked)
        if (ROOT.parent / "shared").exists():
            (folder.parent / "shared").symlink_to(ROOT.parent / "shared")
        yield folder


def does_run(block: Block, is_long: bool) -> bool:
    if block.kind not in ("python", "sh") or "show" in block.words:
        return False
    if "long" in block.words and not is_long:
        return False
    has_all = (ROOT.parent / "shared").exists() and (ROOT / ".wheels").exists()
    return has_all or "shared" not in block.words


def run_chapter(
    text: str, folder: pathlib.Path, is_long: bool = False
) -> Iterator[tuple[Block, Block | None, str]]:
    """Yields each block that ran, the output shown for it, and the real one."""
    names: dict = {"__name__": "__main__"}
    blocks = blocks_of(text)
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if does_run(block, is_long):
            run = run_python if block.kind == "python" else run_shell
            output = run(block.content, names, folder)
            shown = after if after and after.kind == "text" else None
            yield block, shown, output


def run_python(code: str, names: dict, folder: pathlib.Path) -> str:
    """Runs code as a notebook does: the value of a last line is shown."""
    tree = ast.parse(code)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    output = io.StringIO()
    with _within(folder), contextlib.redirect_stdout(output):
        exec(compile(tree, "<chapter>", "exec"), names)
        if last is not None:
            value = eval(compile(last, "<chapter>", "eval"), names)
            if value is not None:
                print(value)
    return output.getvalue()


@contextlib.contextmanager
def _within(folder: pathlib.Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run_shell(code: str, _names: dict, folder: pathlib.Path) -> str:
    """Runs commands with the Python that runs this."""
    script = re.sub(r"^python ", f"{sys.executable} ", code, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(
            f"{code}\nended with {done.returncode}:\n{done.stdout}"
        )
    return done.stdout


def difference(shown: str, real: str, tolerance: float) -> str | None:
    """The first line that differs; None if all are alike."""
    ours, theirs = shown.rstrip().split("\n"), real.rstrip().split("\n")
    for a, b in zip(ours, theirs, strict=False):
        if not _are_alike(a.rstrip(), b.rstrip(), tolerance):
            return f"shown: {a}\n real: {b}"
    if len(ours) != len(theirs):
        return f"shown: {len(ours)} lines\n real: {len(theirs)} lines"
    return None


def difference_of_words(shown: str, real: str) -> str | None:
    """None if at least half of the words shown are there."""
    ours, theirs = (
        collections.Counter(re.findall(r"[^\W\d]+", text))
        for text in (shown, real)
    )
    if 2 * (ours & theirs).total() >= ours.total():
        return None
    return f"shown: {shown} real: {real}"


def _are_alike(a: str, b: str, tolerance: float) -> bool:
    if a == b:
        return True
    if NUMBER.sub("#", a).split() != NUMBER.sub("#", b).split():
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(_is_near(x, y, tolerance) for x, y in pairs)


def _is_near(x: str, y: str, tolerance: float) -> bool:
    if x == y:
        return True
    a, b = (float(v.strip("%").replace(",", "")) for v in (x, y))
    decimals = len(x.strip("%").partition(".")[2])
    return abs(a - b) <= max(1.01 * 10**-decimals, tolerance * abs(a))


def with_outputs(text: str, folder: pathlib.Path, is_long: bool) -> str:
    """A chapter with what its blocks really print."""
    changes = [
        (shown.start, shown.end, output.rstrip() + "\n")
        for _, shown, output in run_chapter(text, folder, is_long)
        if shown and shown.differs_from(output)
    ]
    for start, end, output in reversed(changes):
        text = text[:start] + output + text[end:]
    return text


def with_blocks(text: str, english: str) -> str:
    """A translated chapter with the blocks of the English one."""
    ours, theirs = blocks_of(english), blocks_of(text)
    if [block.kind for block in ours] != [block.kind for block in theirs]:
        raise ValueError(
            f"The English chapter has {len(ours)} blocks, the translated one "
            f"{len(theirs)}; give it the same blocks in the same order."
        )
    for source, target in zip(reversed(ours), reversed(theirs), strict=True):
        text = text[: target.start] + source.content + text[target.end :]
    return text


def copy_blocks(source: pathlib.Path, target: pathlib.Path) -> None:
    english = source.read_text(encoding="utf-8")
    text = with_blocks(target.read_text(encoding="utf-8"), english)
    target.write_text(text, encoding="utf-8")


def to_notebook(text: str) -> str:
    """A chapter as .ipynb: code in cells, the rest between them."""
    cells, end = [], 0
    for match in BLOCK.finditer(text):
        if match[1] not in ("python", "sh", "text"):
            continue
        _add_markdown(cells, text[end : match.start()])
        end = match.end()
        if match[1] == "text" and cells and cells[-1]["cell_type"] == "code":
            cells[-1]["outputs"] = [
                {
                    "name": "stdout",
                    "output_type": "stream",
                    "text": _lines(match[3]),
                }
            ]
        elif match[1] == "text":
            _add_markdown(cells, match[0])
        else:
            source = match[3].rstrip()
            if match[1] == "sh":
                source = f"%%bash\n{source}"
            cells.append(
                {
                    "cell_type": "code",
                    "execution_count": None,
                    "id": f"cell-{len(cells)}",
                    "metadata": {},
                    "outputs": [],
                    "source": _lines(source),
                }
            )
    _add_markdown(cells, text[end:])
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            }
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _add_markdown(cells: list, text: str) -> None:
    if text.strip():
        cells.append(
            {
                "cell_type": "markdown",
                "id": f"cell-{len(cells)}",
                "metadata": {},
                "source": _lines(text.strip()),
            }
        )


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write_outputs(paths: Iterable[pathlib.Path], is_long: bool) -> None:
    with workplace() as folder:
        for path in paths:
            before = path.read_text(encoding="utf-8")
            after = with_outputs(before, folder, is_long)
            path.write_text(after, encoding="utf-8")
            print(
                f"{path.name}: {'changed' if after != before else 'as it was'}"
            )
            for picture in re.findall(r"\]\((\w+\.png)\)", after):
                if (folder / "course" / picture).exists():
                    shutil.copy(folder / "course" / picture, path.parent)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--outputs", action="store_true")
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    if arguments.outputs:
        write_outputs(chapters(), arguments.long)
    for path in chapters("ko"):
        copy_blocks(LEARN / path.name, path)
    copy_blocks(ROOT / "README.md", ROOT / "README.ko.md")
    for language in LANGUAGES:
        for path in chapters(language):
            notebook = to_notebook(path.read_text(encoding="utf-8"))
            path.with_suffix(".ipynb").write_text(notebook, encoding="utf-8")


if __name__ == "__main__":
    main()
