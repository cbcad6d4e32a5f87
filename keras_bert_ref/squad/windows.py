"""SQuAD examples -> windows over their paragraphs -> features.

A model sees `[CLS] question [SEP] text [SEP]`. Where a paragraph is too long,
windows slide over it (sliding_windows.py), and each makes an input of its own.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_bert_ref.sliding_windows import (
    Window,
    find_max_context,
    find_windows,
)
from keras_bert_ref.squad.examples import SquadExample
from keras_bert_ref.squad.tokens import encode_examples
from keras_bert_ref.tokenization import (
    FullTokenizer,
    convert_ids_to_tokens,
)

FIRST_UNIQUE_ID = 1_000_000_000


@dataclasses.dataclass(slots=True, eq=False)
class InputFeatures:
    """A window: L tokens of `[CLS] question [SEP] text [SEP]`, unpadded.

    Attributes:
        unique_id: int, counted from 1,000,000,000.
        example_index: int. Which of the examples is asked.
        doc_span_index: int. Which of its windows this is.
        inv_vocab: from id to token.
        input_ids: int32 [L].
        segment_ids: int32 [L]; 1 in the text and the [SEP] that ends it.
        token_to_orig_map: int32 [L]; the index in `doc_tokens` of a token's
            word, -1 outside of the text.
        token_is_max_context: bool [L]; False outside of the text.
        start_position: int. For training, the answer's first token; 0, that
            is [CLS], unless the window holds the whole answer.
        end_position: int. Likewise its last token.
        is_impossible: bool. For training: the question has no answer.
    """

    unique_id: int
    example_index: int
    doc_span_index: int
    inv_vocab: Mapping[int, str]
    input_ids: np.ndarray
    segment_ids: np.ndarray
    token_to_orig_map: np.ndarray
    token_is_max_context: np.ndarray
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False

    @property
    def tokens(self) -> list[str]:
        return self.tokens_of(0, len(self.input_ids))

    def tokens_of(self, start: int, end: int) -> list[str]:
        """The tokens from start up to, not including, end."""
        ids = self.input_ids[start:end].tolist()
        return convert_ids_to_tokens(self.inv_vocab, ids)


def convert_examples_to_features(
    examples: Sequence[SquadExample],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    output_fn: Callable[[InputFeatures], object],
    num_workers: int | None = None,
) -> None:
    """Calls `output_fn` with every window of every example, in order.

    Args:
        examples: see `read_squad_examples`.
        tokenizer: FullTokenizer.
        max_seq_length: int. No input is longer.
        doc_stride: int. How far apart windows start.
        max_query_length: int. Longer questions are cut.
        is_training: bool. Whether answers are looked for.
        output_fn: `features.append`, a writer (`open_feature_writer`) or such.
        num_workers: int. Processes to tokenize with; default: all
            processors. It does not change the result.
    """
    if doc_stride < 1:
        raise ValueError(
            f"Windows must move on, but doc_stride={doc_stride}; set it to 1 "
            "or more."
        )
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    unique_id = itertools.count(FIRST_UNIQUE_ID)
    encoded = encode_examples(examples, tokenizer, is_training, num_workers)
    for index, (text_ids, word_index, query_ids, answer) in enumerate(encoded):
        query_ids = query_ids[:max_query_length]
        room = max_seq_length - len(query_ids) - 3
        if room < 1:
            raise ValueError(
                "An input must hold [CLS], the question, [SEP], some text and "
                f"[SEP], but max_seq_length={max_seq_length} and question "
                f"{examples[index].qas_id} has {len(query_ids)} tokens; raise "
                "max_seq_length or lower max_query_length="
                f"{max_query_length}."
            )
        offset = len(query_ids) + 2  # of the text
        windows = find_windows(len(text_ids), room, doc_stride)
        best_window = find_max_context(windows)
        for span_index, window in enumerate(windows):
            part = slice(window.start, window.start + window.length)
            input_ids = np.concatenate(
                ([cls], query_ids, [sep], text_ids[part], [sep]),
                dtype=np.int32,
            )
            feature = InputFeatures(
                unique_id=next(unique_id),
                example_index=index,
                doc_span_index=span_index,
                inv_vocab=tokenizer.inv_vocab,
                input_ids=input_ids,
                segment_ids=(np.arange(len(input_ids)) >= offset).astype(
                    np.int32
                ),
                token_to_orig_map=_frame(word_index[part], offset, -1),
                token_is_max_context=_frame(
                    best_window[part] == span_index, offset, False
                ),
            )
            if is_training:
                feature.start_position, feature.end_position = _place(
                    answer, window, offset
                )
                feature.is_impossible = examples[index].is_impossible
            output_fn(feature)


def _frame(values: np.ndarray, offset: int, fill: int) -> np.ndarray:
    """Puts what is known of the text in its place in the input."""
    framed = np.full(offset + len(values) + 1, fill, values.dtype)
    framed[offset:-1] = values
    return framed


def _place(
    answer: tuple[int, int] | None, window: Window, offset: int
) -> tuple[int, int]:
    """Where in the input the answer is; at [CLS] unless all of it is there."""
    if answer is None:
        return 0, 0
    first, last = answer
    if first < window.start or last >= window.start + window.length:
        return 0, 0
    return first - window.start + offset, last - window.start + offset
