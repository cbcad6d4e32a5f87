"""Conversion between TF1, Hugging Face and keras-hub files.

The format of the source shows from its files. A target that exists is never
touched, and appears under its name only when it is whole and, loaded back,
has computed what the source computes.
"""

import os

import numpy as np
import tensorflow as tf

from keras_bert_ref import files, interruptions
from keras_bert_ref.checkpoints import (
    compatibility,
    huggingface,
    joining,
    keras_hub,
    tf1,
)
from keras_bert_ref.checkpoints.pretrained import (
    RECORD_FILE,
    Pretrained,
    check_lower_case,
    read_vocabulary,
)
from keras_bert_ref.commands import Options
from keras_bert_ref.config import DIRECTIONS, BertConfig
from keras_bert_ref.interruptions import discard_on_signals

TOLERANCE = 1e-5
CHECKPOINT = "bert_model.ckpt"
CONFIG_FILE = "bert_config.json"
VOCAB_FILE = "vocab.txt"

# Parts that a reader may expect, by a weight that shows that they are there.
PARTS = {
    "pooler": "bert/pooler/dense/kernel",
    "masked-word head": "cls/predictions/output_bias",
    "next-sentence head": "cls/seq_relationship/output_weights",
    "classifier head": "output_weights",
    "span head": "cls/squad/output_weights",
}


def read_tf1(path: str) -> Pretrained:
    """Reads a released folder, or a checkpoint in one; the model alone."""
    config_file, prefix = tf1.find(path)
    tensors = tf1.read(prefix)
    step = tensors.pop(tf1.GLOBAL_STEP, None)
    direction = DIRECTIONS[int(tensors.get(tf1.DIRECTION, 0))]
    slots = [name for name in tensors if name.endswith(tf1.SLOT_ENDINGS)]
    resume = [name for name in tensors if name.startswith(tf1.RESUME_PREFIX)]
    for name in slots + resume:
        del tensors[name]
    config = BertConfig.from_json_file(config_file)
    compatibility.check_direction(path, config.direction, direction)
    pretrained = Pretrained(path, config, tensors)
    if slots:
        pretrained.leave_out("Adam slots", [str(len(slots))])
    if step is not None:
        pretrained.leave_out("global_step", [str(step)])
    pretrained.check_finite()
    folder = os.path.dirname(config_file)
    pretrained.vocabulary = read_vocabulary(folder, VOCAB_FILE)
    if files.exists(folder, RECORD_FILE):
        pretrained.record = files.read_json(folder, RECORD_FILE)
        pretrained.do_lower_case = check_lower_case(
            pretrained.record.get("do_lower_case"),
            os.path.join(folder, RECORD_FILE),
        )
    return pretrained


def write_tf1(folder: str, pretrained: Pretrained) -> None:
    """Writes a folder like the released ones. Everything has its place."""
    tf1.write(
        os.path.join(folder, CHECKPOINT),
        pretrained.tensors | tf1.mark(pretrained.config),
    )
    pretrained.config.to_json_file(os.path.join(folder, CONFIG_FILE))
    if pretrained.vocabulary is not None:
        files.replace(os.path.join(folder, VOCAB_FILE), pretrained.vocabulary)
    if pretrained.record:
        path = os.path.join(folder, RECORD_FILE)
        files.replace_json(path, pretrained.record)


READERS = {
    "tf1": read_tf1,
    "huggingface": huggingface.read,
    "keras_hub": keras_hub.read,
}
WRITERS = {
    "tf1": write_tf1,
    "huggingface": huggingface.write,
    "keras_hub": keras_hub.write,
}


def detect_format(source: str) -> str:
    """Which of the three formats a folder or checkpoint prefix has."""
    if not tf.io.gfile.isdir(source):
        if tf.io.gfile.exists(source + ".index"):
            return "tf1"
        raise FileNotFoundError(
            f"There is no folder and no TF1 checkpoint at {source}. Give the "
            "folder of a model, or a checkpoint's path without `.index`."
        )
    found = []
    if tf1.prefixes_in_folder(source):
        found.append("tf1")
    if files.exists(source, "config.json"):
        config = files.read_json(source, "config.json")
        is_preset = "registered_name" in config
        found.append("keras_hub" if is_preset else "huggingface")
    if not found:
        raise ValueError(
            f"{source} is no model: a TF1 folder has bert_model.ckpt.index or "
            "variables/variables.index, a Hugging Face or keras-hub folder "
            "has config.json."
        )
    if len(found) > 1:
        raise ValueError(
            f"{source} has a model in {found[0]} and one in {found[1]} "
            "format. Give the checkpoint's path without `.index` for the "
            "first, or put the files of the other into a folder of their own."
        )
    return found[0]


