"""Hugging Face folders: names, shapes, configs, and what is refused.

tests/test_peer_models.py compares with transformers itself.
"""

import json
import re

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from helpers import configs
from keras_bert_ref import heads
from keras_bert_ref.checkpoints import conversion, huggingface
from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.config import BertConfig
from keras_bert_ref.modeling import BertModel

CONFIG = configs.tiny(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=7,
)
VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\ne\nf\n"


@pytest.fixture
def pretrained():
    made = Pretrained.of(heads.BertPretraining(CONFIG))
    # Biases and norms start as zeros and ones, which would hide a mix-up.
    rng = np.random.default_rng(1)
    for name, value in made.tensors.items():
        made.tensors[name] = rng.normal(size=value.shape).astype("float32")
    made.vocabulary = VOCABULARY
    return made


@pytest.fixture
def folder(pretrained, tmp_path):
    huggingface.write(str(tmp_path), pretrained)
    return tmp_path


def load(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def save(folder, arrays, name="model.safetensors"):
    safetensors.numpy.save_file(arrays, folder / name)


def edit_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def assert_same_tensors(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == np.float32, name
        assert actual[name].tobytes() == value.tobytes(), name


def test_golden_round_trip(golden_dir, tmp_path):
    before = conversion.read_tf1(str(golden_dir / "model" / "bert_model.ckpt"))
    huggingface.write(str(tmp_path), before)
    after = huggingface.read(str(tmp_path))
    assert_same_tensors(after.tensors, before.tensors)
    assert after.config == before.config


def test_names_and_shapes_in_the_file(folder, pretrained):
    ours, theirs = pretrained.tensors, load(folder)
    layer = "bert/encoder/layer_1/"
    for original, name in {
        "bert/embeddings/word_embeddings": "bert.embeddings.word_embeddings."
        "weight",
        "bert/embeddings/LayerNorm/gamma": "bert.embeddings.LayerNorm.weight",
        f"{layer}attention/output/LayerNorm/beta": "bert.encoder.layer.1."
        "attention.output.LayerNorm.bias",
        "bert/pooler/dense/bias": "bert.pooler.dense.bias",
        "cls/predictions/output_bias": "cls.predictions.bias",
        "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    }.items():
        np.testing.assert_array_equal(theirs[name], ours[original])
    for original, name in {
        f"{layer}attention/self/query/kernel": "bert.encoder.layer.1."
        "attention.self.query.weight",
        f"{layer}intermediate/dense/kernel": "bert.encoder.layer.1."
        "intermediate.dense.weight",
        "cls/predictions/transform/dense/kernel": "cls.predictions."
        "transform.dense.weight",
    }.items():
        np.testing.assert_array_equal(theirs[name], ours[original].T)
    assert len(theirs) == len(ours)


@pytest.mark.parametrize(
    ("model", "architecture"),
    [
        (BertModel(CONFIG), "BertModel"),
        (heads.BertPretraining(CONFIG), "BertForPreTraining"),
        (heads.BertClassifier(CONFIG, 3), "BertForSequenceClassification"),
        (heads.BertSpan(CONFIG), "BertForQuestionAnswering"),
    ],
)
def test_every_name_there_and_back(model, architecture):
    made = Pretrained.of(model)
    for name in made.tensors:
        theirs = huggingface.name_of(name)
        assert huggingface.original_name_of(theirs) == name
    values = huggingface.config_to_dict(CONFIG, made.tensors)
    assert values["architectures"] == [architecture]


def test_architecture_of_one_pretraining_head(pretrained):
    for head, architecture in {
        "cls/predictions/output_bias": "BertForMaskedLM",
        "cls/seq_relationship/output_weights": "BertForNextSentencePrediction",
    }.items():
        tensors = {head: pretrained.tensors[head]}
        values = huggingface.config_to_dict(CONFIG, tensors)
        assert values["architectures"] == [architecture]


def test_classifier_config_has_labels_and_the_original_dropout():
    made = Pretrained.of(heads.BertClassifier(CONFIG, num_labels=2))
    values = huggingface.config_to_dict(CONFIG, made.tensors)
    assert values["label2id"] == {"LABEL_0": 0, "LABEL_1": 1}
    assert values["classifier_dropout"] == 0.1


def test_vocabulary_and_case_go_along(folder):
    again = huggingface.read(str(folder))
    assert again.vocabulary == VOCABULARY
    assert again.do_lower_case is True


def test_folder_without_vocabulary(pretrained, tmp_path):
    pretrained.vocabulary = None
    huggingface.write(str(tmp_path), pretrained)
    assert not (tmp_path / "tokenizer_config.json").exists()
    assert huggingface.read(str(tmp_path)).vocabulary is None


def test_bare_model_of_an_old_version(folder, pretrained):
    """No prefix, gamma and beta, constants, tied copies."""
    arrays = {}
    for name, value in load(folder).items():
        name = name.removeprefix("bert.")
        if "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        arrays[name] = value
    arrays["embeddings.position_ids"] = np.arange(7)[None]
    arrays["cls.predictions.decoder.weight"] = arrays[
        "embeddings.word_embeddings.weight"
    ].copy()
    # Some files have only this copy of the bias.
    arrays["cls.predictions.decoder.bias"] = arrays.pop("cls.predictions.bias")
    save(folder, arrays)
    again = huggingface.read(str(folder))
    assert_same_tensors(again.tensors, pretrained.tensors)
    assert not any("tensors" in line for line in again.left_out)


def test_sharded_folder(folder, pretrained):
    arrays = load(folder)
    names = sorted(arrays)
    shards = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, part in shards.items():
        save(folder, {name: arrays[name] for name in part}, file)
    (folder / "model.safetensors").unlink()
    weight_map = {n: file for file, part in shards.items() for n in part}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    again = huggingface.read(str(folder))
    assert_same_tensors(again.tensors, pretrained.tensors)
    (folder / "b.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*b\.safetensors"):
        huggingface.read(str(folder))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision_becomes_float32(folder, pretrained, dtype):
    dtype = dtype.as_numpy_dtype
    arrays = {name: value.astype(dtype) for name, value in load(folder).items()}
    save(folder, arrays)
    expected = {
        name: value.astype(dtype).astype(np.float32)
        for name, value in pretrained.tensors.items()
    }
    assert_same_tensors(huggingface.read(str(folder)).tensors, expected)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu", "gelu_erf"),
        ("gelu_new", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("relu", "relu"),
        ("tanh", "tanh"),
    ],
)
def test_activation_read(theirs, ours):
    config = huggingface.config_from_dict({"hidden_act": theirs}, "")
    assert config.hidden_act == ours


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("gelu_erf", "gelu"),
        ("gelu", "gelu_new"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_activation_written(ours, theirs):
    config = BertConfig(vocab_size=5, hidden_act=ours)
    assert huggingface.config_to_dict(config, {})["hidden_act"] == theirs


def test_config_defaults_are_those_of_transformers():
    config = huggingface.config_from_dict({}, "")
    assert config.vocab_size == 30522
    assert config.type_vocab_size == 2
    assert config.hidden_act == "gelu_erf"


def test_what_is_left_out_is_listed(folder, pretrained, caplog):
    arrays = load(folder)
    arrays["adapter.weight"] = np.zeros(2, np.float32)
    save(folder, arrays)
    edit_config(folder, use_cache=True)
    left_out = huggingface.read(str(folder)).left_out
    assert "tensors: adapter.weight" in left_out
    assert "config keys: use_cache" in left_out
    pretrained.tensors["my_head/kernel"] = np.zeros(2, np.float32)
    huggingface.write(str(folder), pretrained)
    assert "my_head/kernel" in caplog.text


@pytest.mark.parametrize(
    ("key", "value", "needed"),
    [
        ("model_type", "roberta", "bert"),
        ("layer_norm_eps", 1e-05, "1e-12"),
        ("position_embedding_type", "relative_key", "absolute"),
        ("add_cross_attention", True, "False"),
        ("pruned_heads", {"1": [0]}, "{}"),
    ],
)
def test_config_that_computes_otherwise_is_refused(folder, key, value, needed):
    edit_config(folder, **{key: value})
    message = rf"{key}={re.escape(repr(value))}; .* with .*{needed}"
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))


def test_unknown_activation_is_refused(folder):
    edit_config(folder, hidden_act="silu")
    message = "hidden_act='silu', so the numbers could not be kept.*gelu_new"
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))


