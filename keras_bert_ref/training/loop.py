"""The training engine: steps, evaluation, prediction.

A step is the same on one device, many replicas and many hosts: each replica
takes its part of the batch, losses divide by counts of the whole batch, and
gradients are summed over replicas before they are clipped. So N replicas
compute what one computes on the whole batch.
"""

import collections
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_bert_ref.optimization import clip_gradients, sum_over_replicas
from keras_bert_ref.training.distribution import num_workers
from keras_bert_ref.training.objective import Objective


def make_train_step(
    model,
    optimizer,
    objective: Objective,
    *,
    seed: int = 0,
    jit_compile: bool = False,
    accumulation_steps: int = 1,
    loss_scale=None,
) -> Callable:
    """Returns the step that every replica takes on its part of a batch."""
    variables = model.trainable_variables
    scale = 1.0 if loss_scale is None else loss_scale.value

    def forward_backward(batch, totals, draw, scale):
        with tf.GradientTape() as tape:
            outputs = call_with_seed(model, batch, seed, draw)
            loss = objective.loss(outputs, batch, totals)
            scaled_loss = loss * scale
        grads = tape.gradient(scaled_loss, variables)
        metrics = {"loss": loss, **objective.metrics(outputs, batch)}
        return metrics, grads

    def train_step(batch):
        totals = _sum_dict_over_replicas(objective.count(batch))
        # A new tf.function each time: a trace belongs to one replica.
        compute = tf.function(forward_backward, jit_compile=jit_compile)
        draw = _first_draw(optimizer.iterations, accumulation_steps)
        metrics, grads = accumulate(
            lambda part, i: compute(part, totals, draw + i, scale),
            batch,
            accumulation_steps,
        )
        grads = sum_over_replicas(grads)
        is_valid = None
        if loss_scale is not None:
            grads, is_valid = _unscale(grads, loss_scale)
        grads, metrics["gradient_norm"] = clip_gradients(grads)
        metrics["learning_rate"] = tf.identity(optimizer.learning_rate)
        optimizer.update(grads, variables, is_valid)
        summed = ("gradient_norm", "learning_rate")
        parts = {k: v for k, v in metrics.items() if k not in summed}
        return {**metrics, **_sum_dict_over_replicas(parts)}

    return train_step


class Step(NamedTuple):
    """What a call of the devices gave.

    Attributes:
        count: how many steps were taken.
        metrics: of the last of them, not yet fetched from the devices.
        waited: seconds spent waiting for the batch.
        is_stopping: whether to stop here; the same on all workers.
    """

    count: int
    metrics: dict
    waited: float
    is_stopping: bool


def take_steps(
    strategy: tf.distribute.Strategy,
    train_step: Callable,
    batches: tf.data.Dataset,
    *,
    num_steps: int,
    steps_per_call: int = 1,
    wants_to_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Step]:
    """Takes steps, one after the other, without waiting for their results.

    Args:
        batches: a dataset for the strategy's replicas, without end.
        steps_per_call: int. Steps that run on the devices without coming
            back; only the last one's metrics are seen.
        wants_to_stop: whether this worker was asked to end.
    """

    def step_and_vote(batch, vote):
        metrics = train_step(batch)
        # The identity has a device, which an argument lacks.
        votes = sum_over_replicas([tf.identity(vote)])
        return {**metrics, "stop": votes[0]}

    # One trace serves batches of all lengths.
    specs = batches.element_spec, tf.TensorSpec([], tf.float32)

    @tf.function(input_signature=specs)
    def run(batch, vote):
        return _first(strategy, strategy.run(step_and_vote, (batch, vote)))

    @tf.function
    def run_many(iterator, count, vote):
        for _ in tf.range(count - 1):
            strategy.run(train_step, (next(iterator),))
        return run(next(iterator), vote)

    iterator = iter(batches)
    votes = _Votes(strategy)
    ballots = [tf.constant(0.0), tf.constant(1.0)]  # go on, stop
    done = 0
    while done < num_steps:
        count = min(steps_per_call, num_steps - done)
        is_asked = bool(wants_to_stop())
        vote = ballots[is_asked]
        start = time.perf_counter()
        if count == 1:
            batch = next(iterator)
            waited = time.perf_counter() - start
            metrics = run(batch, vote)
        else:
            waited = 0.0
            metrics = run_many(iterator, tf.constant(count), vote)
        done += count
        is_stopping = votes.count(metrics.pop("stop"), is_asked)
        yield Step(count, metrics, waited, is_stopping)


class _Votes:
    """Whether to stop: one answer for all workers, at the same step.

    A process that trains alone asks itself. Several workers add up their
    votes on the devices; each looks at the sum of some calls ago, which is
    there by now, so that nobody waits for steps that were only just queued.
    """

    CALLS_AGO = 2

    def __init__(self, strategy: tf.distribute.Strategy):
        self.is_alone = num_workers(strategy) == 1
        self.pending = collections.deque()

    def count(self, votes, is_asked: bool) -> bool:
        if self.is_alone:
            return is_asked
        self.pending.append(votes)
        if len(self.pending) <= self.CALLS_AGO:
            return False
        return float(self.pending.popleft()) > 0


