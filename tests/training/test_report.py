"""report.html: made from the files of a folder, in a real browser too."""

import json

import pytest

from helpers import browser
from keras_bert_ref.training import report
from keras_bert_ref.training.report import Example
from keras_bert_ref.training.trials import Ranking

HOSTILE = "</script><script>document.title='run'</script> \" ' 🙂 שלום 한국어"
RANKING = Ranking(
    title="MRPC",
    best_by=("eval_f1",),
    shown={"eval_f1": "f1"},
    published=lambda name: {"test: Base": 88.9},
)


@pytest.fixture
def folder(tmp_path):
    """What a run leaves."""
    record = {
        "task": "MRPC",
        "labels": ["0", HOSTILE],
        "num_examples": 3668,
        "flags": {"data_dir": HOSTILE, "learning_rate": 2e-5},
        "changes": [{"step": 2, "flags": {"learning_rate": [1e-5, 2e-5]}}],
        "versions": {"tensorflow": "2.21.0"},
        "machine": "a machine, 2 cores, Linux",
    }
    (tmp_path / "run.json").write_text(json.dumps(record))
    metrics = [
        {
            "step": step,
            "seconds": seconds,
            "loss": 1 / step,
            "learning_rate": 1e-5,
            "sequences_per_second": 30.0 + step,
        }
        for step, seconds in ((1, 5.0), (2, 10.0), (3, 4.0), (4, 8.0))
    ]
    evals = [
        {"step": step, "eval_loss": 2 / step, "eval_f1": 0.1 * step}
        for step in (2, 4)
    ]
    for name, lines in (("metrics", metrics), ("evals", evals)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    (tmp_path / "eval_results.txt").write_text("eval_f1 = 0.4\n")
    return tmp_path


EXAMPLES = [
    Example(True, [("Text", "good " * 1000), ("Label", "1")]),
    Example(
        False,
        [("Question", HOSTILE)],
        [
            ("The ", "", ""),
            ("red", "gold", ""),
            (" or ", "", ""),
            (HOSTILE, "predicted", "B-PER"),
            ("word" * 200, "", ""),
        ],
    ),
]


def test_a_step_that_overflowed(folder):
    """Its loss is null; the report tells of the last number."""
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "seconds": 9.0, "loss": null}\n')
    report.write(str(folder), RANKING, EXAMPLES)
    page = (folder / "report.html").read_text()
    assert "At step 4 the training loss was 0.25." in page


def test_what_a_report_holds(folder):
    report.write(str(folder), RANKING, EXAMPLES)
    page = (folder / "report.html").read_text()
    for text in (
        "Training report: MRPC",
        "At step 4 the training loss was 0.25.",
        "published, test: Base",
        "40.00",
        "3,668",
        "2.21.0",
        "a machine, 2 cores, Linux",
        "33 sequences/s",  # without the first report
        "18 s",  # both starts together
        "From step 2 on, --learning_rate was 2e-05 instead of 1e-05.",
    ):
        assert text in page, text
    # A later command that evaluates nothing leaves the examples.
    report.write(str(folder), RANKING)
    assert (folder / "report.html").read_text() == page


def test_a_folder_with_nothing_in_it(tmp_path):
    report.write(str(tmp_path))
    assert "Nothing was trained" in (tmp_path / "report.html").read_text()


def test_an_error_is_a_warning(folder, caplog):
    (folder / "report.html").mkdir()
    report.write(str(folder))
    (message,) = caplog.messages
    assert message.startswith(f"The report of {folder}, or its curves, could")
    assert "report.html is not (it is a folder)" in message


def test_some_of_each():
    examples = [Example(i % 3 == 0, [("i", str(i))]) for i in range(100)]
    picked = report.pick(iter(examples))
    assert [e.is_right for e in picked] == [False] * 5 + [True] * 5
    assert [e.facts[0][1] for e in picked[5:]] == ["0", "3", "6", "9", "12"]


@pytest.mark.pages
def test_in_a_browser(folder):
    report.write(str(folder), RANKING, EXAMPLES)
    with browser.start() as visit:
        for width in browser.WIDTHS:
            with visit(folder / "report.html", width) as page:
                assert page.title() == "Training report: MRPC"
                for summary in page.locator("summary").all():
                    summary.click()
                assert browser.overflow(page) <= 0
                # Loss and F1 with their evaluations, and the learning rate,
                # drawn in the frame after its section has opened.
                page.locator("polyline").nth(4).wait_for(state="attached")
                wrong = page.locator("article.wrong")
                assert HOSTILE in wrong.locator("bdi").first.inner_text()
                marked = wrong.locator("mark.predicted").inner_text()
                assert marked.replace("\n", "") == HOSTILE + "B-PER"
                assert wrong.locator("mark.gold").inner_text() == "red"
                assert page.locator("article").count() == 2
