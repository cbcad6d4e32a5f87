"""Pages show text as itself, draw charts, and fit a phone."""

import html
import json
import re

import numpy as np
import pytest

from helpers import browser
from keras_bert_ref.pages.page import Page, pack_array, to_json

pytestmark = pytest.mark.pages

HOSTILE = [
    "</script><script>document.title = 'run'</script>",
    "<img src=x onerror=\"document.title = 'run'\">",
    "</style></title><!-- ]]> \\u003c &lt; \"'`${1}",
    "quotes \" ' and emoji 🙂👩‍👩‍👧",
    "שלום עולם, مرحبا",
    "한국어 문장입니다",
    "line\u2028and paragraph\u2029separators",
    "word" * 100,
]
SCRIPT = """
views.words = (root, data) => {
  root.append(...data.words.map(word => make("p", {class: "word"}, word)));
  root.append(make("p", {id: "sum"}, String(
    unpackArray(data.numbers).reduce((a, b) => a + b))));
};
"""


def make_page() -> Page:
    page = Page(HOSTILE[0]).add_heading(HOSTILE[1]).add_text(HOSTILE[2])
    page.add_table(["text", "number"], [[text, "1.5"] for text in HOSTILE])
    page.add_table([f"column {i}" for i in range(40)], [range(40)], "wide")
    page.add_code("python run.py \\\n" + " --flag" * 60)
    page.add_link(HOSTILE[1], "a folder/b.html?c=<d>&e=\"'")
    with page.section(HOSTILE[0]):
        page.add_text("hidden at first")
    steps = [(step, 1 / step) for step in range(1, 101)]
    page.add_chart(
        HOSTILE[1],
        {HOSTILE[0]: steps, "other": [(50, 2.0), (60, float("nan"))]},
    )
    numbers = pack_array(np.array([[1.5, 2.5], [3.0, -1.0]]))
    data = {"words": HOSTILE, "numbers": numbers}
    return page.add_view("words", data, script=SCRIPT)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "page.html"
    make_page().write(str(path))
    return path


@pytest.fixture(scope="module")
def visit():
    with browser.start() as visit:
        yield visit


@pytest.mark.parametrize("width", browser.WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_the_window(visit, path, width, scheme):
    with visit(path, width, color_scheme=scheme) as page:
        assert page.locator("polyline").count() == 2
        page.locator("summary").click()
        assert page.locator("text=hidden at first").is_visible()
        assert browser.overflow(page) <= 0
        colour = page.evaluate("getComputedStyle(document.body).color")
        is_light = int(re.findall(r"\d+", colour)[0]) > 128
        assert is_light == (scheme == "dark")


def test_text_shows_as_itself(visit, path):
    with visit(path) as page:
        assert page.title() == HOSTILE[0]
        assert page.locator("h1").text_content() == HOSTILE[0]
        assert page.locator("h2").text_content() == HOSTILE[1]
        cells = page.locator("table").first.locator("td[dir]")
        assert cells.all_text_contents() == HOSTILE
        assert page.locator(".word").all_text_contents() == HOSTILE
        assert page.locator("#sum").text_content() == "6"
        assert page.locator("img").count() == 0
        assert page.locator("td.number").first.text_content() == "1.5"


def test_chart_reads_values_and_zooms(visit, path):
    with visit(path) as page:
        svg, values = page.locator("svg"), page.locator(".values")
        svg.focus()
        page.keyboard.press("Home")
        assert f"{HOSTILE[0]}: 1" in values.text_content()
        page.keyboard.press("ArrowRight")
        assert f"step 2   {HOSTILE[0]}: 0.5" in values.text_content()
        page.keyboard.press("End")
        assert f"step 100   {HOSTILE[0]}: 0.01" in values.text_content()
        assert "other: 2 (at 50)" in values.text_content()
        points = "document.querySelector('polyline').points.numberOfItems"
        assert page.evaluate(points) == 100
        page.keyboard.press("+")
        assert page.evaluate(points) == 25  # as far again lies beyond the end
        page.keyboard.press("0")
        assert page.evaluate(points) == 100
        box = svg.bounding_box()
        y = box["y"] + 100
        page.mouse.move(box["x"] + box["width"] / 2, y)
        shown = re.search(r"step (\d+)", values.text_content())
        assert 45 < int(shown[1]) < 55
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, y)
        page.mouse.up()
        assert 20 < page.evaluate(points) < 30
        page.get_by_text("All", exact=True).click()
        assert page.evaluate(points) == 100
        page.get_by_role("button", name="other").click()
        assert page.locator("polyline").count() == 1


def test_nothing_but_our_scripts_may_run(visit, path):
    """Even if text got through as markup, the page's policy forbids it."""
    refused = pytest.raises(AssertionError, match="Content Security Policy")
    with refused, visit(path) as page:
        page.evaluate(
            "const s = document.createElement('script');"
            "s.textContent = \"document.title = 'run'\";"
            "document.body.append(s)"
        )
        page.evaluate("0")  # messages before this one have arrived
        assert page.title() == HOSTILE[0]


def test_without_a_browser():
    """Text is in the file but never as markup; data is JSON."""
    source = make_page().to_html()
    for text in HOSTILE:
        assert html.escape(text, quote=True) in source
    (data,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', source
    )
    assert json.loads(data)[1]["data"]["words"] == HOSTILE
    assert source.count("views.chart =") == 1
    assert "http://" not in source.replace("http://www.w3.org/2000/svg", "")


def test_lone_surrogates_can_be_written(tmp_path):
    path = tmp_path / "page.html"
    Page("half \ud83d").add_view("x", "\udc00", script="").write(str(path))
    assert "half ?" in path.read_text(encoding="utf-8")


def test_errors():
    page = Page("title")
    with pytest.raises(ValueError, match="needs 2 cells.*not 1: \\['x'\\]"):
        page.add_table(["a", "b"], [["x"]])
    with pytest.raises(ValueError, match="not to 'javascript:alert\\(1\\)'"):
        page.add_link("x", "javascript:alert(1)")
    with pytest.raises(ValueError, match="must be finite numbers"):
        to_json({"loss": float("nan")})
