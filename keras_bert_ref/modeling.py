"""The BERT encoder (Devlin et al. 2019, section 3) as Keras 3 layers.

Shapes: B batch, T tokens, N heads, H head size, D = N*H hidden, R tokens whose
final vectors are read. In [..., D] the dots are B, T or, where padding is left
out (unpadding.py), the number of real tokens in the batch.

Layers are nested so that the path of each variable, below the name of the
outermost model, is the variable's name in the original checkpoints, such as
bert/encoder/layer_0/attention/self/query/kernel. Layers know all their sizes
from the config, hence `build` ignores the shape of the input.
"""

import functools
import math
from collections.abc import Mapping

import keras
from keras import ops

from keras_bert_ref import kernels, precision
from keras_bert_ref.config import BertConfig
from keras_bert_ref.unpadding import ALL_TOKENS, RealTokens

# The original's value; finite, so that a row without any real token attends to
# its padding instead of becoming NaN.
MASK_BIAS = -10000.0
LAYER_NORM_EPSILON = 1e-12


# Any number of sequences and tokens. Keras' `summary` shows the shapes of
# layers that were built with one.
ANY_BATCH = (None, None)
BATCH_NAMES = ("input_ids", "input_mask", "segment_ids")
# As Hugging Face calls them.
FOREIGN_NAMES = {
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}

