"""The layer from strings to batches, in all places a Keras layer works."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import BertClassifier
from keras_bert_ref.sentence_pairs import encode_pair
from keras_bert_ref.text.preprocessor import BertPreprocessor
from keras_bert_ref.tokenization import FullTokenizer

TEXTS = ["a b, c!", "", "one two three four five six", "[CLS] x"]
OTHERS = ["d", "e f", "", "seven eight nine ten eleven twelve thirteen"]


@pytest.fixture(scope="module")
def tokenizer(golden_dir):
    return FullTokenizer(golden_dir / "vocab.txt")


def encode_in_python(tokenizer, texts, others, max_seq_length, length):
    """[B, T] each, by sentence_pairs.py."""
    batch = np.zeros((3, len(texts), length), np.int32)
    for i, (a, b) in enumerate(zip(texts, others, strict=True)):
        ids, segments = encode_pair(a, b, max_seq_length, tokenizer)
        batch[:, i, : len(ids)] = [ids, [1] * len(ids), segments]
    return batch


def check(batch, expected):
    assert list(batch) == ["input_ids", "input_mask", "segment_ids"]
    for array, values in zip(batch.values(), expected, strict=True):
        assert array.dtype == tf.int32
        np.testing.assert_array_equal(array, values)


def test_pairs_are_cut_as_in_the_original(tokenizer):
    """All lengths of both texts around the limit."""
    texts = ["a " * i for i in range(12) for _ in range(12)]
    others = ["b " * i for _ in range(12) for i in range(12)]
    layer = BertPreprocessor(tokenizer)
    for layer.max_seq_length in (3, 4, 8, 11):
        limit = layer.max_seq_length
        batch = layer(texts, others)
        check(batch, encode_in_python(tokenizer, texts, others, limit, limit))


def test_padding(tokenizer):
    alone = [None] * len(TEXTS)
    fixed = BertPreprocessor(tokenizer, 40)
    check(fixed(TEXTS), encode_in_python(tokenizer, TEXTS, alone, 40, 40))
    longest = BertPreprocessor(tokenizer, 40, padding="longest")
    length = max(len(tokenizer.encode(text)) + 2 for text in TEXTS)
    expected = encode_in_python(tokenizer, TEXTS, alone, 40, length)
    check(longest(TEXTS), expected)
    check(longest(np.array(TEXTS)[:, None]), expected)
    assert fixed([])["input_ids"].shape == (0, 40)


def test_tf_data(tokenizer):
    layer = BertPreprocessor(tokenizer, 16)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, OTHERS)).batch(4)
    (batch,) = data.map(layer)
    check(batch, encode_in_python(tokenizer, TEXTS, OTHERS, 16, 16))


@pytest.mark.slow
def test_in_a_model(tokenizer, tmp_path):
    """Fitted, saved and loaded, and exported to a process without us."""
    config = configs.tiny(vocab_size=len(tokenizer.vocab))
    text_a = keras.Input((), dtype="string", name="text_a")
    text_b = keras.Input((), dtype="string", name="text_b")
    layer = BertPreprocessor(tokenizer, 16)
    logits = BertClassifier(config, num_labels=2)(layer(text_a, text_b))
    model = keras.Model({"text_a": text_a, "text_b": text_b}, logits)
    model.compile(
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    inputs = {"text_a": tf.constant(TEXTS), "text_b": tf.constant(OTHERS)}
    data = tf.data.Dataset.from_tensor_slices((inputs, [0, 1, 0, 1]))
    model.fit(data.batch(2), verbose=0)
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), expected)
    model.export(tmp_path / "served", verbose=False)
    check = f"""
import sys
import numpy as np, tensorflow as tf, tensorflow_text
assert "keras_bert_ref" not in sys.modules
served = tf.saved_model.load({str(tmp_path / "served")!r})
outputs = served.serve({{"text_a": tf.constant({TEXTS}),
                         "text_b": tf.constant({OTHERS})}})
np.testing.assert_allclose(outputs, {expected.numpy().tolist()}, atol=1e-6)
"""
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", r'come in batches, got one text; call layer\(\["one'),
        (tf.constant("text"), "got one text;.* in tf.data call batch"),
        ([1, 2], "must be strings, got int32; call layer"),
        (["a", None], "must be str without .* UTF-8 bytes.* mixed types"),
        (["\ud800"], "without lone surrogates.* converting unicode string"),
    ],
)
def test_bad_texts(tokenizer, texts, message):
    layer = BertPreprocessor(tokenizer, 16)
    with pytest.raises(ValueError, match=message):
        layer(texts)
    with pytest.raises(ValueError, match=message):
        layer(TEXTS, texts)


def test_texts_of_other_numbers(tokenizer):
    with pytest.raises(ValueError, match="as many texts: 1 and 2"):
        BertPreprocessor(tokenizer)(["a"], ["b", "c"])


def test_bad_arguments(tokenizer):
    with pytest.raises(ValueError, match="max_seq_length=2, but"):
        BertPreprocessor(tokenizer, 2)
    with pytest.raises(ValueError, match="padding='all', but .* longest"):
        BertPreprocessor(tokenizer, padding="all")


def test_ten_megabytes_and_odd_bytes(tokenizer):
    layer = BertPreprocessor(tokenizer, 16)
    text = b"word \xff\xfe" * 1_500_000
    batch = layer([text, b"\xff\xfe", b"ok"])
    check(
        batch, encode_in_python(tokenizer, [text, "", "ok"], [""] * 3, 16, 16)
    )
