"""The architecture of a BERT: the keys of a released bert_config.json.

Also finds the configs that come with this package, by name from anywhere.
"""

import dataclasses
import json
import pathlib
import warnings

# Names `hidden_act` may have. `gelu` is the tanh form of the original;
# `gelu_erf` is the form behind Hugging Face's "gelu".
ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")

# Keys of the released multilingual and Chinese files that nothing ever read.
UNUSED_RELEASED_KEYS = frozenset(
    {
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    }
)
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
                f"hidden_act={self.hidden_act!r} is not known; use one of "
                f"{', '.join(ACTIVATIONS)}."
            )

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
        import tensorflow as tf

        if not tf.io.gfile.exists(path):
            raise FileNotFoundError(
                f"No BERT config at {path}; released folders have it as "
                "bert_config.json, configs/models has one per released model."
            )
        with tf.io.gfile.GFile(path) as file:
            text = file.read()
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} is not JSON: {error}.") from error
        if not isinstance(values, dict):
            raise ValueError(
                f"{path} holds a JSON {type(values).__name__}; a BERT config "
                "is an object of keys and values."
            )
        return cls.from_dict(values)

    def to_dict(self) -> dict:
        """Every key with its value, unknown ones included."""
        return dict(vars(self))

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
        raise ValueError(f"{name}={value!r} must be a positive whole number.")


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name}={value!r} must be a number.")
