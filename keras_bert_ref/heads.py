"""Models with a task on top of the encoder (Devlin et al. 2019, figure 1).

Shapes: B batch, T tokens, D hidden, P masked positions, V vocabulary,
L labels.

Each takes one batch: a dictionary with `input_ids` [B, T] and, where there is
padding or a second segment, `input_mask` and `segment_ids` [B, T]. Further
keys, such as labels, are ignored, so a batch goes in as it comes from a file.
"""

import keras
import tensorflow as tf

from keras_bert_ref import modeling
from keras_bert_ref.config import BertConfig

# The heads of fine-tuning do not follow the config in these two.
FINE_TUNING_STDDEV = 0.02
CLASSIFIER_DROPOUT = 0.1


class OutputProjection(modeling.BertLayer):
    """Logits of a few labels: [..., D] -> [..., L].

    The original keeps these weights as [L, D], unlike its dense kernels.

    Args:
        num_labels: int. L.
        stddev: float. Of the initial weights.
    """

    def __init__(self, config, num_labels: int, stddev: float, **kwargs):
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.stddev = stddev

    def build(self, input_shape=None):
        self.output_weights, self.output_bias = add_output_weights(
            self, self.num_labels, self.stddev
        )

    def call(self, x):
        return project(x, self.output_weights, self.output_bias)


class MaskedLM(modeling.BertLayer):
    """Predicts the words at masked positions (section 3.1, task 1).

    Call arguments:
        sequence_output: float [B, T, D].
        positions: int [B, P].
        word_embeddings: float [V, D]; the output layer shares this table.

    Returns:
        Logits, float [B, P, V].
    """

    def build(self, input_shape=None):
        size = self.config.hidden_size
        activation = modeling.ACTIVATION_FUNCTIONS[self.config.hidden_act]
        with keras.name_scope("transform"):
            self.transform = self.add_dense("dense", size, size, activation)
            self.layer_norm = self.add_layer_norm()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )

    def call(self, sequence_output, positions, word_embeddings):
        x = tf.gather(sequence_output, positions, batch_dims=1)  # [B, P, D]
        x = tf.reshape(x, (-1, x.shape[-1]))  # [B*P, D]
        x = self.layer_norm(self.transform(x))
        x = tf.cast(x, self.compute_dtype)
        table = tf.cast(word_embeddings, self.compute_dtype)
        logits = project(x, table, self.output_bias)
        shape = tf.concat([tf.shape(positions), [-1]], axis=0)
        return tf.reshape(logits, shape)


