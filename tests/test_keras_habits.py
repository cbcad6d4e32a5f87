"""What somebody who knows Keras, or another BERT, tries first."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import (
    BertClassifier,
    BertModel,
    BertPretraining,
    BertSpan,
    BertTagger,
    FullTokenizer,
)

IDS = np.array([[1, 2, 3, 0], [4, 5, 0, 0]], np.int32)
BATCH = {
    "input_ids": IDS,
    "input_mask": (IDS > 0).astype(np.int32),
    "segment_ids": np.array([[0, 0, 1, 0], [0, 0, 0, 0]], np.int32),
}


@pytest.fixture(scope="module")
def classifier():
    keras.utils.set_random_seed(1)
    model = BertClassifier(configs.tiny(**configs.NO_DROPOUT), num_labels=2)
    model.build()
    return model


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("attention_mask", "input_mask"), ("token_type_ids", "segment_ids")],
)
def test_names_of_others_are_refused(classifier, theirs, ours):
    batch = {"input_ids": IDS, theirs: IDS}
    message = f"the key {theirs}, which is called {ours} here"
    with pytest.raises(ValueError, match=message):
        classifier(batch)
    with pytest.raises(ValueError, match=message):
        BertModel(configs.tiny())(batch)
    classifier({**BATCH, "guid": np.zeros(2)})  # other keys are ignored


@pytest.mark.parametrize("wrong", [tf.constant(IDS), [IDS, IDS, IDS]])
def test_no_dictionary(classifier, wrong):
    with pytest.raises(ValueError, match=r"A batch is a dictionary, got .*ids"):
        classifier(wrong)


def test_bert_takes_a_batch():
    bert = BertModel(configs.tiny())
    expected = bert(*BATCH.values())
    for outputs in (bert(BATCH), bert.predict(BATCH, verbose=0)):
        np.testing.assert_allclose(
            outputs["pooled_output"], expected["pooled_output"], atol=1e-6
        )


def test_load_weights_of_a_fresh_model(classifier, tmp_path):
    path = str(tmp_path / "model.weights.h5")
    classifier.save_weights(path)
    fresh = BertClassifier(configs.tiny(**configs.NO_DROPOUT), num_labels=2)
    fresh.load_weights(path)
    np.testing.assert_array_equal(fresh(BATCH), classifier(BATCH))


@pytest.mark.parametrize(
    ("head", "arguments", "rows"),
    [
        (BertModel, {}, ["embeddings", "encoder", "pooler"]),
        (BertPretraining, {}, ["bert", "predictions", "seq_relationship"]),
        (BertClassifier, {"num_labels": 2}, ["bert", "dropout"]),
        (BertSpan, {}, ["bert", "squad"]),
        (BertTagger, {"num_labels": 3, "bilstm_units": 4}, ["bert", "bilstm"]),
    ],
)
def test_summary_shows_shapes(head, arguments, rows):
    """Of a fresh model; every row has a shape, and it is the right one."""
    model = head(configs.tiny(), **arguments)
    lines = []
    model.summary(print_fn=lines.append, line_length=100, expand_nested=True)
    text = "\n".join(lines)
    assert "?" not in text
    assert f"Total params: {model.count_params():,}" in text
    for row in rows:
        (line,) = [x for x in text.split("\n") if x.startswith(f"│ {row}")]
        layer = next(x for x in model.layers if line[2:].startswith(x.name))
        assert str(find_output_shape(model, layer)) in line


def find_output_shape(model, layer):
    """Of the layer's first output in a call, for any batch."""
    seen = []
    call = layer.call
    layer.call = lambda *a, **k: seen.append(call(*a, **k)) or seen[0]
    batch = dict(BATCH, masked_lm_positions=np.array([[1, 2, 3, 0]] * 2))
    model(batch)
    output = seen[0]
    if isinstance(output, dict):
        output = output.get("sequence_output", output.get("read_output"))
    while isinstance(output, list | tuple):
        output = output[0]
    return (*[None] * (len(output.shape) - 1), output.shape[-1])


