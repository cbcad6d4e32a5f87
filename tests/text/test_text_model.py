"""Raw text in, answers out: all methods, on small models."""

import json
import shutil

import keras
import numpy as np
import pytest

from helpers import configs
from keras_bert_ref import (
    BertClassifier,
    BertModel,
    BertPretraining,
    BertSpan,
    BertTagger,
    FullTokenizer,
    TextModel,
    load_model,
    open_model,
    save_checkpoint,
)
from keras_bert_ref.checkpoints import conversion, huggingface
from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.sentence_pairs import encode_pair

TEXTS = ["a b, c!", "", "one two three four five six", "[CLS] x", b"\xffa"]


@pytest.fixture(scope="module")
def tokenizer(golden_dir):
    return FullTokenizer(golden_dir / "vocab.txt")


@pytest.fixture(scope="module")
def folder(tokenizer, golden_dir, tmp_path_factory):
    """A small model in a folder like the released ones."""
    path = tmp_path_factory.mktemp("tf1")
    model = make(BertPretraining, tokenizer).model
    save_checkpoint(model, str(path / "bert_model.ckpt"))
    model.config.to_json_file(str(path / "bert_config.json"))
    shutil.copy(golden_dir / "vocab.txt", path)
    return path


@pytest.fixture(scope="module")
def pretrained(folder):
    return open_model(folder)


def make(head, tokenizer, labels=(), **kwargs):
    keras.utils.set_random_seed(3)
    config = configs.tiny(
        vocab_size=len(tokenizer.vocab),
        num_hidden_layers=2,
        initializer_range=0.5,
    )
    model = head(config, **kwargs)
    model.build()
    return TextModel(model, tokenizer, labels)


def logits_one_by_one(model, tokenizer, texts, pairs):
    """Each text by itself, without padding."""
    for a, b in zip(texts, pairs, strict=True):
        limit = model.config.max_position_embeddings
        ids, segments = encode_pair(a, b, limit, tokenizer)
        batch = {
            "input_ids": np.array([ids]),
            "segment_ids": np.array([segments]),
        }
        yield model(batch)[0].numpy()


def test_fill_mask(pretrained):
    texts = ["the [MASK] is [MASK]", "[MASK]"]
    first, second = pretrained.fill_mask(texts, top_k=3)
    assert [len(first), len(second)] == [2, 1]
    assert all(len(words) == 3 for words in first)
    probabilities = [word.probability for word in first[0]]
    assert probabilities == sorted(probabilities, reverse=True)
    tokenizer = pretrained.tokenizer
    ids, _ = encode_pair(texts[0], None, 64, tokenizer, keep_mask=True)
    position = ids.index(tokenizer.vocab["[MASK]"])
    logits = pretrained.model(
        {
            "input_ids": np.array([ids]),
            "masked_lm_positions": np.array([[position]]),
        }
    )["masked_lm_logits"][0, 0]
    best = int(np.argmax(logits))
    assert first[0][0].word == tokenizer.inv_vocab[best]
    expected = float(keras.ops.softmax(logits)[best])
    assert abs(first[0][0].probability - expected) < 1e-5
    assert (
        pretrained.fill_mask("[MASK]", top_k=3)[0][0].word == second[0][0].word
    )
    assert pretrained.fill_mask([]) == []


def test_many_masks_are_filled_in_parts(pretrained, monkeypatch):
    texts = ["[MASK] a " * n for n in (3, 1, 2, 5, 1)]
    whole = pretrained.fill_mask(texts, top_k=1)
    monkeypatch.setattr("keras_bert_ref.text.text_model.MASKS", 4)
    for a, b in zip(whole, pretrained.fill_mask(texts, top_k=1), strict=True):
        values = [word.probability for (word,) in b]
        assert values == pytest.approx([w.probability for (w,) in a], 1e-4)


def test_masks_that_cannot_be_filled(pretrained, tokenizer):
    with pytest.raises(ValueError, match=r"needs a \[MASK\].* 'none' has none"):
        pretrained.fill_mask("none")
    limit = pretrained.max_seq_length
    message = f"has 5000 .MASK.s, but only {limit - 2} of them .* first {limit}"
    with pytest.raises(ValueError, match=message):
        pretrained.fill_mask("[MASK]" * 5000)
    other = make(BertClassifier, tokenizer, num_labels=2)
    with pytest.raises(ValueError, match="fill in masks takes a BertPretrain"):
        other.fill_mask("[MASK]")


