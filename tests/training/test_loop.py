"""The engine: one step on any number of replicas is the same step."""

import copy
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from helpers import configs, golden_training
from keras_bert_ref import heads, losses, optimization
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig
from keras_bert_ref.optimization import LossScale
from keras_bert_ref.pretraining import objective as pretraining
from keras_bert_ref.training import loop
from keras_bert_ref.training.objective import Objective

TOLERANCE = 1e-5
CONFIG = configs.tiny()
NO_DROPOUT = copy.copy(CONFIG)
NO_DROPOUT.hidden_dropout_prob = NO_DROPOUT.attention_probs_dropout_prob = 0.0


def make_batch(size: int, length: int = 10, seed: int = 0) -> dict:
    random = np.random.default_rng(seed)
    lengths = random.integers(4, length + 1, size)
    mask = np.arange(length) < lengths[:, None]
    return {
        "input_ids": np.int32(random.integers(1, 50, mask.shape) * mask),
        "input_mask": np.int32(mask),
        "segment_ids": np.int32(mask * (np.arange(length) > 3)),
        "masked_lm_positions": np.int32(random.integers(0, 4, (size, 3))),
        "masked_lm_ids": np.int32(random.integers(0, 50, (size, 3))),
        "masked_lm_weights": np.float32(random.integers(0, 2, (size, 3))),
        "next_sentence_labels": np.int32(random.integers(0, 2, (size, 1))),
    }


def make_dataset(strategy, all_batches: list[dict]) -> tf.data.Dataset:
    """Batches cut for the replicas; of several lengths, as trimmed ones."""
    replicas = strategy.num_replicas_in_sync
    size = len(all_batches[0]["input_ids"]) // replicas
    per_token = "input_ids", "input_mask", "segment_ids"
    specs = {
        name: tf.TensorSpec(
            (size, None if name in per_token else value.shape[1]), value.dtype
        )
        for name, value in all_batches[0].items()
    }

    def parts():
        for batch in all_batches:
            for i in range(0, replicas * size, size):
                yield {
                    name: value[i : i + size] for name, value in batch.items()
                }

    return strategy.distribute_datasets_from_function(
        lambda _: tf.data.Dataset.from_generator(parts, output_signature=specs)
    )


def set_weights(model) -> None:
    """The same for every model, and not too small to tell."""
    random = np.random.default_rng(1)
    for variable in model.trainable_variables:
        values = random.normal(0.0, 0.1, variable.shape)
        variable.assign(values + ("gamma" in variable.path))


def replicas(devices: list[str]) -> tf.distribute.Strategy:
    """Not with collective operations, the default: in one process, those of
    one strategy get in the way of the next one's. Tests of the command, where
    there is but one, use them."""
    return tf.distribute.MirroredStrategy(
        devices, tf.distribute.ReductionToOneDevice()
    )


class Run:
    """A model from fixed weights, and what training made of it."""

    def __init__(
        self,
        all_batches,
        num_steps=None,
        config=NO_DROPOUT,
        strategy=None,
        dtype="float32",
        head=heads.BertPretraining,
        objective=pretraining.PRETRAINING,
        steps_per_call=1,
        loss_scale=None,
        **options,
    ):
        strategy = strategy or tf.distribute.get_strategy()
        with strategy.scope():
            self.model = head(config, dtype=dtype)
            self.model.build()
            set_weights(self.model)
            self.optimizer = optimization.create_optimizer(1e-2, 100, 0)
            self.optimizer.build(self.model.trainable_variables)
            self.loss_scale = loss_scale() if loss_scale else None
            self.before = self.weights()
            step = loop.make_train_step(
                self.model,
                self.optimizer,
                objective,
                loss_scale=self.loss_scale,
                **options,
            )
            dataset = make_dataset(strategy, all_batches)
            num_steps = num_steps or len(all_batches)
            self.steps = [
                (
                    taken.count,
                    {k: v.numpy() for k, v in taken.metrics.items()},
                    taken.waited,
                )
                for taken in loop.take_steps(
                    strategy,
                    step,
                    dataset,
                    num_steps=num_steps,
                    steps_per_call=steps_per_call,
                )
            ]
        self.losses = [metrics["loss"] for _, metrics, _ in self.steps]

    def weights(self) -> dict[str, np.ndarray]:
        variables = {
            optimization.original_name(variable): variable
            for variable in self.model.trainable_variables
        }
        variables |= self.optimizer.slots()
        return {name: value.numpy() for name, value in variables.items()}


