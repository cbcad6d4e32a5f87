"""The page at the end of the demo: what was trained, and what it learned."""

import os
from collections.abc import Sequence

from keras_bert_ref.demo import report
from keras_bert_ref.pages.page import Page
from keras_bert_ref.training.curves import read_curves
from keras_bert_ref.training.report import add_examples

STORY_FILE = "story.html"
VIEW_FILE = "view.html"
# What the viewer shows, before and after training.
VIEWED = "Anna bakes white bread and honey cakes."
PARTS = {
    "pretrained": "Pre-training",
    "pairs": "Fine-tuning on pairs",
    "questions": "Fine-tuning on questions",
}


def write_story(
    folder: str,
    words: Sequence[tuple[str, str, str]],
    results: Sequence[report.Result],
) -> str:
    """Writes the page; returns its path.

    Args:
        words: sentences with a mask, and predictions before and after.
    """
    page = Page("The life of a small BERT")
    page.add_text(
        "A BERT of two layers began with random weights. It learned its "
        "vocabulary and its words from 43 KB of text, then two tasks: whether "
        "two sentences say the same, and which words of a passage answer a "
        "question. All results are on text that it was not trained on."
    )
    page.add_table(
        ("on held-out text", "this model", "baseline", "of the baseline"),
        [
            (r.name, f"{r.value:.1%}", f"{r.baseline:.1%}", r.rule)
            for r in results
        ],
    )
    page.add_heading("Masked words")
    page.add_table(("sentence", "before training", "after training"), words)
    for name, lines in read_curves(f"{folder}/pretrained", ["loss"]).items():
        page.add_chart(f"{name} of pre-training", lines)
    page.add_link("Inside the model, before and after training", VIEW_FILE)
    page.add_heading("Pairs: do they say the same?")
    add_examples(page, f"{folder}/pairs")
    page.add_heading("Questions on passages")
    add_examples(page, f"{folder}/questions")
    page.add_heading("Each part in full")
    for part, name in PARTS.items():
        page.add_link(name, f"{part}/report.html")
    path = os.path.join(folder, STORY_FILE)
    page.write(path)
    return path
