"""A model with its tokenizer as one TensorFlow function: strings in.

Shapes: B texts, T tokens, W words, M masks, L labels, V vocabulary. A ragged
tensor is written [B, (n)].
"""

import tensorflow as tf

from keras_bert_ref import heads
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.text.answering import FRAME_LENGTH, longest_query
from keras_bert_ref.text.graph_tokenizer import WordSplitter
from keras_bert_ref.text.preprocessor import BertPreprocessor, cut
from keras_bert_ref.text.text_model import TextModel

LOWEST = -1e30  # a score that none is below
OUTSIDE = -1  # the place of a token that is not in the passage
MAX_ANSWER_LENGTH = 30  # run_squad.py's


class ServedModel(tf.Module):
    """Answers texts, and batches of ids, within TensorFlow's graph.

    Args:
        text_model: TextModel.
        inputs: names of the texts it takes, see text/interfaces.py.
        top_k: int. How many words are given for a mask.
    """

    def __init__(
        self, text_model: TextModel, inputs: tuple[str, ...], top_k: int = 5
    ):
        super().__init__()
        model, tokenizer = text_model.model, text_model.tokenizer
        # What is saved is what is reachable from here: each variable once,
        # and none of Keras' own functions.
        self.weights = [variable.value for variable in model.variables]
        self._model = self._no_dependency(model)
        self._text_model = self._no_dependency(text_model)
        self._top_k = min(top_k, len(tokenizer.vocab))
        self._preprocess = self._no_dependency(
            BertPreprocessor(
                tokenizer,
                text_model.max_seq_length,
                padding="longest",
                keep_mask=isinstance(model, heads.BertPretraining),
            )
        )
        self._inputs = self._no_dependency(inputs)

    def signatures(self) -> dict:
        """`serving_default` takes texts, `ids` a batch."""
        texts = {n: tf.TensorSpec([None], tf.string, n) for n in self._inputs}
        batch = {
            name: tf.TensorSpec([None, None], tf.int32, name)
            for name in self._model.batch_signature()
        }
        return {
            "serving_default": _compile(self._choose_answer(), texts),
            "ids": _compile(lambda **b: run_model(self._model, b), batch),
        }

    def _choose_answer(self):
        for head, answer in (
            (heads.BertPretraining, self.fill_masks),
            (heads.BertClassifier, self.classify),
            (heads.BertSpan, self.find_answers),
            (heads.BertTagger, self.tag),
        ):
            if isinstance(self._model, head):
                return answer
        return self.encode

    def fill_masks(self, text_a) -> dict:
        """`words` and `probabilities`, [B, M, k]; blank and 0 where a text
        has fewer masks than another."""
        batch = self._preprocess(text_a)
        mask_id = self._text_model.tokenizer.vocab["[MASK]"]
        is_mask = batch["input_ids"] == mask_id
        counts = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
        most = tf.maximum(1, tf.reduce_max(counts))
        others = tf.cast(~is_mask, tf.int32)
        positions = tf.argsort(others, axis=1, stable=True)[:, :most]
        batch["masked_lm_positions"] = positions
        logits = self._model(batch)["masked_lm_logits"]  # [B, M, V]
        values, ids = tf.math.top_k(tf.nn.softmax(logits), self._top_k)
        is_there = tf.sequence_mask(counts, most)[:, :, None]
        words = tf.gather(tf.constant(self._list_vocabulary()), ids)
        return {
            "words": tf.where(is_there, words, ""),
            "probabilities": tf.where(is_there, values, 0.0),
        }

    def classify(self, text_a, text_b=None) -> dict:
        """`label` [B], `labels` and `probabilities` [B, L]; or `score` [B]."""
        logits = self._model(self._preprocess(text_a, text_b))
        if self._model.num_labels == 1:
            return {"score": logits[:, 0]}
        labels = tf.constant(self._text_model.labels)
        return {
            "label": tf.gather(labels, tf.argmax(logits, axis=1)),
            "labels": tf.tile(labels[None], [tf.shape(logits)[0], 1]),
            "probabilities": tf.nn.softmax(logits),
        }

    def find_answers(self, text_a, text_b) -> dict:
        """The best answers to questions in the first window of passages.

        Returns:
            `answer`: whole words, "" for none, string [B]; `start`, `end`:
            its bytes in text_b; `score`, and `null_score` of no answer [B];
            `start_logits`, `end_logits`, and bytes of the word that each
            token is of, `word_starts` and `word_ends` [B, T], -1 outside.
        """
        encode = self._preprocess.graph_tokenizer.encode
        limit = self._preprocess.max_seq_length
        query = cut(encode(text_a), longest_query(limit))
        words, starts, ends = split_with_offsets(text_b)  # [B, (W)]
        pieces = encode(words.values)  # [W, (n)]
        room = limit - FRAME_LENGTH - query.row_lengths()
        passage = cut(words.with_values(pieces).merge_dims(1, 2), room)
        batch = self._preprocess.pack(query, passage, query.row_lengths() >= 0)
        word_of_piece = words.with_values(
            tf.RaggedTensor.from_row_lengths(
                pieces.value_rowids(), pieces.row_lengths()
            )
        )
        indices = cut(word_of_piece.merge_dims(1, 2), room)
        before = 2 + query.row_lengths()  # [CLS] query [SEP]
        length = tf.shape(batch["input_ids"])[1]
        word_starts = _place(indices, starts, before, length)
        word_ends = _place(indices, ends, before, length)
        logits = self._model(batch)
        first, last, score = find_best_spans(
            logits["start_logits"], logits["end_logits"], word_starts >= 0
        )
        null_score = logits["start_logits"][:, 0] + logits["end_logits"][:, 0]
        is_none = score <= LOWEST / 2
        if self._text_model.allows_no_answer:
            is_none |= null_score > score
        start = tf.gather(word_starts, first, axis=1, batch_dims=1)
        end = tf.gather(word_ends, last, axis=1, batch_dims=1)
        start, end = (tf.where(is_none, 0, x) for x in (start, end))
        return {
            **logits,
            "word_starts": word_starts,
            "word_ends": word_ends,
            "answer": tf.strings.substr(text_b, start, end - start),
            "start": start,
            "end": end,
            "score": score,
            "null_score": null_score,
        }

    def tag(self, text_a) -> dict:
        """`words` and `tags`, [B, W], blank at the end of shorter texts; tags
        are blank where a text is too long for the model."""
        words = self._split_words(text_a)  # [B, (W)]
        room = self._preprocess.max_seq_length - 2
        pieces = self._preprocess.graph_tokenizer.encode(words.values)
        unknown = self._text_model.tokenizer.vocab["[UNK]"]
        is_blank = tf.cast(pieces.row_lengths() == 0, tf.int64)
        unknowns = tf.fill([tf.reduce_sum(is_blank)], unknown)
        pieces = tf.concat(
            [pieces, tf.RaggedTensor.from_row_lengths(unknowns, is_blank)], 1
        )
        pieces = words.with_values(cut(pieces, room))  # [B, (W), (n)]
        batch = self._preprocess.pack(cut(pieces.merge_dims(1, 2), room))
        logits = self._model(batch)  # [B, T, L]
        sizes = words.with_values(pieces.values.row_lengths()).to_tensor()
        first = tf.cumsum(sizes, axis=1, exclusive=True)  # of each word
        is_read = tf.sequence_mask(words.row_lengths()) & (first < room)
        positions = 1 + tf.where(is_read, first, 0)
        best = tf.gather(tf.argmax(logits, axis=2), positions, batch_dims=1)
        tags = tf.gather(tf.constant(self._text_model.labels), best)
        return {
            "words": words.to_tensor(),
            "tags": tf.where(is_read, tags, ""),
        }

    def encode(self, text_a) -> dict:
        """`mean` of all tokens' vectors, that of [CLS], and the pooled one."""
        batch = self._preprocess(text_a)
        outputs = self._model(batch)
        x = outputs["sequence_output"]
        weights = tf.cast(batch["input_mask"], x.dtype)[:, :, None]
        return {
            "mean": tf.reduce_sum(x * weights, 1) / tf.reduce_sum(weights, 1),
            "cls": x[:, 0],
            "pooled": outputs["pooled_output"],
        }

    def _split_words(self, texts):
        """Words as BasicTokenizer splits them, in their own case [B, (W)]."""
        splitter = WordSplitter(do_lower_case=False)
        chunks = tf.strings.split(texts, " ")
        words = chunks.with_values(splitter.split(chunks.values))
        words = words.merge_dims(1, 2)
        return tf.ragged.boolean_mask(words, words != "")

    def _list_vocabulary(self) -> list[str]:
        return self._preprocess.get_config()["vocabulary"]


