"""Answers -> JSON files, byte for byte as `json.dumps` with indents has them.

The few shapes that there are have templates, which are quicker.
"""

import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence

import tensorflow as tf

from keras_bert_ref.files import unfinished

ENTRIES_PER_WRITE = 256


def write_json(path: str, content: Mapping) -> None:
    """Writes what `json.dumps(content, indent=4)` gives, sooner.

    The file is there when it is whole; until then, the one it replaces is.
    """
    entries = (
        f"{json.dumps(str(key))}: {_format(value)}"
        for key, value in content.items()
    )
    with unfinished([path]) as (name,), tf.io.gfile.GFile(name, "w") as file:
        separator = "{\n    "
        while some := list(itertools.islice(entries, ENTRIES_PER_WRITE)):
            file.write(separator + ",\n    ".join(some))
            separator = ",\n    "
        file.write("\n}\n" if content else "{}\n")


_LIST = "[\n        {\n            %s\n        }\n    ]"
_NEXT = "\n        },\n        {\n            "
_ANSWER = """"text": %s,
            "probability": %s,
            "start_logit": %s,
            "end_logit": %s"""


def _format(value: str | float | Sequence[dict]) -> str:
    """A value of the files: text, odds, or an n-best list, with indents."""
    if isinstance(value, str | float):
        return json.dumps(value)
    answers = [
        _ANSWER
        % (
            _escape(answer["text"]),
            _number(answer["probability"]),
            _number(answer["start_logit"]),
            _number(answer["end_logit"]),
        )
        for answer in value
    ]
    return _LIST % _NEXT.join(answers)


_escape = json.encoder.encode_basestring_ascii
# Answers to a question share their logits, and numbers are most of the work.
_repr = functools.lru_cache(maxsize=1 << 10)(float.__repr__)


def _number(value: float) -> str:
    # For the cache 0 and -0 are the same; infinities have names of their own.
    if value and math.isfinite(value):
        return _repr(value)
    return json.dumps(value)
