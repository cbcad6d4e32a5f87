"""The BERT encoder (Devlin et al. 2019, section 3) as Keras 3 layers.

Shapes: B batch, T tokens, N heads, H head size, D = N*H hidden. In [..., D]
the dots are B, T or, where padding is left out (unpadding.py), the number of
real tokens in the batch.

Layers are nested so that the path of each variable, below the name of the
outermost model, is the variable's name in the original checkpoints, such as
bert/encoder/layer_0/attention/self/query/kernel. Layers know all their sizes
from the config, hence `build` ignores the shape of the input.
"""

import math

import keras
from keras import ops

from keras_bert_ref import kernels, precision
from keras_bert_ref.config import BertConfig
from keras_bert_ref.unpadding import ALL_TOKENS, RealTokens

# The original's value; finite, so that a row without any real token attends to
# its padding instead of becoming NaN.
MASK_BIAS = -10000.0
LAYER_NORM_EPSILON = 1e-12


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
    if variable.path.startswith("bert/"):
        return variable.path
    return variable.path.split("/", 1)[-1]


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Initializer of all kernels and embeddings: cut off at two sigma."""
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev)


class Dense(keras.layers.Dense):
    """A dense layer on [..., D] that is one matmul for the whole batch.

    Keras 3.10 would multiply sequence by sequence, and make a gradient of the
    kernel for each of them before it sums these.
    """

    def call(self, inputs, training=None):
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        y = super().call(rows, training=training)
        return ops.reshape(y, (*ops.shape(inputs)[:-1], self.units))


class Parent:
    """Adds children to a layer or model that has a BertConfig: each is built
    at once, within the name of its parent and with its precision."""

    def add_child(self, layer_class, name, **kwargs):
        child = layer_class(
            self.config, dtype=self.dtype_policy, name=name, **kwargs
        )
        child.build()
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

    def add_dropout(self, rate):
        return keras.layers.Dropout(rate, dtype=self.dtype_policy)


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

    def call(self, input_ids, segment_ids, tokens=ALL_TOKENS, training=False):
        length = ops.shape(input_ids)[1]
        x = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, T, D]
        # A matmul with one-hot rows rather than a look-up, as in the
        # original: few rows, and the gradient stays dense.
        segments = ops.one_hot(
            segment_ids, self.config.type_vocab_size, dtype=x.dtype
        )
        x += ops.matmul(segments, self.token_type_embeddings)
        x += self.position_embeddings[:length]
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
            None: all keys are real.
        tokens: where the tokens of x belong: ALL_TOKENS or RealTokens.

    Returns:
        float [..., D] and the attention probabilities, float [B, N, T, T].
    """

    def build(self, input_shape=None):
        size = self.config.hidden_size
        self.query = self.add_dense("query", size, size)
        self.key = self.add_dense("key", size, size)
        self.value = self.add_dense("value", size, size)
        self.dropout = self.add_dropout(
            self.config.attention_probs_dropout_prob
        )

    def call(self, x, mask_bias=None, tokens=ALL_TOKENS, training=False):
        q = self._split_heads(tokens.unpack(self.query(x)))  # [B, N, T, H]
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
        return tokens.pack(self._merge_heads(context)), probs

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

    Returns:
        float [..., D] and the attention probabilities, float [B, N, T, T].
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

    def call(self, x, mask_bias=None, tokens=ALL_TOKENS, training=False):
        context, probs = self.attention(
            x, mask_bias, tokens=tokens, training=training
        )
        x = self.attention_output(context, x, training=training)
        x = self.output_(self.intermediate(x), x, training=training)
        return x, probs


class Encoder(BertLayer):
    """The stack of blocks.

    Call arguments:
        x: float [..., D].
        mask_bias, tokens: see SelfAttention.

    Returns:
        The outputs of all blocks, first to last, each float [..., D]; and
        their attention probabilities, each float [B, N, T, T].
    """

    def build(self, input_shape=None):
        self.blocks = [
            self.add_child(Block, f"layer_{i}")
            for i in range(self.config.num_hidden_layers)
        ]

    def call(self, x, mask_bias=None, tokens=ALL_TOKENS, training=False):
        all_layers, all_probs = [], []
        for block in self.blocks:
            x, probs = block(x, mask_bias, tokens=tokens, training=training)
            all_layers.append(x)
            all_probs.append(probs)
        return all_layers, all_probs


class Pooler(BertLayer):
    """A dense tanh layer on the first token, [CLS]: float [B, D]."""

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
        input_ids: int [B, T], T at most max_position_embeddings.
        input_mask: int [B, T]; 1 real, 0 padding. None: no padding.
        segment_ids: int [B, T]; 0 first, 1 second segment. None: all first.
        return_attention_probs: bool. Adds `attention_probs` to the result.
        skip_padding: bool. Spend no work on padding. Real tokens come out the
            same; what stands at padding is of no use.

    Returns:
        A dictionary:
            sequence_output: float [B, T, D], the output of the last block.
            pooled_output: float [B, D].
            all_encoder_layers: list of float [B, T, D], one a block.
            embedding_output: float [B, T, D], the input of the first block.
            attention_probs: list of float [B, N, T, T], one a block.
    """

    def __init__(self, config: BertConfig, name: str = "bert", **kwargs):
        super().__init__(config, name=name, **kwargs)

    def build(self, input_shape=None):
        self.embeddings = self.add_child(Embeddings, "embeddings")
        self.encoder = self.add_child(Encoder, "encoder")
        self.pooler = self.add_child(Pooler, "pooler")

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        training=False,
        return_attention_probs=False,
        skip_padding=False,
    ):
        self._check_length(input_ids)
        if segment_ids is None:
            segment_ids = ops.zeros_like(input_ids)
        mask_bias = None
        if input_mask is not None:
            padding = 1.0 - ops.cast(input_mask, self.variable_dtype)
            mask_bias = padding[:, None, None, :] * MASK_BIAS  # [B, 1, 1, T]
        if skip_padding and input_mask is not None:
            tokens = RealTokens(input_mask)
        else:
            tokens = ALL_TOKENS
        embedded = self.embeddings(
            input_ids, segment_ids, tokens=tokens, training=training
        )
        all_layers, all_probs = self.encoder(
            embedded, mask_bias, tokens=tokens, training=training
        )
        all_layers = [tokens.unpack(x) for x in all_layers]
        outputs = {
            "sequence_output": all_layers[-1],
            "pooled_output": self.pooler(all_layers[-1]),
            "all_encoder_layers": all_layers,
            "embedding_output": tokens.unpack(embedded),
        }
        if return_attention_probs:
            outputs["attention_probs"] = all_probs
        return outputs

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
