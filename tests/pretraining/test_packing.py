"""Several sequences in a row: the same loss, the same gradients."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs, golden_training, pretraining_files, runners
from keras_bert_ref import heads
from keras_bert_ref.pretraining import next_words, objective, packing
from keras_bert_ref.pretraining.features import make_schema
from keras_bert_ref.pretraining.settings import Settings

LENGTH = 32
SETTINGS = Settings(
    {"[MASK]": 0}, max_seq_length=LENGTH, max_predictions_per_seq=8
)


def unpacked(count=12) -> dict:
    """Sequences of a quarter of the length to all of it."""
    rows = pretraining_files.examples(LENGTH // 2, count)
    rows += pretraining_files.examples(LENGTH, 3, seed=1)
    features = {}
    for name in rows[0]:
        size = {"input": LENGTH, "segme": LENGTH, "maske": 8}.get(name[:5], 1)
        features[name] = np.zeros((len(rows), size), rows[0][name].dtype)
        for i, row in enumerate(rows):
            features[name][i, : len(row[name])] = row[name]
    # Masked words come first; a word is masked where the weight is 1.
    return features


def as_batch(features) -> dict:
    return {
        name: tf.constant(
            values, tf.float32 if name.endswith("weights") else tf.int32
        )
        for name, values in features.items()
    }


def sequences_of(features) -> list[tuple]:
    """Every sequence by itself, in some order."""
    lengths = features["input_mask"].sum(1)
    is_masked = features["masked_lm_weights"] > 0
    return sorted(
        (
            tuple(features["input_ids"][i, : lengths[i]]),
            tuple(features["segment_ids"][i, : lengths[i]]),
            tuple(features["masked_lm_positions"][i, is_masked[i]]),
            tuple(features["masked_lm_ids"][i, is_masked[i]]),
            features["next_sentence_labels"][i, 0],
        )
        for i in range(len(lengths))
    )


def packed_sequences(packed) -> list[tuple]:
    """The same of packed rows."""
    sequences = []
    for row in range(len(packed["input_ids"])):
        ids = packed["sequence_ids"][row]
        count = int(packed["next_sentence_weights"][row].sum())
        assert ids.max() == count
        assert (packed["input_mask"][row] == (ids > 0)).all()
        for place in range(count):
            start = packed["cls_positions"][row, place]
            inside = np.flatnonzero(ids == place + 1)
            assert inside[0] == start and (np.diff(inside) == 1).all()
            positions = packed["masked_lm_positions"][row]
            is_own = (packed["masked_lm_weights"][row] > 0) & np.isin(
                positions, inside
            )
            sequences.append(
                (
                    tuple(packed["input_ids"][row, inside]),
                    tuple(packed["segment_ids"][row, inside]),
                    tuple(positions[is_own] - start),
                    tuple(packed["masked_lm_ids"][row, is_own]),
                    packed["next_sentence_labels"][row, place],
                )
            )
    return sorted(sequences)


def test_features_survive():
    features = unpacked()
    packed = packing.pack(features, SETTINGS)
    assert packed_sequences(packed) == sequences_of(features)


@pytest.mark.slow
def test_command(golden_dir, tmp_path):
    """The original's instances, packed."""
    found = []
    for flag, sequences_per_row in (("--no", None), ("--", 8)):
        path = f"{tmp_path}/{sequences_per_row}.tfrecord"
        with runners.load_runner("create_pretraining_data") as command:
            runners.run(
                command,
                f"--input_file={golden_dir}/corpus*.txt",
                f"--vocab_file={golden_dir}/vocab.txt",
                f"--output_file={path}",
                "--dupe_factor=2",
                f"{flag}pack_sequences",
            )
        assert packing.find_sequences_per_row([path]) == sequences_per_row
        schema = make_schema(128, 20, sequences_per_row)
        (batch,) = tf.data.TFRecordDataset(path).batch(1_000_000)
        features = tf.io.parse_example(batch, schema)
        found.append({k: v.numpy() for k, v in features.items()})
    assert packed_sequences(found[1]) == sequences_of(found[0])
    assert len(found[1]["input_ids"]) < len(found[0]["input_ids"])


def test_rows_respect_their_limits():
    lengths = np.array([20, 5, 5, 5, 5, 5, 5, 30])
    rows = packing.plan_rows(lengths, np.full(8, 3), SETTINGS)
    assert sorted(i for row in rows for i in row) == list(range(8))
    for row in rows:
        assert lengths[row].sum() <= LENGTH
        assert len(row) <= 2  # so many masked words fit, and sequences
    assert rows[:2] == [[7], [0, 1]]  # longest first, into most room


