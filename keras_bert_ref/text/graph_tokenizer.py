"""The tokenizer as TensorFlow operations: strings in, ids out, in any graph.

It gives the ids of `FullTokenizer`, whose functions fill its tables, for every
text that can be in a string tensor: bytes that are not UTF-8 are dropped.
Each step works on all characters of a batch at once:

    texts -> distinct chunks between spaces -> code points -> what neighbours
    change -> the table of characters -> words -> pieces -> ids

In plain ASCII there is nothing to look up: it is lower-cased, and WordPiece
itself splits it at spaces and punctuation.

Shapes: B texts, K chunks, U distinct chunks, C characters, W words. A ragged
tensor is written [B, (n)].
"""

import tensorflow as tf

from keras_bert_ref.text import character_table
from keras_bert_ref.tokenization import FullTokenizer

# No entry of a vocabulary, which has one a line, holds an end of line.
UNKNOWN_WORD = "\n"
BYTES_PER_CHARACTER = 4  # of UTF-8, at most
PLAIN = "[ -~]*"  # printable ASCII


class GraphTokenizer(tf.Module):
    """Gives the ids of `FullTokenizer.encode` for a tensor of strings.

    Args:
        tokenizer: FullTokenizer. Its vocabulary and casing are used.
        keep_mask: bool. [MASK] in a text is the mask, not three words.
    """

    def __init__(self, tokenizer: FullTokenizer, keep_mask: bool = False):
        super().__init__()
        wordpiece = tokenizer.wordpiece_tokenizer
        self.do_lower_case = tokenizer.basic_tokenizer.do_lower_case
        self.mask_id = find_mask(tokenizer) if keep_mask else None
        self.max_characters = wordpiece.max_input_chars_per_word
        self.splitter = WordSplitter(self.do_lower_case)
        self.wordpiece = make_wordpiece(
            tokenizer.vocab,
            wordpiece.unk_token,
            max_bytes=self.max_characters * BYTES_PER_CHARACTER,
        )
        self.plain_wordpiece = make_wordpiece(
            tokenizer.vocab,
            wordpiece.unk_token,
            max_bytes=self.max_characters,
            is_plain=True,
        )

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string)], autograph=False
    )
    def encode(self, texts):
        """Strings [B] -> ids, ragged int32 [B, (tokens)]."""
        if self.mask_id is not None:
            texts = tf.strings.regex_replace(texts, r"\[MASK\]", " [MASK] ")
            return self.encode_by_chunks(texts)
        return tf.cond(
            tf.reduce_all(tf.strings.regex_full_match(texts, PLAIN)),
            lambda: self.encode_plain(texts),
            lambda: self.encode_by_chunks(texts),
        )

    def encode_plain(self, texts):
        """Strings of printable ASCII [B] -> ids [B, (n)]."""
        if self.do_lower_case:
            texts = tf.strings.lower(texts)
        return self.plain_wordpiece.tokenize(texts)

    def encode_by_chunks(self, texts):
        """Strings [B] -> ids [B, (n)], by way of distinct chunks."""
        chunks = tf.strings.split(texts, " ")  # [B, (K)]
        # A batch says most of its words several times.
        distinct, indices = tf.unique(chunks.values)  # [U], [K]
        is_plain = tf.strings.regex_full_match(distinct, PLAIN)
        plain, others = tf.where(is_plain)[:, 0], tf.where(~is_plain)[:, 0]
        order = tf.cast(tf.concat([plain, others], axis=0), tf.int32)
        indices = tf.gather(tf.math.invert_permutation(order), indices)
        plain, others = tf.gather(distinct, plain), tf.gather(distinct, others)
        if self.mask_id is not None:
            is_mask = plain == "[MASK]"
            plain = tf.where(is_mask, "", plain)
        ids = self.encode_plain(plain)
        if self.mask_id is not None:
            ones = tf.cast(is_mask, tf.int64)
            masks = tf.fill([tf.reduce_sum(ones)], self.mask_id)
            masks = tf.RaggedTensor.from_row_lengths(masks, ones)
            ids = tf.concat([ids, masks], axis=1)
        ids = tf.concat([ids, self.encode_chunks(others)], axis=0)  # [U, (n)]
        ids = chunks.with_values(tf.gather(ids, indices))  # [B, (K), (n)]
        return ids.merge_dims(1, 2)

    def encode_chunks(self, chunks):
        """What stands between spaces, [U] -> ids [U, (n)]."""
        words = self.splitter.split(chunks)  # [U, (W)]
        sizes = tf.strings.length(words.values, unit="UTF8_CHAR")
        is_known = sizes <= self.max_characters
        known = tf.where(is_known, words.values, UNKNOWN_WORD)
        pieces = self.wordpiece.tokenize(known)  # [W, (n)]
        return words.with_values(pieces).merge_dims(1, 2)


