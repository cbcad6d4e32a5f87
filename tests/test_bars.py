"""Progress: a bar on a terminal, lines in a log."""

import sys

import pytest
import tqdm

from keras_bert_ref import bars


def test_lines_in_a_log(monkeypatch, caplog):
    monkeypatch.setattr(bars, "SECONDS", 0.0)
    with (
        caplog.at_level("INFO", logger="absl"),
        bars.progress_bar(desc="reading", total=4, unit="lines") as bar,
    ):
        bar.update(1)
        bar.update(3)
    assert caplog.messages == [
        "reading: 4 lines",
        "reading: 1 of 4 lines, 0 s left",
        "reading: 4 of 4 lines, 0 s left",
    ]


def test_no_line_before_its_time(caplog):
    with caplog.at_level("INFO", logger="absl"):
        items = bars.progress_bar(range(5), desc="reading", unit="lines")
        assert list(items) == [0, 1, 2, 3, 4]
    assert caplog.messages == ["reading: 5 lines"]


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with bars.progress_bar(desc="reading", total=4, unit="lines") as bar:
        assert isinstance(bar, tqdm.tqdm)
        assert (bar.desc, bar.total, bar.unit) == ("reading", 4, "lines")


@pytest.mark.parametrize(
    "seconds, text",
    [(5.9, "5 s"), (65, "1 min 05 s"), (3661, "1 h 01 min")],
)
def test_duration(seconds, text):
    assert bars.format_duration(seconds) == text
