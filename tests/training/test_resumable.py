"""A run in one process: where it starts, how it goes on, why it stops."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from helpers import configs, golden_training
from keras_bert_ref import heads, optimization
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.guard import Interrupted
from keras_bert_ref.optimization import LossScale
from keras_bert_ref.pretraining import objective as pretraining
from keras_bert_ref.pretraining.features import make_schema
from keras_bert_ref.records import batches
from keras_bert_ref.training import progress, state
from keras_bert_ref.training import resumable as run

# Each of them traces a training step, most of them several.
pytestmark = pytest.mark.slow

LENGTH, WORDS, VOCAB_SIZE = 12, 2, 30
CONFIG = configs.tiny(vocab_size=VOCAB_SIZE, max_position_embeddings=LENGTH)


@pytest.fixture
def records(tmp_path):
    random = np.random.default_rng(0)
    rows = []
    for length in random.integers(3, LENGTH + 1, 10):
        mask = np.arange(LENGTH) < length
        ids = random.integers(1, VOCAB_SIZE, LENGTH)
        rows.append(
            {
                "input_ids": ids * mask,
                "input_mask": mask.astype(int),
                "segment_ids": np.zeros(LENGTH, int),
                "masked_lm_positions": np.array([1, 2]),
                "masked_lm_ids": ids[1:3],
                "masked_lm_weights": np.ones(2),
                "next_sentence_labels": np.array([length % 2]),
            }
        )
    path = golden_training.write_records(tmp_path / "a.tfrecord", rows)
    schema = make_schema(LENGTH, WORDS)
    return batches.find_records([path], schema, VOCAB_SIZE)


@pytest.fixture
def train(records, tmp_path):
    """A function that trains new objects up to a step, in a folder."""

    def train_to(
        num_steps,
        folder="out",
        objective=pretraining.PRETRAINING,
        init_checkpoint=None,
        loss_scale=None,
        learning_rate=1e-2,
        **options,
    ):
        model = heads.BertPretraining(CONFIG)
        model.build()
        optimizer = optimization.create_optimizer(learning_rate, 100, 5)
        optimizer.build(model.trainable_variables)
        plan = run.Plan(
            **{
                "output_dir": str(tmp_path / folder),
                "num_train_steps": num_steps,
                "batch_size": 4,
                "seed": 3,
                "save_steps": 100,
                **options,
            }
        )
        run.train_resumably(
            tf.distribute.get_strategy(),
            model,
            optimizer,
            objective=objective,
            records=records,
            plan=plan,
            init_checkpoint=init_checkpoint,
            loss_scale=loss_scale,
        )
        return model

    return train_to


@pytest.fixture
def start(train, tmp_path):
    """A checkpoint to start from, so that runs have the same weights."""
    train(1, "start")
    return str(tmp_path / "start" / "model.ckpt-0")


def test_resumed_run_goes_the_same_way(train, start, tmp_path):
    """With dropout and shuffling, over the end of an epoch."""
    scale = LossScale(2.0, growth_steps=4)
    train(7, "whole", init_checkpoint=start, loss_scale=scale)
    for num_steps in (2, 5, 7):
        again = LossScale(2.0, growth_steps=4)
        train(num_steps, "parts", init_checkpoint=start, loss_scale=again)
    assert float(again.value) == float(scale.value) == 4.0
    assert int(again.good_steps) == int(scale.good_steps) == 3
    whole = tf1.read(str(tmp_path / "whole" / "model.ckpt-7"))
    parts = tf1.read(str(tmp_path / "parts" / "model.ckpt-7"))
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_allclose(
            value, parts[name], rtol=0, atol=1e-6, err_msg=name
        )
    assert whole[state.RECORDS_SEEN] == 28
    before = tf1.read(start)
    name = "bert/pooler/dense/kernel"
    assert not np.allclose(before[name], whole[name], atol=1e-4)


def test_saves_first_last_and_in_between(train, tmp_path):
    train(7, save_steps=3, keep_checkpoint_max=None)
    folder = tmp_path / "out"
    names = sorted(path.stem for path in folder.glob("*.index"))
    assert names == [f"model.ckpt-{step}" for step in (0, 3, 6, 7)]


def test_saves_at_the_first_chance_after_it_is_due(train, tmp_path):
    """Where several steps are taken at a time."""
    train(7, save_steps=3, steps_per_call=2, keep_checkpoint_max=None)
    folder = tmp_path / "out"
    names = sorted(path.stem for path in folder.glob("*.index"))
    assert names == [f"model.ckpt-{step}" for step in (0, 4, 6, 7)]


def test_says_where_it_starts(train, start, tmp_path, caplog):
    caplog.set_level("INFO", logger="absl")
    train(1)
    assert "STARTING from random weights: no --init_checkpoint" in caplog.text
    caplog.clear()
    train(2, init_checkpoint=start)
    newest = tmp_path / "out" / "model.ckpt-1"
    assert f"RESUMING from {newest}" in caplog.text
    assert f"--init_checkpoint={start} is not used" in caplog.text
    caplog.clear()
    train(2)
    newest = tmp_path / "out" / "model.ckpt-2"
    assert (
        f"NOTHING TO TRAIN: {newest} is at step 2, num_train_steps is 2"
        in caplog.text
    )


def test_init_checkpoint_gives_weights_only(train, start, tmp_path, caplog):
    train(3, "first")
    caplog.set_level("INFO", logger="absl")
    source = str(tmp_path / "first" / "model.ckpt-3")
    train(1, "second", init_checkpoint=source)
    assert f"STARTING from --init_checkpoint={source}" in caplog.text
    before = tf1.read(source)
    after = tf1.read(str(tmp_path / "second" / "model.ckpt-0"))
    assert after.pop("global_step") == 0
    assert after.pop(state.RECORDS_SEEN) == 0
    for name, value in after.items():
        if name.endswith(tf1.SLOT_ENDINGS):
            assert not value.any(), name
        else:
            np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_what_is_evaluated(train, tmp_path):
    model = train(2)
    folder = str(tmp_path / "out")
    first = str(tmp_path / "out" / "model.ckpt-0")
    assert run.restore_for_eval(model, folder, first) == 2
    assert run.restore_for_eval(model, str(tmp_path / "none"), first) == 0
    with pytest.raises(ValueError, match="nothing to evaluate: no checkpoint"):
        run.restore_for_eval(model, str(tmp_path / "none"), None)


def test_a_head_that_was_not_trained_is_not_evaluated(train, tmp_path):
    train(1)
    prefix = str(tmp_path / "out" / "model.ckpt-1")
    model = heads.BertClassifier(CONFIG, num_labels=2)
    model.build()
    message = f"but {prefix} lacks 2 of them: output_bias, output_weights"
    with pytest.raises(ValueError, match=message):
        run.restore_for_eval(model, str(tmp_path / "out"), None)
    with pytest.raises(ValueError, match=message):
        run.restore_for_eval(model, str(tmp_path / "none"), prefix)


def test_absurd_weights_are_not_saved(train, tmp_path):
    """The last step, after which no loss is taken, is not excepted."""
    train(2)
    message = "at step 3: .* not saved. The last good checkpoint is .*ckpt-2;"
    with pytest.raises(FloatingPointError, match=message):
        train(3, learning_rate=1e38)
    assert state.latest(str(tmp_path / "out")).endswith("ckpt-2")


def test_a_signal_in_the_last_step_is_not_forgotten(train, tmp_path):
    """What comes after training would not know of it."""

    def loss(outputs, batch, totals):
        tf.py_function(os.kill, [os.getpid(), signal.SIGTERM], [])
        return pretraining.loss(outputs, batch, totals)

    objective = pretraining.PRETRAINING._replace(loss=loss)
    with pytest.raises(Interrupted, match="step 1, the last; all") as error:
        train(1, objective=objective)
    assert error.value.number == signal.SIGTERM
    assert state.latest(str(tmp_path / "out")).endswith("ckpt-1")


def infinite_loss(outputs, loss, is_bad):
    return loss * tf.where(is_bad, np.inf, 1.0)


def steep_loss(outputs, loss, is_bad):
    """A root has no slope at 0; its value is a number all the same."""
    nothing = 0.0 * tf.reduce_sum(outputs["next_sentence_logits"])
    return loss + tf.sqrt(nothing + tf.where(is_bad, 0.0, 1.0))


@pytest.mark.parametrize(
    "name, change", [("loss", infinite_loss), ("gradient_norm", steep_loss)]
)
def test_stops_where_numbers_end(train, tmp_path, name, change):
    """Even if the reports are rare, and before bad weights are saved."""
    calls = tf.Variable(0)

    def loss(outputs, batch, totals):
        right = pretraining.loss(outputs, batch, totals)
        return change(outputs, right, calls.assign_add(1) > 2)

    objective = pretraining.PRETRAINING._replace(loss=loss)
    with pytest.raises(FloatingPointError) as error:
        train(6, objective=objective, save_steps=2, log_steps=50)
    assert f"The {name} is " in str(error.value)
    assert "at step 3" in str(error.value)
    newest = tmp_path / "out" / "model.ckpt-2"
    assert f"The last good checkpoint is {newest}" in str(error.value)
    assert state.latest(str(tmp_path / "out")) == str(newest)
    for name, value in tf1.read(str(newest)).items():
        assert np.isfinite(value).all(), name


def test_reports(train, tmp_path):
    train(7, log_steps=3)
    lines = progress.read_metrics(str(tmp_path / "out"))
    assert [line["step"] for line in lines] == [1, 4, 7]
    shares = ["matmul_peak_share" in line for line in lines]
    assert shares == [False, True, True]  # the first step only compiles
    for line in lines:
        assert {
            "loss",
            "masked_lm_accuracy",
            "masked_lm_loss",
            "next_sentence_accuracy",
            "next_sentence_loss",
            "learning_rate",
            "gradient_norm",
            "input_wait_share",
            "sequences_per_second",
            "tokens_per_second",
        } < line.keys()
        assert 0.0 <= line["input_wait_share"] <= 1.0
        total = line["masked_lm_loss"] + line["next_sentence_loss"]
        assert line["loss"] == pytest.approx(total, rel=1e-3)
        length = line["tokens_per_second"] / line["sequences_per_second"]
        assert 3 <= length <= LENGTH
    rates = [line["learning_rate"] for line in lines]
    assert rates == pytest.approx([0.0, 6e-3, 9.4e-3])
