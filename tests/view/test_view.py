"""The page of a text: what it shows is what the model computes."""

import keras
import numpy as np
import pytest

from helpers import browser, configs
from keras_bert_ref import commands, heads
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.tokenization import FullTokenizer
from keras_bert_ref.view import observe, run

WORDS = [
    "tom",
    "has",
    "a",
    "blue",
    "boat",
    ".",
    "he",
    "##r",
    "강",
    "##아",
    "🙂",
]
SIGNS = ["<", "/", ">", "script", '"', "'", "מים"]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *SIGNS]
TEXT = "Tom has a blue boat."
OTHER = "He has 🙂 </script> \"'מים"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(VOCAB) + "\n", encoding="utf-8")
    return FullTokenizer(str(path))


def make(kind, **kwargs):
    keras.utils.set_random_seed(1)
    config = configs.tiny(
        vocab_size=len(VOCAB),
        num_hidden_layers=2,
        max_position_embeddings=64,
        initializer_range=0.3,
        **configs.NO_DROPOUT,
    )
    model = kind(config, **kwargs)
    model.build()
    return model


@pytest.fixture(scope="module")
def pretraining():
    return make(heads.BertPretraining)


@pytest.fixture(scope="module")
def seen(tokenizer, pretraining):
    return observe.observe(pretraining, tokenizer, TEXT, OTHER, name="before")


@pytest.fixture(scope="module")
def path(tmp_path_factory, tokenizer, seen):
    classifier = make(heads.BertClassifier, num_labels=2)
    after = observe.observe(
        classifier,
        tokenizer,
        TEXT,
        OTHER,
        name="after </script>",
        labels=["no", "yes"],
    )
    path = tmp_path_factory.mktemp("view") / "view.html"
    run.make_page([seen, after], TEXT, OTHER).write(str(path))
    return path


@pytest.fixture(scope="module")
def visit():
    with browser.start() as visit:
        yield visit


def attention_of(model, seen, tokenizer) -> np.ndarray:
    ids = tokenizer.convert_tokens_to_ids(seen["tokens"])
    outputs = model.bert(
        np.array([ids]),
        segment_ids=np.array([seen["segments"]]),
        return_attention_probs=True,
    )
    return np.stack([p[0].numpy() for p in outputs["attention_probs"]])


def test_masked_words_are_the_models_own(seen, pretraining, tokenizer):
    tokens = seen["tokens"]
    place = tokens.index("blue")
    masked = [*tokens[:place], "[MASK]", *tokens[place + 1 :]]
    logits = pretraining(
        {
            "input_ids": np.array([tokenizer.convert_tokens_to_ids(masked)]),
            "segment_ids": np.array([seen["segments"]]),
            "masked_lm_positions": np.array([[place]]),
        }
    )["masked_lm_logits"]
    best = int(np.argmax(logits[0, 0]))
    last = seen["predictions"][place][-1]
    assert last[0][0] == VOCAB[best]
    assert len(seen["predictions"][place]) == 3  # embeddings and two layers
    assert seen["predictions"][0] is None  # [CLS]


def test_the_answer_lies_in_the_passage(tokenizer):
    model = make(heads.BertSpan)
    seen = observe.observe(model, tokenizer, TEXT, OTHER, name="span")
    (output,) = seen["outputs"]
    first, last = output["span"]
    assert seen["segments"][first] == seen["segments"][last] == 1
    start, end = (np.array(output["scores"][k]) for k in ("start", "end"))
    inside = [
        i
        for i, (token, segment) in enumerate(
            zip(seen["tokens"], seen["segments"], strict=True)
        )
        if segment == 1 and token != "[SEP]"
    ]
    best = max(start[i] + end[j] for i in inside for j in inside if j >= i)
    assert start[first] + end[last] == pytest.approx(best)


def test_a_score(tokenizer):
    model = make(heads.BertClassifier, num_labels=1)
    seen = observe.observe(model, tokenizer, TEXT, name="score")
    (output,) = seen["outputs"]
    assert output["title"] == "Score" and float(output["text"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tom " * 63, "at most 64 tokens of this model.*but the text has 65"),
        (" ", "The text has no words"),
    ],
)
def test_texts_that_cannot_be_shown(tokenizer, pretraining, text, message):
    with pytest.raises(ValueError, match=message):
        observe.observe(pretraining, tokenizer, text, name="x")


