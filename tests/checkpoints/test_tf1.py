"""TF1 checkpoints: what loads, what is reported, what is refused."""

import logging
import shutil
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import heads, modeling, network, optimization
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig

CONFIG = configs.tiny(num_hidden_layers=2)


def changed(**values):
    return BertConfig.from_dict({**CONFIG.to_dict(), **values})


@pytest.fixture
def pretrained(tmp_path):
    """A released folder of a small model; returns the checkpoint's prefix."""
    prefix = str(tmp_path / "released" / "bert_model.ckpt")
    tf1.save(heads.BertPretraining(CONFIG), prefix)
    CONFIG.to_json_file(str(tmp_path / "released" / "bert_config.json"))
    return prefix


def drop(prefix, target, *parts):
    """A copy of a checkpoint without the variables of these names."""
    tensors = tf1.read(prefix)
    kept = {
        name: value
        for name, value in tensors.items()
        if not any(part in name for part in parts)
    }
    tf1.write(target, kept)
    return target


def test_toy_checkpoint_of_another_project(shared_dir):
    folder = shared_dir / "data/weights/toy_tf1"
    config = BertConfig.from_json_file(str(folder / "bert_config.json"))
    model = heads.BertPretraining(config)
    optimizer = optimization.AdamWeightDecay()
    report = tf1.load(model, str(folder / "bert_model.ckpt"), optimizer)
    lines = (folder / "VARIABLES.txt").read_text().splitlines()
    assert report.loaded == sorted(line.split("\t")[0] for line in lines)
    assert not report.missing and not report.unused
    values = tf1.read(str(folder / "bert_model.ckpt"))
    assert optimizer.iterations.numpy() == values["global_step"]
    for name, slot in optimizer.slots().items():
        np.testing.assert_array_equal(slot, values[name])


def test_released_names_and_shapes(shared_dir):
    folders = list((shared_dir / "data/weights/index_only").iterdir())
    assert folders
    for folder in folders:
        config = BertConfig.from_json_file(str(folder / "bert_config.json"))
        model = heads.BertPretraining(config)
        model.build()
        ours = {
            f"{network.original_name(v)}\t{list(v.shape)}\t{v.dtype}"
            for v in model.weights
        }
        theirs = set((folder / "VARIABLES.txt").read_text().splitlines())
        assert ours == theirs, folder.name


def test_report_and_log(pretrained, caplog):
    model = heads.BertClassifier(CONFIG, num_labels=2)
    with caplog.at_level(logging.INFO, logger="absl"):
        report = tf1.load(model, pretrained)
    assert report.missing == ["output_bias", "output_weights"]
    assert report.unused == sorted(
        name for name in tf1.read(pretrained) if name.startswith("cls/")
    )
    assert len(report.loaded) == len(model.bert.weights)
    missing, unused = (
        next(r for r in caplog.records if text in r.getMessage())
        for text in ("keep their values", "are not used")
    )
    assert missing.levelname == "WARNING" and unused.levelname == "INFO"
    assert "output_bias, output_weights" in missing.getMessage()
    assert "cls/seq_relationship/output_bias" in unused.getMessage()


def test_what_training_needs_besides_is_not_worth_a_line(tmp_path, caplog):
    model = modeling.BertModel(CONFIG)
    optimizer = optimization.create_optimizer(1e-3, 10, 0)
    prefix = str(tmp_path / "model.ckpt-0")
    extra = {f"{tf1.RESUME_PREFIX}records_seen": np.int64(5)}
    tf1.save(model, prefix, optimizer, extra)
    with caplog.at_level(logging.INFO, logger="absl"):
        report = tf1.load(model, prefix)
    assert report.unused and not caplog.messages


def test_encoder_alone_and_all_models_share_a_checkpoint(pretrained, tmp_path):
    encoder = modeling.BertModel(CONFIG)
    tf1.load(encoder, pretrained)
    tf1.save(encoder, str(tmp_path / "encoder.ckpt"))
    values = tf1.read(pretrained)
    for name, value in tf1.read(str(tmp_path / "encoder.ckpt")).items():
        np.testing.assert_array_equal(value, values.pop(name))
    assert all(name.startswith("cls/") for name in values)


