"""A Keras layer from strings to batches: the tokenizer as part of a model.

Shapes: B texts, T tokens. A ragged tensor is written [B, (n)].
"""

import warnings

import keras
import tensorflow as tf

from keras_bert_ref.text.graph_tokenizer import GraphTokenizer
from keras_bert_ref.tokenization import FullTokenizer

PADDINGS = ("max_length", "longest")
FORM = 'layer(["one text", "another"]) or layer(texts_a, texts_b)'


@keras.saving.register_keras_serializable("keras_bert_ref")
class BertPreprocessor(keras.layers.Layer):
    """Makes `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]` of strings.

    The ids are those of `FullTokenizer`, cut as the original cuts: a pair
    loses tokens at the end of the longer text, and b on a tie. Works in
    tf.data, inside a model, and in a SavedModel, which takes strings then.

    Args:
        tokenizer: FullTokenizer.
        max_seq_length: int. Longer sequences are cut.
        padding: "max_length": all batches are of this length. "longest": a
            batch is as long as its longest sequence.
        keep_mask: bool. [MASK] in a text is the mask, not three words.

    Call arguments:
        text_a: strings [B] or [B, 1].
        text_b: the same, for pairs. A blank one makes a single sentence.

    Returns:
        A batch: `input_ids`, `input_mask`, `segment_ids`, int32 [B, T].
    """

    def __init__(
        self,
        tokenizer: FullTokenizer,
        max_seq_length: int = 128,
        padding: str = "max_length",
        keep_mask: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if max_seq_length < 3:
            raise ValueError(
                f"max_seq_length={max_seq_length}, but [CLS], [SEP] and [SEP] "
                "alone are three tokens; make it longer."
            )
        if padding not in PADDINGS:
            raise ValueError(
                f"padding={padding!r}, but it must be one of "
                f"{', '.join(PADDINGS)}."
            )
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.padding = padding
        self.keep_mask = keep_mask
        self.graph_tokenizer = GraphTokenizer(tokenizer, keep_mask)
        self.supports_jit = False  # XLA has no strings
        self.built = True

    def __call__(self, text_a, text_b=None, **kwargs):
        texts = [_to_strings(text_a)]
        if text_b is not None:
            texts.append(_to_strings(text_b))
            sizes = [text.shape[0] for text in texts]
            if None not in sizes and sizes[0] != sizes[1]:
                raise ValueError(
                    "text_a and text_b must hold as many texts: "
                    f"{sizes[0]} and {sizes[1]} cannot be paired."
                )
        return super().__call__(*texts, **kwargs)

    def call(self, text_a, text_b=None):
        encode, limit = self.graph_tokenizer.encode, self.max_seq_length
        a = encode(_flatten(text_a))  # [B, (n)]
        if text_b is None:
            return self.pack(cut(a, limit - 2))
        b = encode(_flatten(text_b))
        size_a, size_b, room = a.row_lengths(), b.row_lengths(), limit - 3
        # As truncate_pair.
        cut_a = tf.maximum(room - size_b, room - room // 2)
        cut_b = tf.maximum(room - size_a, room // 2)
        is_pair = size_b > 0
        cut_a = tf.where(is_pair, cut_a, limit - 2)
        return self.pack(cut(a, cut_a), cut(b, cut_b), is_pair)

    def compute_output_spec(self, text_a, text_b=None):
        is_fixed = self.padding == "max_length"
        shape = (text_a.shape[0], self.max_seq_length if is_fixed else None)
        names = ("input_ids", "input_mask", "segment_ids")
        return {n: keras.KerasTensor(shape, "int32", name=n) for n in names}

    def pack(self, a, b=None, is_pair=None):
        """Adds [CLS] and [SEP], and pads."""
        vocab = self.tokenizer.vocab
        ones = tf.ones([a.nrows()], tf.int64)
        cls = _repeat(vocab["[CLS]"], ones)
        sep = _repeat(vocab["[SEP]"], ones)
        parts = [cls, a, sep]
        size_a = size = a.row_lengths() + 2
        if b is not None:
            ends = tf.cast(is_pair, tf.int64)  # 1 or 0 [SEP] after b
            parts += [b, _repeat(vocab["[SEP]"], ends)]
            size = size + b.row_lengths() + ends
        width = self.max_seq_length if self.padding == "max_length" else None
        input_ids = tf.concat(parts, axis=1).to_tensor(shape=[None, width])
        if width is None:  # a batch of no texts has columns, too
            missing = tf.maximum(0, 2 - tf.shape(input_ids)[1])
            input_ids = tf.pad(input_ids, [[0, 0], [0, missing]])
        length = tf.shape(input_ids)[1]
        input_mask = tf.sequence_mask(size, length, tf.int32)
        first = tf.sequence_mask(size_a, length, tf.int32)
        return {
            "input_ids": input_ids,
            "input_mask": tf.reshape(input_mask, tf.shape(input_ids)),
            "segment_ids": input_mask - first,
        }

    def get_config(self):
        size = 1 + max(self.tokenizer.vocab.values())
        vocabulary = [""] * size
        for token, index in self.tokenizer.vocab.items():
            vocabulary[index] = token
        return {
            **super().get_config(),
            "vocabulary": vocabulary,
            "do_lower_case": self.tokenizer.basic_tokenizer.do_lower_case,
            "max_seq_length": self.max_seq_length,
            "padding": self.padding,
            "keep_mask": self.keep_mask,
        }

    @classmethod
    def from_config(cls, config):
        values = dict(config)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were shown the first time
            tokenizer = FullTokenizer(
                values.pop("vocabulary"), values.pop("do_lower_case")
            )
        return cls(tokenizer, **values)


def _to_strings(texts):
    """A tensor of strings, or a symbol of one, of whatever is given."""
    if keras.backend.is_keras_tensor(texts):
        return texts
    if isinstance(texts, str | bytes):
        raise ValueError(f"Texts come in batches, got one text; call {FORM}.")
    try:
        tensor = tf.convert_to_tensor(texts)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "Texts must be str without lone surrogates, UTF-8 bytes, or a "
            f"tensor of strings: {error} Call {FORM}."
        ) from error
    if tensor.dtype != tf.string and tensor.shape == (0,):
        tensor = tf.zeros([0], tf.string)  # of an empty list
    if tensor.dtype != tf.string:
        raise ValueError(
            f"Texts must be strings, got {tensor.dtype.name}; call {FORM}."
        )
    if tensor.shape.rank == 0:
        raise ValueError(
            f"Texts come in batches, got one text; call {FORM}, and in "
            "tf.data call batch() first."
        )
    return tensor


def _flatten(texts):
    return tf.reshape(texts, [-1])


def _repeat(token_id: int, counts):
    """Ragged [B, (0 or 1)]: the id as often as counts say."""
    values = tf.fill([tf.reduce_sum(counts)], token_id)
    return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)


def cut(ids, limits):
    """The first tokens of each row, at most as many as limits say."""
    sizes = tf.minimum(ids.row_lengths(), limits)
    places = tf.ragged.range(ids.row_starts(), ids.row_starts() + sizes)
    return places.with_values(tf.gather(ids.values, places.values))