@pytest.mark.parametrize(
    ("copy", "of"),
    [
        ("decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("decoder.bias", "cls.predictions.bias"),
    ],
)
def test_untied_output_layer_is_refused(folder, copy, of):
    arrays = load(folder)
    arrays[f"cls.predictions.{copy}"] = arrays[of] + 1
    save(folder, arrays)
    with pytest.raises(ValueError, match=f"{copy} differs from {of}"):
        huggingface.read(str(folder))


def test_integer_weights_are_refused(folder):
    arrays = load(folder)
    arrays["bert.pooler.dense.bias"] = np.zeros(6, np.int8)
    save(folder, arrays)
    message = r"bert\.pooler\.dense\.bias in .* has the type I8; .*float32"
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))


def test_damaged_file(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    message = r"model\.safetensors is damaged or cut short .*download"
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))


def test_missing_weights(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    message = r"has no model\.safetensors.*save_pretrained"
    with pytest.raises(FileNotFoundError, match=message):
        huggingface.read(str(folder))


def test_missing_config(folder):
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*config\.json"):
        huggingface.read(str(folder))


@pytest.mark.parametrize(
    "name", ["../x.safetensors", "/etc/x", "a/b.safetensors", "..", "", 5]
)
def test_index_names_no_other_folder(folder, name):
    (folder / "model.safetensors").unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    message = f"files in its own folder, but .*index.json has {name!r}"
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))
    index.write_text("{}")
    with pytest.raises(ValueError, match="index.json has None there"):
        huggingface.read(str(folder))


def test_weights_that_are_not_finite(folder):
    arrays = load(folder)
    arrays["bert.pooler.dense.bias"][1] = np.nan
    save(folder, arrays)
    message = f"bert/pooler/dense/bias of {folder} are not all finite"
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))


def test_casing_is_true_or_false(folder):
    path = folder / "tokenizer_config.json"
    path.write_text('{"do_lower_case": "false"}')
    message = "true or false, but .*tokenizer_config.json has 'false'"
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\n", "vocab.txt is empty"), (b"\xe4", "line 1 of .*vocab.txt is not")],
)
def test_vocabulary_without_words(folder, content, message):
    (folder / "vocab.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        huggingface.read(str(folder))


def test_errors_in_the_config_name_the_file(folder):
    edit_config(folder, initializer_range=float("nan"))
    with pytest.raises(ValueError, match="config.json: initializer_range=nan"):
        huggingface.read(str(folder))