def convert(source: str, target: str, target_format: str = "tf1") -> float:
    """Writes `source` in another format, checks it, and prints a report.

    Args:
        source: a folder in one of the formats, or a TF1 checkpoint prefix.
        target: the folder to make.
        target_format: "tf1", "huggingface" or "keras_hub".

    Returns:
        The largest difference between outputs before and after.
    """
    target = target.rstrip("/")
    check_target(target)
    pretrained = READERS[detect_format(source)](source)
    if pretrained.config.direction == "ltr+rtl":
        raise ValueError(
            f"{source} was made of two encoders, and there is no other format "
            "for it; convert the two that it was made of."
        )
    expected = compute(pretrained)
    unfinished = files.unfinished_name(target)
    try:
        WRITERS[target_format](unfinished, pretrained)
        again = READERS[target_format](unfinished)
        difference = check(pretrained, expected, again)
        interruptions.check()
        tf.io.gfile.rename(unfinished, target)
    finally:
        if tf.io.gfile.exists(unfinished):
            tf.io.gfile.rmtree(unfinished)
    again.left_out = pretrained.left_out
    again.leave_out("tensors", pretrained.tensors.keys() - again.tensors.keys())
    before, after = pretrained.config.to_dict(), again.config.to_dict()
    changed = {f"{k}={v}" for k, v in before.items() if after.get(k) != v}
    again.leave_out("config keys", changed)
    print(report(again, target, target_format, difference))
    return difference


def check_target(target: str) -> None:
    if tf.io.gfile.exists(target):
        raise FileExistsError(
            f"{target} exists and is not overwritten; give another target or "
            "remove it first."
        )
    files.remove_leftovers(target)


def check(pretrained: Pretrained, expected: dict, again: Pretrained) -> float:
    """Compares what was read back with what was written.

    Args:
        pretrained: what was written.
        expected: what it computes.
        again: what was read back.

    Returns:
        The largest difference between their outputs.
    """
    for name, value in pretrained.tensors.items():
        is_head = not name.startswith("bert/")
        if is_head and name not in again.tensors:
            continue  # not every format has a place for it; reported
        if not np.array_equal(value, again.tensors.get(name)):
            raise ValueError(_failure(f"{name} is not what it was"))
    actual = compute(again)
    difference = max(
        float(np.abs(actual[name] - expected[name]).max()) for name in expected
    )
    if not difference <= TOLERANCE:
        raise ValueError(
            _failure(f"outputs differ by {difference:.2g} > {TOLERANCE:g}")
        )
    return difference


def _failure(what: str) -> str:
    return (
        f"The converted model was loaded back and {what}; it is not kept. "
        "This should never happen: please report it with the source's config."
    )


def compute(pretrained: Pretrained) -> dict[str, np.ndarray]:
    """Outputs of the encoder on a batch with padding and two segments."""
    config = pretrained.config
    rng = np.random.default_rng(0)
    shape = 4, min(32, config.max_position_embeddings)
    lengths = np.linspace(1, shape[1], shape[0], dtype=int)
    outputs = pretrained.build()(
        rng.integers(config.vocab_size, size=shape),
        input_mask=np.arange(shape[1]) < lengths[:, None],
        segment_ids=rng.integers(min(2, config.type_vocab_size), size=shape),
    )
    names = ["sequence_output"]
    if PARTS["pooler"] in pretrained.tensors:
        names.append("pooled_output")
    return {name: outputs[name].numpy() for name in names}


def report(
    result: Pretrained, target: str, target_format: str, difference: float
) -> str:
    """A text that says what is in the target and what is not."""
    there = [part for part in PARTS if PARTS[part] in result.tensors]
    absent = [part for part in PARTS if part not in there]
    lines = [
        f"Carried over: {len(result.tensors)} tensors: "
        f"{', '.join(['encoder', *there])}; hidden_act="
        f"{result.config.hidden_act}",
        f"Not in the target: {', '.join(absent) or 'nothing'}",
        *(f"Left out: {line}" for line in result.left_out),
    ]
    if result.vocabulary is None:
        lines.append("No vocabulary: the source has none beside it")
    else:
        lines.append(f"Vocabulary copied; do_lower_case={result.lower_cases()}")
    if result.record.get("labels"):
        lines.append(f"Labels: {', '.join(result.record['labels'])}")
    if target_format == "tf1" and result.config.hidden_act == "gelu_erf":
        lines.append(
            "Note: the code of 2018 does not know hidden_act=gelu_erf and "
            "will say so; keras_bert_ref does"
        )
    lines.append(f"Loaded back, its outputs differ by at most {difference:g}")
    lines.append(f"Wrote {target} ({target_format})")
    return "\n".join(lines)


def join(source: str, right_to_left: str, target: str) -> None:
    """Writes one TF1 folder for the two encoders of `joining.join`."""
    target = target.rstrip("/")
    check_target(target)
    joined = joining.join(
        *(
            READERS[detect_format(path)](path)
            for path in (source, right_to_left)
        )
    )
    unfinished = files.unfinished_name(target)
    try:
        write_tf1(unfinished, joined)
        tf.io.gfile.rename(unfinished, target)
    finally:
        if tf.io.gfile.exists(unfinished):
            tf.io.gfile.rmtree(unfinished)
    print(f"Joined {joined.source}: {len(joined.tensors)} tensors")
    print(f"Wrote {target} (tf1)")


@discard_on_signals()
def main(options: Options, _words=()) -> None:
    """The body of the command."""
    if options.right_to_left:
        if options.target_format != "tf1":
            raise ValueError(
                f"--target_format={options.target_format} has no place for two "
                "encoders; --right_to_left needs tf1."
            )
        join(options.source, options.right_to_left, options.target)
        return
    convert(options.source, options.target, options.target_format)
