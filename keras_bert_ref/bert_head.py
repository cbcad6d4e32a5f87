"""What all models with a head share: the encoder below it.

Shapes: B batch, T tokens, R tokens whose vectors are read.
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf

from keras_bert_ref import attention_mask
from keras_bert_ref.bilstm import BiLSTM
from keras_bert_ref.config import BertConfig
from keras_bert_ref.layers import ANY_BATCH
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.network import BertNetwork, check_batch

# What heads read of an encoder.
OUTPUTS = ("read_output", "sequence_output", "pooled_output")


class BertHead(BertNetwork):
    """A BertModel, `bert`, with something on top.

    With directionality "ltr+rtl" there are two, `bert` and `bert_rtl`, and
    their vectors are put side by side.

    Args:
        config: BertConfig.
        skip_padding: bool. Spend no work on padding, see BertModel.
        bilstm_units: int. Put a BiLSTM of this size between encoder and head;
            0: none.
    """

    reads_all = True  # the vectors of all tokens, not of a few

    def __init__(
        self,
        config: BertConfig,
        skip_padding: bool = False,
        bilstm_units: int = 0,
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        self.skip_padding = skip_padding
        self.bilstm_units = bilstm_units
        if bilstm_units:
            self.reads_all = True

    def build(self, input_shape=None):
        self.bert, self.bert_rtl = self._add_encoder("bert"), None
        self.feature_size = self.config.hidden_size
        if self.config.direction == "ltr+rtl":
            self.bert_rtl = self._add_encoder("bert_rtl")
            self.feature_size *= 2
        self.bilstm = None
        if self.bilstm_units:
            self.bilstm = self.add_child(
                BiLSTM,
                "bilstm",
                units=self.bilstm_units,
                input_size=self.feature_size,
                skip_padding=self.skip_padding,
            )
            self.feature_size = 2 * self.bilstm_units

    def _add_encoder(self, name: str) -> BertModel:
        config = self.config
        if config.direction == "ltr+rtl":
            direction = "ltr" if name == "bert" else "rtl"
            config = dataclasses.replace(config, directionality=direction)
        encoder = BertModel(config, name=name, dtype=self.dtype_policy)
        encoder.build(ANY_BATCH)
        return encoder

    def get_config(self):
        return {
            **super().get_config(),
            "skip_padding": self.skip_padding,
            "bilstm_units": self.bilstm_units,
        }

    def positions_to_read(self, batch, config: BertConfig):
        """The positions of the tokens whose vectors the head reads.

        Args:
            config: of the encoder that is read.

        Returns:
            int [B, R]; the first of them is pooled, see BertModel. None if
            the head reads all.
        """
        return None

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        y = self._find_labels(x, y)
        return super().compute_loss(x, y, y_pred, *args, **kwargs)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        y = self._find_labels(x, y)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _find_labels(self, x, y):
        """Labels for Keras' `fit`: its y, or those a batch from a file has."""
        if y is not None or self.losses:
            return y
        if isinstance(x, Mapping) and "label_ids" in x:
            return x["label_ids"]
        names = ", ".join(sorted(x)) if isinstance(x, Mapping) else "no keys"
        raise ValueError(
            "fit and evaluate need labels: the key label_ids in the batch, or "
            f"a data set of (batch, labels). The batch has {names}."
        )

    def encode(self, batch, training):
        """Runs the encoder on a batch.

        Returns:
            See BertModel; of the vectors, read_output or sequence_output, and
            pooled_output. Their size is self.feature_size.
        """
        check_batch(batch)
        outputs = self._encode_with(self.bert, batch, training)
        if self.bert_rtl is not None:
            others = self._encode_with(self.bert_rtl, batch, training)
            outputs = {
                name: tf.concat([outputs[name], others[name]], axis=-1)
                for name in OUTPUTS
                if name in outputs
            }
        if self.bilstm is not None:
            sequence, ends = self.bilstm(
                outputs["sequence_output"],
                batch.get("input_mask"),
                training=training,
            )
            outputs = {"sequence_output": sequence, "pooled_output": ends}
        return outputs

    def _encode_with(self, encoder: BertModel, batch, training):
        read = None
        if not self.reads_all:
            read = self.positions_to_read(batch, encoder.config)
        sequence_ids = batch.get("sequence_ids")
        return encoder(
            batch["input_ids"],
            input_mask=batch.get("input_mask"),
            segment_ids=batch.get("segment_ids"),
            position_ids=None if sequence_ids is None else restarting(batch),
            sequence_ids=sequence_ids,
            training=training,
            skip_padding=self.skip_padding,
            read_positions=read,
        )


def restarting(batch):
    """Positions that start from 0 in each sequence of a row: int [B, T]."""
    number = tf.cast(batch["sequence_ids"], tf.int32)  # from 1; 0 padding
    starts = tf.gather(
        tf.cast(batch["cls_positions"], tf.int32),
        tf.maximum(number - 1, 0),
        batch_dims=1,
    )
    places = tf.range(tf.shape(number)[1]) - starts
    return places * tf.cast(number > 0, tf.int32)


def pooled_positions(config: BertConfig, batch):
    """Where the token stands that is pooled, mostly [CLS]: int [B, 1]."""
    return attention_mask.pooled_positions(
        config, batch["input_ids"], batch.get("input_mask")
    )