def run_model(model, batch: dict) -> dict:
    """Outputs of a model as they are, by name."""
    outputs = model(batch)
    if isinstance(model, BertModel):
        names = ("sequence_output", "pooled_output")
        return {name: outputs[name] for name in names}
    return outputs if isinstance(outputs, dict) else {"logits": outputs}


def _compile(function, signature: dict):
    """A function of keyword arguments, named as in the signature."""
    return tf.function(
        lambda **inputs: function(**inputs), autograph=False
    ).get_concrete_function(**signature)


def split_with_offsets(texts):
    """Splits at the white space that SQuAD knows.

    Returns:
        Words, where they start and where they end in bytes, each [B, (W)].
    """
    # As many bytes as before.
    spaced = tf.strings.regex_replace(texts, "[\t\r\n]", " ")
    spaced = tf.strings.regex_replace(spaced, "\u202f", "   ")
    chunks = tf.strings.split(spaced, " ")
    sizes = tf.strings.length(chunks.values)
    after = tf.cumsum(sizes + 1, exclusive=True)
    firsts = tf.gather(
        tf.concat([after, [0]], axis=0), chunks.row_starts()
    )  # where rows start
    starts = after - tf.gather(firsts, chunks.value_rowids())
    is_word = chunks.with_values(sizes > 0)
    return tuple(
        tf.ragged.boolean_mask(chunks.with_values(x), is_word)
        for x in (chunks.values, starts, starts + sizes)
    )


def _place(indices, values, before, length):
    """Values of words at their tokens, OUTSIDE elsewhere: int32 [B, T]."""
    found = indices.with_values(tf.gather(values.values, indices.values))
    fill = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.reduce_sum(before)], OUTSIDE), before
    )
    placed = tf.concat([fill, found], axis=1).to_tensor(OUTSIDE)
    missing = length - tf.shape(placed)[1]
    return tf.pad(placed, [[0, 0], [0, missing]], constant_values=OUTSIDE)


def find_best_spans(start_logits, end_logits, is_passage):
    """First and last token of the best span, and its score, each [B]."""
    starts = tf.where(is_passage, start_logits, LOWEST)
    ends = tf.where(is_passage, end_logits, LOWEST)
    length = tf.shape(starts)[1]
    places = tf.range(length)
    sizes = 1 + places[None, :] - places[:, None]
    band = (sizes > 0) & (sizes <= MAX_ANSWER_LENGTH)
    scores = starts[:, :, None] + ends[:, None, :]  # [B, T, T]
    scores = tf.reshape(tf.where(band, scores, LOWEST), [-1, length * length])
    best = tf.argmax(scores, axis=1, output_type=tf.int32)
    score = tf.reduce_max(scores, axis=1)
    return best // length, best % length, score
