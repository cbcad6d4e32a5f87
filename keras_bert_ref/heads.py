"""Models with a task on top of the encoder (Devlin et al. 2019, figure 1).

Shapes: B batch, T tokens, D hidden, P masked positions, V vocabulary,
L labels.

Each takes one batch: a dictionary with `input_ids` [B, T] and, where there is
padding or a second segment, `input_mask` and `segment_ids` [B, T]. Further
keys, such as labels, are ignored, so a batch goes in as it comes from a file.
"""

import keras
import tensorflow as tf

from keras_bert_ref import network
from keras_bert_ref.bert_head import BertHead, pooled_positions
from keras_bert_ref.config import BertConfig
from keras_bert_ref.layers import (
    ACTIVATION_FUNCTIONS,
    ANY_BATCH,
    BertLayer,
    OutputProjection,
    add_output_weights,
    project,
)

# The heads of fine-tuning do not follow the config in these two.
FINE_TUNING_STDDEV = 0.02
CLASSIFIER_DROPOUT = 0.1


class MaskedLM(BertLayer):
    """Predicts the words at masked positions (section 3.1, task 1).

    Call arguments:
        x: float [B, P, D], what the encoder gives at these positions.
        word_embeddings: float [V, D]; the output layer shares this table.

    Returns:
        Logits, float [B, P, V].
    """

    @property
    def output_shape(self):
        return (None, None, self.config.vocab_size)

    def build(self, input_shape=None):
        size = self.config.hidden_size
        activation = ACTIVATION_FUNCTIONS[self.config.hidden_act]
        with keras.name_scope("transform"):
            self.transform = self.add_dense("dense", size, size, activation)
            self.layer_norm = self.add_layer_norm()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )

    def call(self, x, word_embeddings):
        x = self.layer_norm(self.transform(x))
        x = tf.cast(x, self.compute_dtype)
        table = tf.cast(word_embeddings, self.compute_dtype)
        return project(x, table, self.output_bias)


