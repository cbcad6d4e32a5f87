"""BertConfig, and the released architectures in configs/models."""

import json
import math
import pathlib
import re
import warnings

import keras
import pytest

from keras_bert_ref import config as config_lib
from keras_bert_ref import layers, modeling
from keras_bert_ref.config import BertConfig, find_model, find_run

MODELS = pathlib.Path(__file__).parent.parent / "configs" / "models"

# Encoder with pooler.
NUM_PARAMETERS = {
    "cased_L-12_H-768_A-12": 108_310_272,
    "cased_L-24_H-1024_A-16": 333_579_264,
    "chinese_L-12_H-768_A-12": 102_267_648,
    "multi_cased_L-12_H-768_A-12": 177_853_440,
    "multilingual_L-12_H-768_A-12": 167_356_416,
    "uncased_L-2_H-128_A-2": 4_385_920,
    "uncased_L-2_H-256_A-4": 9_591_040,
    "uncased_L-2_H-512_A-8": 22_458_880,
    "uncased_L-2_H-768_A-12": 38_603_520,
    "uncased_L-4_H-128_A-2": 4_782_464,
    "uncased_L-4_H-256_A-4": 11_170_560,
    "uncased_L-4_H-512_A-8": 28_763_648,
    "uncased_L-4_H-768_A-12": 52_779_264,
    "uncased_L-6_H-128_A-2": 5_179_008,
    "uncased_L-6_H-256_A-4": 12_750_080,
    "uncased_L-6_H-512_A-8": 35_068_416,
    "uncased_L-6_H-768_A-12": 66_955_008,
    # Of table 6, never released.
    "uncased_L-3_H-768_A-12": 45_691_392,
    "uncased_L-6_H-768_A-3": 66_955_008,
    "uncased_L-12_H-1024_A-16": 183_987_200,
    "uncased_L-8_H-128_A-2": 5_575_552,
    "uncased_L-8_H-256_A-4": 14_329_600,
    "uncased_L-8_H-512_A-8": 41_373_184,
    "uncased_L-8_H-768_A-12": 81_130_752,
    "uncased_L-10_H-128_A-2": 5_972_096,
    "uncased_L-10_H-256_A-4": 15_909_120,
    "uncased_L-10_H-512_A-8": 47_677_952,
    "uncased_L-10_H-768_A-12": 95_306_496,
    "uncased_L-12_H-128_A-2": 6_368_640,
    "uncased_L-12_H-256_A-4": 17_488_640,
    "uncased_L-12_H-512_A-8": 53_982_720,
    "uncased_L-12_H-768_A-12": 109_482_240,
    "uncased_L-24_H-1024_A-16": 335_141_888,
    "wwm_cased_L-24_H-1024_A-16": 333_579_264,
    "wwm_uncased_L-24_H-1024_A-16": 335_141_888,
}


def test_every_released_architecture_has_a_file():
    assert {path.stem for path in MODELS.iterdir()} == NUM_PARAMETERS.keys()


@pytest.mark.parametrize("name", NUM_PARAMETERS)
def test_number_of_parameters(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # released files load without a word
        config = BertConfig.from_json_file(str(MODELS / f"{name}.json"))
    layers, hidden, heads = re.search(r"L-(\d+)_H-(\d+)_A-(\d+)", name).groups()
    assert config.num_hidden_layers == int(layers)
    assert config.hidden_size == int(hidden)
    assert config.num_attention_heads == int(heads)
    # Shapes without values: 32 models would not fit into memory.
    with keras.StatelessScope(initialize_variables=False):
        model = modeling.BertModel(config)
        model.build()
    keras.utils.clear_session(free_memory=False)  # forgets to fill them later
    counted = sum(math.prod(weight.shape) for weight in model.weights)
    assert counted == NUM_PARAMETERS[name]


def test_released_files_equal_ours(shared_dir):
    folders = list((shared_dir / "data/weights/index_only").iterdir())
    assert folders
    for folder in folders:
        theirs = json.loads((folder / "bert_config.json").read_text())
        ours = json.loads((MODELS / f"{folder.name}.json").read_text())
        assert ours == theirs, folder.name


def test_defaults_are_the_originals():
    assert BertConfig(vocab_size=99).to_dict() == {
        "vocab_size": 99,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 16,
        "initializer_range": 0.02,
    }


def test_json_round_trip_keeps_unknown_keys(tmp_path):
    path = str(tmp_path / "bert_config.json")
    values = {"vocab_size": 99, "my_key": [1, 2], "pooler_type": "other"}
    with pytest.warns(UserWarning, match="my_key") as caught:
        config = BertConfig.from_dict(values)
    assert len(caught) == 1
    assert "pooler_type" not in str(caught[0].message)
    config.to_json_file(path)
    with pytest.warns(UserWarning, match="my_key"):
        again = BertConfig.from_json_file(path)
    assert again.to_dict() == config.to_dict()
    assert again.my_key == [1, 2]
    assert again.pooler_type == "other"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_size": 130}, "hidden_size=130 is not divisible by .*=12"),
        ({"hidden_size": 0}, "hidden_size=0 must be a positive whole number"),
        ({"vocab_size": "9"}, "vocab_size='9' must be a positive whole"),
        ({"num_hidden_layers": 2.5}, "num_hidden_layers=2.5 must be"),
        (
            {"hidden_act": "swish"},
            "hidden_act='swish' is not known; use .*gelu",
        ),
        ({"hidden_dropout_prob": 1}, "hidden_dropout_prob=1 is not a rate"),
        ({"hidden_dropout_prob": None}, "hidden_dropout_prob=None must be a n"),
        ({"initializer_range": 0.0}, "initializer_range=0.0 must be positive"),
    ],
)
def test_bad_values(values, message):
    with pytest.raises(ValueError, match=message):
        BertConfig.from_dict({"vocab_size": 99, **values})


