"""Files of SQuAD: questions in, records out (paper, sections 4.2 and 4.3).

Any data in SQuAD's format will do: articles made of paragraphs, each with a
context and questions about it.
"""

import bisect
import collections
import contextlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref.records.batches import Records, count_records
from keras_bert_ref.records.files import open_outputs
from keras_bert_ref.records.padding import pad_rows
from keras_bert_ref.records.serialization import serialize
from keras_bert_ref.squad.tokens import SquadExample
from keras_bert_ref.squad.windows import (
    InputFeatures,
    convert_examples_to_features,
)
from keras_bert_ref.tokenization import FullTokenizer, whitespace_tokenize

# Only these five end a word, whatever else Unicode holds for white space.
_WORD = re.compile("[^ \t\r\n\u202f]+")
RECORDS_PER_WRITE = 1024


def read_articles(input_file: str) -> list[dict]:
    """Returns the articles of a file in SQuAD's format."""
    with tf.io.gfile.GFile(input_file, "rb") as file:
        content = file.read()
    try:
        return json.loads(content)["data"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            "SQuAD's format is JSON with a list of articles under `data`, but "
            f"{input_file} is not like that ({error!r}); check the file."
        ) from error


def read_squad_examples(
    input_file: str, is_training: bool, version_2_with_negative: bool = False
) -> list[SquadExample]:
    """Reads the questions of a file, in order.

    Args:
        input_file: path of a JSON file.
        is_training: bool. Whether to read the answers, one a question. A
            question whose answer is not where the file says is left out
            with a warning.
        version_2_with_negative: bool. Whether training questions may be
            impossible to answer.
    """
    articles = read_articles(input_file)
    return make_examples(
        articles, is_training, version_2_with_negative, input_file
    )


def make_examples(
    articles: Iterable[Mapping],
    is_training: bool,
    version_2_with_negative: bool = False,
    source: str = "the data",
) -> list[SquadExample]:
    """Makes examples of articles, as `read_squad_examples` does of a file.

    Args:
        source: where the articles come from, for messages.
    """
    try:
        examples = list(
            _make_examples(articles, is_training, version_2_with_negative)
        )
    except KeyError as error:
        raise ValueError(
            "An article has `paragraphs`, these a `context` and `qas`, these "
            f"an `id` and a `question`, but {source} lacks a {error}; check "
            "the file."
        ) from error
    if not is_training:
        _check_ids(example.qas_id for example in examples)
    return examples


def _make_examples(
    articles: Iterable[Mapping],
    is_training: bool,
    version_2_with_negative: bool,
) -> Iterator[SquadExample]:
    for article in articles:
        for paragraph in article["paragraphs"]:
            words = list(_WORD.finditer(paragraph["context"]))
            doc_tokens = [word.group() for word in words]
            word_starts = [word.start() for word in words]
            for question in paragraph["qas"]:
                example = SquadExample(
                    question["id"], question["question"], doc_tokens
                )
                if is_training:
                    example.is_impossible = (
                        version_2_with_negative
                        and question.get("is_impossible", False)
                    )
                    if not _add_answer(
                        example,
                        question.get("answers", []),
                        word_starts,
                        len(paragraph["context"]),
                    ):
                        continue
                yield example


def _add_answer(
    example: SquadExample,
    answers: Sequence[Mapping],
    word_starts: Sequence[int],
    context_length: int,
) -> bool:
    """Adds the answer in words; returns False if it is not there."""
    if example.is_impossible:
        example.orig_answer_text = ""
        example.start_position = example.end_position = -1
        return True
    if len(answers) != 1:
        raise ValueError(
            "A training question needs exactly 1 answer, but question "
            f"{example.qas_id} has {len(answers)}; keep one or, if some "
            "questions are impossible, set --version_2_with_negative."
        )
    text, offset = answers[0]["text"], answers[0]["answer_start"]
    end = offset + len(text)
    found = ""
    if offset >= 0 and end <= context_length:
        # A space counts to the word before it; -1 if there is none.
        first = bisect.bisect(word_starts, offset) - 1
        last = bisect.bisect(word_starts, end - 1) - 1
        found = " ".join(example.doc_tokens[first : last + 1])
    wanted = " ".join(whitespace_tokenize(text))
    if not wanted or wanted not in found:
        logging.warning(
            "Question %s is left out: its answer %r should be at characters "
            "%d to %d of %d, but the words there are %r.",
            *(example.qas_id, text, offset, end, context_length, found),
        )
        return False
    example.orig_answer_text = text
    example.start_position, example.end_position = max(first, 0), last
    return True


def _check_ids(names: Iterable[str]) -> None:
    """Predictions go by the id of the question."""
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise ValueError(
                "Every question needs an id of its own, but question "
                f"{name} is there {count} times; rename or drop all but one."
            )


def write_records(
    path: str,
    examples: Sequence[SquadExample],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    keep: Callable[[InputFeatures], object] | None = None,
) -> Records:
    """Writes the windows of all examples; hands each to `keep` as well.

    For the other arguments see `convert_examples_to_features`.
    """
    with open_feature_writer(path, is_training, max_seq_length) as write:

        def write_and_keep(feature: InputFeatures) -> None:
            write(feature)
            keep(feature)

        convert_examples_to_features(
            examples,
            tokenizer,
            max_seq_length,
            doc_stride,
            max_query_length,
            is_training,
            write_and_keep if keep else write,
        )
    num_records = count_records(path)
    return Records(
        [path],
        make_schema(max_seq_length, is_training),
        num_records,
        vocab_size=1 + max(tokenizer.inv_vocab),
        shuffle_buffer=num_records,
    )


@contextlib.contextmanager
def open_feature_writer(
    output_file: str, is_training: bool, max_seq_length: int
) -> Iterator[Callable[[InputFeatures], None]]:
    """Yields a function that writes one feature after the other as records.

    Pass it to `convert_examples_to_features` as `output_fn`; features need
    not be held in memory. The file appears when all are written.
    """
    with open_outputs([output_file]) as write:
        pending = []

        def flush() -> None:
            if pending:
                batch = pad_features(pending, is_training, max_seq_length)
                write(serialize(batch))
                pending.clear()

        def process_feature(feature: InputFeatures) -> None:
            pending.append(feature)
            if len(pending) == RECORDS_PER_WRITE:
                flush()

        yield process_feature
        flush()


def pad_features(
    features: Sequence[InputFeatures], is_training: bool, max_seq_length: int
) -> dict[str, np.ndarray]:
    """Makes a batch: arrays [N, max_seq_length], and [N, 1] of one number."""
    batch = pad_rows(features, max_seq_length)
    numbers = {"unique_ids": [f.unique_id for f in features]}
    if is_training:
        numbers["start_positions"] = [f.start_position for f in features]
        numbers["end_positions"] = [f.end_position for f in features]
        numbers["is_impossible"] = [f.is_impossible for f in features]
    for name, values in numbers.items():
        batch[name] = np.array(values, np.int32)[:, None]
    return batch


def make_schema(
    max_seq_length: int, is_training: bool
) -> dict[str, tf.io.FixedLenFeature]:
    """What `tf.io.parse_example` must know of the records."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    number = tf.io.FixedLenFeature([], tf.int64)
    schema = {
        "unique_ids": number,
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
    }
    if is_training:
        for name in ("start_positions", "end_positions", "is_impossible"):
            schema[name] = number
    return schema
