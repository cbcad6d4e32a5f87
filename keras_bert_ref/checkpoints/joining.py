"""Two encoders in one model: left to right and right to left (paper, 5.1).

The weights of the first keep their names, bert/..., those of the second are
bert_rtl/...; the config says directionality "ltr+rtl".
"""

import dataclasses

from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.config import BertConfig

DIRECTIONS = ("ltr", "rtl")


def join(left_to_right: Pretrained, right_to_left: Pretrained) -> Pretrained:
    """Makes one model of two encoders; their heads are left out."""
    both = left_to_right, right_to_left
    for pretrained, direction in zip(both, DIRECTIONS, strict=True):
        found = pretrained.config.direction
        if found != direction:
            raise ValueError(
                f"{pretrained.source} has directionality={found}, but "
                f"{direction} is wanted here; give the left-to-right model "
                "as --source and the right-to-left one as --right_to_left."
            )
    ours, theirs = (_sizes(pretrained.config) for pretrained in both)
    different = [key for key in ours if ours[key] != theirs.get(key)]
    if different:
        key = different[0]
        raise ValueError(
            "Both encoders must have the same sizes, but "
            f"{key} is {ours[key]} in {left_to_right.source} and "
            f"{theirs.get(key)} in {right_to_left.source}."
        )
    if left_to_right.vocabulary != right_to_left.vocabulary:
        raise ValueError(
            f"{left_to_right.source} and {right_to_left.source} have "
            "different vocabularies; both must have been trained on the same."
        )
    tensors = {}
    for pretrained, prefix in zip(both, ("bert/", "bert_rtl/"), strict=True):
        for name, value in pretrained.tensors.items():
            if name.startswith("bert/"):
                tensors[prefix + name.removeprefix("bert/")] = value
    return Pretrained(
        source=f"{left_to_right.source} and {right_to_left.source}",
        config=dataclasses.replace(
            left_to_right.config, directionality="ltr+rtl"
        ),
        tensors=tensors,
        vocabulary=left_to_right.vocabulary,
        do_lower_case=left_to_right.do_lower_case,
    )


def _sizes(config: BertConfig) -> dict:
    values = config.to_dict()
    del values["directionality"]
    return values