def test_vocab_size_is_required():
    with pytest.raises(ValueError, match="needs vocab_size.*hidden_size"):
        BertConfig.from_dict({"hidden_size": 768})


@pytest.mark.parametrize(
    ("text", "message"),
    [("{'a': 1}", "is not JSON"), ("[1]", "holds a JSON list")],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "bert_config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        BertConfig.from_json_file(str(path))


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="No BERT config at .*nope"):
        BertConfig.from_json_file(str(tmp_path / "nope.json"))


def test_every_activation_has_a_function():
    assert set(config_lib.ACTIVATIONS) == set(layers.ACTIVATION_FUNCTIONS)


@pytest.mark.parametrize(
    "name",
    [
        "uncased_L-12_H-768_A-12",
        "uncased_L-12_H-768_A-12.json",
        "configs/models/uncased_L-12_H-768_A-12.json",
    ],
)
def test_models_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = BertConfig.from_json_file(find_model(name))
    assert (found.num_hidden_layers, found.vocab_size) == (12, 30522)


def test_a_file_at_hand_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "configs/models/uncased_L-12_H-768_A-12.json"
    (tmp_path / "configs/models").mkdir(parents=True)
    (tmp_path / name).write_text("{}")
    assert find_model(name) == name


@pytest.mark.parametrize("name", ["nothing.json", "gs://bucket/config.json"])
def test_other_names_stay_as_they_are(name):
    assert find_model(name) == name
    assert find_run(name) == name


def test_folder_of_a_released_model(tmp_path, monkeypatch):
    """It may be named like a config of ours; its own is what is meant."""
    monkeypatch.chdir(tmp_path)
    name = "uncased_L-12_H-768_A-12"
    (tmp_path / name).mkdir()
    assert find_model(name).endswith(f"configs/models/{name}.json")
    (tmp_path / name / "bert_config.json").write_text("{}")
    assert find_model(name) == f"{name}/bert_config.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"initializer_range": NaN', "initializer_range=nan .* and finite"),
        ('"initializer_range": 1e999', "initializer_range=inf .* and finite"),
        ('"vocab_size": 1' + "0" * 30, "vocab_size=1000.* than any model has"),
        ('"hidden_size": 5, "hidden_size": 6', "'hidden_size' is there twice"),
        ('"to_dict": 1', "'to_dict' is the name of a method"),
        (f'"a": {"[" * 500}{"]" * 500}', "'a' has .*too deep to write"),
        (f'"a": {"[" * 100_000}', "too deep to read"),
        ('"num_hidden_layers": 0', "num_hidden_layers=0 must be"),
        ('"hidden_act": "swish"', "hidden_act='swish' is not known"),
    ],
)
def test_errors_name_the_file(tmp_path, text, message):
    path = tmp_path / "bert_config.json"
    start = "" if "vocab_size" in text else '"vocab_size": 5, '
    path.write_text(f"{{{start}{text}}}")
    with pytest.raises(ValueError, match=f"bert_config.json.*{message}"):
        BertConfig.from_json_file(str(path))