def test_classify(tokenizer):
    model = make(BertClassifier, tokenizer, ["no", "yes"], num_labels=2)
    pairs = ["", "x y", "b", "", "z"]
    results = model.classify(TEXTS, pairs)
    expected = logits_one_by_one(model.model, tokenizer, TEXTS, pairs)
    for result, logits in zip(results, expected, strict=True):
        assert next(iter(result)) == ["no", "yes"][np.argmax(logits)]
        softmax = np.exp(logits) / np.exp(logits).sum()
        assert abs(result["yes"] - softmax[1]) < 1e-5
    alone = model.classify("a b, c!")
    assert alone == pytest.approx(model.classify(TEXTS)[0], abs=1e-6)
    assert model.classify([]) == []
    assert model.classify(["\ud800 a", "b " * 5_000_000])
    with pytest.raises(ValueError, match="not a score; call classify"):
        model.scores(["a"])


def test_scores(tokenizer):
    model = make(BertClassifier, tokenizer, num_labels=1)
    expected = logits_one_by_one(model.model, tokenizer, TEXTS, [None] * 5)
    expected = np.concatenate(list(expected))
    np.testing.assert_allclose(model.scores(TEXTS), expected, atol=1e-5)
    with pytest.raises(ValueError, match="gives a score.* call scores"):
        model.classify(["a"])


def test_answer(tokenizer):
    model = make(BertSpan, tokenizer)
    passage = "One two, three. Four five six? Seven eight nine ten. " * 3
    found = model.answer("two three", passage, doc_stride=3)
    assert found.text and found.text in passage and found.null_odds is None
    assert found.text == found.nbest[0]["text"]
    assert sum(a["probability"] for a in found.nbest) == pytest.approx(1)
    never = model.answer(
        "two", passage, allow_no_answer=True, null_score_diff_threshold=-1e9
    )
    assert never.text == "" and never.null_odds is not None
    with pytest.raises(ValueError, match="question has no words: ' '"):
        model.answer(" ", passage)
    with pytest.raises(ValueError, match="passage has no words"):
        model.answer("two", "\x00")


def test_many_answers(tokenizer):
    """As one by one; each from its own passage."""
    model = make(BertSpan, tokenizer)
    questions = ["two three", "one", b"four?"]
    passages = ["one two three. " * 9, "four five", "six one"]
    answers = model.answer(questions, passages, allow_no_answer=True)
    for question, passage, found in zip(
        questions, passages, answers, strict=True
    ):
        one = model.answer(question, passage, allow_no_answer=True)
        assert (found.text, len(found.nbest)) == (one.text, len(one.nbest))
        values = [found.probability, found.null_odds]
        assert values == pytest.approx([one.probability, one.null_odds], 1e-3)
        assert found.text in passage
    assert model.answer("one two " * 99, "four five").text in "four five"
    with pytest.raises(ValueError, match="there are 3 questions and 1 passag"):
        model.answer(questions, passages[:1])


def test_tag(tokenizer):
    model = make(BertTagger, tokenizer, ["O", "B-X", "I-X"], num_labels=3)
    text = "One two, three. " * 8  # more than a window
    (tagged,) = model.tag([text])
    assert [word for word, _ in tagged] == ["One", "two", ",", "three", "."] * 8
    assert {tag for _, tag in tagged} <= {"O", "B-X", "I-X"}
    words = [["One", "two"], ["three"]]
    assert [[w for w, _ in t] for t in model.tag(words)] == words
    ids, _ = encode_pair("one", None, 16, tokenizer)
    logits = model.model({"input_ids": np.array([ids])})[0]
    assert model.tag("one") == [("one", model.labels[np.argmax(logits[1])])]


