"""keras-hub's BertBackbone: the same weights give the same numbers."""

import dataclasses

import numpy as np
import pytest

from helpers import configs
from keras_bert_ref import heads
from keras_bert_ref.checkpoints import conversion, keras_hub
from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.modeling import BertModel

CONFIG = configs.tiny(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=7,
    type_vocab_size=3,
)
VOCABULARY = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nE\n##b\ne\nf\n"


@pytest.fixture
def pretrained():
    made = Pretrained.of(BertModel(CONFIG))
    # Biases and norms start as zeros and ones, which would hide a mix-up.
    rng = np.random.default_rng(1)
    for name, value in made.tensors.items():
        made.tensors[name] = rng.normal(size=value.shape).astype("float32")
    made.vocabulary = VOCABULARY
    return made


@pytest.fixture
def golden(golden_dir):
    made = conversion.read_tf1(str(golden_dir / "model" / "bert_model.ckpt"))
    made.config = dataclasses.replace(made.config, hidden_act="gelu")
    return made


def assert_same_tensors(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == np.float32, name
        assert actual[name].tobytes() == value.tobytes(), name


def test_golden_outputs_on_padded_batches(golden):
    config = golden.config
    rng = np.random.default_rng(2)
    model, backbone = golden.build(), keras_hub.to_backbone(golden)
    for length in (3, config.max_position_embeddings):
        ids = rng.integers(config.vocab_size, size=(5, length))
        mask = np.arange(length) < rng.integers(1, length + 1, (5, 1))
        segments = rng.integers(config.type_vocab_size, size=(5, length))
        ours = model(ids, mask, segments)
        theirs = backbone(
            {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}
        )
        for name in ("sequence_output", "pooled_output"):
            np.testing.assert_allclose(
                ours[name], theirs[name], rtol=0, atol=1e-5, err_msg=name
            )


def test_golden_round_trip(golden, tmp_path):
    keras_hub.write(str(tmp_path / "preset"), golden)
    again = keras_hub.read(str(tmp_path / "preset"))
    encoder = {n: v for n, v in golden.tensors.items() if n.startswith("bert/")}
    assert_same_tensors(again.tensors, encoder)
    for argument, key in keras_hub.SIZES.items():
        ours, theirs = getattr(golden.config, key), getattr(again.config, key)
        assert ours == theirs, argument


def test_config_goes_along(pretrained):
    pretrained.config = dataclasses.replace(
        CONFIG, hidden_dropout_prob=0.25, attention_probs_dropout_prob=0.25
    )
    again = keras_hub.from_backbone(keras_hub.to_backbone(pretrained))
    assert again.config == pretrained.config
    assert_same_tensors(again.tensors, pretrained.tensors)


def test_backbone_of_a_model_and_back(pretrained):
    """The API without files."""
    backbone = keras_hub.to_backbone(Pretrained.of(pretrained.build()))
    model = keras_hub.from_backbone(backbone).build()
    assert_same_tensors(Pretrained.of(model).tensors, pretrained.tensors)


def test_half_precision_backbone_gives_float32():
    import keras_hub as hub

    kwargs = {arg: getattr(CONFIG, key) for arg, key in keras_hub.SIZES.items()}
    backbone = hub.models.BertBackbone(**kwargs, dtype="bfloat16")
    tensors = keras_hub.from_backbone(backbone).tensors
    assert {value.dtype for value in tensors.values()} == {np.dtype("float32")}


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_preset_has_the_original_tokenizer(pretrained, tmp_path, do_lower_case):
    import keras_hub as hub

    pretrained.do_lower_case = do_lower_case
    keras_hub.write(str(tmp_path), pretrained)
    tokenizer = hub.models.BertTokenizer.from_preset(str(tmp_path))
    # Lower-casing takes the accent away too.
    expected = [VOCABULARY.split().index(b"e")] if do_lower_case else [1]
    assert list(tokenizer("É")) == expected
    again = keras_hub.read(str(tmp_path))
    assert again.vocabulary == VOCABULARY
    assert again.do_lower_case is do_lower_case


def test_vocabulary_is_kept_to_the_byte(pretrained, tmp_path):
    """keras-hub itself would strip words: the Chinese file has a space."""
    pretrained.vocabulary = VOCABULARY.replace(b"\nf\n", b"\n\xc2\xa0\n")
    keras_hub.write(str(tmp_path), pretrained)
    assert keras_hub.read(str(tmp_path)).vocabulary == pretrained.vocabulary


def test_folder_named_like_a_known_preset(pretrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras_hub.write("bert_tiny_en_uncased", pretrained)
    again = keras_hub.read("bert_tiny_en_uncased")
    assert_same_tensors(again.tensors, pretrained.tensors)


def test_head_is_left_out_with_a_warning(caplog):
    made = Pretrained.of(heads.BertPretraining(CONFIG))
    keras_hub.to_backbone(made)
    assert "cls/predictions/output_bias" in caplog.text


def test_head_of_a_preset_is_noted(pretrained, tmp_path):
    keras_hub.write(str(tmp_path), pretrained)
    (tmp_path / "task.json").write_text("{}")
    assert keras_hub.read(str(tmp_path)).left_out == ["heads: task.json"]


@pytest.mark.parametrize("hidden_act", ["gelu_erf", "relu"])
def test_other_activation_is_refused(pretrained, hidden_act):
    pretrained.config = dataclasses.replace(CONFIG, hidden_act=hidden_act)
    message = f"hidden_act='{hidden_act}', but .* tanh form .* kept.* convert"
    with pytest.raises(ValueError, match=message):
        keras_hub.to_backbone(pretrained)


def test_missing_pooler_is_refused(pretrained):
    del pretrained.tensors["bert/pooler/dense/kernel"]
    message = "lacks bert/pooler/dense/kernel; .*that is whole"
    with pytest.raises(ValueError, match=message):
        keras_hub.to_backbone(pretrained)


def test_wrong_shape_is_refused(pretrained):
    name = "bert/embeddings/word_embeddings"
    pretrained.tensors[name] = pretrained.tensors[name][:-1]
    message = rf"{name} has the shape \[11, 6\] in the model and \[10, 6\]"
    with pytest.raises(ValueError, match=message):
        keras_hub.to_backbone(pretrained)


def test_other_backbone_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"class_name": "GPT2Backbone"}')
    message = "describes 'GPT2Backbone'; only the preset of a BertBackbone"
    with pytest.raises(ValueError, match=message):
        keras_hub.read(str(tmp_path))