def assert_same(run: Run, other: Run, atol=TOLERANCE) -> None:
    ours, theirs = run.optimizer.iterations, other.optimizer.iterations
    assert ours.numpy() == theirs.numpy()
    ours, theirs = run.weights(), other.weights()
    for name, ours_one in ours.items():
        np.testing.assert_allclose(
            ours_one, theirs[name], rtol=0, atol=atol, err_msg=name
        )
    np.testing.assert_allclose(run.losses[-1], other.losses[-1], atol=atol)


BATCHES = [make_batch(4, length, length) for length in (10, 8, 10)]
# All of one length, so that XLA compiles but once; padding changes nothing.
PADDED = [
    {
        name: np.pad(value, [(0, 0), (0, 10 - value.shape[1])])
        if name in ("input_ids", "input_mask", "segment_ids")
        else value
        for name, value in batch.items()
    }
    for batch in BATCHES
]


TRACED = []


def count_and_tell(batch):
    TRACED.append(batch["input_ids"].shape)
    return pretraining.count(batch)


@pytest.fixture(scope="module")
def plain():
    """Three steps on one device, as simple as can be."""
    return Run(
        BATCHES,
        objective=pretraining.PRETRAINING._replace(count=count_and_tell),
    )


@pytest.mark.slow
def test_golden_steps(golden_dir, logical_cpus):
    """The engine fed the original's batches, by two if they can be shared."""
    golden = golden_training.load(golden_dir)
    folder = golden_dir / "model"
    all_batches = golden_training.batches(golden_dir)
    is_even = len(all_batches[0]["input_ids"]) % 2 == 0
    strategy = replicas(logical_cpus(2 if is_even else 1))
    with strategy.scope():
        model = heads.BertPretraining(
            BertConfig.from_json_file(str(folder / "bert_config.json"))
        )
        tf1.load(model, str(folder / "bert_model.ckpt"))
        optimizer = optimization.create_optimizer(
            float(golden["learning_rate"]),
            int(golden["num_train_steps"]),
            int(golden["num_warmup_steps"]),
        )
        optimizer.build(model.trainable_variables)
        steps = loop.take_steps(
            strategy,
            loop.make_train_step(model, optimizer, pretraining.PRETRAINING),
            make_dataset(strategy, all_batches),
            num_steps=len(all_batches),
        )
        for taken, expected in zip(steps, golden["losses"], strict=True):
            metrics = taken.metrics
            actual = [
                metrics["loss"],
                loop.ratio(metrics["masked_lm_loss"]),
                loop.ratio(metrics["next_sentence_loss"]),
            ]
            np.testing.assert_allclose(actual, expected, atol=TOLERANCE)
    expected = tf1.read(str(folder / f"model.ckpt-{len(all_batches)}"))
    assert optimizer.iterations.numpy() == expected.pop("global_step")
    actual = {optimization.original_name(v): v for v in model.weights}
    actual |= optimizer.slots()
    for name, value in expected.items():
        np.testing.assert_allclose(
            actual[name].numpy(), value, rtol=0, atol=TOLERANCE, err_msg=name
        )


