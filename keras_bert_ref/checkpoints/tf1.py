"""TF1 checkpoints, the format of the original release, both ways.

A checkpoint is three things under one prefix: `<prefix>.index`, one or more
`<prefix>.data-*`, and the names the original gave its variables. Training
adds `<variable>/adam_m`, `<variable>/adam_v` and `global_step`. A TF1
SavedModel is a folder with such a checkpoint in it: `variables/variables`.
"""

import dataclasses
import os
import re
import tempfile
import weakref

import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref import files
from keras_bert_ref.checkpoints import compatibility, names
from keras_bert_ref.config import DIRECTIONS, BertConfig
from keras_bert_ref.network import original_name

GLOBAL_STEP = "global_step"
SLOT_ENDINGS = ("/adam_m", "/adam_v")
# Names of what our training needs to resume; the original ignores them.
RESUME_PREFIX = "keras_bert_ref/"
# Of models that are not bidirectional: their place in DIRECTIONS.
DIRECTION = RESUME_PREFIX + "direction"
# Where a SavedModel has its checkpoint.
SAVED_MODEL_PREFIX = os.path.join("variables", "variables")
# What shows that TensorFlow 2 wrote a checkpoint its own way.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# What makes a path a pattern.
PATTERN = re.compile(r"[\[\]*?\\]")
# TensorFlow's reader says "damaged" in many ways, depending on the spot.
READ_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, LookupError)


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What `load` did.

    Attributes:
        loaded: names that came from the file.
        missing: names the model has and the file lacks; left as they were.
        unused: names the file has besides.
    """

    loaded: list[str]
    missing: list[str]
    unused: list[str]


def find(path: str) -> tuple[str, str]:
    """Finds config and checkpoint of a model.

    Args:
        path: a released folder, the folder of a TF1 SavedModel, or the
            prefix of a checkpoint in one of them.

    Returns:
        The path of bert_config.json and the prefix of the checkpoint.
    """
    if tf.io.gfile.isdir(path):
        folders, prefix = [path], _prefix_in_folder(path)
    else:
        folders, prefix = [os.path.dirname(path)], path
        if not tf.io.gfile.glob(prefix + "*"):
            raise FileNotFoundError(
                f"There is neither a folder nor a checkpoint {path}. "
                f"{names.suggest(path)}"
            )
        _open(prefix)
    if prefix.endswith(SAVED_MODEL_PREFIX):
        folders.append(prefix.removesuffix(SAVED_MODEL_PREFIX))
    for folder in folders:
        config_file = os.path.join(folder, "bert_config.json")
        if tf.io.gfile.exists(config_file):
            return config_file, prefix
    raise FileNotFoundError(
        f"No bert_config.json beside the checkpoint {prefix}; put the config "
        "of the model there (in a SavedModel, beside `variables`), or build "
        "the model from a config of your own and use load_checkpoint."
    )


def find_prefix(path: str) -> str:
    """The prefix of the checkpoint that a folder or a prefix stands for."""
    prefix = _prefix_in_folder(path) if tf.io.gfile.isdir(path) else path
    _open(prefix)
    return prefix


def load(model, prefix: str, optimizer=None) -> LoadReport:
    """Fills a model, and if asked its optimizer, from a TF1 checkpoint.

    Args:
        model: a BertModel, or a model that has one under the name `bert`.
        prefix: the checkpoint's path without `.index`, or a released folder,
            or the folder of a TF1 SavedModel.
        optimizer: AdamWeightDecay. If given, its averages and its step are
            taken from the file too.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        ValueError: the file is damaged or in TensorFlow 2's own format,
            lacks a weight of the encoder, has one in another shape, or has
            factorised embeddings.
    """
    prefix, reader, report = _compare(model, prefix, optimizer)
    wanted = named_variables(model, optimizer)
    # All values are read before the first is assigned: a damaged file leaves
    # the model as it was.
    values = {name: _read(reader, prefix, name) for name in report.loaded}
    for name, value in values.items():
        wanted[name].assign(value)
    _log(prefix, report)
    return report


def check(model, prefix: str) -> LoadReport:
    """What `load` would do. Raises what it would, except where values are
    damaged: it reads none."""
    return _compare(model, prefix)[-1]


def _compare(model, prefix: str, optimizer=None):
    """Returns the prefix of the file, its reader, and what fits the model."""
    if tf.io.gfile.isdir(prefix):
        prefix = _prefix_in_folder(prefix)
    reader = _open(prefix)
    in_file = reader.get_variable_to_shape_map()
    wanted = named_variables(model, optimizer)
    if optimizer is not None and GLOBAL_STEP not in in_file:
        raise ValueError(
            f"{prefix} has no global_step, so there is no training to go on "
            "with; released checkpoints have none. Load it without optimizer."
        )
    report = LoadReport(
        loaded=sorted(name for name in wanted if name in in_file),
        missing=sorted(name for name in wanted if name not in in_file),
        unused=sorted(name for name in in_file if name not in wanted),
    )
    config = getattr(model, "config", None)  # functional models have none
    if config is not None:
        compatibility.check_direction(
            prefix, config.direction, _direction(reader)
        )
    compatibility.check_embedding_size(prefix, in_file, config)
    weights = [n for n in report.missing if not n.endswith(SLOT_ENDINGS)]
    compatibility.check_encoder(
        prefix, missing=weights, names=report.loaded + report.unused
    )
    compatibility.check_bilstm(prefix, wanted, in_file)
    for name in report.loaded:
        compatibility.check_shape(
            prefix, name, ours=wanted[name].shape, theirs=in_file[name]
        )
    return prefix, reader, report


def save(model, prefix: str, optimizer=None, extra=None) -> None:
    """Writes a TF1 checkpoint that the original code loads.

    Args:
        model: a BertModel, or a model that has one under the name `bert`.
        prefix: where to; `.index` and `.data-00000-of-00001` are appended.
        optimizer: AdamWeightDecay. If given, its averages and its step are
            written too.
        extra: dict. Further arrays by their names.
    """
    variables = named_variables(model, optimizer)
    tensors = {name: var.numpy() for name, var in variables.items()}
    if optimizer is not None:
        tensors[GLOBAL_STEP] = np.int64(tensors[GLOBAL_STEP])
    config = getattr(model, "config", None)
    write(prefix, tensors | mark(config) | (extra or {}))


def mark(config: BertConfig | None) -> dict:
    """What a checkpoint says of its config: the direction, unless it is that
    of every released model."""
    if config is None or config.direction == "bidi":
        return {}
    return {DIRECTION: np.int64(DIRECTIONS.index(config.direction))}


def write(prefix: str, tensors: dict) -> None:
    """Writes named arrays as a checkpoint, in order of their names."""
    folder = os.path.dirname(prefix)
    if folder:
        tf.io.gfile.makedirs(folder)
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
    )


def read(prefix: str) -> dict[str, np.ndarray]:
    """All arrays of a checkpoint by their names."""
    reader = _open(prefix)
    return {
        name: _read(reader, prefix, name)
        for name in sorted(reader.get_variable_to_shape_map())
    }


def named_variables(model, optimizer) -> dict:
    """Everything a checkpoint of this model holds, by original names."""
    if not model.built:
        model.build()
    variables = {original_name(var): var for var in model.weights}
    if optimizer is not None:
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        variables.update(optimizer.slots())
        variables[GLOBAL_STEP] = optimizer.iterations
    return variables


def prefixes_in_folder(folder: str) -> list[str]:
    """All checkpoints of a released folder or of a SavedModel."""
    found = [
        path
        for path in files.starting_with(os.path.join(folder, ""))
        if re.fullmatch(r".*\.ckpt.*\.index", os.path.basename(path))
    ]
    saved_model = os.path.join(folder, SAVED_MODEL_PREFIX)
    if not found and tf.io.gfile.exists(saved_model + ".index"):
        return [saved_model]
    return [path.removesuffix(".index") for path in found]


def named_checkpoint(folder: str) -> str | None:
    """The prefix that the `checkpoint` file of a folder names, if it does.

    tf.train.latest_checkpoint takes the folder's name for a pattern, and
    finds nothing where it has brackets or stars.
    """
    try:
        known = tf.train.get_checkpoint_state(folder)
    except (ValueError, tf.errors.OpError):  # such as an empty file
        return None
    return known.model_checkpoint_path if known else None


def _prefix_in_folder(folder: str) -> str:
    """The checkpoint a folder's state file names, or the only one in it."""
    named = named_checkpoint(folder)
    if named and tf.io.gfile.exists(named + ".index"):
        return named
    prefixes = prefixes_in_folder(folder)
    if len(prefixes) == 1:
        return prefixes[0]
    if not prefixes:
        raise FileNotFoundError(
            f"No TF1 checkpoint (*.ckpt*.index) in {folder}; a released "
            "folder has bert_model.ckpt.index and bert_model.ckpt.data-*, a "
            f"SavedModel has {SAVED_MODEL_PREFIX}.index."
        )
    if min(map(_step_of, prefixes)) >= 0:
        newest = max(prefixes, key=_step_of)
        logging.warning(
            "%s has no `checkpoint` file that names a whole checkpoint; the "
            "one with the most steps is used, %s.",
            *(folder, os.path.basename(newest)),
        )
        return newest
    raise ValueError(
        f"{folder} has several checkpoints and no `checkpoint` file that "
        f"names one: {', '.join(map(os.path.basename, prefixes))}. Give the "
        "prefix of the one you mean."
    )


