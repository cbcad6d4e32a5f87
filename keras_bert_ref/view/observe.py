"""What a model does with one text, as the data of a page.

Shapes: L layers, N heads, T tokens, H head size, D hidden, V vocabulary.
"""

import numpy as np
import tensorflow as tf

from keras_bert_ref import heads
from keras_bert_ref.pages.page import pack_array
from keras_bert_ref.tokenization import FullTokenizer

MAX_TOKENS = 128
NUM_PREDICTIONS = 5
NUM_NEIGHBOURS = 8
SPECIAL = ("[CLS]", "[SEP]")


def observe(
    model,
    tokenizer: FullTokenizer,
    text_a: str,
    text_b: str | None = None,
    *,
    name: str,
    labels=(),
) -> dict:
    """Runs a model on a text or a pair, and keeps what happens inside.

    Args:
        model: a BertModel, or one with a head.
        name: of the model, shown where there are two.
        labels: of a classifier's or tagger's outputs.
    """
    if not model.built:
        model.build()
    bert = getattr(model, "bert", model)
    tokens, segments = _tokenize(tokenizer, text_a, text_b)
    _check_length(tokens, bert.config.max_position_embeddings)
    ids = np.array([tokenizer.convert_tokens_to_ids(tokens)], "int32")
    batch = {"input_ids": ids, "segment_ids": np.array([segments], "int32")}
    inside = bert(
        batch["input_ids"],
        segment_ids=batch["segment_ids"],
        return_attention_probs=True,
        return_queries_and_keys=True,
    )

    def stack(name: str) -> dict:
        values = np.stack([np.array(x[0]) for x in inside[name]])
        return pack_array(values, "float16")

    has_words = isinstance(model, heads.BertPretraining)
    return {
        "name": name,
        "tokens": tokens,
        "segments": segments,
        "attention": stack("attention_probs"),  # [L, N, T, T]
        "queries": stack("queries"),  # [L, N, T, H]
        "keys": stack("keys"),
        "embeddings": _embeddings(bert, ids[0], inside),
        "neighbours": _neighbours(bert, tokenizer, ids[0]),
        "predictions": _masked_words(model, tokenizer, tokens, batch)
        if has_words
        else None,
        "outputs": _outputs(model, tokens, batch, labels),
    }


def _tokenize(tokenizer, text_a: str, text_b: str | None):
    first = ["[CLS]", *tokenizer.tokenize(text_a), "[SEP]"]
    if text_b is None:
        return first, [0] * len(first)
    second = [*tokenizer.tokenize(text_b), "[SEP]"]
    return first + second, [0] * len(first) + [1] * len(second)


def _check_length(tokens: list[str], max_position_embeddings: int) -> None:
    limit = min(MAX_TOKENS, max_position_embeddings)
    if len(tokens) > limit:
        raise ValueError(
            f"A page shows at most {limit} tokens of this model, [CLS] and "
            f"[SEP] included, but the text has {len(tokens)}; shorten it."
        )
    if all(token in SPECIAL for token in tokens):
        raise ValueError("The text has no words; give --text some to look at.")


def _embeddings(bert, ids: np.ndarray, inside: dict) -> dict:
    layer = bert.embeddings
    arrays = {
        "word": layer.word_embeddings.numpy()[ids],  # [T, D]
        "segment": layer.token_type_embeddings.numpy()[:2],
        "position": layer.position_embeddings.numpy()[: len(ids)],
        "output": np.array(inside["embedding_output"][0]),
    }
    return {k: pack_array(v, "float16") for k, v in arrays.items()}


def _neighbours(bert, tokenizer, ids: np.ndarray) -> list:
    """For each token the words with the most similar vectors, by cosine."""
    table = bert.embeddings.word_embeddings.numpy()  # [V, D]
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    table = table / np.maximum(norms, 1e-12)
    nearness = table[ids] @ table.T  # [T, V]
    nearness[np.arange(len(ids)), ids] = -np.inf  # not the word itself
    return [_best(row, tokenizer, NUM_NEIGHBOURS) for row in nearness]


