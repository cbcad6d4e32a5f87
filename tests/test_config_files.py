"""Configs of ours by name, everybody else's by their path."""

import pytest

from keras_bert_ref import config_files
from keras_bert_ref.config import BertConfig


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
    config = BertConfig.from_json_file(config_files.find_model(name))
    assert (config.num_hidden_layers, config.vocab_size) == (12, 30522)


def test_a_file_at_hand_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "configs/models/uncased_L-12_H-768_A-12.json"
    (tmp_path / "configs/models").mkdir(parents=True)
    (tmp_path / name).write_text("{}")
    assert config_files.find_model(name) == name


@pytest.mark.parametrize("name", ["nothing.json", "gs://bucket/config.json"])
def test_other_names_stay_as_they_are(name):
    assert config_files.find_model(name) == name
    assert config_files.find_run(name) == name
