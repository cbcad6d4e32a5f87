"""Schedule and optimizer against numbers worked out by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import heads, losses, optimization

CONFIG = configs.tiny(initializer_range=0.5, **configs.NO_DROPOUT)
RNG = np.random.default_rng(0)
BATCH = {
    # Every word occurs often: rows of the same word get summed.
    "input_ids": RNG.integers(0, 6, size=(4, 9)).astype("int32"),
    "label_ids": np.array([0, 2, 1, 1], "int32"),
}


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (0, 0.0),  # the first step learns nothing
        (1, 0.25),
        (3, 0.75),
        (4, 0.6),  # the warm-up ends on the falling line
        (9, 0.1),
        (10, 0.0),
        (50, 0.0),
    ],
)
def test_schedule(step, rate):
    schedule = optimization.WarmupLinearDecay(1.0, 10, 4)
    assert float(schedule(step)) == pytest.approx(rate, abs=1e-7)


@pytest.mark.parametrize("num_warmup_steps", [0, None])
def test_schedule_without_warmup(num_warmup_steps):
    schedule = optimization.WarmupLinearDecay(1.0, 10, num_warmup_steps)
    assert [float(schedule(step)) for step in (0, 5)] == [1.0, 0.5]


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), 0.0, -1e-3])
def test_schedule_of_no_rate(rate):
    with pytest.raises(ValueError, match=f"finite and above 0.*={rate}"):
        optimization.WarmupLinearDecay(rate, 10)


def test_schedule_without_steps():
    with pytest.raises(ValueError, match="num_train_steps=0: a schedule"):
        optimization.WarmupLinearDecay(1.0, 0)


def test_one_step_by_hand():
    weight = keras.Variable(np.array([2.0], "float32"), name="kernel")
    bias = keras.Variable(np.array([2.0], "float32"), name="bias")
    optimizer = optimization.AdamWeightDecay(0.1, clip_norm=None)
    grads = [tf.constant([3.0]), tf.constant([3.0])]
    optimizer.apply(grads, [weight, bias])
    # m = 0.3, v = 0.009, both without bias correction.
    update = 0.3 / (np.sqrt(0.009) + 1e-6)
    assert float(bias.numpy()[0]) == pytest.approx(2 - 0.1 * update, abs=1e-6)
    assert float(weight.numpy()[0]) == pytest.approx(
        2 - 0.1 * (update + 0.01 * 2), abs=1e-6
    )
    assert int(optimizer.iterations) == 1


@pytest.mark.parametrize("model_name", ["bias_probe", "my_LayerNorm", "plain"])
def test_what_decays(model_name):
    model = heads.BertClassifier(CONFIG, num_labels=3, name=model_name)
    model.build()
    optimizer = optimization.AdamWeightDecay()
    decayed = {
        optimization.original_name(v)
        for v in model.weights
        if optimizer.does_decay(v)
    }
    layer = "bert/encoder/layer_0"
    assert decayed == {
        "bert/embeddings/word_embeddings",
        "bert/embeddings/token_type_embeddings",
        "bert/embeddings/position_embeddings",
        f"{layer}/attention/self/query/kernel",
        f"{layer}/attention/self/key/kernel",
        f"{layer}/attention/self/value/kernel",
        f"{layer}/attention/output/dense/kernel",
        f"{layer}/intermediate/dense/kernel",
        f"{layer}/output/dense/kernel",
        "bert/pooler/dense/kernel",
        "output_weights",
    }


def test_norm_counts_each_row_of_a_look_up_by_itself():
    rows = tf.IndexedSlices(
        tf.constant([[3.0], [4.0]]), tf.constant([1, 1]), tf.constant([5, 1])
    )
    clipped, norm = optimization.clip_gradients([rows, None])
    assert float(norm) == 5.0  # summed first it would be 7
    assert clipped[1] is None
    np.testing.assert_allclose(
        tf.convert_to_tensor(clipped[0])[:, 0], [0, 1.4, 0, 0, 0], atol=1e-6
    )


def classifier_and_optimizer():
    keras.utils.set_random_seed(5)
    model = heads.BertClassifier(CONFIG, num_labels=3)
    model.build()
    model.dropout.rate = 0.0
    optimizer = optimization.create_optimizer(1e-3, 20, 2)
    optimizer.build(model.trainable_variables)
    return model, optimizer


def train(model, optimizer, steps=5):
    variables = model.trainable_variables
    for _ in range(steps):
        with tf.GradientTape() as tape:
            logits = model(BATCH, training=True)
            loss = losses.classifier_loss(logits, BATCH["label_ids"])
        optimizer.apply(tape.gradient(loss, variables), variables)
    return state(model, optimizer)


def state(model, optimizer):
    # The averages show the size of gradients; Adam's steps hide it.
    weights = {optimization.original_name(v): v for v in model.weights}
    both = weights | optimizer.slots()
    return {name: variable.numpy() for name, variable in both.items()}


def assert_same_state(actual, expected):
    assert actual.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(
            actual[name], expected[name], atol=1e-5, err_msg=name
        )


def test_fit_equals_a_loop():
    expected = train(*classifier_and_optimizer())
    model, optimizer = classifier_and_optimizer()
    model.compile(
        optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    x = {"input_ids": BATCH["input_ids"]}
    data = tf.data.Dataset.from_tensors((x, BATCH["label_ids"]))
    model.fit(data, epochs=5, verbose=0)
    assert optimizer.iterations.numpy() == 5
    assert_same_state(state(model, optimizer), expected)


@pytest.mark.slow
def test_replicas_equal_one_device(logical_cpus):
    """Gradients are summed, then clipped: rows of look-ups included."""
    expected = train(*classifier_and_optimizer())
    strategy = tf.distribute.MirroredStrategy(logical_cpus(2))
    with strategy.scope():
        model, optimizer = classifier_and_optimizer()
    variables = model.trainable_variables

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            loss = losses.classifier_loss(
                model({"input_ids": batch["input_ids"]}, training=True),
                batch["label_ids"],
                batch_size=4,
            )
        optimizer.apply(tape.gradient(loss, variables), variables)

    halves = [{k: v[:2] for k, v in BATCH.items()}]
    halves += [{k: v[2:] for k, v in BATCH.items()}]
    batch = strategy.experimental_distribute_values_from_function(
        lambda context: halves[context.replica_id_in_sync_group]
    )
    for _ in range(5):
        strategy.run(step, args=(batch,))
    assert optimizer.iterations.numpy() == 5
    assert_same_state(state(model, optimizer), expected)


def test_updates_write_in_place():
    """New arrays for weights and averages would double their memory. What was
    read before a step stays what it was."""
    weight = keras.Variable(np.ones(1000, np.float32), name="kernel")
    optimizer = optimization.AdamWeightDecay(0.1)
    optimizer.build([weight])
    variables = [weight, optimizer.adam_m[0], optimizer.adam_v[0]]

    def addresses():
        """For a moment, these are references besides the variables'."""
        views = (memoryview(x.value.read_value()) for x in variables)
        return [np.asarray(view).ctypes.data for view in views]

    # The first may still share its array with what it was made of.
    optimizer.update([tf.ones(1000)], [weight])
    before = addresses()
    optimizer.update([tf.ones(1000)], [weight])
    assert addresses() == before
    values = [x.numpy() for x in variables]
    kept = [x.value.read_value() for x in variables]
    optimizer.update([tf.ones(1000)], [weight])
    for old, value, variable in zip(kept, values, variables, strict=True):
        np.testing.assert_array_equal(old, value)
        assert (variable.numpy() != value).all()