@pytest.mark.parametrize("parts", [("pooler",), ("cls/",), ("pooler", "cls/")])
def test_partial_files_load_with_a_warning(pretrained, tmp_path, caplog, parts):
    partial = drop(pretrained, str(tmp_path / "partial.ckpt"), *parts)
    model = heads.BertPretraining(CONFIG)
    with caplog.at_level(logging.WARNING, logger="absl"):
        report = tf1.load(model, partial)
    assert report.missing
    assert all(any(p in name for p in parts) for name in report.missing)
    assert report.missing[0] in caplog.text


def test_optimizer_state_is_not_loaded_unless_asked(tmp_path):
    model = heads.BertPretraining(CONFIG)
    model.build()
    optimizer = optimization.AdamWeightDecay()
    optimizer.build(model.trainable_variables)
    optimizer.iterations.assign(7)
    for slot in optimizer.slots().values():
        slot.assign(np.full(slot.shape, 0.5))
    prefix = str(tmp_path / "model.ckpt-7")
    tf1.save(model, prefix, optimizer)
    assert tf1.read(prefix)["global_step"].dtype == np.int64

    report = tf1.load(heads.BertPretraining(CONFIG), prefix)
    assert "global_step" in report.unused
    fresh = optimization.AdamWeightDecay()
    report = tf1.load(heads.BertPretraining(CONFIG), prefix, fresh)
    assert not report.missing and not report.unused
    assert fresh.iterations.numpy() == 7
    assert all((slot.numpy() == 0.5).all() for slot in fresh.slots().values())


def test_replicas_save_and_load(pretrained, tmp_path, logical_cpus):
    strategy = tf.distribute.MirroredStrategy(logical_cpus(2))
    with strategy.scope():
        model = heads.BertPretraining(CONFIG)
        optimizer = optimization.AdamWeightDecay()
        tf1.load(model, pretrained)
        tf1.save(model, str(tmp_path / "again.ckpt"), optimizer)
    again = tf1.read(str(tmp_path / "again.ckpt"))
    for name, value in tf1.read(pretrained).items():
        np.testing.assert_array_equal(value, again[name])
    assert again["global_step"] == 0
    for variable in model.weights:
        first, second = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(first, second)


def test_from_checkpoint(pretrained, tmp_path):
    folder = str(tmp_path / "released")
    values = tf1.read(pretrained)
    for path in (folder, pretrained):
        model = modeling.BertModel.from_checkpoint(path)
        assert model.config == CONFIG
        for variable in model.weights:
            np.testing.assert_array_equal(variable, values[variable.path])
    classifier = heads.BertClassifier.from_checkpoint(folder, num_labels=4)
    assert classifier.output_weights.shape == (4, 24)
    np.testing.assert_array_equal(
        classifier.bert.embeddings.word_embeddings,
        values["bert/embeddings/word_embeddings"],
    )


def test_from_checkpoint_takes_the_one_the_state_file_names(
    pretrained, tmp_path
):
    folder = tmp_path / "released"
    other = heads.BertPretraining(CONFIG)
    tf1.save(other, str(folder / "model.ckpt-5"))
    with pytest.raises(ValueError, match=r"several checkpoints.*bert_model\.c"):
        modeling.BertModel.from_checkpoint(str(folder))
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"')
    model = modeling.BertModel.from_checkpoint(str(folder))
    np.testing.assert_array_equal(
        model.embeddings.word_embeddings, other.bert.embeddings.word_embeddings
    )


@pytest.fixture
def saved_model(pretrained, tmp_path):
    """A TF1 SavedModel of the small model, in two data files."""
    folder = tmp_path / "saved_model"
    folder.mkdir()
    (folder / "saved_model.pb").write_bytes(b"")
    CONFIG.to_json_file(str(folder / "bert_config.json"))
    values = sorted(tf1.read(pretrained).items())
    halves = [str(tmp_path / f"half_{i}") for i in range(2)]
    tf1.write(halves[0], dict(values[::2]))
    tf1.write(halves[1], dict(values[1::2]))
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=halves,
        destination_prefix=str(folder / "variables" / "variables"),
    )
    assert len(list((folder / "variables").glob("*.data-*"))) == 2
    return folder


@pytest.mark.parametrize("path", ["", "variables/variables"])
def test_saved_model(pretrained, saved_model, path):
    values = tf1.read(pretrained)
    path = str(saved_model / path)
    model = modeling.BertModel.from_checkpoint(path)
    other = modeling.BertModel(CONFIG)
    assert not tf1.load(other, path).missing
    for ours, theirs in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(ours, values[ours.path])
        np.testing.assert_array_equal(theirs, values[ours.path])


