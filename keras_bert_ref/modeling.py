"""The BERT encoder (Devlin et al. 2019, section 3) as Keras 3 layers.

Shapes: B batch, T tokens, N heads, H head size, D = N*H hidden, R tokens whose
final vectors are read. In [..., D] the dots are B, T or, where padding is left
out (unpadding.py), the number of real tokens in the batch.

Layers are nested so that the path of each variable, below the name of the
outermost model, is the variable's name in the original checkpoints, such as
bert/encoder/layer_0/attention/self/query/kernel. Layers know all their sizes
from the config, hence `build` ignores the shape of the input.
"""

import math
from collections.abc import Mapping

import keras
from keras import ops

from keras_bert_ref import attention_mask, kernels
from keras_bert_ref.config import BertConfig
from keras_bert_ref.layers import (
    ACTIVATION_FUNCTIONS,
    BertLayer,
    truncated_normal,
)
from keras_bert_ref.network import (
    BATCH_NAMES,
    BertNetwork,
    check_batch,
    check_ids,
)
from keras_bert_ref.unpadding import ALL_TOKENS, RealTokens

# The original's value; finite, so that a row without any real token attends to
# its padding instead of becoming NaN.
MASK_BIAS = -10000.0


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
            mask_bias = attention_mask.read_mask_bias(mask_bias, read_positions)
        context, attention = self.attention(
            x, mask_bias, tokens=tokens, rows=rows, training=training
        )
        x = x if rows is None else rows
        x = self.attention_output(context, x, training=training)
        x = self.output_(self.intermediate(x), x, training=training)
        return x, attention


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
        check_ids(input_ids, self.config)
        if segment_ids is None:
            segment_ids = ops.zeros_like(input_ids)
        hidden = attention_mask.hidden_keys(
            self.config,
            input_ids,
            input_mask,
            sequence_ids,
            dtype=self.variable_dtype,
        )
        mask_bias = None if hidden is None else hidden * MASK_BIAS
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
            last = attention_mask.pooled_positions(
                self.config, input_ids, input_mask
            )
            x = ALL_TOKENS.read(x, last)
        outputs["pooled_output"] = self.pooler(x)
        outputs["embedding_output"] = tokens.unpack(embedded)
        if return_attention_probs:
            outputs["attention_probs"] = [a["probs"] for a in all_attention]
        if return_queries_and_keys:
            outputs["queries"] = [a["queries"] for a in all_attention]
            outputs["keys"] = [a["keys"] for a in all_attention]
        return outputs

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
