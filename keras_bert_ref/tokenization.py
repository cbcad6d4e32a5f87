"""Text -> words -> WordPiece tokens -> ids, as BERT was trained with.

`BasicTokenizer` cleans text and splits it into words and punctuation;
`WordpieceTokenizer` cuts each word into the longest pieces the vocabulary
knows; `FullTokenizer` does both. This module needs no TensorFlow.

Two memories make it fast and change no result: characters are looked up in
tables that fill themselves (characters.py), and the ids of what stands
between two spaces are computed once and then remembered (`_IdCache`), so
that long texts cost little more than a split and one look-up a word.
"""

import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from keras_bert_ref.characters import (
    CLEAN,
    ISOLATE_PUNCTUATION,
    STRIP_ACCENTS,
)

# A vocabulary file, or its lines: callers that read from gs:// pass lines.
VocabFile = str | os.PathLike | Iterable[str | bytes]

# Without these no input can be made. [MASK] is needed for pre-training only
# and padding is always id 0, so those two are merely warned about.
REQUIRED_TOKENS = ("[UNK]", "[CLS]", "[SEP]")

_join = chain.from_iterable

# str.split() cuts at these control characters; the clean-up drops them
# first, which joins what stands left and right of them.
_DROPPED_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")

_MINIATURES = [
    f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"
    for layers in (2, 4, 6, 8, 10, 12)
    for hidden in (128, 256, 512, 768)
]
LOWER_CASED_MODELS = (
    *_MINIATURES,  # uncased_L-12_H-768_A-12, BERT-Base, is among them
    "uncased_L-24_H-1024_A-16",
    "wwm_uncased_L-24_H-1024_A-16",
    "multilingual_L-12_H-768_A-12",
    "chinese_L-12_H-768_A-12",
)
CASED_MODELS = (
    "cased_L-12_H-768_A-12",
    "cased_L-24_H-1024_A-16",
    "wwm_cased_L-24_H-1024_A-16",
    "multi_cased_L-12_H-768_A-12",
)