class BertHead(modeling.BertNetwork):
    """A BertModel, `bert`, with something on top.

    Args:
        config: BertConfig.
        skip_padding: bool. Spend no work on padding, see BertModel.
    """

    def __init__(
        self, config: BertConfig, skip_padding: bool = False, **kwargs
    ):
        super().__init__(config, **kwargs)
        self.skip_padding = skip_padding

    def build(self, input_shape=None):
        self.bert = modeling.BertModel(self.config, dtype=self.dtype_policy)
        self.bert.build()

    def get_config(self):
        return {**super().get_config(), "skip_padding": self.skip_padding}

    def encode(self, batch, training):
        """Runs the encoder on a batch."""
        if "input_ids" not in batch:
            raise ValueError(
                "A batch needs the key input_ids; it has "
                f"{', '.join(sorted(batch)) or 'no keys'}."
            )
        return self.bert(
            batch["input_ids"],
            input_mask=batch.get("input_mask"),
            segment_ids=batch.get("segment_ids"),
            training=training,
            skip_padding=self.skip_padding,
        )


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertPretraining(BertHead):
    """The two tasks of pre-training: masked words and next sentences.

    Call arguments:
        batch: see the module; also `masked_lm_positions`, int [B, P].

    Returns:
        A dictionary: `masked_lm_logits` float [B, P, V] and
        `next_sentence_logits` float [B, 2] (0: really next, 1: random).
    """

    def build(self, input_shape=None):
        super().build()
        with keras.name_scope("cls"):
            self.predictions = self.add_child(MaskedLM, "predictions")
            self.seq_relationship = self.add_child(
                OutputProjection,
                "seq_relationship",
                num_labels=2,
                stddev=self.config.initializer_range,
            )

    def call(self, batch, training=False):
        outputs = self.encode(batch, training)
        if "masked_lm_positions" not in batch:
            raise ValueError(
                "Pre-training predicts words at masked_lm_positions, which the "
                f"batch lacks; it has {', '.join(sorted(batch))}."
            )
        return {
            "masked_lm_logits": self.predictions(
                outputs["sequence_output"],
                batch["masked_lm_positions"],
                self.bert.embeddings.word_embeddings,
            ),
            "next_sentence_logits": self.seq_relationship(
                outputs["pooled_output"]
            ),
        }


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertClassifier(BertHead):
    """Classes, or with one label a score, of a sentence or a pair.

    Args:
        num_labels: int. L; 1 for regression.

    Call arguments:
        batch: see the module.

    Returns:
        Logits, float [B, L].
    """

    def __init__(self, config: BertConfig, num_labels: int, **kwargs):
        super().__init__(config, **kwargs)
        if num_labels < 1:
            raise ValueError(
                f"num_labels={num_labels}: a classifier needs one or more "
                "labels (one means regression)."
            )
        self.num_labels = num_labels

    def build(self, input_shape=None):
        super().build()
        self.dropout = self.add_dropout(CLASSIFIER_DROPOUT)
        # These two stand directly below the model, as in the original.
        self.output_weights, self.output_bias = add_output_weights(
            self, self.num_labels, FINE_TUNING_STDDEV
        )

    def call(self, batch, training=False):
        x = self.encode(batch, training)["pooled_output"]
        x = self.dropout(x, training=training)
        return project(x, self.output_weights, self.output_bias)

    def get_config(self):
        return {**super().get_config(), "num_labels": self.num_labels}


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertSpan(BertHead):
    """Where an answer starts and ends in a passage (SQuAD).

    Args:
        skip_padding: must be False: padding takes part in SQuAD's loss.

    Call arguments:
        batch: see the module.

    Returns:
        A dictionary: `start_logits` and `end_logits`, each float [B, T].
    """

    def __init__(
        self, config: BertConfig, skip_padding: bool = False, **kwargs
    ):
        if skip_padding:
            raise ValueError(
                "BertSpan scores every position, padding included, and "
                f"SQuAD's loss counts them all; skip_padding={skip_padding} "
                "would make the loss and its gradients wrong. Leave it False."
            )
        super().__init__(config, **kwargs)

    def build(self, input_shape=None):
        super().build()
        with keras.name_scope("cls"):
            self.squad = self.add_child(
                OutputProjection,
                "squad",
                num_labels=2,
                stddev=FINE_TUNING_STDDEV,
            )

    def call(self, batch, training=False):
        x = self.encode(batch, training)["sequence_output"]
        logits = self.squad(x)  # [B, T, 2]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


def add_output_weights(layer, num_labels: int, stddev: float):
    """Adds weights [L, D] and bias [L], under the original's names."""
    weights = layer.add_weight(
        name="output_weights",
        shape=(num_labels, layer.config.hidden_size),
        initializer=modeling.truncated_normal(stddev),
    )
    bias = layer.add_weight(
        name="output_bias", shape=(num_labels,), initializer="zeros"
    )
    return weights, bias


def project(x, weights, bias):
    """x [..., D] times weights [L, D] transposed, plus bias [L]."""
    rows = tf.reshape(x, (-1, x.shape[-1]))  # one large matmul, not B small
    logits = tf.matmul(rows, weights, transpose_b=True) + bias
    shape = tf.concat([tf.shape(x)[:-1], [weights.shape[0]]], axis=0)
    return tf.reshape(logits, shape)
