"""README tells the truth: its example runs, its files and targets exist."""

import pathlib
import re
import string

import pytest

from helpers import configs
from keras_bert_ref import BertModel, save_checkpoint

ROOT = pathlib.Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_example_runs(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (folder,) = re.findall(r'folder = "(.*?)"', code)
    letters = string.ascii_lowercase
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "?", *letters]
    vocab += [f"##{letter}" for letter in letters]
    config = configs.tiny(
        vocab_size=len(vocab),
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=64,
        type_vocab_size=16,
    )
    released = tmp_path / folder
    save_checkpoint(BertModel(config), str(released / "bert_model.ckpt"))
    config.to_json_file(str(released / "bert_config.json"))
    (released / "vocab.txt").write_text("\n".join(vocab) + "\n")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    # w-h-o w-a-s j-i-m h-e-n-s-o-n ? and two special tokens.
    assert "(1, 18, 24) (1, 24)" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"make ([a-z][a-z0-9-]+)", README))
    assert {"demo", "test", "test-tf219"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_file_map_is_true():
    block = README.split("## File map")[1].split("```")[1]
    names = re.findall(r"^(?:  )?([\w./]+(?:\.py|/))", block, re.MULTILINE)
    assert len(names) > 10
    for name in names:
        assert (ROOT / name).exists() or (
            ROOT / "keras_bert_ref" / name
        ).exists(), name
