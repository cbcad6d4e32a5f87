"""The tasks of docs/USE_A_MODEL.md here, in keras-hub and in Hugging Face.

Each piece of code goes from a folder to `result`, on the same weights, and all
must give the same; the page says how many lines each has. Runs in an
environment of its own: `make test-peers`.
"""

import os
import pathlib
import re
import textwrap

os.environ["HF_HUB_OFFLINE"] = "1"

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
)
from keras_bert_ref.checkpoints import huggingface, keras_hub
from keras_bert_ref.checkpoints.pretrained import Pretrained

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = pytest.mark.peers

PAGE = pathlib.Path(__file__).parents[2] / "docs/USE_A_MODEL.md"
LIBRARIES = ("here", "keras-hub", "Hugging Face")
LENGTH = 64
IMPORTS = """
import keras, keras_hub, numpy as np, tensorflow as tf, torch
from keras_hub.models import *
from transformers import (
    AutoModel, AutoModelForQuestionAnswering, AutoTokenizer, pipeline
)
from keras_bert_ref import open_model, BertPreprocessor
"""
# Task -> the code in each of LIBRARIES; None where it cannot be done.
TASKS = {
    "Words at a [MASK]": (
        """
        bert = open_model(folder)
        result = [x.word for x in bert.fill_mask(masked, top_k=3)[0]]
        """,
        """
        tokenizer = BertTokenizer.from_preset(
            folder, special_tokens_in_strings=True)
        model = BertMaskedLM.from_preset(folder, preprocessor=None)
        packer = keras_hub.layers.MultiSegmentPacker(
            start_value=tokenizer.cls_token_id,
            end_value=tokenizer.sep_token_id, sequence_length=length)
        ids, segments = map(np.array, packer(tokenizer([masked])))
        logits = model.predict({
            "token_ids": ids, "segment_ids": segments, "padding_mask": ids > 0,
            "mask_positions": [np.where(ids == tokenizer.mask_token_id)[1]]})
        best = np.argsort(-logits[0, 0])[:3]
        result = [tokenizer.id_to_token(int(i)) for i in best]
        """,
        """
        fill = pipeline("fill-mask", folder)
        result = [x["token_str"] for x in fill(masked, top_k=3)]
        """,
    ),
    "Classes of a pair of texts": (
        """
        bert = open_model(folder)
        result = bert.classify(text, pair)
        """,
        """
        model = BertTextClassifier.from_preset(folder)
        logits = model.predict((np.array([text]), np.array([pair])))
        values = keras.ops.softmax(logits)[0]
        result = {name: float(x) for name, x in zip(labels, values)}
        """,
        """
        classify = pipeline("text-classification", folder, top_k=None)
        found = classify({"text": text, "text_pair": pair})
        result = {x["label"]: x["score"] for x in found}
        """,
    ),
    "Answers from passages of any length": (
        """
        bert = open_model(folder)
        result = bert.answer(question, passage).text
        """,
        None,
        """
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForQuestionAnswering.from_pretrained(folder)
        batch = tokenizer(
            question, passage, truncation="only_second", stride=16,
            return_overflowing_tokens=True, return_offsets_mapping=True,
            padding=True, return_tensors="pt")
        offsets = batch.pop("offset_mapping")
        del batch["overflow_to_sample_mapping"]
        parts = [batch.sequence_ids(i) for i in range(len(offsets))]
        outside = torch.tensor([[x != 1 for x in part] for part in parts])
        with torch.no_grad():
            found = model(**batch)
        starts = found.start_logits.masked_fill(outside, -torch.inf)
        ends = found.end_logits.masked_fill(outside, -torch.inf)
        scores = starts[:, :, None] + ends[:, None, :]
        allowed = torch.ones_like(scores).triu().tril(29).bool()
        scores = scores.masked_fill(~allowed, -torch.inf)
        i, a, b = np.unravel_index(scores.argmax().item(), scores.shape)
        result = passage[offsets[i, a, 0] : offsets[i, b, 1]]
        """,
    ),
    "Tags of words": (
        """
        bert = open_model(folder)
        result = bert.tag(text)
        """,
        None,
        """
        tag = pipeline("token-classification", folder, ignore_labels=[])
        result = [(x["word"], x["entity"]) for x in tag(text)]
        """,
    ),
    "Vectors of texts": (
        """
        bert = open_model(folder)
        result = bert.vectors([text, pair])
        """,
        """
        model = BertTextEmbedder.from_preset(folder, normalize=False)
        result = model.encode_text([text, pair])
        """,
        """
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder)
        batch = tokenizer([text, pair], padding=True, return_tensors="pt")
        with torch.no_grad():
            x = model(**batch).last_hidden_state
        mask = batch["attention_mask"][:, :, None]
        result = ((x * mask).sum(1) / mask.sum(1)).numpy()
        """,
    ),
    "Similarities of texts": (
        """
        bert = open_model(folder)
        result = bert.similarities([text], [pair])
        """,
        """
        model = BertTextEmbedder.from_preset(folder)
        vectors = map(model.encode_text, (text, pair))
        result = model.similarity(*vectors)
        """,
        """
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder)
        batch = tokenizer([text, pair], padding=True, return_tensors="pt")
        with torch.no_grad():
            x = model(**batch).last_hidden_state
        mask = batch["attention_mask"][:, :, None]
        a, b = (x * mask).sum(1) / mask.sum(1)
        result = [[torch.cosine_similarity(a, b, dim=0).item()]]
        """,
    ),
    "Attention of every head": (
        """
        bert = open_model(folder)
        result = bert.attention(text, pair).probs
        """,
        None,
        """
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModel.from_pretrained(folder, attn_implementation="eager")
        batch = tokenizer(text, pair, return_tensors="pt")
        with torch.no_grad():
            found = model(**batch, output_attentions=True)
        result = torch.cat(found.attentions).numpy()
        """,
    ),
    "Queries of every head": (
        """
        bert = open_model(folder)
        result = bert.attention(text, pair, queries_and_keys=True).queries
        """,
        None,
        """
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model, seen = AutoModel.from_pretrained(folder), []
        for layer in model.encoder.layer:
            layer.attention.self.query.register_forward_hook(
                lambda module, inputs, output: seen.append(output))
        with torch.no_grad():
            model(**tokenizer(text, pair, return_tensors="pt"))
        x, heads = torch.cat(seen), model.config.num_attention_heads
        result = x.unflatten(2, (heads, -1)).transpose(1, 2).numpy()
        """,
    ),
    "A SavedModel that takes text": (
        """
        bert = open_model(folder)
        layer = BertPreprocessor(bert.tokenizer, length)
        texts = keras.Input([], dtype="string")
        outputs = bert.model(layer(texts))["pooled_output"]
        keras.Model(texts, outputs).export(served)
        loaded = tf.saved_model.load(served)
        result = loaded.serve(tf.constant([text]))
        """,
        """
        layer = BertTextClassifierPreprocessor.from_preset(
            folder, sequence_length=length)
        model, module = BertBackbone.from_preset(folder), tf.Module()
        module.model = model
        module.serve = tf.function(
            lambda texts: model(layer(texts))["pooled_output"],
            input_signature=[tf.TensorSpec([None], tf.string)])
        tf.saved_model.save(module, served)
        loaded = tf.saved_model.load(served)
        result = loaded.serve(tf.constant([text]))
        """,
        None,
    ),
}
HEADS = {
    "Words at a [MASK]": (BertPretraining, {}),
    "Classes of a pair of texts": (BertClassifier, {"num_labels": 2}),
    "Answers from passages of any length": (BertSpan, {}),
    "Tags of words": (BertTagger, {"num_labels": 3}),
}
LABELS = ["O", "B-X", "I-X"]


