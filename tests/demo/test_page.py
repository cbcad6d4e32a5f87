"""The page at the end of the demo."""

import json

import pytest

from helpers import browser
from keras_bert_ref.demo import page as demo_page
from keras_bert_ref.demo.report import Result
from keras_bert_ref.training import report

RESULTS = [Result("pairs: same or not", 0.825, 0.5, "the commonest", 9.0)]
WORDS = [("Tom is a [MASK] .", "the, of", "fisherman, baker")]
EXAMPLE = report.Example(
    False, [("Question", "Who?")], [("Tom", "gold", ""), (" and", "", "")]
)


@pytest.mark.pages
def test_tells_the_whole_story(tmp_path):
    for part in demo_page.PARTS:
        (tmp_path / part).mkdir()
        report.write(str(tmp_path / part), None, [EXAMPLE])
    lines = [{"step": i, "loss": 1 / i} for i in (1, 2, 3)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "pretrained" / "metrics.jsonl").write_text(text)
    (tmp_path / demo_page.VIEW_FILE).write_text("a page")
    path = demo_page.write_story(str(tmp_path), WORDS, RESULTS)
    with browser.start() as visit:
        for width in browser.WIDTHS:
            with visit(path, width) as page:
                assert browser.overflow(page) <= 0
                assert page.locator("polyline").count() == 1
                assert page.locator("article.wrong mark.gold").count() == 2
                text = page.locator("main").inner_text()
                for expected in ("82.5%", "fisherman, baker", "Who?"):
                    assert expected in text
                links = page.locator("a").evaluate_all(
                    "all => all.map(a => a.getAttribute('href'))"
                )
                assert all((tmp_path / link).exists() for link in links)
                assert len(links) == 1 + len(demo_page.PARTS)
