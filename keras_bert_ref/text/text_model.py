"""A trained model on raw text: one method for each thing it can be asked.

Results come in the order of the texts; inside, texts of similar length are
computed together. Methods take a list of texts, or one text and then give
one result. Texts are str or UTF-8 bytes; invalid bytes are dropped.

Shapes: B batch, T tokens, D hidden, N heads, H head size.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_ref import heads, sentence_pairs
from keras_bert_ref.bars import progress_bar
from keras_bert_ref.modeling import BATCH_NAMES, BertModel
from keras_bert_ref.ner.files import Sentence
from keras_bert_ref.ner.windows import make_windows
from keras_bert_ref.records.lengths import compute_by_length
from keras_bert_ref.text import answering
from keras_bert_ref.tokenization import BasicTokenizer, FullTokenizer

BATCH_SIZE = 32
MASKS = 128  # a batch; a masked word has a logit for each word there is
POOLINGS = ("mean", "cls", "pooled")
MANY = 1000  # texts; from here on progress is shown


class Word(NamedTuple):
    """A word of the vocabulary, and how likely it is at a mask."""

    word: str
    probability: float


class Attention(NamedTuple):
    """How the tokens of a text look at each other, in L layers.

    Attributes:
        tokens: the T tokens.
        segment_ids: which text each is of: 0 or 1.
        probs: float [L, N, T, T]; row t says where token t looks.
        queries, keys: float [L, N, T, H]; None unless asked for.
    """

    tokens: list[str]
    segment_ids: list[int]
    probs: np.ndarray
    queries: np.ndarray | None = None
    keys: np.ndarray | None = None


class TextModel:
    """A model, its tokenizer, and the names of its classes.

    Args:
        model: BertModel or a model with a head.
        tokenizer: FullTokenizer.
        labels: names of the classes, in the order of the model's outputs;
            none: "0", "1" and so on.
        max_seq_length: int. Longer inputs are cut, or read in windows where
            an answer or tags are wanted.
        allows_no_answer: bool. The model was trained on questions without
            answers, too.

    Attributes:
        on_batch: called after each batch, unless None; what it raises ends
            the work.
    """

    def __init__(
        self,
        model,
        tokenizer: FullTokenizer,
        labels: Sequence[str] = (),
        max_seq_length: int | None = None,
        allows_no_answer: bool = False,
    ):
        limit = model.config.max_position_embeddings
        if max_seq_length and max_seq_length > limit:
            raise ValueError(
                f"max_seq_length={max_seq_length} exceeds "
                f"max_position_embeddings={limit} of the model; lower it."
            )
        count = getattr(model, "num_labels", None)
        if labels and count not in (None, len(labels)):
            raise ValueError(
                f"The model has {count} outputs, but there are {len(labels)} "
                f"labels: {', '.join(labels)}; give one for each output."
            )
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"Labels must differ, got {', '.join(labels)}; give each "
                "output a name of its own."
            )
        self.model = model
        self.bert = model if isinstance(model, BertModel) else model.bert
        self.tokenizer = tokenizer
        self.labels = list(labels) or list(map(str, range(count or 0)))
        self.max_seq_length = max_seq_length or limit
        self.allows_no_answer = allows_no_answer
        self.on_batch: Callable[[], object] | None = None
        self._functions = {}  # compiled ones

    def fill_mask(self, texts, top_k: int = 5):
        """The likeliest words at each [MASK]: a list of Word a mask.

        Several masks of a text are filled independently of each other.
        """
        self._check_head(heads.BertPretraining, "fill in masks")
        if isinstance(texts, str | bytes):
            return self.fill_mask([texts], top_k)[0]
        texts = sentence_pairs.list_texts(texts)
        rows = sentence_pairs.encode_pairs(
            self.tokenizer, texts, None, self.max_seq_length, keep_mask=True
        )
        mask_id = self.tokenizer.vocab["[MASK]"]
        for text, row in zip(texts, rows, strict=True):
            _check_masks(text, row.input_ids.count(mask_id), len(row.input_ids))
        top_k = min(top_k, len(self.tokenizer.vocab))

        @self._function("fill_mask", top_k, masked_lm_positions=tf.int32)
        def predict(batch):
            logits = self.model(batch)["masked_lm_logits"]
            return tf.math.top_k(tf.nn.softmax(logits), top_k)

        def compute(batch):
            is_mask = batch["input_ids"] == mask_id
            counts = is_mask.sum(axis=1)
            positions = np.argsort(~is_mask, axis=1, kind="stable")
            positions = positions[:, : counts.max()].astype(np.int32)
            batch = {**batch, "masked_lm_positions": positions}
            size = max(1, MASKS // counts.max())
            for start in range(0, len(counts), size):
                part = slice(start, start + size)
                values, ids = predict({n: x[part] for n, x in batch.items()})
                yield from map(
                    self._read_words, values.numpy(), ids.numpy(), counts[part]
                )

        return self._compute(rows, compute, "filling in")

    def classify(self, texts, pairs=None):
        """Classes with their probabilities, the likeliest first: a dictionary
        for each text, or for each text with its pair."""
        self._check_head(heads.BertClassifier, "classify")
        if len(self.labels) == 1:
            raise ValueError(
                "The model gives a score, not classes; call scores()."
            )
        if isinstance(texts, str | bytes):
            return self.classify([texts], _list(pairs))[0]

        @self._function("classify")
        def predict(batch):
            return tf.nn.softmax(self.model(batch))

        results = self._compute_pairs(texts, pairs, predict, "classifying")
        return [
            {self.labels[i]: float(row[i]) for i in np.argsort(-row)}
            for row in results
        ]

    def scores(self, texts, pairs=None):
        """A number for each text, or each text with its pair."""
        self._check_head(heads.BertClassifier, "give scores")
        if len(self.labels) != 1:
            raise ValueError(
                f"The model has {len(self.labels)} classes, not a score; call "
                "classify()."
            )
        if isinstance(texts, str | bytes):
            return self.scores([texts], _list(pairs))[0]
        predict = self._function("model")(self.model)
        results = self._compute_pairs(texts, pairs, predict, "scoring")
        return [float(row[0]) for row in results]

    def answer(self, questions, passages, **kwargs):
        """Answers questions, each from its passage of any length: an
        AnswerText each.

        Args:
            **kwargs: see `answering.answer`.
        """
        self._check_head(heads.BertSpan, "answer questions")
        if isinstance(questions, str | bytes):
            return self.answer([questions], [passages], **kwargs)[0]
        predict = self._function("model")(self.model)

        def compute(rows):
            return self._compute(
                rows, lambda batch: _rows_of(predict(batch)), "reading"
            )

        kwargs.setdefault("allow_no_answer", self.allows_no_answer)
        return answering.answer(
            questions,
            passages,
            self.tokenizer,
            compute,
            self.max_seq_length,
            **kwargs,
        )

    def tag(self, texts):
        """The words of each text with their tags: a list of pairs.

        A text is a str, which is cut at spaces and punctuation, or a list of
        words.
        """
        self._check_head(heads.BertTagger, "tag words")
        if isinstance(texts, str | bytes):
            return self.tag([texts])[0]
        split = BasicTokenizer(do_lower_case=False).tokenize
        texts = [
            split(t)
            if isinstance(t, str | bytes)
            else sentence_pairs.list_texts(t)
            for t in sentence_pairs.list_texts(texts)
        ]
        sentences = [Sentence(words, [], [], 0) for words in texts]
        windows = make_windows(
            [sentence for sentence in sentences if sentence.words],
            self.tokenizer,
            max_seq_length=self.max_seq_length,
        )
        predict = self._function("model")(self.model)
        logits = self._compute(
            windows, lambda batch: predict(batch).numpy(), "tagging"
        )
        tags = {}
        for window, values in zip(windows, logits, strict=True):
            best = values[window.positions].argmax(axis=1)
            tags.update(zip(window.words.tolist(), best, strict=True))
        chosen = iter([self.labels[tags[i]] for i in range(len(tags))])
        return [[(word, next(chosen)) for word in s.words] for s in sentences]

    def vectors(self, texts, pairs=None, pooling: str = "mean", layer=-1):
        """A vector for each text: float32 [texts, D].

        Args:
            pooling: "mean" of all tokens, "cls" for that of [CLS], or
                "pooled" for the pooler's output (of the last layer).
            layer: int. From 0, or from the end from -1.
        """
        _check_choice("pooling", pooling, POOLINGS)
        count = self.model.config.num_hidden_layers
        if not -count <= layer < count:
            raise ValueError(
                f"layer={layer}, but the model has {count} layers: from 0 to "
                f"{count - 1}, or from the end from -1 to {-count}."
            )
        if isinstance(texts, str | bytes):
            return self.vectors([texts], _list(pairs), pooling, layer)[0]
        return self.all_vectors(texts, pairs, layer)[POOLINGS.index(pooling)]

    def all_vectors(self, texts, pairs=None, layer=-1) -> np.ndarray:
        """What `vectors` gives, with each of POOLINGS: [3, texts, D]."""

        @self._function("vectors", layer)
        def predict(batch):
            outputs = self.bert(batch)
            x = outputs["all_encoder_layers"][layer]
            weights = tf.cast(batch["input_mask"], x.dtype)[:, :, None]
            mean = tf.reduce_sum(x * weights, 1) / tf.reduce_sum(weights, 1)
            return tf.stack([mean, x[:, 0], outputs["pooled_output"]], axis=1)

        results = self._compute_pairs(texts, pairs, predict, "encoding")
        shape = (-1, len(POOLINGS), self.model.config.hidden_size)
        return np.array(results, np.float32).reshape(shape).swapaxes(0, 1)

    def similarities(self, texts, others=None, **kwargs) -> np.ndarray:
        """Cosines of the vectors of texts and others, or among the texts.

        Args:
            **kwargs: see `vectors`.
        """
        a = _normalize(self.vectors(texts, **kwargs))
        b = a if others is None else _normalize(self.vectors(others, **kwargs))
        return a @ b.T

    def attention(self, text, pair=None, queries_and_keys: bool = False):
        """Attention of every layer and head on a text, or a text and its
        pair; on request with the queries and keys it is made of."""
        (row,) = sentence_pairs.encode_pairs(
            self.tokenizer, [text], _list(pair), self.max_seq_length
        )
        outputs = self.bert(
            sentence_pairs.pad([row]),
            return_attention_probs=True,
            return_queries_and_keys=queries_and_keys,
        )
        stacked = {
            name: np.stack([x[0] for x in outputs[name]])
            for name in ("attention_probs", "queries", "keys")
            if name in outputs
        }
        tokens = self.tokenizer.convert_ids_to_tokens(row.input_ids)
        probs = stacked.pop("attention_probs")
        return Attention(tokens, row.segment_ids, probs, **stacked)

    def _compute_pairs(self, texts, pairs, predict, what: str) -> list:
        rows = sentence_pairs.encode_pairs(
            self.tokenizer, texts, pairs, self.max_seq_length
        )
        return self._compute(rows, lambda batch: predict(batch).numpy(), what)

    def _compute(self, rows, compute: Callable, what: str) -> list:
        def run(show=None):
            def report(count):
                if show is not None:
                    show(count)
                if self.on_batch is not None:
                    self.on_batch()

            return compute_by_length(
                rows,
                compute,
                batch_size=BATCH_SIZE,
                max_length=self.max_seq_length,
                report=report,
            )

        if len(rows) < MANY:
            return run()
        with progress_bar(desc=what, total=len(rows), unit="texts") as bar:
            return run(bar.update)

    def _function(self, *key, **more):
        """Compiles a function of a batch, of any size; once for each key."""
        types = {**dict.fromkeys(BATCH_NAMES, tf.int32), **more}
        signature = {
            n: tf.TensorSpec([None, None], t) for n, t in types.items()
        }

        def compile(function):
            if key not in self._functions:
                self._functions[key] = tf.function(
                    lambda batch: function(batch),
                    input_signature=[signature],
                    autograph=False,
                )
            return self._functions[key]

        return compile

    def _read_words(self, values, ids, count) -> list[list[Word]]:
        return [
            [
                Word(self.tokenizer.inv_vocab[int(i)], float(value))
                for i, value in zip(ids[mask], values[mask], strict=True)
            ]
            for mask in range(count)
        ]

    def _check_head(self, head_class, what: str) -> None:
        if not isinstance(self.model, head_class):
            raise ValueError(
                f"To {what} takes a {head_class.__name__}, but the model is a "
                f"{type(self.model).__name__}; open one with that head."
            )


def _list(pair) -> list | None:
    """The pair of the only text."""
    return None if pair is None else [pair]


def _check_masks(text, found: int, length: int) -> None:
    count = (
        text if isinstance(text, str) else text.decode("utf-8", "ignore")
    ).count("[MASK]")
    if not count:
        raise ValueError(
            f"A text needs a [MASK] to fill in, but {text[:40]!r} has none."
        )
    if found < count:
        raise ValueError(
            f"A text has {count} [MASK]s, but only {found} of them are among "
            f"the first {length} tokens, which the model reads; shorten it."
        )


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(
            f"{name}={value!r}, but it must be one of {', '.join(choices)}."
        )


def _rows_of(outputs: dict) -> list[dict]:
    """A dictionary of arrays [B, ...] as B dictionaries."""
    arrays = {name: value.numpy() for name, value in outputs.items()}
    count = len(next(iter(arrays.values())))
    return [{n: a[i] for n, a in arrays.items()} for i in range(count)]


def _normalize(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
