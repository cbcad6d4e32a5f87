"""Checkpoints of a run: which one counts, which are kept, who may resume."""

import os

import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import heads, optimization
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig
from keras_bert_ref.training import state

CONFIG = configs.tiny()


@pytest.fixture(scope="module")
def model():
    model = heads.BertPretraining(CONFIG)
    model.build()
    return model


@pytest.fixture
def save(model, tmp_path):
    """A function that saves the model as if so many steps were taken."""
    optimizer = optimization.create_optimizer(1e-3, 10, 0)
    optimizer.build(model.trainable_variables)

    def save_at(step: int, keep: int | None = None, extra=None) -> str:
        optimizer.iterations.assign(step)
        return state.save(str(tmp_path), model, optimizer, extra or {}, keep)

    return save_at


def steps_in(folder) -> list[int]:
    names = [path.name for path in folder.glob("*.index")]
    return sorted(state.step_of(n.removesuffix(".index")) for n in names)


def test_latest_of_nothing(tmp_path):
    assert state.latest(str(tmp_path)) is None
    assert state.latest(str(tmp_path / "absent")) is None


@pytest.mark.parametrize("name", ["[1]", "a*b?", "back\\slash", "[!x]-{y}"])
def test_folders_may_have_any_name(model, tmp_path, name):
    folder = str(tmp_path / name / "out")
    optimizer = optimization.create_optimizer(1e-3, 10, 0)
    optimizer.build(model.trainable_variables)
    for step in range(3):
        optimizer.iterations.assign(step)
        state.save(folder, model, optimizer, {}, keep=2)
    assert state.latest(folder) == f"{folder}/model.ckpt-2"
    assert not tf.io.gfile.exists(f"{folder}/model.ckpt-0.data-00000-of-00001")
    tf1.load(model, folder, optimizer)
    os.remove(f"{folder}/checkpoint")
    os.remove(f"{folder}/model.ckpt-2.data-00000-of-00001")
    assert state.latest(folder) == f"{folder}/model.ckpt-1"
    assert tf1.prefixes_in_folder(folder) == [
        f"{folder}/model.ckpt-{step}" for step in (1, 2)
    ]
    assert tf1.load(model, f"{folder}/model.ckpt-1").loaded


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e38])
def test_weights_are_looked_at(model, save, tmp_path, value):
    optimizer = optimization.create_optimizer(1e-3, 10, 0)
    optimizer.build(model.trainable_variables)
    check = state.make_weights_check(str(tmp_path), model, optimizer)
    check()
    bias = model.get_layer("bert").weights[-1]
    before = bias.numpy()
    bias.assign(np.where(np.arange(len(before)) == 1, value, before))
    try:
        with pytest.raises(FloatingPointError, match="check --init_checkpoint"):
            check()
        prefix = save(0)
        with pytest.raises(FloatingPointError, match=f"good .* is {prefix};"):
            check()
    finally:
        bias.assign(before)
    check()


def test_save_and_latest(save, tmp_path, model):
    first = save(9)
    assert state.latest(str(tmp_path)) == first
    second = save(100, extra={state.RECORDS_SEEN: np.int64(3200)})
    assert second == str(tmp_path / "model.ckpt-100")
    assert state.latest(str(tmp_path)) == second
    assert state.step_of(second) == 100
    saved = tf1.read(second)
    assert saved["global_step"] == 100
    assert saved["keras_bert_ref/records_seen"] == 3200
    assert len(saved) == 3 * len(model.trainable_variables) + 2


def test_state_file_is_tensorflows(save, tmp_path):
    prefixes = [save(step) for step in (1, 20, 3)]
    found = tf.train.get_checkpoint_state(str(tmp_path))
    assert found.model_checkpoint_path == prefixes[-1]
    assert list(found.all_model_checkpoint_paths) == [prefixes[0], prefixes[2]]
    assert tf.train.latest_checkpoint(str(tmp_path)) == prefixes[-1]


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_latest_wants_all_files(save, tmp_path, ending):
    first, second = save(1), save(2)
    os.remove(second + ending)
    assert state.latest(str(tmp_path)) == first


def test_latest_is_not_misled_by_an_unfinished_file(save, tmp_path):
    first, second = save(1), save(2)
    data = second + ".data-00000-of-00001"
    os.rename(data, data + ".tempstate123")
    assert state.latest(str(tmp_path)) == first