def _step_of(prefix: str) -> int:
    """The step in the name of a training checkpoint; -1 if there is none."""
    found = re.search(r"\.ckpt-(\d+)$", prefix)
    return int(found[1]) if found else -1


def _open(prefix: str):
    if prefix.endswith(".index") or ".data-" in os.path.basename(prefix):
        raise ValueError(
            f"{prefix} is one file of a checkpoint; give the part of the "
            "name they share, such as bert_model.ckpt."
        )
    if not tf.io.gfile.exists(prefix + ".index"):
        raise FileNotFoundError(
            f"No checkpoint at {prefix}: there is no {prefix}.index. Give "
            "the path without `.index`, such as bert_model.ckpt."
        )
    if not files.starting_with(prefix + ".data-"):
        raise FileNotFoundError(
            f"The checkpoint {prefix} has an index but no {prefix}.data-* "
            "file; copy that one too."
        )
    try:
        reader = open_reader(prefix)
    except READ_ERRORS as error:
        raise _damaged(prefix, error) from error
    if reader.has_tensor(OBJECT_GRAPH):
        raise ValueError(
            f"{prefix} is an object-based checkpoint, as TensorFlow 2 writes "
            "them (tf.train.Checkpoint, save_weights, SavedModel): its values "
            f"go by places in Python objects ({OBJECT_GRAPH}), not by the "
            "names of the original release. Use the model's TF1 checkpoint, "
            "or convert its Hugging Face folder with "
            "keras_bert_ref.checkpoints.convert."
        )
    return reader


