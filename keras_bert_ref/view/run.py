"""The body of python -m keras_bert_ref.view; docs/VIEW.md tells its use."""

import importlib.resources

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.commands import Options
from keras_bert_ref.pages.page import Page
from keras_bert_ref.text.loading import open_model
from keras_bert_ref.view.observe import observe

HERE = importlib.resources.files("keras_bert_ref.view")


def main(options: Options, _words=()) -> None:
    folders = [options.model, *filter(None, [options.compare])]
    seen = [look_at(f, options.text, options.text_b) for f in folders]
    make_page(seen, options.text, options.text_b).write(options.output)
    size = files.size(options.output) / 1e6
    logging.info("Wrote %s (%.1f MB).", options.output, size)


def look_at(folder: str, text: str, text_b: str | None) -> dict:
    """Opens a model and runs it on the text."""
    opened = open_model(folder)
    return observe(
        opened.model,
        opened.tokenizer,
        text,
        text_b,
        name=folder,
        labels=opened.labels,
    )


def make_page(seen: list[dict], text: str, text_b: str | None = None) -> Page:
    """The page of what one model, or two, did with a text."""
    texts = " / ".join(filter(None, [text, text_b]))
    page = Page(f"BERT reads: {texts}")
    page.add_text("Model: " + "; ".join(model["name"] for model in seen))
    return page.add_view(
        "bert",
        {"models": seen},
        script=(HERE / "view.js").read_text(encoding="utf-8"),
        style=(HERE / "view.css").read_text(encoding="utf-8"),
    )
