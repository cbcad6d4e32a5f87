"""Size and speed of the page of a text, for a model of Base's size.

    python benchmarks/view.py

Random weights and the vocabulary's first words; chromium at
/usr/bin/chromium, driven by playwright. Time to open runs from the request of
the file to the first frame with everything in it, time of a click from the
choice of another layer to the next frame. Both by the page's own clock,
medians of five.
"""

import pathlib
import statistics
import sys
import tempfile

from data import describe_machine

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from helpers import browser  # noqa: E402
from keras_bert_ref import BertConfig, heads  # noqa: E402
from keras_bert_ref.tokenization import FullTokenizer  # noqa: E402
from keras_bert_ref.view import observe, run  # noqa: E402

ROUNDS = 5
# Times in milliseconds until a frame is drawn.
OPENED = """() => new Promise(done => requestAnimationFrame(() =>
  setTimeout(() => done(performance.now()))))"""
CLICKED = """() => new Promise(done => {
  const select = document.querySelector("select[data-name=layer]");
  const start = performance.now();
  select.selectedIndex = 11;
  select.dispatchEvent(new Event("change"));
  requestAnimationFrame(() =>
    setTimeout(() => done(performance.now() - start)));
})"""


def write_page(num_tokens: int, folder: pathlib.Path) -> pathlib.Path:
    words = [f"w{i}" for i in range(30517)]
    vocab = folder / "vocab.txt"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab.write_text("\n".join(special + words) + "\n")
    config = BertConfig(vocab_size=len(special + words))
    text = " ".join(words[: num_tokens - 2])
    seen = observe.observe(
        heads.BertPretraining(config),
        FullTokenizer(str(vocab)),
        text,
        name="Base",
    )
    path = folder / f"{num_tokens}.html"
    run.make_page([seen], text).write(str(path))
    return path


def main() -> None:
    print(describe_machine(), end="\n\n")
    print("| Tokens | Size | Opens in | A click takes |")
    print("|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, browser.start() as visit:
        for num_tokens in (32, 64, 128):
            path = write_page(num_tokens, pathlib.Path(folder))
            opened, clicked = [], []
            for _ in range(ROUNDS):
                with visit(path) as page:
                    opened.append(page.evaluate(OPENED) / 1000)
                    clicked.append(page.evaluate(CLICKED) / 1000)
            print(
                f"| {num_tokens} | {path.stat().st_size / 1e6:.1f} MB | "
                f"{statistics.median(opened):.2f} s | "
                f"{statistics.median(clicked):.2f} s |"
            )


if __name__ == "__main__":
    main()