def test_a_variable_without_gradient_stays():
    """The pooler takes no part in answering questions."""
    keras.utils.set_random_seed(5)
    model = heads.BertSpan(CONFIG)
    model.build()
    before = {v.path: v.numpy() for v in model.weights}
    optimizer = optimization.AdamWeightDecay(0.1)
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        outputs = model(BATCH, training=True)
        loss = losses.span_loss(
            outputs["start_logits"],
            outputs["end_logits"],
            BATCH["label_ids"],
            BATCH["label_ids"],
        )
    optimizer.apply(tape.gradient(loss, variables), variables)
    for variable in model.weights:
        changed = (variable.numpy() != before[variable.path]).any()
        assert changed == ("pooler" not in variable.path), variable.path


@pytest.mark.slow
def test_float16_with_loss_scaling():
    keras.utils.set_random_seed(5)
    model = heads.BertClassifier(CONFIG, 3, dtype="mixed_float16")
    model.compile(
        optimization.AdamWeightDecay(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    x = {"input_ids": BATCH["input_ids"]}
    history = model.fit(x, BATCH["label_ids"], epochs=20, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0] / 2


def test_config_round_trip():
    optimizer = optimization.create_optimizer(5e-5, 100, 10)
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert again.get_config() == optimizer.get_config()
    assert float(again._learning_rate(5)) == pytest.approx(2.5e-5)


def test_compiled_model_round_trips_with_its_optimizer(tmp_path):
    model, optimizer = classifier_and_optimizer()
    model.compile(optimizer, loss="mse")
    train(model, optimizer)
    model.save(tmp_path / "x.keras")
    again = keras.models.load_model(tmp_path / "x.keras").optimizer
    assert int(again.iterations) == 5
    assert again.slots().keys() == optimizer.slots().keys()
    for name, slot in again.slots().items():
        np.testing.assert_array_equal(slot, optimizer.slots()[name])


def test_loss_scale():
    scale = optimization.LossScale(initial=8.0, growth_steps=3)
    seen = []
    for is_finite in [True, True, False, True, True, True, True, False]:
        scale.update(tf.constant(is_finite))
        seen.append((float(scale.value), int(scale.good_steps)))
    assert seen == [
        (8.0, 1),
        (8.0, 2),
        (4.0, 0),
        (4.0, 1),
        (4.0, 2),
        (8.0, 0),
        (8.0, 1),
        (4.0, 0),
    ]


def test_loss_scale_has_an_end():
    """Steps that are left out for ever do not end with code 0."""
    scale = optimization.LossScale(initial=8.0)
    for _ in range(20):
        scale.update(tf.constant(False))
    scale.check()
    for _ in range(20):
        scale.update(tf.constant(False))
    with pytest.raises(FloatingPointError, match="float16 overflow at every"):
        scale.check()


def test_loss_scale_starts_high():
    scale = optimization.LossScale()
    assert float(scale.value) == 2.0**15
    assert scale.growth_steps == 2000