def test_the_command(tmp_path, pretraining, seen):
    """From a folder to a page, which names model and text."""
    folder = tmp_path / "model"
    tf1.save(pretraining, str(folder / "bert_model.ckpt"))
    pretraining.config.to_json_file(str(folder / "bert_config.json"))
    vocabulary = "\n".join(VOCAB) + "\n"
    (folder / "vocab.txt").write_text(vocabulary, encoding="utf-8")
    values = {"model": str(folder), "compare": None, "text": TEXT}
    output = tmp_path / "view.html"
    options = {**values, "text_b": OTHER, "output": str(output)}
    run.main(commands.Options(options))
    page = output.read_text(encoding="utf-8")
    assert str(folder) in page and "BERT reads: Tom has a blue boat." in page
    assert seen["attention"]["base64"] in page


@pytest.mark.pages
@pytest.mark.parametrize("width", browser.WIDTHS)
def test_every_control(visit, path, width):
    with visit(path, width) as page:
        for select in page.locator("select").all():
            for i in range(select.locator("option").count()):
                select.select_option(index=i)
        page.locator("input[type=checkbox]").check()
        page.locator("input[type=checkbox]").uncheck()
        buttons = page.locator("button:not([disabled])")
        if width == min(browser.WIDTHS):  # where they may hide each other
            for button in buttons.all():
                button.click()
        else:
            buttons.evaluate_all("all => all.forEach(one => one.click())")
        assert browser.overflow(page) <= 0


@pytest.mark.pages
def test_the_page_shows_what_the_model_computes(
    visit, path, seen, pretraining, tokenizer
):
    attention = attention_of(pretraining, seen, tokenizer)
    query, key = seen["tokens"].index("boat"), seen["tokens"].index("blue")
    with visit(path) as page:
        first = page.locator(".column").first
        page.locator("select[data-name=layer]").select_option("2")
        page.locator("select[data-name=head]").select_option("3")
        column = page.locator("section").nth(1).locator(".column").first
        rows = column.locator(".tokens")
        rows.nth(0).locator("button").nth(query).click()
        rows.nth(1).locator("button").nth(key).click()
        expected = attention[1, 2, query, key]
        shown = first.locator(".readout").inner_text()
        assert "Layer 2, head 3: boat looks at blue with weight" in shown
        weight = float(shown.split()[-1].rstrip("."))
        assert weight == pytest.approx(expected, abs=1e-3)
        cells = column.locator("td.number").all_inner_texts()
        weights = [float(cell) for cell in cells[1::2]]
        np.testing.assert_allclose(weights, attention[1, 2, query], atol=3e-3)
        # The mean of a layer.
        page.locator("select[data-name=head]").select_option(index=0)
        shown = first.locator(".readout").inner_text()
        mean = attention[1, :, query, key].mean()
        assert "mean of its heads" in shown
        assert float(shown.split()[-1].rstrip(".")) == pytest.approx(
            mean, abs=1e-3
        )


@pytest.mark.pages
def test_the_keyboard(visit, path):
    with visit(path) as page:
        page.locator("canvas.grid").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert page.locator("select[data-name=layer]").input_value() == "2"
        assert page.locator("select[data-name=head]").input_value() == "2"
        page.locator("canvas.matrix").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        shown = page.locator(".readout").first.inner_text()
        assert "has looks at tom with weight" in shown


@pytest.mark.pages
def test_text_shows_as_itself(visit, path):
    with visit(path) as page:
        assert page.locator("h1").inner_text().endswith(OTHER)
        shown = page.locator("section").nth(1).locator("button.token")
        texts = shown.all_inner_texts()
        for token in ("🙂", "מים", "<", "script", '"'):
            assert token in texts
        heading = page.locator(".column h3").nth(1)
        assert heading.inner_text() == "after </script>"


@pytest.mark.pages
@pytest.mark.slow
def test_a_model_of_bases_size(visit, tmp_path, tokenizer):
    """64 tokens: the page opens, and shows the last layer on request."""
    config = configs.tiny(
        vocab_size=len(VOCAB),
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    model = heads.BertClassifier(config, num_labels=2)
    seen = observe.observe(model, tokenizer, "tom " * 62, name="base")
    path = tmp_path / "view.html"
    run.make_page([seen], "tom").write(str(path))
    assert path.stat().st_size < 5.5e6  # and half of it for half the tokens
    expected = attention_of(model, seen, tokenizer)[11, 0, 1, 2]
    with visit(path) as page:
        page.locator("select[data-name=layer]").select_option("12")
        rows = page.locator("section").nth(1).locator(".tokens")
        rows.nth(0).locator("button").nth(1).click()
        rows.nth(1).locator("button").nth(2).click()
        shown = page.locator(".readout").inner_text()
        assert "Layer 12, head 1: tom looks at tom with weight" in shown
        weight = float(shown.split()[-1].rstrip("."))
        assert weight == pytest.approx(expected, abs=1e-3)