def _masked_words(model, tokenizer, tokens: list[str], batch: dict) -> list:
    """For each word, masked, the predictions of all layers, the embeddings
    first; None for [CLS] and [SEP]."""
    places = [i for i, token in enumerate(tokens) if token not in SPECIAL]
    ids = np.repeat(batch["input_ids"], len(places), axis=0)
    ids[np.arange(len(places)), places] = tokenizer.vocab["[MASK]"]
    segments = np.repeat(batch["segment_ids"], len(places), axis=0)
    inside = model.bert(ids, segment_ids=segments)
    layers = [inside["embedding_output"], *inside["all_encoder_layers"]]
    found: list = [None] * len(tokens)
    for i in places:
        found[i] = []
    for layer in layers:
        x = tf.gather(layer, np.array(places)[:, None], batch_dims=1)
        table = model.bert.embeddings.word_embeddings
        logits = model.predictions(x, table)[:, 0]  # [words, V]
        for i, row in zip(places, tf.nn.softmax(logits).numpy(), strict=True):
            found[i].append(_best(row, tokenizer, NUM_PREDICTIONS))
    return found


def _best(row: np.ndarray, tokenizer, count: int) -> list:
    """The largest numbers of a row [V], with the words they belong to."""
    count = min(count, len(row) - 1)
    best = np.argpartition(row, -count)[-count:]
    best = best[np.argsort(-row[best])]
    words = tokenizer.convert_ids_to_tokens(best.tolist())
    return [
        [word, float(value)]
        for word, value in zip(words, row[best], strict=True)
        if np.isfinite(value)
    ]


def _outputs(model, tokens: list[str], batch: dict, labels) -> list[dict]:
    """What a head says of the text."""
    if isinstance(model, heads.BertPretraining):
        positions = np.zeros((1, 1), "int32")
        logits = model({**batch, "masked_lm_positions": positions})
        shares = _softmax(logits["next_sentence_logits"][0])
        names = ("B really follows A", "B is from elsewhere")
        is_pair = bool(batch["segment_ids"].any())
        return [_shares("Next sentence", names, shares)] if is_pair else []
    if isinstance(model, heads.BertSpan):
        return [_answer(tokens, batch, model(batch))]
    if isinstance(model, heads.BertTagger):
        names = _names(model, labels)
        tags = np.argmax(model(batch)[0], axis=-1)
        pairs = [f"{t} {names[i]}" for t, i in zip(tokens, tags, strict=True)]
        return [{"title": "Tags", "text": ", ".join(pairs)}]
    if isinstance(model, heads.BertClassifier):
        logits = model(batch)[0]
        if model.num_labels == 1:
            return [{"title": "Score", "text": f"{float(logits[0]):.3f}"}]
        return [_shares("Classes", _names(model, labels), _softmax(logits))]
    return []


def _names(model, labels) -> list[str]:
    return list(labels) or [f"class {i}" for i in range(model.num_labels)]


def _shares(title: str, names, shares) -> dict:
    pairs = [[str(n), float(s)] for n, s in zip(names, shares, strict=True)]
    return {"title": title, "shares": pairs}


def _answer(tokens: list[str], batch: dict, logits: dict) -> dict:
    """The best span within the second text, the passage."""
    start, end = (
        np.array(logits[name][0]) for name in ("start_logits", "end_logits")
    )
    is_passage = (batch["segment_ids"][0] == 1) & (np.array(tokens) != "[SEP]")
    # [T, T]: a span starts in a row and ends in a column, not before it.
    spans = start[:, None] + end[None, :]
    is_span = np.triu(is_passage[:, None] & is_passage[None, :])
    answer = {
        "title": "Answer",
        "text": "For an answer, --text is the question and --text_b the "
        "passage.",
        "scores": {"start": start.tolist(), "end": end.tolist()},
    }
    if is_span.any():
        best = np.where(is_span, spans, -np.inf).argmax()
        first, last = (int(i) for i in np.unravel_index(best, spans.shape))
        answer["span"] = [first, last]
        answer["text"] = " ".join(tokens[first : last + 1]).replace(" ##", "")
    return answer


def _softmax(logits) -> np.ndarray:
    return tf.nn.softmax(tf.cast(logits, tf.float32)).numpy()
