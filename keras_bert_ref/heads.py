"""Models with a task on top of the encoder (Devlin et al. 2019, figure 1).

Shapes: B batch, T tokens, D hidden, P masked positions, V vocabulary,
L labels.

Each takes one batch: a dictionary with `input_ids` [B, T] and, where there is
padding or a second segment, `input_mask` and `segment_ids` [B, T]. Further
keys, such as labels, are ignored, so a batch goes in as it comes from a file.
"""

import dataclasses
from collections.abc import Mapping

import keras
import tensorflow as tf

from keras_bert_ref import modeling
from keras_bert_ref.bilstm import BiLSTM
from keras_bert_ref.config import BertConfig

# The heads of fine-tuning do not follow the config in these two.
FINE_TUNING_STDDEV = 0.02
CLASSIFIER_DROPOUT = 0.1
# What heads read of an encoder.
OUTPUTS = ("read_output", "sequence_output", "pooled_output")


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

    @property
    def output_shape(self):
        return (*self.outer_shape, self.num_labels)

    def build(self, input_shape):
        *self.outer_shape, size = input_shape
        self.output_weights, self.output_bias = add_output_weights(
            self, self.num_labels, self.stddev, size
        )

    def call(self, x):
        return project(x, self.output_weights, self.output_bias)


class MaskedLM(modeling.BertLayer):
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
        activation = modeling.ACTIVATION_FUNCTIONS[self.config.hidden_act]
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


class BertHead(modeling.BertNetwork):
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
            )
            self.feature_size = 2 * self.bilstm_units

    def _add_encoder(self, name: str) -> modeling.BertModel:
        config = self.config
        if config.direction == "ltr+rtl":
            direction = "ltr" if name == "bert" else "rtl"
            config = dataclasses.replace(config, directionality=direction)
        encoder = modeling.BertModel(config, name=name, dtype=self.dtype_policy)
        encoder.build(modeling.ANY_BATCH)
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
        modeling.check_batch(batch)
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

    def _encode_with(self, encoder: modeling.BertModel, batch, training):
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
        spec = keras.InputSpec(
            shape=modeling.ANY_BATCH, dtype="int32", name=name
        )
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
        modeling.check_batch(batch)
        shape = tf.shape(batch["input_ids"])  # [B, C, T]
        names = modeling.BATCH_NAMES
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
    return modeling.pooled_positions(
        config, batch["input_ids"], batch.get("input_mask")
    )


def add_output_weights(layer, num_labels: int, stddev: float, size: int):
    """Adds weights [L, size] and bias [L], under the original's names."""
    weights = layer.add_weight(
        name="output_weights",
        shape=(num_labels, size),
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