def test_saved_model_without_config(saved_model):
    (saved_model / "bert_config.json").unlink()
    message = "No bert_config.json beside .*in a SavedModel, beside `variables`"
    with pytest.raises(FileNotFoundError, match=message):
        modeling.BertModel.from_checkpoint(str(saved_model))


def test_object_based_checkpoints_are_refused(tmp_path):
    CONFIG.to_json_file(str(tmp_path / "bert_config.json"))
    checkpoint = tf.train.Checkpoint(step=tf.Variable(1))
    prefix = checkpoint.write(str(tmp_path / "variables" / "variables"))
    message = r"variables is an object-based .*_OBJECT_GRAPH.* TF1 checkpoint"
    for path in (str(tmp_path), prefix):
        with pytest.raises(ValueError, match=message):
            modeling.BertModel.from_checkpoint(path)
        with pytest.raises(ValueError, match=message):
            tf1.load(modeling.BertModel(CONFIG), path)


def test_from_checkpoint_without_config(pretrained, tmp_path):
    (tmp_path / "released" / "bert_config.json").unlink()
    with pytest.raises(FileNotFoundError, match="No bert_config.json beside"):
        modeling.BertModel.from_checkpoint(pretrained)


def test_empty_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"No TF1 checkpoint .* in "):
        modeling.BertModel.from_checkpoint(str(tmp_path))


def test_missing_encoder_weight(pretrained, tmp_path):
    partial = drop(pretrained, str(tmp_path / "x.ckpt"), "layer_1/output/dense")
    with pytest.raises(
        ValueError, match=r"lacks 2 weights .*layer_1/output/dense/bias"
    ):
        tf1.load(modeling.BertModel(CONFIG), partial)


def test_not_a_bert(tmp_path):
    tf1.write(str(tmp_path / "x.ckpt"), {"dense/kernel": np.zeros((2, 2))})
    with pytest.raises(ValueError, match=r"not a BERT; it has dense/kernel"):
        tf1.load(modeling.BertModel(CONFIG), str(tmp_path / "x.ckpt"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            changed(vocab_size=60),
            r"word_embeddings has the shape \[60, 24\] in the model and "
            r"\[50, 24\] in .*vocab_size is 60, .* has 50 entries",
        ),
        (
            changed(intermediate_size=44),
            r"layer_0/intermediate/dense/bias has the shape \[44\] .*\[40\]"
            ".*config is another model's",
        ),
        (
            changed(hidden_size=48),
            r"embeddings/LayerNorm/beta has the shape \[48\] .*\[24\]"
            ".*config is another model's",
        ),
        (
            changed(max_position_embeddings=32),
            r"position_embeddings has the shape \[32, 24\]",
        ),
    ],
)
def test_wrong_shape(pretrained, config, message):
    model = modeling.BertModel(config)
    model.build()
    before = [v.numpy() for v in model.weights]
    with pytest.raises(ValueError, match=message):
        tf1.load(model, pretrained)
    for variable, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.parametrize(
    ("size_in_config", "names"),
    [
        (8, lambda name: name),
        (None, lambda name: name),
        (None, lambda name: name.replace("bert/", "electra/")),
        (
            None,
            lambda name: name.replace(
                "layer_0/attention/", "transformer/group_0/attention_1/"
            ),
        ),
    ],
    ids=["config", "BERT's names", "ELECTRA's names", "ALBERT's names"],
)
def test_factorised_embeddings(pretrained, tmp_path, size_in_config, names):
    """The config is the checkpoint's own; the model is not a BERT."""
    tensors = tf1.read(pretrained)
    if not size_in_config:
        tensors["bert/embeddings/word_embeddings"] = np.zeros((50, 8))
    folder = tmp_path / "factorised"
    prefix = str(folder / "model.ckpt")
    tf1.write(prefix, {names(name): tensors[name] for name in tensors})
    config = changed()
    if size_in_config:
        config.embedding_size = size_in_config
    config.to_json_file(str(folder / "bert_config.json"))
    message = (
        r"model\.ckpt has factorised embeddings, as ALBERT and ELECTRA have: "
        "embedding_size=8, hidden_size=24.* not supported"
    )
    with (
        warnings.catch_warnings(),
        pytest.raises(ValueError, match=message),
    ):
        warnings.simplefilter("ignore")  # of the key embedding_size
        modeling.BertModel.from_checkpoint(prefix)