@pytest.mark.parametrize("direction", ["bidi", "ltr", "rtl"])
@pytest.mark.parametrize("skip_padding", [False, True])
def test_loss_and_gradients_equal_unpacked(direction, skip_padding):
    config = configs.tiny(
        vocab_size=pretraining_files.VOCAB_SIZE,
        max_position_embeddings=LENGTH,
        num_hidden_layers=2,
        initializer_range=0.3,
        directionality=direction,
        **configs.NO_DROPOUT,
    )
    keras.utils.set_random_seed(1)
    model = heads.BertPretraining(config, skip_padding=skip_padding)
    model.build()
    features = unpacked()
    results = []
    for part in (features, packing.pack(features, SETTINGS)):
        batch = as_batch(part)
        goal = objective.PRETRAINING
        if direction != "bidi":
            batch = next_words.PREPARATIONS[direction](batch)
            goal = objective.WORDS[direction]
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True)
            loss = goal.loss(outputs, batch, goal.count(batch))
        grads = tape.gradient(loss, model.trainable_variables)
        metrics = goal.metrics(outputs, batch)
        metrics.pop("tokens")
        results.append((loss, grads, metrics))
    (loss, grads, metrics), (packed_loss, packed_grads, packed_metrics) = (
        results
    )
    assert float(packed_loss) == pytest.approx(float(loss), abs=1e-5)
    for name, value in metrics.items():
        np.testing.assert_allclose(packed_metrics[name], value, rtol=1e-5)
    for variable, ours, theirs in zip(
        model.trainable_variables, grads, packed_grads, strict=True
    ):
        assert (ours is None) == (theirs is None)
        assert not isinstance(theirs, tf.IndexedSlices), variable.path
        if ours is not None:
            np.testing.assert_allclose(
                tf.convert_to_tensor(theirs),
                tf.convert_to_tensor(ours),
                rtol=0,
                atol=1e-5,
                err_msg=variable.path,
            )


def write_rows(path, features) -> str:
    count = len(features["input_ids"])
    rows = [{k: v[i] for k, v in features.items()} for i in range(count)]
    return golden_training.write_records(path, rows)


@pytest.mark.slow
def test_training_on_packed_records(tmp_path):
    features = unpacked()
    packed = packing.pack(features, SETTINGS)
    path = write_rows(tmp_path / "packed.tfrecord", packed)
    config = pretraining_files.write_config(
        tmp_path, max_position_embeddings=LENGTH
    )
    flags = pretraining_files.flags(config, path, LENGTH, tmp_path / "out")
    flags += ["--max_predictions_per_seq=8", "--do_eval"]
    with runners.load_runner("run_pretraining") as command:
        runners.run(command, *flags)
        assert (tmp_path / "out" / "eval_results.txt").exists()
        other = write_rows(tmp_path / "unpacked.tfrecord", features)
        with pytest.raises(ValueError, match="cannot be mixed with others"):
            runners.run(command, *flags, f"--input_file={path},{other}")


def test_the_first_record_is_damaged(tmp_path):
    path = tmp_path / "rows.tfrecord"
    write_rows(path, unpacked())
    assert packing.find_sequences_per_row([str(path)]) is None
    data = bytearray(path.read_bytes())
    data[30] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"record 0, at byte 0 of {path}: it"):
        packing.find_sequences_per_row([str(path)])
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"no example")
    with pytest.raises(ValueError, match=f"first record of {path} is no tf.tr"):
        packing.find_sequences_per_row([str(path)])


@pytest.mark.slow
def test_share_of_real_tokens(shared_dir, tmp_path):
    output = str(tmp_path / "packed.tfrecord")
    with runners.load_runner("create_pretraining_data") as command:
        runners.run(
            command,
            f"--input_file={shared_dir}/data/corpus/wikipedia_sections.txt",
            f"--vocab_file={shared_dir}/data/vocab/bert-base-uncased-vocab.txt",
            f"--output_file={output}",
            "--dupe_factor=1",
            "--sharded",
            "--pack_sequences",
        )
    schema = {"input_mask": make_schema(128, 20, 8)["input_mask"]}
    real = rows = 0
    for batch in tf.data.TFRecordDataset(output).batch(1000):
        mask = tf.io.parse_example(batch, schema)["input_mask"]
        real, rows = real + int(tf.reduce_sum(mask)), rows + len(mask)
    assert real / (128 * rows) > 0.97