def test_vectors_and_similarities(pretrained):
    texts = ["a b c", "d", "a b c e f g"]
    mean = pretrained.vectors(texts)
    ids, _ = encode_pair("a b c", None, 64, pretrained.tokenizer)
    outputs = pretrained.bert(np.array([ids]))
    expected = outputs["sequence_output"][0].numpy().mean(axis=0)
    np.testing.assert_allclose(mean[0], expected, atol=1e-5)
    first = pretrained.vectors("a b c", pooling="cls", layer=0)
    expected = outputs["all_encoder_layers"][0][0, 0]
    np.testing.assert_allclose(first, expected, atol=1e-5)
    pooled = pretrained.vectors(texts, pooling="pooled")
    np.testing.assert_allclose(
        pooled[0], outputs["pooled_output"][0], atol=1e-5
    )
    cosines = pretrained.similarities(texts)
    assert cosines.shape == (3, 3)
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-5)
    np.testing.assert_allclose(
        pretrained.similarities(texts[:1], texts), cosines[:1], atol=1e-5
    )
    assert pretrained.vectors([]).shape == (0, mean.shape[1])
    with pytest.raises(ValueError, match="pooling='max', but it must be one"):
        pretrained.vectors(texts, pooling="max")
    with pytest.raises(ValueError, match="layer=99, but the model has"):
        pretrained.vectors(texts, layer=99)


def test_attention(pretrained):
    seen = pretrained.attention("a b", "c")
    assert seen.tokens == ["[CLS]", "a", "b", "[SEP]", "c", "[SEP]"]
    assert seen.segment_ids == [0, 0, 0, 0, 1, 1]
    config = pretrained.model.config
    sizes = (config.num_hidden_layers, config.num_attention_heads, 6)
    assert seen.probs.shape == (*sizes, 6) and seen.queries is None
    np.testing.assert_allclose(seen.probs.sum(-1), 1, atol=1e-5)
    seen = pretrained.attention("a b", "c", queries_and_keys=True)
    scores = seen.queries @ np.swapaxes(seen.keys, -1, -2)
    scores /= np.sqrt(seen.queries.shape[-1])
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(seen.probs, expected, atol=1e-4)


def test_open_an_output_dir(tokenizer, golden_dir, tmp_path):
    """Head, labels, casing, vocabulary and length come from the folder."""
    model = make(BertClassifier, tokenizer, num_labels=2)
    save_checkpoint(model.model, str(tmp_path / "model.ckpt-7"))
    model.model.config.to_json_file(str(tmp_path / "bert_config.json"))
    record = {"task": "MRPC", "labels": ["0", "same"], "max_seq_length": 9}
    record["do_lower_case"] = False
    (tmp_path / "run.json").write_text(json.dumps(record))
    shutil.copy(golden_dir / "vocab.txt", tmp_path)
    opened = open_model(tmp_path)
    assert opened.labels == ["0", "same"] and opened.max_seq_length == 9
    assert not opened.tokenizer.basic_tokenizer.do_lower_case
    batch = {"input_ids": np.array([[1, 2]])}
    np.testing.assert_array_equal(opened.model(batch), model.model(batch))
    tagger = {**record, "task": "ner"}
    (tmp_path / "run.json").write_text(json.dumps(tagger))
    assert isinstance(open_model(tmp_path).model, BertTagger)


def test_open_other_formats(pretrained, folder, golden_dir, tmp_path):
    expected = pretrained.vectors(["a b c"])
    conversion.convert(str(folder), str(tmp_path / "hf"), "huggingface")
    for path in (folder, folder / "bert_model.ckpt", tmp_path / "hf"):
        opened = open_model(path)
        assert opened.fill_mask("[MASK]")
        np.testing.assert_allclose(
            opened.vectors(["a b c"]), expected, atol=1e-5
        )
    path = tmp_path / "model.keras"
    pretrained.model.save(path)
    assert isinstance(load_model(path), type(pretrained.model))
    opened = open_model(path, vocab_file=golden_dir / "vocab.txt")
    np.testing.assert_allclose(opened.vectors(["a b c"]), expected, atol=1e-5)
    with pytest.raises(ValueError, match=r"no vocab.txt .* vocab_file="):
        open_model(path)
    with pytest.raises(FileNotFoundError, match="uncased_L-12_H-768_A-12"):
        open_model(tmp_path / "bert-base-uncased")