def test_embedding_size_that_is_hidden_size(pretrained):
    config = changed()
    config.embedding_size = 24
    assert not tf1.load(modeling.BertModel(config), pretrained).missing


def test_functional_models_load(pretrained):
    ids = keras.Input((9,), dtype="int32")
    bert = modeling.BertModel(CONFIG)
    model = keras.Model(ids, bert(ids)["pooled_output"])
    assert not tf1.load(model, pretrained).missing


def test_head_of_another_task(tmp_path):
    prefix = str(tmp_path / "x.ckpt")
    tf1.save(heads.BertClassifier(CONFIG, num_labels=3), prefix)
    with pytest.raises(ValueError, match=r"\[2\] .*\[3\].*number of labels"):
        tf1.load(heads.BertClassifier(CONFIG, num_labels=2), prefix)


def test_released_checkpoints_have_no_training_to_resume(pretrained):
    with pytest.raises(ValueError, match="has no global_step, so there is no"):
        tf1.load(
            heads.BertPretraining(CONFIG),
            pretrained,
            optimization.AdamWeightDecay(),
        )


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no .*/nope\.ckpt\.index"):
        tf1.load(modeling.BertModel(CONFIG), str(tmp_path / "nope.ckpt"))


def test_missing_data_file(shared_dir):
    folder = shared_dir / "data/weights/index_only/uncased_L-8_H-512_A-8"
    with pytest.raises(FileNotFoundError, match=r"an index but no .*\.data-"):
        tf1.load(modeling.BertModel(CONFIG), str(folder / "bert_model.ckpt"))


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_one_file_instead_of_the_prefix(pretrained, ending):
    with pytest.raises(ValueError, match="is one file of a checkpoint"):
        tf1.load(modeling.BertModel(CONFIG), pretrained + ending)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_truncated_file(pretrained, tmp_path, ending, share):
    target = str(tmp_path / "cut.ckpt")
    for part in (".index", ".data-00000-of-00001"):
        shutil.copy(pretrained + part, target + part)
    with open(target + ending, "r+b") as file:
        file.truncate(int(len(file.read()) * share))
    model = heads.BertPretraining(CONFIG)
    model.build()
    before = [v.numpy() for v in model.weights]
    with pytest.raises(ValueError, match="is damaged or cut short"):
        tf1.load(model, target)
    for variable, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.parametrize("ending", [".index", ".data-00000-of-00001"])
def test_cut_by_one_byte(pretrained, ending):
    with open(pretrained + ending, "r+b") as file:
        file.truncate(len(file.read()) - 1)
    message = f"{pretrained} is damaged or cut short"
    with pytest.raises(ValueError, match=message):
        tf1.load(heads.BertPretraining(CONFIG), pretrained)


@pytest.mark.parametrize("content", [None, b"", b"\xff{", b"junk"])
def test_newest_without_a_state_file(tmp_path, content, caplog):
    """One that is empty or damaged is as good as none."""
    models = [heads.BertPretraining(CONFIG) for _ in range(2)]
    for step, model in zip((9, 10), models, strict=True):
        tf1.save(model, str(tmp_path / f"model.ckpt-{step}"))
    CONFIG.to_json_file(str(tmp_path / "bert_config.json"))
    if content is not None:
        (tmp_path / "checkpoint").write_bytes(content)
    loaded = modeling.BertModel.from_checkpoint(str(tmp_path))
    np.testing.assert_array_equal(
        loaded.embeddings.word_embeddings,
        models[1].bert.embeddings.word_embeddings,
    )
    assert "most steps is used, model.ckpt-10" in caplog.text


def test_flipped_bits_are_noticed(pretrained):
    path = pretrained + ".data-00000-of-00001"
    with open(path, "r+b") as file:
        file.seek(100)
        byte = file.read(1)
        file.seek(100)
        file.write(bytes([byte[0] ^ 0xFF]))
    with pytest.raises(ValueError, match="is damaged or cut short at bert/"):
        tf1.load(heads.BertPretraining(CONFIG), pretrained)