def check_pretrained_alone(config: BertConfig) -> None:
    """Refuses to pre-train two encoders as one model."""
    if config.direction == "ltr+rtl":
        raise ValueError(
            f"directionality={config.direction} stands for two encoders, each "
            "of which is pre-trained by itself; use a config with ltr or rtl, "
            "and join the two with keras_bert_ref.checkpoints.convert."
        )


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertPretraining(BertHead):
    """The two tasks of pre-training: masked words and next sentences.

    Call arguments:
        batch: see the module; also `masked_lm_positions`, int [B, P]; where
            rows hold up to S sequences each, `sequence_ids`, int [B, T], and
            `cls_positions`, int [B, S], see pretraining/packing.py.

    Returns:
        A dictionary: `masked_lm_logits` float [B, P, V] and
        `next_sentence_logits` float [B, 2] (0: really next, 1: random), or
        [B, S, 2].
    """

    reads_all = False

    def __init__(self, config: BertConfig, **kwargs):
        check_pretrained_alone(config)
        super().__init__(config, **kwargs)

    def build(self, input_shape=None):
        super().build()
        with keras.name_scope("cls"):
            self.predictions = self.add_child(MaskedLM, "predictions")
            self.seq_relationship = self.add_child(
                OutputProjection,
                "seq_relationship",
                input_shape=(None, self.config.hidden_size),
                num_labels=2,
                stddev=self.config.initializer_range,
            )

    def positions_to_read(self, batch, config: BertConfig):
        if "masked_lm_positions" not in batch:
            raise ValueError(
                "Pre-training predicts words at masked_lm_positions, which the "
                f"batch lacks; it has {', '.join(sorted(batch))}."
            )
        masked = tf.cast(batch["masked_lm_positions"], tf.int32)
        if "sequence_ids" in batch:
            pooled = tf.cast(batch["cls_positions"], tf.int32)
        else:
            pooled = pooled_positions(config, batch)
        return tf.concat([pooled, masked], axis=1)

    def batch_signature(self) -> dict:
        name = "masked_lm_positions"
        spec = keras.InputSpec(shape=ANY_BATCH, dtype="int32", name=name)
        return {**super().batch_signature(), name: spec}

    def call(self, batch, training=False):
        outputs = self.encode(batch, training)
        # Words stand behind what is pooled, see positions_to_read.
        num_words = tf.shape(batch["masked_lm_positions"])[1]
        words = outputs["read_output"][:, -num_words:]
        pooled = outputs["pooled_output"]  # [B, D]
        if "sequence_ids" in batch:
            starts = outputs["read_output"][:, :-num_words]
            pooled = self.bert.pooler.dense(starts)  # [B, S, D]
        return {
            "masked_lm_logits": self.predictions(
                words, self.bert.embeddings.word_embeddings
            ),
            "next_sentence_logits": self.seq_relationship(pooled),
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

    reads_all = False

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
        shape = (None, self.feature_size)
        self.dropout = self.add_dropout(CLASSIFIER_DROPOUT, shape)
        # These two stand directly below the model, as in the original.
        self.output_weights, self.output_bias = add_output_weights(
            self, self.num_labels, FINE_TUNING_STDDEV, self.feature_size
        )

    def positions_to_read(self, batch, config: BertConfig):
        return pooled_positions(config, batch)

    def call(self, batch, training=False):
        x = self.encode(batch, training)["pooled_output"]
        x = self.dropout(x, training=training)
        return project(x, self.output_weights, self.output_bias)

    def get_config(self):
        return {**super().get_config(), "num_labels": self.num_labels}


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertMultipleChoice(BertClassifier):
    """A score for each of C choices; its weights are a BertClassifier's with
    one label.

    Call arguments:
        batch: see the module, but each value is [B, C, T]: a question has a
            sequence for each choice.

    Returns:
        Logits, float [B, C].
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(config, num_labels=1, **kwargs)

    def batch_signature(self) -> dict:
        return {
            name: keras.InputSpec(shape=(None, None, None), dtype="int32")
            for name in super().batch_signature()
        }

    def call(self, batch, training=False):
        network.check_batch(batch)
        shape = tf.shape(batch["input_ids"])  # [B, C, T]
        names = network.BATCH_NAMES
        sequences = {
            name: tf.reshape(batch[name], (-1, shape[2]))  # [B*C, T]
            for name in names
            if name in batch
        }
        return tf.reshape(super().call(sequences, training), shape[:2])

    def get_config(self):
        config = super().get_config()
        del config["num_labels"]
        return config


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
                input_shape=(None, None, self.feature_size),
                num_labels=2,
                stddev=FINE_TUNING_STDDEV,
            )

    def call(self, batch, training=False):
        x = self.encode(batch, training)["sequence_output"]
        logits = self.squad(x)  # [B, T, 2]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertTagger(BertHead):
    """A class for every token, such as the kind of name it begins (NER).

    Args:
        num_labels: int. L.

    Call arguments:
        batch: see the module.

    Returns:
        Logits, float [B, T, L]; at padding they are of no use.
    """

    def __init__(self, config: BertConfig, num_labels: int, **kwargs):
        super().__init__(config, **kwargs)
        if num_labels < 2:
            raise ValueError(
                f"num_labels={num_labels}: a tagger needs two or more labels."
            )
        self.num_labels = num_labels

    def build(self, input_shape=None):
        super().build()
        shape = (None, None, self.feature_size)
        self.dropout = self.add_dropout(CLASSIFIER_DROPOUT, shape)
        self.output_weights, self.output_bias = add_output_weights(
            self, self.num_labels, FINE_TUNING_STDDEV, self.feature_size
        )

    def call(self, batch, training=False):
        x = self.encode(batch, training)["sequence_output"]
        x = self.dropout(x, training=training)
        return project(x, self.output_weights, self.output_bias)

    def get_config(self):
        return {**super().get_config(), "num_labels": self.num_labels}
