"""The code of docs/USE_A_MODEL.md runs, and prints what the page says."""

import pathlib
import re
import shutil

import keras

from helpers import configs
from keras_bert_ref import (
    BertClassifier,
    BertPretraining,
    BertSpan,
    BertTagger,
    FullTokenizer,
    save_checkpoint,
)

PAGE = pathlib.Path(__file__).parents[2] / "docs/USE_A_MODEL.md"


def write_model(folder, golden_dir, head, **kwargs):
    """A small model in a folder, as a run leaves it."""
    keras.utils.set_random_seed(3)
    size = len(FullTokenizer(golden_dir / "vocab.txt").vocab)
    model = head(configs.tiny(vocab_size=size), **kwargs)
    folder.mkdir()
    save_checkpoint(model, str(folder / "model.ckpt-1"))
    model.config.to_json_file(str(folder / "bert_config.json"))
    shutil.copy(golden_dir / "vocab.txt", folder)
    if head is BertTagger:
        (folder / "run.json").write_text('{"task": "ner"}')
    return str(folder)


def test_the_page(golden_dir, tmp_path, capsys):
    names = {
        "folder": write_model(tmp_path / "a", golden_dir, BertPretraining),
        "mrpc": write_model(
            tmp_path / "b", golden_dir, BertClassifier, num_labels=2
        ),
        "squad": write_model(tmp_path / "c", golden_dir, BertSpan),
        "ner": write_model(
            tmp_path / "d", golden_dir, BertTagger, num_labels=3
        ),
    }
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, names)
        expected = re.findall(r"^# (.*)$", block, re.M)
        assert capsys.readouterr().out.splitlines() == expected
