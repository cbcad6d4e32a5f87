"""What the converters hand each other, and files of folders."""

import numpy as np
import pytest

from helpers import configs
from keras_bert_ref import heads
from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.modeling import BertModel

CONFIG = configs.tiny(
    vocab_size=9,
    hidden_size=4,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=5,
    max_position_embeddings=6,
)


def test_model_there_and_back():
    model = heads.BertClassifier(CONFIG, num_labels=3)
    made = Pretrained.of(model)
    again = made.build(heads.BertClassifier, num_labels=3)
    batch = {"input_ids": np.arange(6)[None]}
    np.testing.assert_array_equal(again(batch), model(batch))
    assert {"output_weights", "bert/pooler/dense/bias"} <= made.tensors.keys()


def test_fill_names_what_is_missing():
    made = Pretrained.of(BertModel(CONFIG))
    del made.tensors["bert/pooler/dense/kernel"]
    missing = made.fill(heads.BertSpan(CONFIG))
    assert missing == [
        "bert/pooler/dense/kernel",
        "cls/squad/output_weights",
        "cls/squad/output_bias",
    ]


def test_missing_encoder_weights():
    made = Pretrained.of(BertModel(CONFIG))
    made.source = "somewhere"
    for name in [n for n in made.tensors if "layer_1" in n]:
        del made.tensors[name]
    message = (
        "somewhere lacks 16 weights of the encoder.*config has more layers"
    )
    with pytest.raises(ValueError, match=message):
        made.build()


def test_factorised_embeddings():
    made = Pretrained.of(BertModel(CONFIG))
    made.source = "somewhere"
    made.tensors["bert/embeddings/word_embeddings"] = np.zeros((9, 3))
    message = "somewhere has factorised .* embedding_size=3, hidden_size=4"
    with pytest.raises(ValueError, match=message):
        made.build()


def test_wrong_shape_leaves_the_model_as_it_was():
    made = Pretrained.of(heads.BertClassifier(CONFIG, num_labels=3))
    model = heads.BertClassifier(CONFIG, num_labels=2)
    before = Pretrained.of(model).tensors
    message = r"output_\w+ has the shape \[2.* and \[3.*labels"
    with pytest.raises(ValueError, match=message):
        made.fill(model)
    for name, value in Pretrained.of(model).tensors.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    ("words", "said", "lower"),
    [
        ("[CLS]\nword\nℝ\n##s", None, True),
        ("[CLS]\nword\nWord", None, False),
        ("[CLS]\nword\nWord", True, True),
    ],
)
def test_case_shows_in_the_vocabulary(words, said, lower):
    made = Pretrained("", CONFIG, {}, words.encode(), do_lower_case=said)
    assert made.lower_cases() is lower
