"""A sentence or a pair of them -> tokens, as the model takes them."""

from keras_bert_ref.tokenization import FullTokenizer


def encode_pair(
    text_a: str | bytes,
    text_b: str | bytes | None,
    max_seq_length: int,
    tokenizer: FullTokenizer,
) -> tuple[list[int], list[int]]:
    """Returns ids and segments: `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`.

    What is too long is cut; where b has no tokens, a stands alone.
    """
    cls, sep = tokenizer.vocab["[CLS]"], tokenizer.vocab["[SEP]"]
    a = tokenizer.encode(text_a)
    b = tokenizer.encode(text_b) if text_b else []
    if not b:
        ids = [cls, *a[: max_seq_length - 2], sep]
        return ids, [0] * len(ids)
    truncate_pair(a, b, max_seq_length - 3)
    segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    return [cls, *a, sep, *b, sep], segments


def truncate_pair(a: list[int], b: list[int], max_length: int) -> None:
    """Cuts tokens off the end of the longer until both fit; b on a tie."""
    while len(a) + len(b) > max_length:
        (a if len(a) > len(b) else b).pop()
