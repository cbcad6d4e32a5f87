"""The encoder: shapes, masking, precision, compilation, replicas."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import modeling, network
from keras_bert_ref.config import BertConfig

CONFIG = configs.tiny(num_hidden_layers=2)
IDS = np.random.default_rng(0).integers(0, 50, size=(4, 9)).astype("int32")
MASK = np.array([[1] * 9, [1] * 6 + [0] * 3, [1] * 2 + [0] * 7, [1] * 9])
SEGMENTS = np.array([[0] * 4 + [1] * 5] * 4)


@pytest.fixture
def model():
    keras.utils.set_random_seed(1)
    return modeling.BertModel(CONFIG)


def numbers(outputs):
    return np.concatenate(
        [np.asarray(x, "float32").ravel() for x in tf.nest.flatten(outputs)]
    )


def test_shapes(model):
    outputs = model(IDS, MASK, SEGMENTS, return_attention_probs=True)
    assert outputs["sequence_output"].shape == (4, 9, 24)
    assert outputs["pooled_output"].shape == (4, 24)
    assert outputs["embedding_output"].shape == (4, 9, 24)
    assert [x.shape for x in outputs["all_encoder_layers"]] == [(4, 9, 24)] * 2
    assert [x.shape for x in outputs["attention_probs"]] == [(4, 3, 9, 9)] * 2
    np.testing.assert_array_equal(
        outputs["all_encoder_layers"][-1], outputs["sequence_output"]
    )
    assert "attention_probs" not in model(IDS, MASK, SEGMENTS)


def test_variables_have_the_originals_names(model):
    model.build()
    block = "bert/encoder/layer_{}/"
    parts = [
        *(f"attention/self/{name}" for name in ("query", "key", "value")),
        "attention/output/dense",
        "intermediate/dense",
        "output/dense",
    ]
    norms = ["attention/output/LayerNorm", "output/LayerNorm"]
    expected = {
        "bert/embeddings/word_embeddings": (50, 24),
        "bert/embeddings/token_type_embeddings": (2, 24),
        "bert/embeddings/position_embeddings": (16, 24),
        "bert/embeddings/LayerNorm/beta": (24,),
        "bert/embeddings/LayerNorm/gamma": (24,),
        "bert/pooler/dense/kernel": (24, 24),
        "bert/pooler/dense/bias": (24,),
    }
    for i in range(2):
        for part in parts:
            inner = 40 if part.startswith("intermediate") else 24
            size = 40 if part == "output/dense" else 24
            expected[f"{block.format(i)}{part}/kernel"] = (size, inner)
            expected[f"{block.format(i)}{part}/bias"] = (inner,)
        for norm in norms:
            expected[f"{block.format(i)}{norm}/beta"] = (24,)
            expected[f"{block.format(i)}{norm}/gamma"] = (24,)
    assert {v.path: tuple(v.shape) for v in model.weights} == expected


def test_original_name_inside_a_functional_model(model):
    ids = keras.Input((9,), dtype="int32")
    scores = keras.layers.Dense(1)(model(ids)["pooled_output"])
    outer = keras.Model(ids, scores)
    assert outer(IDS).shape == (4, 1)
    names = [network.original_name(v) for v in outer.weights]
    assert names[: len(model.weights)] == [v.path for v in model.weights]


def test_padding_does_not_influence_real_positions(model):
    other = np.where(MASK == 1, IDS, (IDS + 7) % 50)
    before = model(IDS, MASK, SEGMENTS)
    after = model(other, MASK, SEGMENTS)
    for a, b in zip(
        before["all_encoder_layers"], after["all_encoder_layers"], strict=True
    ):
        np.testing.assert_allclose(
            a.numpy()[MASK == 1], b.numpy()[MASK == 1], atol=1e-6
        )
    np.testing.assert_allclose(
        before["pooled_output"], after["pooled_output"], atol=1e-6
    )


def test_trimming_padding_changes_nothing(model):
    whole = model(IDS[1:3], MASK[1:3], SEGMENTS[1:3])["sequence_output"]
    short = model(IDS[1:3, :6], MASK[1:3, :6], SEGMENTS[1:3, :6])
    real = MASK[1:3, :6] == 1
    np.testing.assert_allclose(
        whole.numpy()[:, :6][real],
        short["sequence_output"].numpy()[real],
        atol=1e-6,
    )


def test_a_row_without_real_tokens_is_finite(model):
    outputs = model(IDS, np.zeros_like(MASK), SEGMENTS)
    assert np.isfinite(numbers(outputs)).all()


def test_defaults_of_mask_and_segments(model):
    np.testing.assert_allclose(
        numbers(model(IDS)),
        numbers(model(IDS, np.ones_like(IDS), np.zeros_like(IDS))),
        atol=1e-6,
    )


def test_segments_and_order_matter(model):
    outputs = model(IDS)["sequence_output"].numpy()
    others = model(IDS, segment_ids=SEGMENTS)["sequence_output"].numpy()
    assert np.abs(outputs - others).max() > 1e-3
    mirrored = model(IDS[:, ::-1])["sequence_output"].numpy()[:, ::-1]
    assert np.abs(outputs - mirrored).max() > 1e-3


@pytest.mark.parametrize("length", [1, 5, 16])
def test_any_length(model, length):
    ids = np.resize(IDS, (2, length))
    assert model(ids)["sequence_output"].shape == (2, length, 24)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_graph_and_xla_equal_eager(model, jit_compile):
    compiled = tf.function(lambda *args: model(*args), jit_compile=jit_compile)
    np.testing.assert_allclose(
        numbers(compiled(IDS, MASK, SEGMENTS)),
        numbers(model(IDS, MASK, SEGMENTS)),
        atol=1e-5,
    )


def test_one_graph_serves_all_lengths(model):
    model.build()
    spec = tf.TensorSpec((None, None), tf.int32)
    compiled = tf.function(
        lambda ids, mask: model(ids, mask)["pooled_output"],
        input_signature=[spec, spec],
    )
    for length in (3, 8):
        ids, mask = IDS[:, :length], MASK[:, :length].astype("int32")
        np.testing.assert_allclose(
            compiled(ids, mask), model(ids, mask)["pooled_output"], atol=1e-6
        )


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision(policy, monkeypatch):
    keras.utils.set_random_seed(1)
    exact = modeling.BertModel(CONFIG)
    expected = exact(IDS, MASK, SEGMENTS)
    half = modeling.BertModel(CONFIG, dtype=policy)
    half.build()
    for ours, theirs in zip(half.weights, exact.weights, strict=True):
        assert ours.dtype == "float32", ours.path
        ours.assign(theirs)
    softmax_types = []
    softmax = modeling.ops.softmax
    monkeypatch.setattr(
        modeling.ops,
        "softmax",
        lambda x, axis: softmax_types.append(x.dtype) or softmax(x, axis),
    )
    outputs = half(IDS, MASK, SEGMENTS)
    assert outputs["pooled_output"].dtype == policy.removeprefix("mixed_")
    assert softmax_types == [tf.float32] * 2
    block = half.encoder.blocks[0]
    assert block.output_.layer_norm.compute_dtype == "float32"
    assert block.intermediate.compute_dtype == policy.removeprefix("mixed_")
    difference = np.abs(numbers(outputs) - numbers(expected)).max()
    assert 0 < difference < 0.1


def test_global_precision_policy_is_followed():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = modeling.BertModel(CONFIG)
        model.build()
    finally:
        keras.config.set_dtype_policy("float32")
    assert model.encoder.blocks[0].intermediate.compute_dtype == "bfloat16"


def test_dropout_only_in_training(model):
    calm = numbers(model(IDS))
    np.testing.assert_array_equal(calm, numbers(model(IDS)))
    first = numbers(model(IDS, training=True))
    second = numbers(model(IDS, training=True))
    assert np.abs(first - second).max() > 0.1
    assert np.abs(first - calm).max() > 0.1


def test_initial_weights():
    keras.utils.set_random_seed(3)
    config = BertConfig.from_dict({**CONFIG.to_dict(), "vocab_size": 5000})
    model = modeling.BertModel(config)
    model.build()
    seen = {}
    for weight in model.weights:
        kind = weight.path.rsplit("/", 1)[-1]
        values = weight.numpy()
        if kind in ("beta", "bias"):
            assert not values.any(), weight.path
        elif kind == "gamma":
            assert (values == 1).all(), weight.path
        else:
            assert np.abs(values).max() <= 2 * 0.02 + 1e-6, weight.path
            key = (values.shape, values.tobytes())
            assert key not in seen, f"{weight.path} repeats {seen.get(key)}"
            seen[key] = weight.path
    table = model.embeddings.word_embeddings.numpy()
    # Standard deviation of a normal distribution cut off at two sigma.
    assert table.std() == pytest.approx(0.02 * 0.8796, rel=0.01)


def test_same_seed_same_weights():
    weights = []
    for _ in range(2):
        keras.utils.set_random_seed(7)
        model = modeling.BertModel(CONFIG)
        model.build()
        weights.append(numbers(model.weights))
    np.testing.assert_array_equal(*weights)


def test_keras_file_round_trip(model, tmp_path):
    expected = model(IDS, MASK, SEGMENTS)
    model.save(tmp_path / "x.keras")
    again = keras.models.load_model(tmp_path / "x.keras")
    assert again.config == CONFIG
    assert [v.path for v in again.weights] == [v.path for v in model.weights]
    np.testing.assert_array_equal(
        numbers(again(IDS, MASK, SEGMENTS)), numbers(expected)
    )


def test_word_embedding_gradient_is_a_list_of_rows(model):
    """The original's clipping counts each token's row: see clip_gradients."""
    model.build()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(IDS)["pooled_output"])
    tables = model.embeddings
    rows, types, positions = tape.gradient(
        loss,
        [
            tables.word_embeddings.value,
            tables.token_type_embeddings.value,
            tables.position_embeddings.value,
        ],
    )
    assert isinstance(rows, tf.IndexedSlices)
    assert rows.values.shape == (IDS.size, 24)
    assert isinstance(types, tf.Tensor)
    assert isinstance(positions, tf.Tensor)


def test_replicas_build_and_run_the_model(logical_cpus, model):
    expected = model(IDS, MASK, SEGMENTS)["sequence_output"]
    strategy = tf.distribute.MirroredStrategy(logical_cpus(2))
    with strategy.scope():
        mirrored = modeling.BertModel(CONFIG)
        mirrored.build()
    for ours, theirs in zip(mirrored.weights, model.weights, strict=True):
        ours.assign(theirs)

    @tf.function
    def run(ids, mask, segments):
        return strategy.run(
            lambda *args: mirrored(*args)["sequence_output"],
            args=(ids, mask, segments),
        )

    def split(array):
        halves = [array[:2], array[2:]]
        return strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                halves[context.replica_id_in_sync_group], tf.int32
            )
        )

    parts = strategy.experimental_local_results(
        run(split(IDS), split(MASK), split(SEGMENTS))
    )
    np.testing.assert_allclose(np.concatenate(parts), expected, atol=1e-6)


def test_layers_work_by_themselves(model):
    """They take and return whole batches, [B, T, D]."""
    expected = model(IDS, None, SEGMENTS, return_attention_probs=True)
    x = model.embeddings(IDS, SEGMENTS)
    np.testing.assert_allclose(x, expected["embedding_output"], atol=1e-6)
    block = model.encoder.blocks[0]
    context, attention = block.attention(x)
    assert context.shape == (4, 9, 24)
    np.testing.assert_allclose(
        attention["probs"], expected["attention_probs"][0], atol=1e-6
    )
    y, _ = block(x)
    np.testing.assert_allclose(y, expected["all_encoder_layers"][0], atol=1e-6)
    layers, _ = model.encoder(x)
    np.testing.assert_allclose(
        layers[-1], expected["sequence_output"], atol=1e-6
    )


def test_a_new_layer_builds_itself_and_has_gradients():
    layer = modeling.Block(CONFIG)
    x = tf.random.normal((2, 5, 24), seed=0)
    with tf.GradientTape() as tape:
        y, _ = layer(x)
        loss = tf.reduce_sum(tf.sin(y))
    grads = tape.gradient(loss, [v.value for v in layer.trainable_variables])
    for variable, grad in zip(layer.trainable_variables, grads, strict=True):
        assert grad.shape == variable.shape, variable.path


def test_dense_layers_multiply_once_for_the_whole_batch():
    """No Keras version makes one gradient of a kernel per sequence."""
    layer = modeling.Block(CONFIG)
    layer.build()

    @tf.function
    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x)[0])
        return tape.gradient(loss, [v.value for v in layer.weights])

    graph = gradients.get_concrete_function(tf.zeros((2, 5, 24))).graph
    matmuls = [op for op in graph.get_operations() if "MatMul" in op.type]
    dense = [op for op in matmuls if op.outputs[0].shape.rank == 2]
    attention = [op for op in matmuls if op not in dense]
    # Forward; gradients of kernels; gradients of inputs other than x.
    assert len(dense) == 6 + 6 + 3
    assert all(op.outputs[0].shape[:2] == (2, 3) for op in attention)


def test_too_many_tokens(model):
    with pytest.raises(ValueError, match="17 tokens, more than .*s=16"):
        model(np.zeros((1, 17), "int32"))


def test_a_sequence_without_a_batch(model):
    with pytest.raises(ValueError, match=r"\[batch, tokens\], got \(9,\)"):
        model(IDS[0])
