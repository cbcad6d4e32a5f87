"""Models that read in one direction: what they see, learn, and keep."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs, pretraining_files
from keras_bert_ref import heads, losses
from keras_bert_ref.checkpoints import conversion, huggingface, tf1
from keras_bert_ref.checkpoints.pretrained import TAGGING, Pretrained
from keras_bert_ref.config import BertConfig
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.pretraining import next_words
from keras_bert_ref.pretraining.objective import WORDS

LENGTH = 10
RNG = np.random.default_rng(0)
IDS = RNG.integers(1, 50, size=(3, LENGTH)).astype("int32")
LENGTHS = np.array([LENGTH, 6, 3])
MASK = (np.arange(LENGTH) < LENGTHS[:, None]).astype("int32")
one_way = pytest.mark.parametrize("direction", ["ltr", "rtl"])


def config(direction, **changes) -> BertConfig:
    return configs.tiny(
        directionality=direction,
        num_hidden_layers=2,
        initializer_range=0.5,
        **configs.NO_DROPOUT,
        **changes,
    )


def build(model_class, direction, **kwargs):
    keras.utils.set_random_seed(1)
    model = model_class(config(direction), **kwargs)
    model.build()
    return model


@one_way
@pytest.mark.parametrize("skip_padding", [False, True])
def test_a_token_changes_nothing_that_was_read_before(direction, skip_padding):
    model = build(BertModel, direction)
    place = 4
    changed = IDS.copy()
    changed[:, place] += 1
    before, after = (
        model(ids, MASK, skip_padding=skip_padding)["sequence_output"].numpy()
        for ids in (IDS, changed)
    )
    is_before = np.arange(LENGTH) < place
    if direction == "rtl":
        is_before = np.arange(LENGTH) > place
    is_real = MASK.astype(bool)
    earlier, later = is_real & is_before, is_real & ~is_before
    np.testing.assert_array_equal(before[earlier], after[earlier])
    # The last block may be asked for some tokens only.
    places = np.flatnonzero(is_before)
    read = np.broadcast_to(places, (len(IDS), len(places)))
    kwargs = {"skip_padding": skip_padding, "read_positions": read}
    one, other = (
        model(ids, MASK, **kwargs)["read_output"].numpy()
        for ids in (IDS, changed)
    )
    is_kept = earlier[:, places]
    np.testing.assert_array_equal(one[is_kept], other[is_kept])
    is_touched = later & is_real[:, [place]]  # the last row ends before it
    assert (before[is_touched] != after[is_touched]).any(axis=-1).all()


def test_directions_mirror_each_other():
    """A right-to-left model is a left-to-right one that reads backwards."""
    left, right = (build(BertModel, name) for name in ("ltr", "rtl"))
    right.set_weights(left.get_weights())
    table = right.embeddings.position_embeddings.numpy()
    table[:LENGTH] = table[:LENGTH][::-1]
    right.embeddings.position_embeddings.assign(table)
    forward = left(IDS)["sequence_output"]
    backward = right(IDS[:, ::-1].copy())["sequence_output"]
    np.testing.assert_allclose(
        forward, tf.reverse(backward, [1]), rtol=0, atol=1e-5
    )


@one_way
def test_classifier_pools_the_token_that_has_seen_all(direction):
    classifier = build(heads.BertClassifier, direction, num_labels=2)
    outputs = classifier.bert(IDS, MASK)
    place = LENGTHS - 1 if direction == "ltr" else np.zeros(3, int)
    vectors = tf.gather(outputs["sequence_output"], place, batch_dims=1)
    pooled = classifier.bert.pooler(vectors[:, None])
    np.testing.assert_allclose(
        outputs["pooled_output"], pooled, rtol=0, atol=1e-6
    )
    expected = heads.project(
        pooled, classifier.output_weights, classifier.output_bias
    )
    for skip_padding in (False, True):
        classifier.skip_padding = skip_padding
        np.testing.assert_allclose(
            classifier({"input_ids": IDS, "input_mask": MASK}),
            expected,
            rtol=0,
            atol=1e-5,
        )


def small_batch() -> dict:
    """Words 2 and 8 were masked, as 4 and as themselves."""
    return {
        "input_ids": tf.constant([[1, 4, 3, 0], [5, 6, 7, 8]]),
        "input_mask": tf.constant([[1, 1, 1, 0], [1, 1, 1, 1]]),
        "masked_lm_positions": tf.constant([[1, 0], [3, 0]]),
        "masked_lm_ids": tf.constant([[2, 0], [8, 0]]),
        "masked_lm_weights": tf.constant([[1.0, 0.0], [1.0, 0.0]]),
    }


def test_every_next_word():
    batch = next_words.predict_next(small_batch())
    assert batch["input_ids"].numpy().tolist() == [[1, 2, 3, 0], [5, 6, 7, 8]]
    assert batch["masked_lm_ids"].numpy().tolist() == [
        [2, 3, 0, 0],
        [6, 7, 8, 0],
    ]
    assert batch["masked_lm_positions"].numpy().tolist() == [
        [0, 1, 0, 0],
        [0, 1, 2, 0],
    ]
    assert batch["masked_lm_weights"].numpy().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
    ]


def test_every_previous_word():
    batch = next_words.predict_previous(small_batch())
    assert batch["input_ids"].numpy().tolist() == [[1, 2, 3, 0], [5, 6, 7, 8]]
    assert batch["masked_lm_ids"].numpy().tolist() == [
        [0, 1, 2, 0],
        [0, 5, 6, 7],
    ]
    assert batch["masked_lm_weights"].numpy().tolist() == [
        [0, 1, 1, 0],
        [0, 1, 1, 1],
    ]


def training_batch() -> dict:
    rows = pretraining_files.examples(LENGTH, 4)
    batch = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return {
        name: tf.constant(value, tf.float32 if "weights" in name else tf.int32)
        for name, value in batch.items()
    }


@one_way
def test_gradients(direction):
    """A step with padding left out equals one with."""
    batch = next_words.PREPARATIONS[direction](training_batch())
    objective = WORDS[direction]
    model = build(heads.BertPretraining, direction)
    variables = model.trainable_variables

    def loss():
        return objective.loss(model(batch), batch, objective.count(batch))

    def gradients():
        with tf.GradientTape() as tape:
            value = loss()
        return [
            None if g is None else tf.convert_to_tensor(g)
            for g in tape.gradient(value, variables)
        ]

    found = gradients()
    model.skip_padding = True
    again = gradients()
    model.skip_padding = False
    for variable, one, other in zip(variables, found, again, strict=True):
        is_idle = "pooler" in variable.path or "seq_rel" in variable.path
        assert (one is None) == (other is None) == is_idle
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@one_way
def test_slopes(direction):
    """The gradient of each variable, against differences of the loss along
    some direction that is not all across."""
    batch = next_words.PREPARATIONS[direction](training_batch())
    objective = WORDS[direction]
    model = build(heads.BertPretraining, direction, dtype="float64")
    variables = model.trainable_variables

    @tf.function
    def loss():
        return objective.loss(model(batch), batch, objective.count(batch))

    with tf.GradientTape() as tape:
        value = loss()
    rng = np.random.default_rng(0)
    step = 1e-3
    for variable, gradient in zip(
        variables, tape.gradient(value, variables), strict=True
    ):
        if gradient is None:
            continue
        gradient = tf.convert_to_tensor(gradient).numpy()
        chance = rng.normal(size=gradient.shape)
        norms = np.linalg.norm(gradient) or 1.0, np.linalg.norm(chance)
        along = gradient / norms[0] + chance / norms[1]
        before, values = variable.numpy(), []
        for sign in (1, -1):
            variable.assign(before + sign * step * along)
            values.append(float(loss()))
        variable.assign(before)
        slope = (values[0] - values[1]) / (2 * step)
        expected = (gradient * along).sum()
        assert slope == pytest.approx(expected, rel=0.01, abs=1e-3), (
            variable.path
        )


def test_bilstm_sees_all_and_no_padding():
    model = build(heads.BertClassifier, "ltr", num_labels=2, bilstm_units=5)
    assert model.output_weights.shape == (2, 10)
    batch = {"input_ids": IDS, "input_mask": MASK}
    logits = model(batch).numpy()
    other = IDS.copy()
    other[MASK == 0] = 7
    np.testing.assert_allclose(
        model({"input_ids": other, "input_mask": MASK}), logits, atol=1e-6
    )
    span = build(heads.BertSpan, "ltr", bilstm_units=5)
    changed = IDS.copy()
    changed[0, -1] += 1
    first, second = (
        span({"input_ids": ids})["start_logits"].numpy()[0, 0]
        for ids in (IDS, changed)
    )
    assert first != second  # the first token sees the last, through the LSTM


def test_bilstm_learns_and_is_saved(tmp_path):
    model = build(heads.BertSpan, "bidi", bilstm_units=5)
    with tf.GradientTape() as tape:
        outputs = model({"input_ids": IDS, "input_mask": MASK}, training=True)
        loss = losses.span_loss(
            outputs["start_logits"], outputs["end_logits"], [0, 1, 2], [0, 1, 2]
        )
    grads = dict(
        zip(
            (v.path for v in model.trainable_variables),
            tape.gradient(loss, model.trainable_variables),
            strict=True,
        )
    )
    lstm = [path for path in grads if "bilstm" in path]
    assert len(lstm) == 6
    assert all(np.any(grads[path]) for path in lstm)
    tf1.save(model, str(tmp_path / "x.ckpt"))
    again = build(heads.BertSpan, "bidi", bilstm_units=5)
    again.set_weights([w * 0 for w in again.get_weights()])
    report = tf1.load(again, str(tmp_path / "x.ckpt"))
    assert not report.missing and not report.unused
    for ours, theirs in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_head_of_a_bilstm_is_not_used_without(tmp_path):
    """Where both are of one size, all shapes fit."""
    half = configs.tiny().hidden_size // 2
    models = {
        units: build(heads.BertTagger, "bidi", num_labels=3, bilstm_units=units)
        for units in (half, 0)
    }
    for units, message in (
        (half, f"trained on a BiLSTM, .* set --bilstm_units={half}"),
        (0, "trained without a BiLSTM, .*leave --bilstm_units out"),
    ):
        prefix = str(tmp_path / f"{units}.ckpt")
        tf1.save(models[units], prefix)
        tf1.load(models[units], prefix)
        with pytest.raises(ValueError, match=message):
            tf1.load(models[half - units], prefix)
        with pytest.raises(ValueError, match=message):
            Pretrained.of(models[units]).fill(models[half - units])
    tf1.load(build(BertModel, "bidi"), str(tmp_path / f"{half}.ckpt"))


@pytest.mark.parametrize(
    ("trained", "used"), [("ltr", "bidi"), ("bidi", "ltr"), ("ltr", "rtl")]
)
def test_checkpoint_of_another_direction(tmp_path, trained, used):
    tf1.save(build(BertModel, trained), str(tmp_path / "x.ckpt"))
    with pytest.raises(
        ValueError,
        match=f"trained with directionality={trained}, but .* has {used}: ",
    ):
        tf1.load(build(BertModel, used), str(tmp_path / "x.ckpt"))


def write_folder(folder, direction, seed=1, **changes) -> str:
    keras.utils.set_random_seed(seed)
    model = heads.BertPretraining(config(direction, **changes))
    model.build()
    folder.mkdir()
    tf1.save(model, str(folder / "bert_model.ckpt"))
    model.config.to_json_file(str(folder / "bert_config.json"))
    return str(folder)


def test_joined_encoders(tmp_path):
    left = write_folder(tmp_path / "left", "ltr", seed=1)
    right = write_folder(tmp_path / "right", "rtl", seed=2)
    target = str(tmp_path / "both")
    conversion.join(left, right, target)
    span = heads.BertSpan.from_checkpoint(target)
    expected = [
        BertModel.from_checkpoint(path)(IDS, MASK)["sequence_output"]
        for path in (left, right)
    ]
    batch = {"input_ids": IDS, "input_mask": MASK}
    np.testing.assert_allclose(
        span.encode(batch, training=False)["sequence_output"],
        tf.concat(expected, axis=-1),
        rtol=0,
        atol=1e-6,
    )
    assert span.squad.output_weights.shape == (2, 48)
    classifier = heads.BertClassifier.from_checkpoint(target, num_labels=3)
    assert classifier(batch).shape == (3, 3)
    with pytest.raises(ValueError, match="one encoder, .*ltr.rtl has two"):
        BertModel.from_checkpoint(target)
    with pytest.raises(ValueError, match="made of two encoders, and there is"):
        conversion.convert(target, str(tmp_path / "x"), "huggingface")
    with pytest.raises(ValueError, match="directionality=rtl, but ltr is want"):
        conversion.join(right, left, str(tmp_path / "x"))
    other = write_folder(tmp_path / "other", "rtl", hidden_size=12)
    with pytest.raises(ValueError, match="hidden_size is 24 in .* and 12 in"):
        conversion.join(left, other, str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_conversion(tmp_path, capsys):
    source = write_folder(tmp_path / "ltr", "ltr")
    target = str(tmp_path / "huggingface")
    conversion.convert(source, target, "huggingface")
    again = str(tmp_path / "again")
    conversion.convert(target, again)
    assert BertConfig.from_json_file(again + "/bert_config.json").direction == (
        "ltr"
    )
    with pytest.raises(ValueError, match="keras-hub's BertBackbone attends to"):
        conversion.convert(source, str(tmp_path / "hub"), "keras_hub")
    backwards = write_folder(tmp_path / "rtl", "rtl")
    with pytest.raises(
        ValueError, match="=rtl; Hugging Face's BERT reads both"
    ):
        conversion.convert(backwards, str(tmp_path / "x"), "huggingface")
    assert not (tmp_path / "x").exists()


def test_heads_without_a_place(tmp_path):
    """Hugging Face's classifiers have no BiLSTM, and pool the first token."""
    model = build(heads.BertClassifier, "bidi", num_labels=2, bilstm_units=4)
    with pytest.raises(ValueError, match="has a BiLSTM .* without --bilstm_un"):
        huggingface.write(str(tmp_path), Pretrained.of(model))
    model = build(heads.BertClassifier, "ltr", num_labels=2)
    with pytest.raises(ValueError, match="left-to-right .* the last token"):
        huggingface.write(str(tmp_path), Pretrained.of(model))
    assert not list(tmp_path.iterdir())
    tagger = Pretrained.of(build(heads.BertTagger, "ltr", num_labels=2))
    tagger.record = {"task": TAGGING}  # reads every token, as theirs does
    huggingface.write(str(tmp_path), tagger)
    assert huggingface.read(str(tmp_path)).config.direction == "ltr"
    model = build(heads.BertClassifier, "bidi", num_labels=2)
    huggingface.write(str(tmp_path), Pretrained.of(model))
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "is_decoder": True})
    )
    with pytest.raises(ValueError, match="left-to-right .* the last token"):
        huggingface.read(str(tmp_path))


def test_config_keys():
    assert "directionality" not in BertConfig(vocab_size=9).to_dict()
    assert BertConfig(vocab_size=9).direction == "bidi"
    values = {"vocab_size": 9, "directionality": "bidi"}
    kept = BertConfig.from_dict(values)
    assert kept.to_dict()["directionality"] == "bidi"
    assert dataclasses.replace(kept, directionality="ltr").direction == "ltr"
    with pytest.raises(
        ValueError, match="='left' is not known; use one of bid"
    ):
        BertConfig.from_dict({**values, "directionality": "left"})


def test_two_encoders_are_not_pretrained_as_one():
    with pytest.raises(ValueError, match="=ltr.rtl stands for two encoders"):
        build(heads.BertPretraining, "ltr+rtl")