@pytest.mark.parametrize(
    ("head", "architecture"),
    [
        (BertClassifier, "BertForSequenceClassification"),
        (BertTagger, "BertForTokenClassification"),
    ],
)
def test_labels_of_a_huggingface_folder(
    head, architecture, tokenizer, golden_dir, tmp_path
):
    """They are read, and go along in conversions, both ways."""
    made = Pretrained.of(make(head, tokenizer, num_labels=3).model)
    made.vocabulary = (golden_dir / "vocab.txt").read_bytes()
    hf, tf1, again = (tmp_path / name for name in ("hf", "tf1", "again"))
    huggingface.write(str(hf), made)
    config = json.loads((hf / "config.json").read_text())
    assert config["id2label"] == {str(i): f"LABEL_{i}" for i in range(3)}
    config["architectures"] = [architecture]
    (hf / "config.json").write_text(json.dumps(config))
    assert open_model(hf).labels == ["0", "1", "2"]
    config["id2label"] = {"2": "c", "0": "a", "1": "b"}
    (hf / "config.json").write_text(json.dumps(config))
    conversion.convert(str(hf), str(tf1))
    conversion.convert(str(tf1), str(again), "huggingface")
    for path in (hf, tf1, again):
        opened = open_model(path)
        assert opened.labels == ["a", "b", "c"]
        assert type(opened.model) is head
    written = json.loads((again / "config.json").read_text())
    for name in ("architectures", "id2label"):
        assert written[name] == config[name]


@pytest.mark.parametrize(
    "names", [{"0": "a", "1": "a"}, {"0": "a"}, {"1": "a", "2": "b"}, ["a"]]
)
def test_bad_labels_of_a_huggingface_folder(names, tokenizer, tmp_path):
    model = make(BertClassifier, tokenizer, num_labels=2).model
    huggingface.write(str(tmp_path), Pretrained.of(model))
    path = tmp_path / "config.json"
    config = {**json.loads(path.read_text()), "id2label": names}
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="each of 2 classes a name .*config"):
        open_model(tmp_path)
    config["id2label"] = None
    config["problem_type"] = "multi_label_classification"
    path.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="one class, but .*take the sigmoid"):
        open_model(tmp_path)


def test_open_a_model_with_a_bilstm(tokenizer, golden_dir, tmp_path):
    model = make(BertClassifier, tokenizer, num_labels=2, bilstm_units=12).model
    source = Pretrained.of(model)
    source.vocabulary = (golden_dir / "vocab.txt").read_bytes()
    conversion.write_tf1(str(tmp_path), source)
    batch = {"input_ids": np.array([[1, 2]])}
    np.testing.assert_array_equal(
        open_model(tmp_path).model(batch), model(batch)
    )


@pytest.mark.parametrize("wrong", [None, 3, {"text": "a"}, [None], [3]])
def test_what_is_no_text(wrong, tokenizer, pretrained):
    methods = [
        pretrained.fill_mask,
        pretrained.vectors,
        make(BertClassifier, tokenizer, num_labels=2).classify,
        make(BertTagger, tokenizer, num_labels=2).tag,
        lambda texts: make(BertSpan, tokenizer).answer(texts, texts),
    ]
    for method in methods:
        with pytest.raises(ValueError, match=r"Texts? (come|must be).*, got"):
            method(wrong)


def test_what_holds_texts(tokenizer):
    model = make(BertClassifier, tokenizer, num_labels=2)
    texts, pairs = ["a b", "c"], ["d", ""]
    expected = model.classify(texts, pairs)
    for kind in (tuple, np.array, iter):
        assert model.classify(kind(texts), kind(pairs)) == expected
    assert model.classify("c", "") == pytest.approx(expected[1], abs=1e-6)


def test_labels_and_lengths_must_fit(tokenizer):
    with pytest.raises(ValueError, match="Labels must differ, got a, a;"):
        make(BertClassifier, tokenizer, ["a", "a"], num_labels=2)
    with pytest.raises(ValueError, match="has 2 outputs, but there are 1 lab"):
        make(BertClassifier, tokenizer, ["one"], num_labels=2)
    model = make(BertModel, tokenizer)
    assert model.vectors(["a"]).shape == (1, 24)
    with pytest.raises(ValueError, match="max_seq_length=99 exceeds"):
        TextModel(model.model, tokenizer, max_seq_length=99)


def test_many_texts_show_progress(tokenizer, monkeypatch, caplog):
    monkeypatch.setattr("keras_bert_ref.text.text_model.MANY", 40)
    caplog.set_level("INFO", logger="absl")
    model = make(BertClassifier, tokenizer, num_labels=2)
    texts = ["a " * (i % 7) for i in range(70)]
    results = model.classify(texts)
    assert "classifying: 70 texts" in caplog.text
    for i in range(7, 70):
        assert results[i] == pytest.approx(results[i - 7], abs=1e-5)
