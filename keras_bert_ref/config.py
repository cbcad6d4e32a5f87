"""The architecture of a BERT: the keys of a released bert_config.json.

Also finds the configs that come with this package, by name from anywhere.
"""

import dataclasses
import json
import math
import pathlib
import reprlib
import warnings

# Names `hidden_act` may have. `gelu` is the tanh form of the original;
# `gelu_erf` is the form behind Hugging Face's "gelu".
ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")

# What `directionality` may be: which tokens a token attends to. Released files
# say "bidi", all, or nothing, which means the same; then there are those
# before it, those behind it, and two encoders, one of each (paper, section
# 5.1).
DIRECTIONS = ("bidi", "ltr", "rtl", "ltr+rtl")

# Keys of the released multilingual and Chinese files that nothing ever read.
UNUSED_RELEASED_KEYS = frozenset(
    {
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    }
)
# TensorFlow counts in 32 bits.
MAX_SIZE = 2**31 - 1
# In a checkout configs/ stands beside the package, in a wheel within it.
_PACKAGE = pathlib.Path(__file__).parent
_FOLDERS = (_PACKAGE / "configs", _PACKAGE.parent / "configs")


@dataclasses.dataclass
class BertConfig:
    """Sizes and rates of a BERT, with the original's names and defaults.

    Keys of a file that are not listed here are kept as attributes and written
    back by `to_dict`, so a config survives a round trip unchanged.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    initializer_range: float = 0.02
    directionality: str | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type is int:
                _check_size(field.name, value)
            elif field.type is float:
                _check_number(field.name, value)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{name}={getattr(self, name)} is not a rate: give a "
                    "number from 0 (no dropout) up to, not including, 1."
                )
        if self.initializer_range <= 0:
            raise ValueError(
                f"initializer_range={self.initializer_range} must be positive: "
                "it is the standard deviation of the initial weights (0.02 in "
                "every released model)."
            )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size={self.hidden_size} is not divisible by "
                f"num_attention_heads={self.num_attention_heads}; change one "
                "of them (released models have heads of 64 units)."
            )
        if self.hidden_act not in ACTIVATIONS:
            raise ValueError(
                f"hidden_act={reprlib.repr(self.hidden_act)} is not known; use "
                f"one of {', '.join(ACTIVATIONS)}."
            )
        if self.direction not in DIRECTIONS:
            raise ValueError(
                f"directionality={reprlib.repr(self.directionality)} is not "
                f"known; use one of {', '.join(DIRECTIONS)}."
            )

    @property
    def direction(self) -> str:
        """`directionality`, or what its absence means."""
        return self.directionality or "bidi"

    @classmethod
    def from_dict(cls, values: dict) -> "BertConfig":
        """Makes a config of a dictionary; keeps keys it does not know."""
        if "vocab_size" not in values:
            raise ValueError(
                "A BERT config needs vocab_size, the number of lines of its "
                f"vocab.txt; found only the keys {sorted(values)}."
            )
        known = {field.name for field in dataclasses.fields(cls)}
        config = cls(**{k: v for k, v in values.items() if k in known})
        extra = {k: v for k, v in values.items() if k not in known}
        _check_extra(cls, extra)
        surprising = sorted(set(extra) - UNUSED_RELEASED_KEYS)
        if surprising:
            warnings.warn(
                f"Unknown keys in the BERT config: {', '.join(surprising)}. "
                "They are kept and have no effect; check their spelling.",
                stacklevel=2,
            )
        vars(config).update(extra)
        return config

    @classmethod
    def from_json_file(cls, path: str) -> "BertConfig":
        """Reads a bert_config.json (any path TensorFlow can open)."""
        from keras_bert_ref import files

        if not files.exists(path):
            raise FileNotFoundError(
                f"No BERT config at {path}; released folders have it as "
                "bert_config.json, configs/models has one per released model."
            )
        values = files.read_json(path)
        try:
            return cls.from_dict(values)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def to_dict(self) -> dict:
        """Every key with its value, unknown ones included."""
        values = dict(vars(self))
        if self.directionality is None:  # most files do not have it
            del values["directionality"]
        return values

    def to_json_string(self) -> str:
        """The text of a bert_config.json."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    def to_json_file(self, path: str) -> None:
        """Writes a bert_config.json (any path TensorFlow can open)."""
        from keras_bert_ref import files

        files.replace(path, self.to_json_string())


def configs_folder() -> pathlib.Path:
    """The folder with models/ and runs/."""
    found = (path for path in _FOLDERS if (path / "models").is_dir())
    return next(found, _FOLDERS[0])


def find_model(name: str) -> str:
    """The path of an architecture.

    Args:
        name: the path of a JSON file; or the name of a released model, such
            as uncased_L-12_H-768_A-12, or of a file of ours, such as
            configs/models/uncased_L-12_H-768_A-12.json.
    """
    return _find(name, "models", ".json")


def find_run(name: str) -> str:
    """The path of a flagfile, likewise: such as glue_mrpc_base."""
    return _find(name, "runs", ".flags")


def _find(name: str, kind: str, ending: str) -> str:
    path = pathlib.Path(name)
    if path.is_file():
        return name
    if kind == "models" and (path / "bert_config.json").is_file():
        return str(path / "bert_config.json")
    if name.startswith("configs/"):
        ours = configs_folder() / name.removeprefix("configs/")
    else:
        ours = configs_folder() / kind / (name.removesuffix(ending) + ending)
    return str(ours) if ours.exists() else name


def _check_size(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(
            f"{name}={reprlib.repr(value)} must be a positive whole number."
        )
    if value > MAX_SIZE:
        raise ValueError(
            f"{name}={reprlib.repr(value)} is more than any model has; give "
            f"at most {MAX_SIZE}."
        )


def _check_number(name: str, value: object) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # NaN is not smaller than anything.
    if not is_number or not abs(value) < math.inf:
        raise ValueError(
            f"{name}={reprlib.repr(value)} must be a number, and finite."
        )


def _check_extra(cls: type, extra: dict) -> None:
    """Unknown keys become attributes, and are written back."""
    for key in extra:
        if hasattr(cls, key):
            raise ValueError(
                f"{key!r} is the name of a method of {cls.__name__} and "
                "cannot be a key; remove it."
            )
        if _is_deep(extra[key]):
            raise ValueError(
                f"{key!r} has lists or objects within each other, too deep to "
                "write; remove it."
            )


def _is_deep(value: object, room: int = 100) -> bool:
    parts = value.values() if isinstance(value, dict) else value
    return room == 0 or (
        isinstance(value, (dict, list))
        and any(_is_deep(part, room - 1) for part in parts)
    )