@pytest.mark.parametrize("model_class", [BertModel, BertPretraining, BertSpan])
def test_export(model_class, tmp_path):
    model = model_class(configs.tiny())
    model.export(tmp_path / "served", verbose=False)
    batch = {name: tf.constant(value) for name, value in BATCH.items()}
    if model_class is BertPretraining:
        batch["masked_lm_positions"] = tf.constant([[1], [2]])
    served = tf.saved_model.load(tmp_path / "served")
    outputs, expected = served.serve(batch), model(batch)
    assert len(outputs) == 2
    for name, value in expected.items():
        if name in outputs:
            np.testing.assert_allclose(outputs[name], value, atol=1e-6)


def test_fit_on_batches_with_labels_inside(classifier):
    model = keras.models.clone_model(classifier)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    rows = {**BATCH, "label_ids": np.array([0, 1])}
    data = tf.data.Dataset.from_tensor_slices(rows).batch(2)
    inside = model.evaluate(data, verbose=0)
    assert inside == model.evaluate(BATCH, rows["label_ids"], verbose=0)
    before = model(BATCH)
    model.fit(data, verbose=0)
    assert np.abs(model(BATCH) - before).max() > 0
    data = tf.data.Dataset.from_tensor_slices(BATCH).batch(2)
    with pytest.raises(ValueError, match="need labels: the key label_ids.*has"):
        model.fit(data, verbose=0)


def test_what_a_name_could_mean(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/bert_config.json").write_text("{}")
    path = str(tmp_path / "bert_base_uncased")
    message = (
        r"neither .*bert_base_uncased\. .* is uncased_L-12_H-768_A-12\. .*mine"
    )
    with pytest.raises(FileNotFoundError, match=message):
        BertModel.from_checkpoint(path)
    with pytest.raises(FileNotFoundError, match="multi_cased_L-12_H-768_A-12"):
        BertModel.from_checkpoint("bert-base-multilingual-cased")
    with pytest.raises(FileNotFoundError, match="with bert_config.json in it"):
        BertModel.from_checkpoint(str(tmp_path / "mine" / "nothing"))


def test_tokenizer_makes_batches(golden_dir):
    tokenizer = FullTokenizer(golden_dir)  # a folder with vocab.txt
    batch = tokenizer(["a b", "c"], ["d", ""])
    cls, sep = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    a, b, c, d = tokenizer.encode("a b c d")
    assert batch["input_ids"].tolist() == [
        [cls, a, b, sep, d, sep],
        [cls, c, sep, 0, 0, 0],
    ]
    assert batch["segment_ids"].tolist() == [[0] * 4 + [1] * 2, [0] * 6]
    assert batch["input_mask"].sum(1).tolist() == [6, 3]
    fixed = tokenizer(["a"], max_seq_length=8, padding="max_length")
    assert fixed["input_ids"].shape == (1, 8)
    assert tokenizer([])["input_ids"].shape == (0, 0)
    assert tokenizer.decode(batch["input_ids"][0]) == "a b d"


def test_mask_stays_whole(golden_dir):
    tokenizer = FullTokenizer(golden_dir)
    mask, a = tokenizer.vocab["[MASK]"], tokenizer.vocab["a"]
    assert tokenizer.encode("[MASK]a [MASK]", keep_mask=True) == [mask, a, mask]
    assert mask not in tokenizer.encode("[MASK]")
    batch = tokenizer(["a [MASK]"], keep_mask=True)
    assert batch["input_ids"][0, 2] == mask


def test_bad_texts(golden_dir):
    tokenizer = FullTokenizer(golden_dir)
    with pytest.raises(ValueError, match="got one text .'abc'.; put it into"):
        tokenizer("abc")
    with pytest.raises(ValueError, match="there are 1 texts and 2 pairs"):
        tokenizer(["a"], ["b", "c"])
    with pytest.raises(ValueError, match="max_seq_length=2, but"):
        tokenizer(["a"], max_seq_length=2)
    with pytest.raises(ValueError, match="padding='all', but"):
        tokenizer(["a"], padding="all")
