"""Conversions between the three formats, and what stops them."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from helpers import configs
from keras_bert_ref import heads, optimization
from keras_bert_ref.checkpoints import (
    conversion,
    convert,
    huggingface,
    tf1,
)
from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.config import BertConfig
from keras_bert_ref.modeling import BertModel

CONFIG = configs.tiny(vocab_size=11, num_hidden_layers=2)
VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\n"
FORMATS = list(conversion.WRITERS)


@pytest.fixture
def source(tmp_path):
    """A released folder with both heads of pre-training."""
    made = Pretrained.of(heads.BertPretraining(CONFIG))
    made.vocabulary = VOCABULARY
    conversion.write_tf1(str(tmp_path / "source"), made)
    return tmp_path / "source"


def assert_same_tensors(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("middle", FORMATS)
def test_golden_model_through_each_format(golden_dir, tmp_path, middle):
    source = str(golden_dir / "model" / "bert_model.ckpt")
    there, back = str(tmp_path / "there"), str(tmp_path / "back")
    assert conversion.convert(source, there, middle) <= 1e-5
    assert conversion.detect_format(there) == middle
    assert conversion.convert(there, back) <= 1e-5
    expected = tf1.read(source)
    if middle == "keras_hub":  # which has no heads
        expected = {n: v for n, v in expected.items() if n.startswith("bert/")}
    assert_same_tensors(tf1.read(f"{back}/bert_model.ckpt"), expected)
    BertModel.from_checkpoint(back)


@pytest.mark.parametrize("through", FORMATS)
def test_vocabulary_goes_along(source, tmp_path, through):
    conversion.convert(str(source), str(tmp_path / "there"), through)
    conversion.convert(str(tmp_path / "there"), str(tmp_path / "back"))
    assert (tmp_path / "back" / "vocab.txt").read_bytes() == VOCABULARY


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_erf", "relu"])
def test_activation_is_kept(source, tmp_path, hidden_act):
    config = dataclasses.replace(CONFIG, hidden_act=hidden_act)
    config.to_json_file(str(source / "bert_config.json"))
    there, back = tmp_path / "there", tmp_path / "back"
    conversion.convert(str(source), str(there), "huggingface")
    conversion.convert(str(there), str(back))
    again = BertConfig.from_json_file(str(back / "bert_config.json"))
    assert again == config


def test_training_checkpoint_loses_its_slots_and_says_so(tmp_path, capsys):
    model = heads.BertClassifier(CONFIG, num_labels=3)
    model.build()
    optimizer = optimization.AdamWeightDecay()
    prefix = tmp_path / "source" / "model.ckpt-0"
    resume = {"keras_bert_ref/records_seen": np.int64(9)}
    tf1.save(model, str(prefix), optimizer, resume)
    CONFIG.to_json_file(str(tmp_path / "source" / "bert_config.json"))
    conversion.convert(str(prefix), str(tmp_path / "target"))
    report = capsys.readouterr().out
    assert f"Adam slots: {2 * len(model.weights)}" in report
    assert "global_step: 0" in report
    assert "encoder, pooler, classifier head; hidden_act=gelu" in report
    written = tf1.read(str(tmp_path / "target" / "bert_model.ckpt"))
    assert_same_tensors(written, Pretrained.of(model).tensors)


def test_saved_model_is_a_source(source, tmp_path):
    saved = tmp_path / "saved_model"
    (saved / "variables").mkdir(parents=True)
    for path in source.iterdir():
        name = path.name.replace("bert_model.ckpt", "variables/variables")
        path.rename(saved / name)
    conversion.convert(str(saved), str(tmp_path / "target"))
    again = conversion.read_tf1(str(tmp_path / "target"))
    assert_same_tensors(again.tensors, conversion.read_tf1(str(saved)).tensors)
    assert again.vocabulary == VOCABULARY


def test_report_of_what_is_lost(source, tmp_path, capsys):
    config = dataclasses.replace(CONFIG, attention_probs_dropout_prob=0.2)
    config.to_json_file(str(source / "bert_config.json"))
    conversion.convert(str(source), str(tmp_path / "target"), "keras_hub")
    report = capsys.readouterr().out
    assert "Left out: tensors: cls/predictions/output_bias, " in report
    assert "config keys: attention_probs_dropout_prob=0.2\n" in report
    assert "Not in the target: masked-word head, next-sentence" in report
    assert "Vocabulary copied; do_lower_case=True" in report
    assert "differ by at most 0\n" in report


def test_report_of_a_model_without_pooler_and_vocabulary(
    source, tmp_path, capsys
):
    made = conversion.read_tf1(str(source))
    made.config = dataclasses.replace(CONFIG, hidden_act="gelu_erf")
    made.vocabulary = None
    for name in [n for n in made.tensors if "pooler" in n]:
        del made.tensors[name]
    huggingface.write(str(tmp_path / "bare"), made)
    conversion.convert(str(tmp_path / "bare"), str(tmp_path / "target"))
    report = capsys.readouterr().out
    assert "Not in the target: pooler, " in report
    assert "No vocabulary" in report
    assert "2018 does not know hidden_act=gelu_erf" in report


def test_existing_target_is_never_touched(source, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(FileExistsError, match="target exists and is not over"):
        conversion.convert(str(source), f"{target}/", "huggingface")
    assert not list(target.iterdir())


def test_failure_leaves_nothing_behind(source, tmp_path):
    config = dataclasses.replace(CONFIG, hidden_act="gelu_erf")
    config.to_json_file(str(source / "bert_config.json"))
    with pytest.raises(ValueError, match="hidden_act='gelu_erf'"):
        conversion.convert(str(source), str(tmp_path / "target"), "keras_hub")
    assert os.listdir(tmp_path) == ["source"]


def test_change_of_a_tensor_is_noticed(source):
    made = conversion.read_tf1(str(source))
    again = dataclasses.replace(made, tensors=dict(made.tensors))
    name = "bert/embeddings/LayerNorm/beta"
    again.tensors[name] = again.tensors[name] + np.float32(1e-7)
    with pytest.raises(ValueError, match=f"loaded back and {name} is not what"):
        conversion.check(made, conversion.compute(made), again)
    del again.tensors[name]
    with pytest.raises(ValueError, match=f"loaded back and {name} is not what"):
        conversion.check(made, conversion.compute(made), again)


def test_change_of_the_outputs_is_noticed(source):
    made = conversion.read_tf1(str(source))
    config = dataclasses.replace(CONFIG, hidden_act="relu")
    again = dataclasses.replace(made, config=config)
    message = r"outputs differ by .* > 1e-05; it is not kept\. .* report"
    with pytest.raises(ValueError, match=message):
        conversion.check(made, conversion.compute(made), again)


def test_source_with_another_config(source, tmp_path):
    config = dataclasses.replace(CONFIG, num_hidden_layers=3)
    config.to_json_file(str(source / "bert_config.json"))
    message = "source lacks 16 weights of the encoder.*config has more layers"
    with pytest.raises(ValueError, match=message):
        conversion.convert(str(source), str(tmp_path / "target"))


def test_no_source(tmp_path):
    message = "no folder and no TF1 checkpoint at .*nowhere.*without `.index`"
    with pytest.raises(FileNotFoundError, match=message):
        conversion.detect_format(str(tmp_path / "nowhere"))


def test_folder_of_something_else(tmp_path):
    message = r"is no model: .*bert_model\.ckpt\.index.*config\.json"
    with pytest.raises(ValueError, match=message):
        conversion.detect_format(str(tmp_path))


def test_folder_with_two_formats(source):
    (source / "config.json").write_text(json.dumps({"model_type": "bert"}))
    message = "a model in tf1 and one in huggingface format"
    with pytest.raises(ValueError, match=message):
        conversion.detect_format(str(source))
    assert conversion.detect_format(str(source / "bert_model.ckpt")) == "tf1"


@pytest.mark.slow
def test_command(source, tmp_path):
    def run(*args):
        command = [sys.executable, "-m", "keras_bert_ref.checkpoints.convert"]
        return subprocess.run(
            [*command, *args], capture_output=True, text=True, check=False
        )

    target = tmp_path / "target"
    args = [f"--source={source}", f"--target={target}"]
    done = run(*args, "--target_format=huggingface")
    assert done.returncode == 0, done.stderr
    assert f"Wrote {target} (huggingface)" in done.stdout
    assert huggingface.read(str(target)).vocabulary == VOCABULARY
    again = run(*args)
    assert again.returncode == 1
    assert f"Error: {target} exists" in again.stderr
    assert "Traceback" not in again.stderr


def test_formats_of_the_flag():
    assert tuple(conversion.READERS) == tuple(conversion.WRITERS)
    assert tuple(conversion.WRITERS) == convert.FORMATS