def test_first_step_by_hand(plain):
    """Loss and norm are those of the whole batch before the update."""
    model, batch = heads.BertPretraining(NO_DROPOUT), BATCHES[0]
    model.build()
    set_weights(model)
    with tf.GradientTape() as tape:
        loss, _, _ = losses.pretraining_losses(model(batch), batch)
    grads = tape.gradient(loss, model.trainable_variables)
    _, metrics, _ = plain.steps[0]
    norm = float(tf.linalg.global_norm(grads))
    assert metrics["loss"] == pytest.approx(float(loss), abs=1e-5)
    assert metrics["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    assert metrics["learning_rate"] == pytest.approx(1e-2)
    assert metrics["tokens"].tolist() == [batch["input_mask"].sum(), 4]
    weights = batch["masked_lm_weights"].sum()
    assert metrics["masked_lm_accuracy"][1] == weights


def test_one_trace_serves_all_lengths(plain):
    assert len({batch["input_ids"].shape for batch in BATCHES}) > 1
    assert TRACED == [(4, None)]


def assert_same_metrics(run: Run, other: Run) -> None:
    for (_, ours, _), (_, theirs, _) in zip(
        run.steps, other.steps, strict=True
    ):
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            np.testing.assert_allclose(
                value, theirs[name], rtol=1e-4, atol=1e-5, err_msg=name
            )


@pytest.mark.slow
def test_accumulation_equals_the_whole_batch(plain):
    run = Run(BATCHES, accumulation_steps=4)
    assert_same(run, plain)
    assert_same_metrics(run, plain)


@pytest.mark.slow
def test_compiled_equals_not(plain):
    run = Run(PADDED, accumulation_steps=2, jit_compile=True)
    assert_same(run, plain)
    assert_same_metrics(run, plain)


@pytest.mark.slow
def test_loop_on_the_device_equals_single_steps(plain):
    run = Run(BATCHES, steps_per_call=2)
    assert_same(run, plain)
    assert [count for count, _, _ in run.steps] == [2, 1]


@pytest.mark.slow
def test_two_replicas_equal_one(plain, logical_cpus):
    """All at once: parts, compilation, loss scaling."""
    strategy = replicas(logical_cpus(2))
    run = Run(
        PADDED,
        strategy=strategy,
        accumulation_steps=2,
        jit_compile=True,
        loss_scale=lambda: LossScale(2.0**10, growth_steps=2),
    )
    assert_same(run, plain)
    assert_same_metrics(run, plain)
    assert run.loss_scale.value.numpy() == 2.0**11
    assert run.loss_scale.good_steps.numpy() == 1
    for variable in run.model.trainable_variables:
        first, second = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(first, second)


@pytest.mark.slow
def test_loop_on_two_devices_equals_single_steps(plain, logical_cpus):
    run = Run(BATCHES, strategy=replicas(logical_cpus(2)), steps_per_call=2)
    assert_same(run, plain)


def test_wish_to_stop_is_seen():
    wishes = iter([False, True, False])
    steps = loop.take_steps(
        tf.distribute.get_strategy(),
        lambda batch: {"loss": tf.constant(1.0)},
        make_dataset(tf.distribute.get_strategy(), BATCHES),
        num_steps=3,
        wants_to_stop=lambda: next(wishes),
    )
    assert [step.is_stopping for step in steps] == [False, True, False]


def test_steps_are_queued_without_waiting():
    """Where devices work by themselves, nothing is fetched from a step."""
    code = """
import threading
import tensorflow as tf
from keras_bert_ref.training import loop

tf.config.experimental.set_synchronous_execution(False)
gate = threading.Event()
numbers = [tf.constant(float(i)) for i in range(9)]

def wait(number):
    assert gate.wait(60)
    return number

def train_step(batch):
    return {"loss": tf.py_function(wait, [batch], tf.float32)}

class Batches:  # a data set would wait, for reasons of its own
    element_spec = tf.TensorSpec([], tf.float32)

    def __iter__(self):
        return iter(numbers)

steps = loop.take_steps(
    tf.distribute.get_strategy(), train_step, Batches(), num_steps=9
)
taken = [next(steps) for _ in range(9)]
assert not gate.is_set()
gate.set()
assert [float(step.metrics["loss"]) for step in taken] == list(range(9))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


class Votes(NamedTuple):
    """What a strategy with so many workers tells of them."""

    cluster_resolver: object


def test_workers_stop_at_the_same_step():
    """Each looks at votes of some calls ago, whatever it wants itself."""
    cluster = tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster)
    asked, other = (loop._Votes(Votes(resolver)) for _ in range(2))
    sums = [0.0, 0.0, 1.0, *[1.0] * 9]
    stops = [
        [votes.count(tf.constant(x), wants) for x in sums]
        for votes, wants in ((asked, True), (other, False))
    ]
    assert stops[0] == stops[1]
    assert stops[0].index(True) == 2 + loop._Votes.CALLS_AGO


def dropped_out(model, seed: int, draw: int) -> np.ndarray:
    outputs = loop.call_with_seed(
        model, BATCHES[0], seed, tf.constant(draw, tf.int64)
    )
    return outputs["next_sentence_logits"].numpy()


def test_dropout_follows_from_seed_and_draw():
    model = heads.BertPretraining(CONFIG)
    model.build()
    first = dropped_out(model, 1, 0)
    assert (first == dropped_out(model, 1, 0)).all()
    others = [dropped_out(model, 1, 1), dropped_out(model, 2, 0)]
    others.append(model(BATCHES[0])["next_sentence_logits"].numpy())
    for other in others:
        assert not np.allclose(first, other)


def test_dropout_of_every_layer_is_its_own():
    """All masks alike would be the sign of one seed for all."""
    model = heads.BertPretraining(CONFIG)
    model.build()
    states = [v for v in model.variables if "seed_generator" in v.path]
    # Embeddings; attention and two outputs of each layer.
    assert len(states) == 1 + 3 * CONFIG.num_hidden_layers


def test_draws_differ_between_steps_replicas_and_parts(logical_cpus):
    draws = []
    for step in range(3):
        strategy = replicas(logical_cpus(2))
        first = strategy.run(
            lambda step: loop._first_draw(step, 2), (tf.constant(step),)
        )
        for draw in strategy.experimental_local_results(first):
            draws += [int(draw), int(draw) + 1]
    assert sorted(draws) == list(range(12))


@pytest.mark.long
def test_replicas_draw_differently(logical_cpus):
    """Both see the same example: only dropout tells them apart."""
    batch = {k: np.repeat(v[:1], 2, axis=0) for k, v in BATCHES[0].items()}

    def metrics(outputs, batch):
        context = tf.distribute.get_replica_context()
        is_own = tf.range(2) == context.replica_id_in_sync_group
        logit = outputs["next_sentence_logits"][0, 0]
        return {"of_each": tf.where(is_own, logit, 0.0)}

    run = Run(
        [batch],
        config=CONFIG,
        strategy=replicas(logical_cpus(2)),
        objective=pretraining.PRETRAINING._replace(metrics=metrics),
    )
    first, second = run.steps[0][1]["of_each"]
    assert first and second and first != second


def test_overflow_leaves_a_step_out():
    """A scale that no float16 can hold: nothing moves but the count."""
    run = Run(
        BATCHES[:2],
        dtype="mixed_float16",
        loss_scale=lambda: LossScale(2.0**100),
    )
    for name, value in run.weights().items():
        np.testing.assert_array_equal(value, run.before[name], err_msg=name)
    assert float(run.loss_scale.value) == 2.0**98
    assert int(run.optimizer.iterations) == 2
    assert all(np.isfinite(run.losses))
    assert not np.isfinite(run.steps[0][1]["gradient_norm"])


def test_half_precision_is_near(plain):
    run = Run(BATCHES, dtype="mixed_float16", loss_scale=LossScale)
    np.testing.assert_allclose(run.losses, plain.losses, rtol=2e-2)
    assert run.losses != plain.losses
    assert {v.dtype for v in run.model.trainable_variables} == {"float32"}


SPAN = Objective(
    lambda batch: {
        "examples": tf.cast(tf.shape(batch["input_ids"])[0], "float32")
    },
    lambda outputs, batch, totals: losses.span_loss(
        outputs["start_logits"],
        outputs["end_logits"],
        batch["masked_lm_positions"][:, 0],
        batch["masked_lm_positions"][:, 1],
        totals["examples"],
    ),
    lambda outputs, batch: {},
)


def test_variables_without_gradient_stay():
    """A span head never uses the pooler."""
    run = Run(
        BATCHES[:2], head=heads.BertSpan, objective=SPAN, accumulation_steps=2
    )
    same = [
        name
        for name, value in run.weights().items()
        if (value == run.before[name]).all()
    ]
    assert same and all("pooler" in name for name in same)
    assert all(name in same for name in run.before if "pooler" in name)


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_evaluate(plain, logical_cpus, num_replicas):
    """Batch losses have a mean; the rest is weighted by what it counts."""
    strategy = replicas(logical_cpus(num_replicas))
    with strategy.scope():
        model = heads.BertPretraining(NO_DROPOUT)
        model.build()
        model.set_weights(plain.model.get_weights())
        dataset = make_dataset(strategy, BATCHES)
        results = loop.evaluate(
            strategy, model, pretraining.PRETRAINING, dataset
        )
    sums = {"masked_lm": np.zeros(3), "next_sentence": np.zeros(3)}
    totals = []
    for batch in BATCHES:
        outputs = plain.model(batch)
        totals.append(float(losses.pretraining_losses(outputs, batch)[0]))
        for name, labels, weights in (
            ("masked_lm", batch["masked_lm_ids"], batch["masked_lm_weights"]),
            ("next_sentence", batch["next_sentence_labels"][:, 0], np.ones(4)),
        ):
            logits = outputs[f"{name}_logits"]
            each = losses.cross_entropy(logits, labels).numpy()
            is_right = np.argmax(logits, axis=-1) == labels
            sums[name] += [
                np.sum(values * weights)
                for values in (is_right, each, np.ones_like(each))
            ]
    assert results["loss"] == pytest.approx(np.mean(totals), abs=1e-5)
    for name, (right, loss, count) in sums.items():
        accuracy = results[f"{name}_accuracy"]
        assert accuracy == pytest.approx(right / count, abs=1e-6)
        assert results[f"{name}_loss"] == pytest.approx(loss / count, abs=1e-5)


def test_predict_keeps_the_order(plain):
    dataset = make_dataset(tf.distribute.get_strategy(), BATCHES)
    outputs = list(loop.predict(plain.model, dataset))
    assert len(outputs) == len(BATCHES)
    for output, batch in zip(outputs, BATCHES, strict=True):
        expected = plain.model(batch)
        for name, value in output.items():
            assert isinstance(value, np.ndarray)
            np.testing.assert_allclose(value, expected[name], atol=1e-5)


def test_evaluation_and_prediction_can_be_compiled(plain):
    strategy = tf.distribute.get_strategy()
    dataset = make_dataset(strategy, BATCHES)
    expected = list(loop.predict(plain.model, dataset))
    outputs = list(loop.predict(plain.model, dataset, jit_compile=True))
    for output, other in zip(outputs, expected, strict=True):
        for name, value in output.items():
            np.testing.assert_allclose(value, other[name], atol=1e-5)
    results = [
        loop.evaluate(
            strategy,
            plain.model,
            pretraining.PRETRAINING,
            dataset,
            jit_compile=jit_compile,
        )
        for jit_compile in (False, True)
    ]
    for name, value in results[0].items():
        assert results[1][name] == pytest.approx(value, abs=1e-5)


def test_ratio():
    assert loop.ratio([3.0, 4.0]) == 0.75
    assert loop.ratio([0.0, 0.0]) == 0.0