def test_latest_without_state_file(save, tmp_path):
    save(9), save(10)
    os.remove(tmp_path / "checkpoint")
    assert state.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-10")


@pytest.mark.parametrize("content", [b"", b"\xff{", b"junk"])
def test_latest_with_a_damaged_state_file(save, tmp_path, content, caplog):
    save(9), save(10)
    (tmp_path / "checkpoint").write_bytes(content)
    assert state.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-10")
    assert "most steps is used, model.ckpt-10" in caplog.text


def test_latest_trusts_the_state_file(save, tmp_path):
    """A later checkpoint that it does not name may not be finished."""
    save(1)
    text = (tmp_path / "checkpoint").read_text()
    save(2)
    (tmp_path / "checkpoint").write_text(text)
    assert state.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-1")


@pytest.mark.parametrize(
    "keep, expected", [(1, [11]), (3, [9, 10, 11]), (None, [2, 8, 9, 10, 11])]
)
def test_keeps_the_newest(save, tmp_path, keep, expected):
    for step in (2, 8, 9, 10, 11):
        save(step, keep)
    assert steps_in(tmp_path) == expected
    data = {path.name.split(".data")[0] for path in tmp_path.glob("*.data*")}
    assert data == {f"model.ckpt-{step}" for step in expected}
    found = tf.train.get_checkpoint_state(str(tmp_path))
    assert len(found.all_model_checkpoint_paths) == len(expected)


@pytest.mark.parametrize("ending", ["data-00000-of-00001", "index"])
def test_what_killed_runs_left_of_checkpoints_goes(save, tmp_path, ending):
    left = tmp_path / f"model.ckpt-0.{ending}.tempstate123"
    mine = tmp_path / "model.ckpt-0.notes.tempstate"
    left.write_bytes(b"half of it")
    mine.write_text("A file of somebody's own.")
    save(0)
    assert not left.exists() and mine.exists()
    assert steps_in(tmp_path) == [0]


def test_going_back_does_not_remove_what_was_just_saved(save, tmp_path):
    """Checkpoints of more steps, left by another run, do not count."""
    save(30), save(40)
    prefix = save(5, keep=1)
    assert state.latest(str(tmp_path)) == prefix
    assert steps_in(tmp_path) == [5, 30, 40]


def test_config_stays_beside_the_checkpoints(save, tmp_path):
    folder = str(tmp_path / "new")
    state.keep_config(folder, CONFIG)
    path = os.path.join(folder, "bert_config.json")
    assert BertConfig.from_json_file(path).to_dict() == CONFIG.to_dict()
    assert os.listdir(folder) == ["bert_config.json"]


def other_config(**changes) -> BertConfig:
    return BertConfig.from_dict({**CONFIG.to_dict(), **changes})


def test_config_of_a_released_folder_is_not_replaced(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(CONFIG.to_json_string())
    (tmp_path / "bert_model.ckpt.index").touch()
    with pytest.raises(ValueError, match="checkpoints of another architect"):
        state.keep_config(str(tmp_path), other_config(num_hidden_layers=2))
    assert path.read_text() == CONFIG.to_json_string()


def test_evaluation_keeps_no_config(tmp_path):
    folder = tmp_path / "new"
    state.keep_config(str(folder), CONFIG, is_training=False)
    assert not folder.exists()


def test_other_architecture_is_refused(save, tmp_path):
    state.keep_config(str(tmp_path), CONFIG)
    other = other_config(num_hidden_layers=2)
    state.keep_config(str(tmp_path), other)  # nothing is trained yet
    state.keep_config(str(tmp_path), CONFIG)
    save(1)
    with pytest.raises(ValueError) as error:
        state.keep_config(str(tmp_path), other)
    message = str(error.value)
    assert f"{tmp_path} holds checkpoints of another architecture" in message
    assert "num_hidden_layers is 1 there and 2 in" in message


def test_other_dropout_is_no_other_architecture(save, tmp_path):
    state.keep_config(str(tmp_path), CONFIG)
    save(1)
    state.keep_config(str(tmp_path), other_config(hidden_dropout_prob=0.3))
    kept = BertConfig.from_json_file(str(tmp_path / "bert_config.json"))
    assert kept.hidden_dropout_prob == 0.3
