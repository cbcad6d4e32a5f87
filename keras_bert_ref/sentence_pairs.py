"""A sentence or a pair of them -> tokens, as the model takes them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from keras_bert_ref.tokenization import FullTokenizer

MAX_SEQ_LENGTH = 128  # of batches made by hand; the commands' default too
Texts = Iterable[str | bytes]


class EncodedPair(NamedTuple):
    """Ids of L tokens and the segments these are in."""

    input_ids: list[int]
    segment_ids: list[int]


def make_batch(
    tokenizer: FullTokenizer,
    texts: Texts,
    pairs: Texts | None = None,
    *,
    max_seq_length: int = MAX_SEQ_LENGTH,
    padding: str = "longest",
    keep_mask: bool = False,
) -> dict:
    """Makes a batch of texts, or of texts and what they are paired with.

    Args:
        texts: str or UTF-8 bytes, a list of them.
        pairs: as many second texts.
        max_seq_length: int. What is too long is cut, as in the original.
        padding: "longest": as long as the longest sequence; or "max_length".
        keep_mask: bool. [MASK] in a text is the mask, not three words.

    Returns:
        `input_ids`, `input_mask`, `segment_ids`, int32 arrays [B, T].
    """
    encoded = encode_pairs(
        tokenizer, texts, pairs, max_seq_length, keep_mask=keep_mask
    )
    if padding not in ("longest", "max_length"):
        raise ValueError(
            f"padding={padding!r}, but it must be longest or max_length."
        )
    return pad(encoded, max_seq_length if padding == "max_length" else None)


def encode_pairs(
    tokenizer: FullTokenizer,
    texts: Texts,
    pairs: Texts | None,
    max_seq_length: int,
    keep_mask: bool = False,
) -> list[EncodedPair]:
    """Encodes each text with its pair; refuses what is not texts."""
    texts = list_texts(texts)
    pairs = [None] * len(texts) if pairs is None else list_texts(pairs)
    if len(texts) != len(pairs):
        raise ValueError(
            f"Every text needs a text it is paired with, but there are "
            f"{len(texts)} texts and {len(pairs)} pairs."
        )
    if max_seq_length < 3:
        raise ValueError(
            f"max_seq_length={max_seq_length}, but [CLS], [SEP] and [SEP] "
            "alone are three tokens; make it longer."
        )
    return [
        EncodedPair(*encode_pair(a, b, max_seq_length, tokenizer, keep_mask))
        for a, b in zip(texts, pairs, strict=True)
    ]


def list_texts(texts: Texts) -> list:
    """A list of whatever holds several texts."""
    if isinstance(texts, str | bytes):
        raise ValueError(
            f"Texts come as a list, got one text ({texts[:40]!r}); put it "
            "into a list of one."
        )
    if isinstance(texts, Mapping) or not isinstance(texts, Iterable):
        raise ValueError(
            f"Texts come as a list of str, got {type(texts).__name__}."
        )
    return list(texts)


def pad(encoded: Sequence[EncodedPair], length: int | None = None) -> dict:
    """Makes a batch of sequences: int32 [B, length], or the longest."""
    from keras_bert_ref.records.serialization import pad_rows

    if length is None:
        length = max((len(row.input_ids) for row in encoded), default=0)
    return pad_rows(encoded, length)


def encode_pair(
    text_a: str | bytes,
    text_b: str | bytes | None,
    max_seq_length: int,
    tokenizer: FullTokenizer,
    keep_mask: bool = False,
) -> tuple[list[int], list[int]]:
    """Returns ids and segments: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

    What is too long is cut; where b has no tokens, a stands alone.
    """
    cls, sep = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    a = tokenizer.encode(text_a, keep_mask)
    b = tokenizer.encode(text_b, keep_mask) if text_b else []
    if not b:
        ids = [cls, *a[: max_seq_length - 2], sep]
        return ids, [0] * len(ids)
    truncate_pair(a, b, max_seq_length - 3)
    segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    return [cls, *a, sep, *b, sep], segments


def truncate_pair(a: list[int], b: list[int], max_length: int) -> None:
    """Cuts tokens off the end of the longer until both fit; b on a tie."""
    size_a, size_b = len(a), len(b)
    half = max_length // 2
    del a[max(max_length - size_b, max_length - half) :]
    del b[max(max_length - size_a, half) :]