ACTIVATION_FUNCTIONS = {
    "gelu": kernels.gelu,
    "gelu_erf": kernels.gelu_erf,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": None,
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


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Initializer of all kernels and embeddings: cut off at two sigma."""
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev)


class Dense(keras.layers.Dense):
    """A dense layer on [..., D] that is one matmul for the whole batch.

    Keras 3.10 would multiply sequence by sequence, and make a gradient of the
    kernel for each of them before it sums these.
    """

    def __init__(self, units: int, activation=None, **kwargs):
        super().__init__(units, **kwargs)
        self.function = activation

    def call(self, inputs, training=None):
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        y = super().call(rows, training=training)
        if self.function is not None:
            function = self.function
            if not training:
                function = kernels.WITHIN_MATMUL.get(function, function)
            y = function(y)
        return ops.reshape(y, (*ops.shape(inputs)[:-1], self.units))


class Dropout(keras.layers.Dropout):
    """Dropout whose random numbers have 16 bits each instead of 32.

    They are what dropout spends most of its time on. The rate is within
    1 / 2^17 of what was asked for.
    """

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return kernels.dropout(inputs, self.rate, self.seed_generator.next())


class Parent:
    """Adds children to a layer or model that has a BertConfig: each is built
    at once, within the name of its parent and with its precision."""

    @property
    def output_shape(self):
        """What Keras' `summary` shows."""
        return (None, None, self.config.hidden_size)

    def add_child(self, layer_class, name, input_shape=ANY_BATCH, **kwargs):
        child = layer_class(
            self.config, dtype=self.dtype_policy, name=name, **kwargs
        )
        child.build(input_shape)
        return child

    def add_dense(self, name, input_size, units, activation=None):
        dense = Dense(
            units,
            activation=activation,
            kernel_initializer=truncated_normal(self.config.initializer_range),
            bias_initializer="zeros",
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((None, input_size))
        return dense

    def add_layer_norm(self):
        layer_norm = LayerNorm(
            self.config,
            dtype=self.variable_dtype,  # never half precision
            name="LayerNorm",
        )
        layer_norm.build()
        return layer_norm

    def add_dropout(self, rate, input_shape=None):
        dropout = Dropout(rate, dtype=self.dtype_policy)
        if input_shape is not None:
            dropout.build(input_shape)
        return dropout


class BertLayer(Parent, keras.layers.Layer):
    """A layer that takes its sizes from a BertConfig.

    Args:
        config: BertConfig.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        precision.protect(self.compute_dtype)
        self.config = config


class LayerNorm(BertLayer):
    """Normalizes each token's vector: float [..., D]."""

    def build(self, input_shape=None):
        shape = (self.config.hidden_size,)
        self.gamma = self.add_weight(
            name="gamma", shape=shape, initializer="ones"
        )
        self.beta = self.add_weight(
            name="beta", shape=shape, initializer="zeros"
        )

    def call(self, x):
        return kernels.layer_norm(x, self.gamma, self.beta, LAYER_NORM_EPSILON)


class Embeddings(BertLayer):
    """Sum of word, segment and position embeddings, normalized.

    Call arguments:
        input_ids: int [B, T].
        segment_ids: int [B, T].
        position_ids: int [B, T]. None: 0, 1, 2, ... in each row.
        tokens: which tokens are kept: ALL_TOKENS or RealTokens.

    Returns:
        float [..., D].
    """

    def build(self, input_shape=None):
        config = self.config
        self.word_embeddings = self._add_table("word", config.vocab_size)
        self.token_type_embeddings = self._add_table(
            "token_type", config.type_vocab_size
        )
        self.position_embeddings = self._add_table(
            "position", config.max_position_embeddings
        )
        self.layer_norm = self.add_layer_norm()
        self.dropout = self.add_dropout(config.hidden_dropout_prob)

    def call(
        self,
        input_ids,
        segment_ids,
        position_ids=None,
        tokens=ALL_TOKENS,
        training=False,
    ):
        length = ops.shape(input_ids)[1]
        x = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, T, D]
        # A matmul with one-hot rows rather than a look-up, as in the
        # original: few rows, and the gradient stays dense.
        segments = ops.one_hot(
            segment_ids, self.config.type_vocab_size, dtype=x.dtype
        )
        x += ops.matmul(segments, self.token_type_embeddings)
        if position_ids is None:
            x += self.position_embeddings[:length]
        else:
            x += ops.cast(
                kernels.take_rows(self.position_embeddings, position_ids),
                x.dtype,
            )
        x = self.layer_norm(tokens.pack(x))
        return self.dropout(x, training=training)

    def _add_table(self, kind, rows):
        return self.add_weight(
            name=f"{kind}_embeddings",
            shape=(rows, self.config.hidden_size),
            initializer=truncated_normal(self.config.initializer_range),
            # Rows are cast after the look-up, not the whole table before it.
            autocast=False,
        )


class SelfAttention(BertLayer):
    """Multi-head self-attention over a padded sequence.

    Call arguments:
        x: float [..., D].
        mask_bias: float [B, 1, 1, T]; 0 for real keys, MASK_BIAS for padding.
            Or [B, 1, T, T], where queries see different keys. None: every
            query sees every key.
        tokens: where the tokens of x belong: ALL_TOKENS or RealTokens.
        rows: float [B, R, D], the tokens of x that attend to all of x; then R
            takes the place of T queries everywhere. None: all of them do.

    Returns:
        float [..., D], or [B, R, D]; and a dictionary:
            probs: the attention probabilities, float [B, N, T, T].
            queries, keys: float [B, N, T, H].
    """

    def build(self, input_shape=None):
        size = self.config.hidden_size
        self.query = self.add_dense("query", size, size)
        self.key = self.add_dense("key", size, size)
        self.value = self.add_dense("value", size, size)
        self.dropout = self.add_dropout(
            self.config.attention_probs_dropout_prob
        )

    def call(
        self,
        x,
        mask_bias=None,
        tokens=ALL_TOKENS,
        rows=None,
        training=False,
    ):
        rows, kept = (x, tokens) if rows is None else (rows, ALL_TOKENS)
        q = self._split_heads(kept.unpack(self.query(rows)))  # [B, N, T, H]
        k = self._split_heads(tokens.unpack(self.key(x)))  # [B, N, T, H]
        v = self._split_heads(tokens.unpack(self.value(x)))  # [B, N, T, H]
        scores = ops.einsum("bnth,bnsh->bnts", q, k)  # [B, N, T, T]
        # Softmax is never taken in half precision.
        scores = ops.cast(scores, self.variable_dtype) / math.sqrt(q.shape[-1])
        if mask_bias is not None:
            scores += ops.cast(mask_bias, scores.dtype)
        probs = ops.softmax(scores, axis=-1)
        dropped = self.dropout(probs, training=training)
        context = ops.einsum("bnts,bnsh->bnth", dropped, v)
        context = kept.pack(self._merge_heads(context))
        return context, {"probs": probs, "queries": q, "keys": k}

    def _split_heads(self, x):
        heads = self.config.num_attention_heads
        size = self.config.hidden_size // heads
        x = ops.reshape(x, (-1, ops.shape(x)[1], heads, size))
        return ops.transpose(x, (0, 2, 1, 3))

    def _merge_heads(self, x):
        x = ops.transpose(x, (0, 2, 1, 3))  # [B, T, N, H]
        return ops.reshape(x, (-1, ops.shape(x)[1], self.config.hidden_size))


class ResidualOutput(BertLayer):
    """Ends both halves of a block: project, drop out, add, normalize.

    Args:
        input_size: int. Size of the last axis of x.

    Call arguments:
        x: float [..., input_size].
        residual: float [..., D].

    Returns:
        float [..., D].
    """

    def __init__(self, config: BertConfig, input_size: int, **kwargs):
        super().__init__(config, **kwargs)
        self.input_size = input_size

    def build(self, input_shape=None):
        self.dense = self.add_dense(
            "dense", self.input_size, self.config.hidden_size
        )
        self.dropout = self.add_dropout(self.config.hidden_dropout_prob)
        self.layer_norm = self.add_layer_norm()

    def call(self, x, residual, training=False):
        x = self.dropout(self.dense(x), training=training)
        return self.layer_norm(x + residual)


class Block(BertLayer):
    """One Transformer layer: self-attention, then a feed-forward network.

    Call arguments:
        x: float [..., D].
        mask_bias, tokens: see SelfAttention.
        read_positions: int [B, R]. Compute the output of these tokens only;
            as keys and values, all tokens of x take part. None: of all.

    Returns:
        float [..., D], or [B, R, D]; and a dictionary, see SelfAttention.
    """

    def build(self, input_shape=None):
        hidden = self.config.hidden_size
        inner = self.config.intermediate_size
        activation = ACTIVATION_FUNCTIONS[self.config.hidden_act]
        with keras.name_scope("attention"):
            self.attention = self.add_child(SelfAttention, "self")
            self.attention_output = self.add_child(
                ResidualOutput, "output", input_size=hidden
            )
        with keras.name_scope("intermediate"):
            self.intermediate = self.add_dense(
                "dense", hidden, inner, activation
            )
        self.output_ = self.add_child(
            ResidualOutput, "output", input_size=inner
        )

    def call(
        self,
        x,
        mask_bias=None,
        tokens=ALL_TOKENS,
        read_positions=None,
        training=False,
    ):
        rows = None
        if read_positions is not None:
            rows = tokens.read(x, read_positions)  # [B, R, D]
            mask_bias = read_mask_bias(mask_bias, read_positions)
        context, attention = self.attention(
            x, mask_bias, tokens=tokens, rows=rows, training=training
        )
        x = x if rows is None else rows
        x = self.attention_output(context, x, training=training)
        x = self.output_(self.intermediate(x), x, training=training)
        return x, attention


def read_mask_bias(mask_bias, positions):
    """The bias of the queries at positions [B, R]: [B, 1, R, T], or [B, 1, 1,
    T] if it is the same for all queries."""
    if mask_bias is None or mask_bias.shape[2] == 1:
        return mask_bias
    rows = ops.expand_dims(ops.expand_dims(positions, 1), -1)  # [B, 1, R, 1]
    return ops.take_along_axis(mask_bias, rows, axis=2)


class Encoder(BertLayer):
    """The stack of blocks.

    Call arguments:
        x: float [..., D].
        mask_bias, tokens: see SelfAttention.
        read_positions: int [B, R]. The tokens that the last block computes,
            see Block. None: all.

    Returns:
        The outputs of all blocks, first to last, each float [..., D], but of
        the last [B, R, D] if there are read_positions; and for each block a
        dictionary, see SelfAttention.
    """

    def build(self, input_shape=None):
        self.blocks = [
            self.add_child(Block, f"layer_{i}")
            for i in range(self.config.num_hidden_layers)
        ]

    def call(
        self,
        x,
        mask_bias=None,
        tokens=ALL_TOKENS,
        read_positions=None,
        training=False,
    ):
        all_layers, all_attention = [], []
        for block in self.blocks:
            is_last = block is self.blocks[-1]
            x, attention = block(
                x,
                mask_bias,
                tokens=tokens,
                read_positions=read_positions if is_last else None,
                training=training,
            )
            all_layers.append(x)
            all_attention.append(attention)
        return all_layers, all_attention


class Pooler(BertLayer):
    """A dense tanh layer on the first token: float [B, D]."""

    @property
    def output_shape(self):
        return (None, self.config.hidden_size)

    def build(self, input_shape=None):
        size = self.config.hidden_size
        self.dense = self.add_dense("dense", size, size, ops.tanh)

    def call(self, sequence_output):
        return self.dense(sequence_output[:, 0])


class BertNetwork(Parent, keras.Model):
    """What the encoder and every model with a head on it have in common.

    Args:
        config: BertConfig.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        precision.protect(self.compute_dtype)
        self.config = config

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


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertModel(BertNetwork):
    """The encoder with its pooler.

    Args:
        config: BertConfig.
        name: keep "bert": the names of the variables begin with it.

    Call arguments:
        input_ids: int [B, T], T at most max_position_embeddings; or a batch,
            a dictionary with this key and, where needed, the next four.
        input_mask: int [B, T]; 1 real, 0 padding. None: no padding.
        segment_ids: int [B, T]; 0 first, 1 second segment. None: all first.
        position_ids: int [B, T]. None: 0, 1, 2, ... in each row.
        sequence_ids: int [B, T]. Of rows that hold several sequences: tokens
            attend to those with the same number. None: to all.
        return_attention_probs: bool. Adds `attention_probs` to the result.
        skip_padding: bool. Spend no work on padding. Real tokens come out the
            same; what stands at padding is of no use.
        read_positions: int [B, R]. Positions of real tokens, or of the first,
            that are read from the last block, which then spends no work on
            others. The pooler takes the first of them in place of [CLS].
        return_queries_and_keys: bool. Adds `queries` and `keys`.

    Returns:
        A dictionary:
            sequence_output: float [B, T, D], the output of the last block.
            pooled_output: float [B, D], of [CLS], or of the last token if the
                model reads from left to right.
            all_encoder_layers: list of float [B, T, D], one a block.
            embedding_output: float [B, T, D], the input of the first block.
            attention_probs: list of float [B, N, T, T], one a block.
            queries, keys: lists of float [B, N, T, H], one a block.
        With read_positions, `read_output`, float [B, R, D], takes the place
        of sequence_output and all_encoder_layers; and the last block has R
        queries instead of T.
    """

    def __init__(self, config: BertConfig, name: str = "bert", **kwargs):
        super().__init__(config, name=name, **kwargs)
        if config.direction == "ltr+rtl":
            raise ValueError(
                "A BertModel is one encoder, but directionality=ltr+rtl has "
                "two; use a model with a head, or one of the two alone."
            )

    def build(self, input_shape=None):
        self.embeddings = self.add_child(Embeddings, "embeddings")
        self.encoder = self.add_child(Encoder, "encoder")
        self.pooler = self.add_child(Pooler, "pooler")

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        position_ids=None,
        sequence_ids=None,
        training=False,
        return_attention_probs=False,
        skip_padding=False,
        read_positions=None,
        return_queries_and_keys=False,
    ):
        if isinstance(input_ids, Mapping):
            batch = input_ids
            check_batch(batch)
            input_ids, input_mask, segment_ids = map(batch.get, BATCH_NAMES)
            position_ids = batch.get("position_ids", position_ids)
            sequence_ids = batch.get("sequence_ids", sequence_ids)
        self._check_length(input_ids)
        if segment_ids is None:
            segment_ids = ops.zeros_like(input_ids)
        mask_bias = self._mask_bias(input_ids, input_mask, sequence_ids)
        if skip_padding and input_mask is not None:
            tokens = RealTokens(input_mask)
        else:
            tokens = ALL_TOKENS
        embedded = self.embeddings(
            input_ids,
            segment_ids,
            position_ids=position_ids,
            tokens=tokens,
            training=training,
        )
        all_layers, all_attention = self.encoder(
            embedded,
            mask_bias,
            tokens=tokens,
            read_positions=read_positions,
            training=training,
        )
        if read_positions is None:
            all_layers = [tokens.unpack(x) for x in all_layers]
            outputs = {
                "sequence_output": all_layers[-1],
                "all_encoder_layers": all_layers,
            }
        else:
            outputs = {"read_output": all_layers[-1]}
        x = all_layers[-1]
        if read_positions is None and self.config.direction == "ltr":
            place = pooled_positions(self.config, input_ids, input_mask)
            x = ALL_TOKENS.read(x, place)
        outputs["pooled_output"] = self.pooler(x)
        outputs["embedding_output"] = tokens.unpack(embedded)
        if return_attention_probs:
            outputs["attention_probs"] = [a["probs"] for a in all_attention]
        if return_queries_and_keys:
            outputs["queries"] = [a["queries"] for a in all_attention]
            outputs["keys"] = [a["keys"] for a in all_attention]
        return outputs

    def _mask_bias(self, input_ids, input_mask, sequence_ids):
        """What attention adds to its scores: float [B, 1, 1, T], or [B, 1, T,
        T] where queries see different keys; None if all see all."""
        hidden = []  # true where a query does not see a key
        if input_mask is not None:
            padding = 1.0 - ops.cast(input_mask, self.variable_dtype)
            hidden.append(ops.expand_dims(ops.expand_dims(padding, 1), 1))
        if sequence_ids is not None:
            queries = ops.expand_dims(ops.expand_dims(sequence_ids, 1), -1)
            keys = ops.expand_dims(ops.expand_dims(sequence_ids, 1), 1)
            hidden.append(ops.cast(queries != keys, self.variable_dtype))
        if self.config.direction != "bidi":
            places = ops.arange(ops.shape(input_ids)[1])
            keys, queries = places[None, :], ops.expand_dims(places, -1)
            if self.config.direction == "ltr":
                is_ahead = keys > queries
            else:
                is_ahead = keys < queries
            is_ahead = ops.cast(is_ahead, self.variable_dtype)  # [T, T]
            hidden.append(ops.expand_dims(ops.expand_dims(is_ahead, 0), 0))
        if not hidden:
            return None
        return functools.reduce(ops.maximum, hidden) * MASK_BIAS

    def export(self, filepath, *args, **kwargs):
        """Keras' `export`: batches in, `sequence_output` and `pooled_output`
        out, as a SavedModel has no lists of tensors."""
        inputs = {
            name: keras.Input(spec.shape[1:], name=name, dtype=spec.dtype)
            for name, spec in self.batch_signature().items()
        }
        outputs = self(inputs)
        kept = {n: outputs[n] for n in ("sequence_output", "pooled_output")}
        keras.Model(inputs, kept).export(filepath, *args, **kwargs)

    def _check_length(self, input_ids):
        if len(input_ids.shape) != 2:
            raise ValueError(
                "input_ids must have the shape [batch, tokens], got "
                f"{tuple(input_ids.shape)}; put a single sequence into a "
                "batch of one."
            )
        length, limit = input_ids.shape[1], self.config.max_position_embeddings
        if length is not None and length > limit:
            raise ValueError(
                f"input_ids has {length} tokens, more than "
                f"max_position_embeddings={limit}; cut the sequences or use a "
                "model with more positions."
            )


def pooled_positions(config: BertConfig, input_ids, input_mask=None):
    """Where the token stands that is pooled: int [B, 1].

    It is [CLS], unless the model reads from left to right: then [CLS] has
    seen nothing but itself, and the last token all others.
    """
    if config.direction != "ltr":
        return ops.zeros_like(input_ids[:, :1], dtype="int32")
    if input_mask is None:
        input_mask = ops.ones_like(input_ids)
    return last_positions(input_mask)


def last_positions(input_mask):
    """Where the last real token stands: int [B, 1]."""
    mask = ops.cast(input_mask, "int32")
    places = mask * ops.arange(ops.shape(mask)[1], dtype="int32")
    return ops.max(places, axis=1, keepdims=True)
