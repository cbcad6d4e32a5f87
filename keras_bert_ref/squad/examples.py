"""SQuAD's files -> questions about paragraphs (sections 4.2 and 4.3).

Any data in SQuAD's format will do: articles made of paragraphs, each with a
context and questions about it.
"""

import bisect
import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.squad.format import check_articles
from keras_bert_ref.tokenization import whitespace_tokenize

# Only these five end a word, whatever else Unicode holds for white space.
_WORD = re.compile("[^ \t\r\n\u202f]+")


@dataclasses.dataclass(slots=True)
class SquadExample:
    """A question about a paragraph; the last four are for training.

    Attributes:
        qas_id: str. The id of the question.
        question_text: str.
        doc_tokens: the words of the paragraph; one list for all questions
            about it.
        orig_answer_text: str; "" if there is no answer.
        start_position: int. The answer's first word in `doc_tokens`; -1 if
            there is no answer.
        end_position: int. Likewise its last word.
        is_impossible: bool. There is no answer.
    """

    qas_id: str
    question_text: str
    doc_tokens: list[str]
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


def read_articles(input_file: str) -> list[dict]:
    """Returns the articles of a file in SQuAD's format."""
    values = files.read_json(input_file)
    if "data" not in values:
        raise ValueError(
            "SQuAD's format is JSON with a list of articles under `data`, but "
            f"{input_file} has {', '.join(sorted(values)) or 'nothing'}; "
            "check the file."
        )
    check_articles(values["data"], input_file)
    return values["data"]


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


def split_words(context: str) -> list[str]:
    """The words of a paragraph."""
    return _WORD.findall(context)


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
    examples = list(
        _make_examples(articles, is_training, version_2_with_negative)
    )
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
                        word_starts=word_starts,
                        context_length=len(paragraph["context"]),
                        may_be_impossible=version_2_with_negative,
                    ):
                        continue
                yield example


def _add_answer(
    example: SquadExample,
    answers: Sequence[Mapping],
    *,
    word_starts: Sequence[int],
    context_length: int,
    may_be_impossible: bool,
) -> bool:
    """Adds the answer in words; returns False if it is not there."""
    if example.is_impossible:
        example.orig_answer_text = ""
        example.start_position = example.end_position = -1
        return True
    if len(answers) != 1:
        fix = "if some questions are impossible, set --version_2_with_negative"
        if may_be_impossible:
            fix = 'if it is impossible, set its "is_impossible" to true'
        raise ValueError(
            "A training question needs exactly 1 answer, but question "
            f"{example.qas_id} has {len(answers)}; keep one or, {fix}."
        )
    if "answer_start" not in answers[0]:
        raise ValueError(
            "A training question needs to know where its answer starts, but "
            f"that of question {example.qas_id} has no `answer_start`; add it."
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
