"""A BiLSTM that tags words by features of a frozen encoder (section 5.3).

Shapes: B batch, W words, J layers, D hidden, U units, L labels.
"""

import tensorflow as tf

from keras_bert_ref.bilstm import BiLSTM
from keras_bert_ref.config import BertConfig
from keras_bert_ref.heads import CLASSIFIER_DROPOUT
from keras_bert_ref.network import BertNetwork

NUM_LSTMS = 2


class FeatureTagger(BertNetwork):
    """Two bidirectional LSTMs, dropout and a linear layer.

    Args:
        config: BertConfig. Of the encoder that made the features.
        num_labels: int. L.
        num_layers: int. J.
        is_weighted: bool. Sum the layers with weights that are learned, as in
            ELMo: a softmax, and one scale. Otherwise they stand side by side.
        units: int. U, in each direction.
        skip_padding: bool. Spend no work on padding, see BiLSTM.

    Call arguments:
        batch: a dictionary with `vectors` float [B, W, J, D] and `input_mask`
            int [B, W].

    Returns:
        Logits, float [B, W, L]; at padding they are of no use.
    """

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        num_layers: int,
        is_weighted: bool,
        units: int,
        skip_padding: bool = False,
        **kwargs,
    ):
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.num_layers = num_layers
        self.is_weighted = is_weighted
        self.units = units
        self.skip_padding = skip_padding

    def build(self, input_shape=None):
        size = self.config.hidden_size
        if self.is_weighted:
            self.layer_weights = self.add_weight(
                name="layer_weights",
                shape=(self.num_layers,),
                initializer="zeros",
            )
            self.layer_scale = self.add_weight(
                name="layer_scale", shape=(), initializer="ones"
            )
        else:
            size *= self.num_layers
        self.lstms = []
        for i in range(NUM_LSTMS):
            lstm = self.add_child(
                BiLSTM,
                f"bilstm_{i}",
                units=self.units,
                input_size=size,
                skip_padding=self.skip_padding,
            )
            self.lstms.append(lstm)
            size = 2 * self.units
        self.dropout = self.add_dropout(CLASSIFIER_DROPOUT)
        self.output_ = self.add_dense("output", size, self.num_labels)

    def call(self, batch, training=False):
        x = tf.cast(batch["vectors"], self.compute_dtype)  # [B, W, J, D]
        if self.is_weighted:
            weights = tf.nn.softmax(self.layer_weights) * self.layer_scale
            x = tf.einsum("bwjd,j->bwd", x, weights)
        else:
            shape = tf.shape(x)
            width = self.num_layers * self.config.hidden_size
            x = tf.reshape(x, (shape[0], shape[1], width))
        for lstm in self.lstms:
            x, _ = lstm(x, batch["input_mask"], training=training)
        return self.output_(self.dropout(x, training=training))

    def train_flops_per_token(self, _length: float) -> float:
        """Operations of matmuls for one word, forward and backward."""
        kernels = [w for w in self.trainable_variables if len(w.shape) == 2]
        return 6.0 * sum(w.shape[0] * w.shape[1] for w in kernels)
