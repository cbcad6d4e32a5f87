"""Learns a WordPiece vocabulary from text.

The words of the text are counted on all processors. The vocabulary then holds
the special tokens, every character that occurs often enough, alone and as a
`##` continuation, and the pieces that tensorflow-text's learner finds: words
and word endings, the most frequent first. The same text gives the same file,
whatever the number of processes.
"""

import collections
import functools
import os
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from absl import logging

from keras_bert_ref.bars import progress_bar
from keras_bert_ref.commands import Options
from keras_bert_ref.files import unfinished
from keras_bert_ref.interruptions import discard_on_signals
from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.text_files import (
    Block,
    count_bytes,
    find_files,
    read_blocks,
)
from keras_bert_ref.tokenization import BasicTokenizer
from keras_bert_ref.vocabulary.flags import NUM_UNUSED

# What occurs once may be chance. In long texts chance goes further: a
# character must make up this share of them.
MIN_COUNT = 2
MIN_CHARACTER_SHARE = 1e-7

# The learner's memory grows with the number of distinct words.
MAX_DISTINCT_WORDS = 500_000


def learn_vocabulary(
    input_files: Sequence[str],
    vocab_size: int,
    do_lower_case: bool = True,
    num_unused: int = NUM_UNUSED,
    num_workers: int | None = None,
) -> list[str]:
    """Returns the tokens of a vocabulary for the text in `input_files`.

    Args:
        input_files: paths of UTF-8 text files.
        vocab_size: int. Number of tokens; a small text may yield fewer.
        do_lower_case: bool. Must be the same when the vocabulary is used.
        num_unused: int. Entries kept free for tokens of your own.
        num_workers: int. Processes to count with; default: all processors.
    """
    learner = _import_learner()
    tokenizer = BasicTokenizer(do_lower_case)
    word_counts = count_words(input_files, tokenizer, num_workers)
    characters = find_characters(word_counts)
    vocabulary = [
        *special_tokens(num_unused),
        *characters,
        *(f"##{c}" for c in characters if _can_continue(c, tokenizer)),
    ]
    if vocab_size < len(vocabulary):
        raise ValueError(
            f"vocab_size={vocab_size} is too small: {5 + num_unused} special "
            f"tokens and {len(characters)} characters take {len(vocabulary)} "
            f"entries; set --vocab_size to {len(vocabulary)} or more, or "
            "lower --num_unused."
        )
    room = vocab_size - len(vocabulary)
    vocabulary += learn_pieces(learner, word_counts, characters, room)
    if len(vocabulary) < vocab_size:
        logging.warning(
            "The text yields only %d of %d tokens; set vocab_size in "
            "bert_config.json accordingly.",
            len(vocabulary),
            vocab_size,
        )
    return vocabulary


def special_tokens(num_unused: int) -> list[str]:
    """The first tokens of every vocabulary; padding must have id 0."""
    unused = [f"[unused{index}]" for index in range(num_unused)]
    return ["[PAD]", *unused, "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def count_words(
    input_files: Sequence[str],
    tokenizer: BasicTokenizer,
    num_workers: int | None = None,
) -> dict[str, int]:
    """Returns word -> count, the most frequent first, ties by alphabet."""
    counts = collections.Counter()
    blocks = (block for path in input_files for block in read_blocks(path))
    with progress_bar(
        desc="counting words",
        total=count_bytes(input_files),
        unit="bytes",
        unit_scale=True,
    ) as progress:
        for num_bytes, block_counts in map_in_order(
            functools.partial(_count_block, tokenizer),
            blocks,
            num_workers or os.cpu_count(),
        ):
            counts.update(block_counts)
            progress.update(num_bytes)
    if not counts:
        raise ValueError(
            "A vocabulary is learned from words, but there are 0 in "
            f"{', '.join(input_files)}; pass files with text."
        )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _count_block(
    tokenizer: BasicTokenizer, block: Block
) -> tuple[int, Mapping[str, int]]:
    words = tokenizer.tokenize(block.decode())
    return len(block.text) + 1, dict(collections.Counter(words))


def find_characters(word_counts: Mapping[str, int]) -> list[str]:
    """Returns the characters that occur often enough, in code point order."""
    counts = collections.Counter()
    for word, count in word_counts.items():
        for character in word:
            counts[character] += count
    enough = max(MIN_COUNT, MIN_CHARACTER_SHARE * counts.total())
    return sorted(c for c, count in counts.items() if count >= enough)


def _can_continue(character: str, tokenizer: BasicTokenizer) -> bool:
    """Whether it ever stands inside a word: punctuation and CJK do not."""
    return len(tokenizer.tokenize(f"a{character}")) == 1


def learn_pieces(
    learner, word_counts: Mapping[str, int], characters: Iterable[str], n: int
) -> list[str]:
    """Returns the `n` best pieces of two characters or more.

    The learner returns all pieces that occur as often as a threshold says,
    so this looks for the highest threshold that still yields `n` of them.
    """
    characters = set(characters)
    words = {w: c for w, c in word_counts.items() if characters.issuperset(w)}
    if n == 0 or not words:
        return []

    def learn(threshold: int) -> list[str]:
        pieces = learner.learn(
            words,
            vocab_size=n,
            reserved_tokens=[],
            lower_thresh=threshold,
            upper_thresh=threshold,
            max_input_tokens=MAX_DISTINCT_WORDS,
            max_unique_chars=len(characters),
        )
        pieces = [p for p in pieces if len(p.removeprefix("##")) > 1]
        logging.info(
            "%d pieces occur at least %d times.", len(pieces), threshold
        )
        return pieces

    # Every frequent word is a piece, so their counts tell where to start.
    counts = [count for word, count in words.items() if len(word) > 1]
    low = max(MIN_COUNT, counts[n]) if n < len(counts) else MIN_COUNT
    best, high = learn(low), 2 * low
    if len(best) <= n:
        return best
    while len(pieces := learn(high)) >= n:
        best, low, high = pieces, high, 2 * high
    while high - low > 1 + low // 50:
        middle = (low + high) // 2
        pieces = learn(middle)
        if len(pieces) >= n:
            best, low = pieces, middle
        else:
            high = middle
    return best[:n]


def _import_learner():
    try:
        from tensorflow_text.tools.wordpiece_vocab import (
            wordpiece_tokenizer_learner_lib,
        )
    except ImportError as error:
        raise ImportError(
            "Learning a vocabulary needs tensorflow-text, which is not "
            "installed; run `pip install tensorflow-text` (Linux, macOS)."
        ) from error
    return wordpiece_tokenizer_learner_lib


@discard_on_signals()
def main(options: Options, _words=()) -> None:
    """The body of the command."""
    with unfinished([options.output_file], must_be_new=True) as (name,):
        vocabulary = learn_vocabulary(
            find_files(options.input_file),
            vocab_size=options.vocab_size,
            do_lower_case=options.do_lower_case,
            num_unused=options.num_unused,
            num_workers=options.num_workers,
        )
        with tf.io.gfile.GFile(name, "w") as file:
            file.write("".join(f"{token}\n" for token in vocabulary))
    logging.info("%d tokens, in %s.", len(vocabulary), options.output_file)