class BasicTokenizer:
    """Splits text into words, ideographs and punctuation marks.

    Args:
        do_lower_case: bool. Lower-case and strip accents.
    """

    def __init__(self, do_lower_case: bool = True):
        self.do_lower_case = do_lower_case

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the words of `text`; none is empty or holds a space."""
        text = convert_to_unicode(text).translate(CLEAN)
        if not self.do_lower_case:
            return text.translate(ISOLATE_PUNCTUATION).split()
        # Lower-casing looks at neighbours (final sigma), never beyond a
        # space, and must see them before punctuation is split off.
        text = unicodedata.normalize("NFD", text.lower())
        return text.translate(STRIP_ACCENTS).split()


class WordpieceTokenizer:
    """Cuts words into the longest pieces found in the vocabulary.

    Args:
        vocab: mapping from token to id; continuations start with `##`.
        unk_token: str. Stands for a word that cannot be put together.
        max_input_chars_per_word: int. Longer words become `unk_token`.
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        unk_token: str = "[UNK]",
        max_input_chars_per_word: int = 200,
    ):
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word
        self._longest = max(map(len, vocab), default=0)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the pieces of every whitespace-delimited word."""
        words = whitespace_tokenize(convert_to_unicode(text))
        return list(_join(map(self.split_word, words)))

    def split_word(self, word: str) -> list[str]:
        """Returns the pieces of one word, greedily from the left."""
        if len(word) > self.max_input_chars_per_word:
            return [self.unk_token]
        pieces = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(min(len(word), start + self._longest), start, -1):
                piece = prefix + word[start:end]
                if piece in self.vocab:
                    break
            else:
                return [self.unk_token]
            pieces.append(piece)
            start = end
        return pieces


class _IdCache(dict):
    """Remembers the ids of texts; starts afresh when it is full.

    The limits bound the memory and keep out the sentences of scripts that
    are written without spaces, which hardly ever recur.
    """

    MAX_ENTRIES = 2**18
    MAX_TEXT_LENGTH = 32

    def __init__(self, encode: Callable[[str], tuple[int, ...]]):
        super().__init__()
        self._encode = encode

    def __missing__(self, text: str) -> tuple[int, ...]:
        ids = self._encode(text)
        if len(text) <= self.MAX_TEXT_LENGTH:
            if len(self) >= self.MAX_ENTRIES:
                self.clear()
            self[text] = ids
        return ids


class FullTokenizer:
    """From text to WordPiece tokens and their ids.

    Args:
        vocab_file: path of a local vocabulary file, or of the folder that
            has it as vocab.txt; or its lines.
        do_lower_case: bool. Must fit the model: see
            `validate_case_matches_checkpoint`.

    Call arguments: those of `sentence_pairs.make_batch`, which it returns.
    """

    def __init__(self, vocab_file: VocabFile, do_lower_case: bool = True):
        is_path = isinstance(vocab_file, str | os.PathLike)
        if is_path and os.path.isdir(vocab_file):
            vocab_file = os.path.join(vocab_file, "vocab.txt")
        self.vocab = load_vocab(vocab_file)
        self.inv_vocab = {index: token for token, index in self.vocab.items()}
        self.basic_tokenizer = BasicTokenizer(do_lower_case)
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)
        self._reset_caches()

    def __call__(self, texts, pairs=None, **kwargs) -> dict:
        """Makes a batch for a model; see `sentence_pairs.make_batch`."""
        from keras_bert_ref.sentence_pairs import make_batch

        return make_batch(self, texts, pairs, **kwargs)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the tokens of `text`, all of them in the vocabulary."""
        return list(map(self.inv_vocab.__getitem__, self.encode(text)))

    def decode(self, ids: Iterable[int]) -> str:
        """Returns ids as text: pieces joined, [CLS], [SEP], [PAD] left out.

        What the tokenizer dropped, case and spaces for instance, stays lost.
        """
        tokens = self.convert_ids_to_tokens(map(int, ids))
        framing = ("[CLS]", "[SEP]", "[PAD]")
        kept = (token for token in tokens if token not in framing)
        return " ".join(kept).replace(" ##", "")

    def encode(self, text: str | bytes, keep_mask: bool = False) -> list[int]:
        """Returns the ids of the tokens of `text`.

        Args:
            keep_mask: bool. [MASK] in the text is the mask, not three words.
        """
        text = convert_to_unicode(text)
        if keep_mask:
            first, *others = map(self.encode, text.split("[MASK]"))
            mask = self.convert_tokens_to_ids(["[MASK]"]) if others else []
            return list(_join([first, *(mask + part for part in others)]))
        # isprintable() is a quick look that settles it for most texts.
        if not text.isprintable() and _DROPPED_SPACES.search(text):
            text = text.translate(CLEAN)
        return list(_join(map(self._chunk_ids.__getitem__, text.split())))

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Returns the ids of `tokens`; an unknown token is an error."""
        return convert_tokens_to_ids(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns the tokens of `ids`; an unknown id is an error."""
        return convert_ids_to_tokens(self.inv_vocab, ids)

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        """Ids of what stands between two spaces, as in `(well-known)`."""
        words = self.basic_tokenizer.tokenize(chunk)
        return tuple(_join(map(self._word_ids.__getitem__, words)))

    def _encode_word(self, word: str) -> tuple[int, ...]:
        """Ids of one word or punctuation mark."""
        pieces = self.wordpiece_tokenizer.split_word(word)
        return tuple(map(self.vocab.__getitem__, pieces))

    def _reset_caches(self) -> None:
        self._chunk_ids = _IdCache(self._encode_chunk)
        self._word_ids = _IdCache(self._encode_word)

    def __getstate__(self) -> dict:
        """Pickles without the caches: another process fills its own."""
        return {**self.__dict__, "_chunk_ids": None, "_word_ids": None}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._reset_caches()


