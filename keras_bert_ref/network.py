"""What the encoder and every model with a head on it have in common.

They take a batch, name their variables as the original does, start from a
checkpoint, and Keras can save and export them.
"""

from collections.abc import Mapping

import keras

from keras_bert_ref.config import BertConfig
from keras_bert_ref.layers import ANY_BATCH, Parent

BATCH_NAMES = ("input_ids", "input_mask", "segment_ids")
# As Hugging Face calls them.
FOREIGN_NAMES = {
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}


def original_name(variable) -> str:
    """The variable's name in the original release.

    That is its path from `bert/` on or, for variables of heads, its path
    below the name of the outermost model.
    """
    if variable.path.startswith(("bert/", "bert_rtl/")):
        return variable.path
    return variable.path.split("/", 1)[-1]


def check_batch(batch) -> None:
    """Raises unless `batch` is a dictionary with our names.

    Keys that nobody reads, such as labels, may be in it. Names that other
    libraries give to mask and segments may not: nobody would read them.
    """
    if not isinstance(batch, Mapping):
        raise ValueError(
            f"A batch is a dictionary, got {type(batch).__name__}: call "
            'model({"input_ids": ids, "input_mask": mask, "segment_ids": '
            "segments}), each of the shape [batch, tokens]."
        )
    for name, ours in FOREIGN_NAMES.items():
        if name in batch:
            raise ValueError(
                f"A batch has the key {name}, which is called {ours} here; "
                f"write batch[{ours!r}] = batch.pop({name!r})."
            )
    if "input_ids" not in batch:
        raise ValueError(
            "A batch needs the key input_ids; it has "
            f"{', '.join(sorted(batch)) or 'no keys'}."
        )


def check_ids(input_ids, config: BertConfig) -> None:
    """Raises unless `input_ids` are [B, T] and not too long for the model."""
    if len(input_ids.shape) != 2:
        raise ValueError(
            "input_ids must have the shape [batch, tokens], got "
            f"{tuple(input_ids.shape)}; put a single sequence into a "
            "batch of one."
        )
    length, limit = input_ids.shape[1], config.max_position_embeddings
    if length is not None and length > limit:
        raise ValueError(
            f"input_ids has {length} tokens, more than "
            f"max_position_embeddings={limit}; cut the sequences or use a "
            "model with more positions."
        )


class BertNetwork(Parent, keras.Model):
    """A Keras model that takes its sizes from a BertConfig.

    Args:
        config: BertConfig.
    """

    @classmethod
    def from_checkpoint(cls, path: str, **kwargs) -> "BertNetwork":
        """Makes a model of a released folder, or of a checkpoint in one.

        Args:
            path: a folder with bert_config.json and a TF1 checkpoint or
                SavedModel, or the prefix of the checkpoint in it.
            **kwargs: further arguments of the class, such as num_labels.
        """
        from keras_bert_ref.checkpoints import tf1

        config_file, prefix = tf1.find(path)
        model = cls(BertConfig.from_json_file(config_file), **kwargs)
        tf1.load(model, prefix)
        return model

    def export(
        self,
        filepath,
        format="tf_saved_model",
        verbose=None,
        input_signature=None,
        **kwargs,
    ):
        """Keras' `export`; it takes batches unless a signature is given."""
        if not self.built:
            self.build()
        super().export(
            filepath,
            format,
            verbose,
            input_signature or [self.batch_signature()],
            **kwargs,
        )

    def batch_signature(self) -> dict:
        """What a batch holds, with any number of sequences and tokens."""
        return {
            name: keras.InputSpec(shape=ANY_BATCH, dtype="int32", name=name)
            for name in BATCH_NAMES
        }

    def load_weights(self, filepath, skip_mismatch=False, **kwargs):
        if not self.built:
            self.build()
        return super().load_weights(filepath, skip_mismatch, **kwargs)

    def summary(self, *args, **kwargs):
        if not self.built:
            self.build()
        return super().summary(*args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "config": self.config.to_dict(),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        values = dict(config)
        return cls(BertConfig.from_dict(values.pop("config")), **values)

    # Sizes come from the config, so there are no input shapes to remember.
    def get_build_config(self):
        return {"built": self.built}

    def build_from_config(self, config):
        if config["built"] and not self.built:
            self.build()