def check_direction(path: str, config: BertConfig) -> None:
    """Raises if a checkpoint was trained in another direction than a config
    has; what else may be wrong with it is found when it is loaded."""
    try:
        prefix = find_prefix(path)
        theirs = _direction(open_reader(prefix))
    except (FileNotFoundError, *READ_ERRORS):
        return
    compatibility.check_direction(prefix, config.direction, theirs)


def _direction(reader) -> str:
    if not reader.has_tensor(DIRECTION):
        return "bidi"
    return DIRECTIONS[int(reader.get_tensor(DIRECTION))]


def open_reader(prefix: str):
    """TensorFlow's reader of a checkpoint, whatever characters its path has.

    The reader takes the path for a pattern; where it looks like one, links
    in a temporary folder, under a plain name, stand for the files.
    """
    if not PATTERN.search(prefix) or "://" in prefix:
        return tf.train.load_checkpoint(prefix)
    folder = tempfile.TemporaryDirectory(prefix="keras_bert_ref-")
    for path in files.starting_with(prefix + "."):
        link = os.path.join(folder.name, "model" + path.removeprefix(prefix))
        os.symlink(os.path.abspath(path), link)
    reader = tf.train.load_checkpoint(os.path.join(folder.name, "model"))
    weakref.finalize(reader, folder.cleanup)  # it opens files when asked
    return reader


def _read(reader, prefix: str, name: str) -> np.ndarray:
    try:
        return reader.get_tensor(name)
    except READ_ERRORS as error:
        raise _damaged(prefix, error, f" at {name}") from error


def _damaged(prefix: str, error: Exception, where: str = "") -> ValueError:
    reason, *_ = str(error).splitlines() or [type(error).__name__]
    return ValueError(
        f"The checkpoint {prefix} is damaged or cut short{where} ({reason}); "
        "copy or download it again."
    )


def _log(prefix: str, report: LoadReport) -> None:
    logging.debug("Loaded %d variables from %s.", len(report.loaded), prefix)
    if report.missing:
        logging.warning(
            "%d variables of the model are not in %s and keep their values: %s",
            len(report.missing),
            prefix,
            ", ".join(report.missing),
        )
    # Adam's averages are for training only; nobody will miss them.
    unused = [
        name
        for name in report.unused
        if not name.endswith(SLOT_ENDINGS)
        and not name.startswith(RESUME_PREFIX)
        and name != GLOBAL_STEP
    ]
    if unused:
        logging.info(
            "%d variables of %s are not used: %s.",
            len(unused),
            prefix,
            ", ".join(unused),
        )