@pytest.fixture(scope="module")
def names(golden_dir):
    """What the code may use, besides `folder`; all words are whole ones."""
    tokenizer = FullTokenizer(golden_dir / "vocab.txt")
    words = [w for w in tokenizer.vocab if w.isalpha() and w.isascii()]
    words = [w for w in words if tokenizer.tokenize(w) == [w]]
    text, pair = " ".join(words[3:9]), " ".join(words[9:19])
    return {
        "text": text,
        "pair": pair,
        "masked": f"{words[0]} [MASK] {words[1]}",
        "question": f"{words[2]} {words[4]}?",
        "passage": " ".join(words[20:60]),
        "length": LENGTH,
    }


def write_folders(task, folder, golden_dir):
    """One model in all formats: the folder for each library."""
    keras.utils.set_random_seed(3)
    vocabulary = (golden_dir / "vocab.txt").read_bytes()
    config = configs.tiny(
        vocab_size=len(vocabulary.decode().rstrip("\n").split("\n")),
        num_hidden_layers=2,
        initializer_range=0.5,
        max_position_embeddings=LENGTH,
    )
    head, arguments = HEADS.get(task, (BertModel, {}))
    made = Pretrained.of(head(config, **arguments))
    made.vocabulary = vocabulary
    count = arguments.get("num_labels", 0)
    made.record = {"labels": LABELS[:count]}
    if head is BertTagger:
        made.record["task"] = "ner"
    paths = [str(folder / name) for name in ("hf", "hub")]
    huggingface.write(paths[0], made)
    write_preset(paths[1], made, head)
    return {
        "here": paths[0],
        "keras-hub": paths[1],
        "Hugging Face": paths[0],
    }, LABELS[:count]