def convert_to_unicode(text: str | bytes) -> str:
    """Returns `text` as str; bytes are UTF-8, invalid ones are dropped."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(
        f"Text must be str or UTF-8 bytes, got {type(text).__name__}; "
        "convert it first."
    )


def whitespace_tokenize(text: str) -> list[str]:
    """Returns the whitespace-delimited words of `text`."""
    return text.split()


def load_vocab(vocab_file: VocabFile) -> dict[str, int]:
    """Returns token -> id, the ids being line numbers from 0.

    Lines end at LF only and are stripped. Of duplicates the last id wins,
    but the first one's place in the order stays; a blank entry is legal.
    """
    name = getattr(vocab_file, "name", "the vocabulary")
    lines = vocab_file
    if isinstance(vocab_file, str | os.PathLike):
        name = os.fspath(vocab_file)
        with open(name, "rb") as file:
            lines = file.readlines()  # in binary mode LF alone ends a line
    vocab: dict[str, int] = {}
    duplicates = []
    for index, line in enumerate(lines):
        try:
            token = line.decode() if isinstance(line, bytes) else line
        except UnicodeDecodeError as error:
            raise ValueError(
                f"A vocabulary must be UTF-8, but line {index + 1} of {name} "
                f"is not: {line!r}; convert the file to UTF-8."
            ) from error
        token = token.strip()
        if token in vocab:
            duplicates.append(token)
        vocab[token] = index
    if not any(vocab):
        raise ValueError(
            f"A vocabulary needs one token a line, but {name} has no "
            "entries; pass the vocab.txt of your model."
        )
    missing = [token for token in REQUIRED_TOKENS if token not in vocab]
    if missing:
        raise ValueError(
            f"A vocabulary needs the tokens {', '.join(REQUIRED_TOKENS)}, but "
            f"{name} ({len(vocab)} entries) lacks {', '.join(missing)}; pass "
            "the vocab.txt of your model."
        )
    for oddity in _find_oddities(vocab, duplicates):
        warnings.warn(f"{name} {oddity}.", stacklevel=3)
    return vocab


def _find_oddities(
    vocab: Mapping[str, int], duplicates: Sequence[str]
) -> Iterator[str]:
    """Yields what is legal in a vocabulary, but worth a warning."""
    if duplicates:
        yield (
            f"has {len(duplicates)} duplicate entries, {duplicates[0]!r} for "
            "one; the last id of each wins"
        )
    if "" in vocab:
        yield f"has a blank entry (id {vocab['']}), which no text matches"
    if "[MASK]" not in vocab:
        yield "lacks [MASK], which pre-training needs"
    if vocab.get("[PAD]") != 0:
        yield "does not start with [PAD], but padding is always id 0"


def convert_tokens_to_ids(
    vocab: Mapping[str, int], tokens: Iterable[str]
) -> list[int]:
    """Returns the ids of `tokens`; a token not in `vocab` is an error."""
    return _look_up(vocab, tokens, "token", "tokenize the text first")


def convert_ids_to_tokens(
    inv_vocab: Mapping[int, str], ids: Iterable[int]
) -> list[str]:
    """Returns the tokens of `ids`; an id not in `inv_vocab` is an error."""
    return _look_up(inv_vocab, ids, "id", "use the vocabulary that made it")


def _look_up(table: Mapping, keys: Iterable, kind: str, fix: str) -> list:
    try:
        return [table[key] for key in keys]
    except KeyError as error:
        raise ValueError(
            f"Every {kind} must be in the vocabulary ({len(table)} entries), "
            f"got {error.args[0]!r}; {fix}."
        ) from None


def validate_case_matches_checkpoint(
    do_lower_case: bool, init_checkpoint: str | None
) -> None:
    """Raises if a released model's name contradicts the casing flag.

    Args:
        do_lower_case: bool. What the tokenizer is told.
        init_checkpoint: path of a checkpoint or of its folder. Names other
            than the released ones say nothing and pass.
    """
    for name in re.split(r"[/\\]+", (init_checkpoint or "").rstrip("/\\"))[-2:]:
        is_lower_cased = name in LOWER_CASED_MODELS
        if not is_lower_cased and name not in CASED_MODELS:
            continue
        if is_lower_cased != bool(do_lower_case):
            raise ValueError(
                "The casing of the text must fit the checkpoint: "
                f"--do_lower_case={do_lower_case}, but {name} "
                f"({init_checkpoint}) was trained on "
                f"{'lower-cased' if is_lower_cased else 'cased'} text; set "
                f"--do_lower_case={is_lower_cased} or use another checkpoint."
            )