def evaluate(
    strategy: tf.distribute.Strategy,
    model,
    objective: Objective,
    batches: tf.data.Dataset,
    *,
    jit_compile: bool = False,
) -> dict[str, float]:
    """Scores a model on batches.

    Returns:
        `loss`, the mean of the batches' losses; and each metric of the
        objective, its sum over all batches divided by its count.
    """

    def eval_step(batch):
        totals = _sum_dict_over_replicas(objective.count(batch))
        compute = tf.function(
            lambda batch: model(batch, training=False), jit_compile=jit_compile
        )
        outputs = compute(batch)
        loss = objective.loss(outputs, batch, totals)
        return _sum_dict_over_replicas(
            {"loss": loss, **objective.metrics(outputs, batch)}
        )

    @tf.function(input_signature=(batches.element_spec,))
    def run(batch):
        return _first(strategy, strategy.run(eval_step, args=(batch,)))

    losses, sums = [], {}
    for batch in batches:
        metrics = run(batch)
        losses.append(float(metrics.pop("loss")))
        for name, value in metrics.items():
            sums[name] = sums.get(name, 0.0) + value.numpy().astype("float64")
    means = {name: ratio(value) for name, value in sums.items()}
    return {"loss": float(np.mean(losses)), **means}


def predict(
    model, batches: tf.data.Dataset, *, jit_compile: bool = False
) -> Iterator:
    """Yields a model's outputs as arrays, batch by batch, in order."""
    compute = tf.function(
        lambda batch: model(batch, training=False), jit_compile=jit_compile
    )
    run = tf.function(compute, input_signature=(batches.element_spec,))
    for batch in batches:
        yield tf.nest.map_structure(lambda x: x.numpy(), run(batch))


def call_with_seed(model, batch, seed: int, draw):
    """Runs a model in training with dropout that follows from seed and draw.

    Keras keeps the state of dropout in variables; here numbers take their
    place, so that a resumed run draws what an undisturbed one draws, and
    replicas draw differently.
    """
    states = [v for v in model.variables if "seed_generator" in v.path]
    numbers = [
        (state, tf.cast(tf.stack([seed * 100_003 + i, draw]), state.dtype))
        for i, state in enumerate(states)
    ]
    with keras.StatelessScope(numbers):
        return model(batch, training=True)


def accumulate(compute: Callable, batch: dict, steps: int):
    """Adds up metrics and gradients of a batch's parts, one at a time."""
    if steps == 1:
        return compute(batch, 0)
    parts = {
        name: tf.reshape(
            value, tf.concat([[steps, -1], tf.shape(value)[1:]], axis=0)
        )
        for name, value in batch.items()
    }

    def compute_part(i):
        part = {name: value[i] for name, value in parts.items()}
        return compute(part, tf.cast(i, tf.int64))

    def add_part(i, sums):
        metrics, grads = compute_part(i)
        more = metrics, _dense(grads)
        return i + 1, tf.nest.map_structure(tf.add, sums, more)

    metrics, grads = compute_part(tf.constant(0))
    _, (metrics, dense) = tf.while_loop(
        lambda i, _: i < steps,
        add_part,
        (tf.constant(1), (metrics, _dense(grads))),
        parallel_iterations=1,  # the point is to hold one part at a time
    )
    dense = iter(dense)
    return metrics, [None if grad is None else next(dense) for grad in grads]


def ratio(value) -> float:
    """The mean that a metric's [sum, count] stands for."""
    total, count = np.asarray(value, "float64")
    return float(total / count) if count else 0.0


def _dense(grads) -> list:
    """Gradients without gaps; rows of look-ups summed, so that they add up."""
    return [tf.convert_to_tensor(grad) for grad in grads if grad is not None]


def _first_draw(step, draws_per_step: int):
    """A number for this step and replica; the parts of a batch count on."""
    context = tf.distribute.get_replica_context()
    replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
    place = tf.cast(step, tf.int64) * context.num_replicas_in_sync + replica
    return place * draws_per_step


def _unscale(grads, loss_scale):
    """Divides gradients by the loss scale; says if they are all finite."""
    grads = [None if g is None else g / loss_scale.value for g in grads]
    is_finite = tf.math.is_finite(tf.linalg.global_norm(grads))
    loss_scale.update(is_finite)
    return grads, is_finite


def _sum_dict_over_replicas(values: dict) -> dict:
    return dict(
        zip(values, sum_over_replicas(list(values.values())), strict=True)
    )


def _first(strategy, values):
    """One replica's copy of what is the same on all."""
    return tf.nest.map_structure(
        lambda x: strategy.experimental_local_results(x)[0], values
    )