def write_preset(path, made, head):
    """A preset of keras-hub with the head's weights, where it has one."""
    import keras_hub as hub

    keras_hub.write(path, made)
    models, tensors = hub.models, made.tensors
    task = {
        BertPretraining: (models.BertMaskedLM, {}),
        BertClassifier: (models.BertTextClassifier, {"num_classes": 2}),
        BertModel: (models.BertTextEmbedder, {}),
    }.get(head)
    if task is None:
        return
    preprocessor = task[0].preprocessor_cls.from_preset(
        path, sequence_length=LENGTH
    )
    backbone = models.BertBackbone.from_preset(path)
    model = task[0](backbone, preprocessor=preprocessor, **task[1])
    if head is BertClassifier:
        model.output_dense.set_weights(
            [tensors["output_weights"].T, tensors["output_bias"]]
        )
    if head is BertPretraining:
        scope = "cls/predictions/transform"
        by_name = {
            "dense/kernel": f"{scope}/dense/kernel",
            "dense/bias": f"{scope}/dense/bias",
            "layer_norm/gamma": f"{scope}/LayerNorm/gamma",
            "layer_norm/beta": f"{scope}/LayerNorm/beta",
            "output_bias": "cls/predictions/output_bias",
        }
        for variable in model.masked_lm_head.weights:
            for name, ours in by_name.items():
                if variable.path.endswith(name):
                    variable.assign(tensors[ours])
    model.save_to_preset(path)


def run(code, **names):
    exec(IMPORTS, names)
    exec(textwrap.dedent(code), names)
    return names["result"]


@pytest.mark.parametrize("task", TASKS)
def test_all_give_the_same(task, names, golden_dir, tmp_path):
    folders, labels = write_folders(task, tmp_path, golden_dir)
    found = {
        library: run(
            code,
            folder=folders[library],
            labels=labels,
            served=str(tmp_path / "served" / library),
            **names,
        )
        for library, code in zip(LIBRARIES, TASKS[task], strict=True)
        if code is not None
    }
    expected = found.pop("here")
    assert found
    for library, result in found.items():
        if isinstance(expected, dict):
            assert result == pytest.approx(expected, abs=1e-5), library
        elif isinstance(expected, str | list):
            assert result == expected, library
        else:
            np.testing.assert_allclose(
                result, expected, atol=1e-4, err_msg=library
            )


def test_long_passages(names, golden_dir, tmp_path):
    """More than one window, here and there."""
    task = "Answers from passages of any length"
    folders, _ = write_folders(task, tmp_path, golden_dir)
    passage = " ".join([names["passage"]] * 9)
    for library, code in zip(LIBRARIES, TASKS[task], strict=True):
        if code is not None:
            more = {**names, "passage": passage, "folder": folders[library]}
            assert run(code, **more) in passage


def test_lines_on_the_page():
    """The table says how many lines of code each library takes."""
    rows = dict(
        re.findall(
            r"^\| ([^|]+?) \| ([^|]+ \| [^|]+ \| [^|]+) \|$",
            PAGE.read_text(),
            re.M,
        )
    )
    for task, codes in TASKS.items():
        counts = [
            "–" if code is None else str(len(code.strip().splitlines()))
            for code in codes
        ]
        assert rows[task].replace(" ", "").split("|") == counts, task