class WordSplitter:
    """Splits strings into words, as BasicTokenizer does.

    Args:
        do_lower_case: bool. Lower-cases, and strips accents.
    """

    def __init__(self, do_lower_case: bool):
        self.do_lower_case = do_lower_case
        self.table = character_table.make_character_table(do_lower_case)

    def split(self, chunks):
        """Strings [U] -> words [U, (W)], with a blank one for each space."""
        table = self.table
        # All chunks are one text, so that a space ends whatever must not go
        # beyond a chunk.
        text = tf.strings.reduce_join(chunks, separator=" ")
        codes = tf.strings.unicode_decode(text, "UTF-8", errors="ignore")
        places = self.find_places(codes)
        entries = tf.gather(table.entries, places)
        codes, entries = tf.cond(
            tf.reduce_any(tf.bitwise.bitwise_and(entries, 4) > 0),
            lambda: self.look_at_neighbours(codes, places),
            lambda: (codes, entries),
        )
        kinds = tf.bitwise.bitwise_and(entries, 3)
        shifts = tf.bitwise.right_shift(entries, 3)  # keeps the sign
        # Parts of a word stand together, all else stands alone.
        stands_alone = kinds != character_table.PART
        is_first = stands_alone | tf.concat([[True], stands_alone], 0)[:-1]
        firsts = tf.where(is_first)[:, 0]  # [W]
        words = tf.RaggedTensor.from_row_starts(
            codes + shifts, firsts, validate=False
        )  # [W, (C)]
        words = tf.strings.unicode_encode(words, "UTF-8")
        is_space = tf.gather(kinds, firsts) == character_table.SPACE
        words = tf.where(is_space, "", words)
        # The words of a chunk are those that start before the space after it.
        spaces = tf.where(codes == ord(" "))[:, 0]
        ends = tf.searchsorted(firsts, spaces, out_type=tf.int64)
        splits = tf.concat([[0], ends, [tf.size(firsts, tf.int64)]], axis=0)
        # No chunk at all is one empty text.
        splits = splits[: tf.size(chunks) + 1]
        return tf.RaggedTensor.from_row_splits(words, splits, validate=False)

    def look_at_neighbours(self, codes, places):
        """What a look at each character for itself does not do."""
        if self.do_lower_case:
            codes = self.mark_final_sigmas(codes, places)
            codes = self.expand(codes, places)
            codes = self.sort_marks(codes)
        entries = tf.gather(self.table.entries, self.find_places(codes))
        kinds = tf.bitwise.bitwise_and(entries, 3)
        kept = tf.where(kinds != character_table.DROPPED)[:, 0]
        return tf.gather(codes, kept), tf.gather(entries, kept)

    def mark_final_sigmas(self, codes, places):
        """Makes a capital sigma at the end of a word a final one.

        It is final if the nearest character before it that counts is a cased
        letter, and the nearest after it is not.
        """
        classes = tf.gather(self.table.sigma_classes, places)
        counts = tf.where(classes != character_table.IGNORED)[:, 0]
        is_cased = tf.gather(classes, counts) == character_table.CASED
        is_cased = tf.concat([[False], is_cased, [False]], axis=0)
        capital = ord(character_table.CAPITAL_SIGMA)
        is_sigma = tf.gather(codes, counts) == capital
        is_final = is_sigma & is_cased[:-2] & ~is_cased[2:]
        finals = tf.boolean_mask(counts, is_final)[:, None]
        sigmas = tf.fill([tf.size(finals)], ord(character_table.FINAL_SIGMA))
        return tf.tensor_scatter_nd_update(codes, finals, sigmas)

    def expand(self, codes, places):
        """Replaces characters that become several."""
        indices = tf.gather(self.table.expansions, places)
        expanded = tf.gather(
            tf.ragged.constant(
                self.table.expanded, tf.int32, row_splits_dtype=tf.int64
            ),
            indices,
        )  # [C, (n)]
        itself = tf.repeat(codes, expanded.row_lengths())
        return tf.where(expanded.values == 0, itself, expanded.values)

    def sort_marks(self, codes):
        """Sorts by class what stands between characters of class 0, as
        Unicode's normal forms do."""
        classes = tf.gather(self.table.order_classes, self.find_places(codes))
        sequence = tf.cumsum(tf.cast(classes == 0, tf.int64))
        keys = sequence * character_table.PAGE_SIZE + tf.cast(classes, tf.int64)
        return tf.gather(codes, tf.argsort(keys, stable=True))

    def find_places(self, codes):
        """Where code points stand in the table."""
        size = character_table.PAGE_SIZE
        page = tf.gather(self.table.pages, codes // size)
        return page * size + codes % size


def find_mask(tokenizer: FullTokenizer) -> int:
    if "[MASK]" not in tokenizer.vocab:
        raise ValueError(
            "The vocabulary has no [MASK], so no text can hold one; use the "
            "vocabulary of a model that was pre-trained on masked words, or "
            "leave keep_mask out."
        )
    return tokenizer.vocab["[MASK]"]


def make_wordpiece(
    vocab: dict[str, int], unk_token: str, max_bytes: int, is_plain=False
):
    """tensorflow-text's WordPiece, which works on a trie of the vocabulary.

    Its vocabulary is a list. Entries that no text matches stand in for ids
    without a token: blank entries, all but the last of duplicates, and what
    UTF-8 cannot write.

    Args:
        max_bytes: int. Longer words are unknown.
        is_plain: bool. For texts of printable ASCII, which it splits at spaces
            and punctuation; else for words.
    """
    import tensorflow_text

    tokens = [f"\n{i}" for i in range(1 + max(vocab.values()))]
    for token, index in vocab.items():
        if is_plain and not token.isascii():
            continue
        if token and token == token.encode("utf-8", "ignore").decode():
            tokens[index] = token
    if is_plain:
        tokens.append("é")  # it needs a word, and texts have none of these
    return tensorflow_text.FastWordpieceTokenizer(
        vocab=tokens,
        suffix_indicator="##",
        max_bytes_per_word=max_bytes,
        token_out_type=tf.int32,
        unknown_token=unk_token,
        no_pretokenization=not is_plain,
    )
