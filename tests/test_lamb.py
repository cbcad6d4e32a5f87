"""Bias correction and LAMB against NumPy, step by step."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from helpers import configs, runners
from keras_bert_ref import commands, heads
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.lamb import Lamb
from keras_bert_ref.optimization import (
    AdamWeightDecay,
    WarmupLinearDecay,
    create_optimizer,
)
from keras_bert_ref.training import setup

STEPS = 5
# kernel decays, bias does not; of `zero` the norm is 0 at first.
START = {
    "kernel": np.linspace(-1.0, 2.0, 12).reshape(3, 4),
    "bias": np.array([0.5, -0.25, 1.0]),
    "zero": np.zeros(2),
}
RNG = np.random.default_rng(0)
GRADS = [
    {name: RNG.normal(size=value.shape) for name, value in START.items()}
    for _ in range(STEPS)
]
VARIANTS = {
    "adam": (AdamWeightDecay, {"bias_correction": True}),
    "albert": (Lamb, {}),
    "addons": (Lamb, {"bias_correction": True}),
    "nvidia": (Lamb, {"bias_correction": True, "ratio_for_all": True}),
}
variants = pytest.mark.parametrize("variant", VARIANTS)


def schedule():
    return WarmupLinearDecay(0.1, 10, 2, power=0.5)


def in_numpy(variant, steps=STEPS):
    """The formulas of the papers, in float64."""
    optimizer_class, options = VARIANTS[variant]
    has_correction = options.get("bias_correction", False)
    weights = {name: value.copy() for name, value in START.items()}
    m = {name: np.zeros_like(value) for name, value in START.items()}
    v = {name: np.zeros_like(value) for name, value in START.items()}
    for step, grads in enumerate(GRADS[:steps]):
        warm_up, decay = step / 2, (1 - step / 10) ** 0.5
        rate = 0.1 * (warm_up if step < 2 else decay)
        for name, g in grads.items():
            w, decays = weights[name], name != "bias"
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            m_hat, v_hat = m[name], v[name]
            if has_correction:
                m_hat = m_hat / (1 - 0.9 ** (step + 1))
                v_hat = v_hat / (1 - 0.999 ** (step + 1))
            r = m_hat / (np.sqrt(v_hat) + 1e-6) + 0.01 * decays * w
            ratio = 1.0
            has_ratio = decays or options.get("ratio_for_all", False)
            if optimizer_class is Lamb and has_ratio and np.any(w):
                ratio = np.linalg.norm(w) / np.linalg.norm(r)
            weights[name] = w - rate * ratio * r
    return weights


@variants
def test_five_steps_equal_numpy(variant):
    optimizer_class, options = VARIANTS[variant]
    optimizer = optimizer_class(schedule(), clip_norm=None, **options)
    variables = [
        keras.Variable(value.astype("float32"), name=name)
        for name, value in START.items()
    ]
    for grads in GRADS:
        tensors = [tf.constant(grads[n], tf.float32) for n in START]
        optimizer.apply(tensors, variables)
    expected = in_numpy(variant)
    for name, variable in zip(START, variables, strict=True):
        np.testing.assert_allclose(
            variable.numpy(), expected[name], rtol=0, atol=1e-6, err_msg=name
        )


def test_variants_differ():
    """Else the test above could not tell them apart."""
    ends = [
        np.concatenate([*map(np.ravel, in_numpy(v).values())]) for v in VARIANTS
    ]
    for i, one in enumerate(ends):
        for other in ends[:i]:
            assert np.abs(one - other).max() > 1e-3


@variants
def test_resumed_to_the_bit(variant, tmp_path):
    optimizer_class, options = VARIANTS[variant]
    config = configs.tiny()

    def start():
        keras.utils.set_random_seed(1)
        model = heads.BertClassifier(config, num_labels=2)
        model.build()
        return model, optimizer_class(schedule(), **options)

    def take(model, optimizer, steps):
        for step in steps:
            random = np.random.default_rng(step)
            grads = [
                tf.constant(random.normal(size=v.shape), tf.float32)
                for v in model.trainable_variables
            ]
            optimizer.apply(grads, model.trainable_variables)

    model, optimizer = start()
    take(model, optimizer, range(3))
    tf1.save(model, str(tmp_path / "half"), optimizer)
    take(model, optimizer, range(3, STEPS))
    tf1.save(model, str(tmp_path / "whole"), optimizer)

    again, fresh = start()
    tf1.load(again, str(tmp_path / "half"), fresh)
    take(again, fresh, range(3, STEPS))
    tf1.save(again, str(tmp_path / "parts"), fresh)
    whole = tf1.read(str(tmp_path / "whole"))
    parts = tf1.read(str(tmp_path / "parts"))
    assert whole.keys() == parts.keys()
    assert whole["global_step"] == STEPS
    assert "output_weights/adam_v" in whole
    for name, value in whole.items():
        np.testing.assert_array_equal(value, parts[name], err_msg=name)


@variants
def test_config_round_trip(variant):
    optimizer_class, options = VARIANTS[variant]
    optimizer = optimizer_class(schedule(), **options)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is optimizer_class
    assert again.get_config() == optimizer.get_config()


@pytest.fixture
def options():
    """A function that parses flags of a command."""
    with runners.load_runner("run_pretraining"):

        def parse(*arguments):
            required = ["bert_config_file", "input_file", "output_dir"]
            runners.parse(*(f"--{name}=x" for name in required), *arguments)
            return commands.read_options()

        yield parse


def test_optimizer_of_flags(options):
    original = setup.make_optimizer(options(), 10, 2)
    expected = create_optimizer(5e-5, 10, 2)
    assert type(original) is AdamWeightDecay
    assert original.get_config() == expected.get_config()
    corrected = setup.make_optimizer(options("--bias_correction"), 10, 2)
    assert type(corrected) is AdamWeightDecay and corrected.bias_correction
    lamb = setup.make_optimizer(
        options(
            "--optimizer=lamb",
            "--bias_correction",
            "--lamb_ratio_for_all",
            "--decay_power=0.5",
        ),
        num_train_steps=10,
        num_warmup_steps=2,
    )
    assert type(lamb) is Lamb
    assert lamb.bias_correction and lamb.ratio_for_all
    assert float(lamb._learning_rate(5)) == pytest.approx(5e-5 * 0.5**0.5)


def test_adam_has_no_ratio(options):
    with pytest.raises(flags.IllegalFlagValueError, match="Adam has no ratio"):
        options("--lamb_ratio_for_all")
