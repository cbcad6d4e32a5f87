"""Questions and passages -> answers, by SQuAD's windows and rules."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from keras_bert_ref.sentence_pairs import list_texts
from keras_bert_ref.squad.answers import answer_questions
from keras_bert_ref.squad.examples import SquadExample, split_words
from keras_bert_ref.squad.spans import RawResult
from keras_bert_ref.squad.windows import convert_examples_to_features
from keras_bert_ref.tokenization import FullTokenizer, convert_to_unicode

MAX_QUERY_LENGTH = 64  # run_squad.py's
FRAME_LENGTH = 3  # [CLS] question [SEP] passage [SEP]


class AnswerText(NamedTuple):
    """The answer to a question.

    Attributes:
        text: words of the passage; "" if there is no answer in it.
        probability: among the n best.
        nbest: dictionaries with text, probability and the two logits.
        null_odds: by how much "no answer" is ahead of the best answer; None
            if there always is one.
    """

    text: str
    probability: float
    nbest: list[dict]
    null_odds: float | None


def longest_query(max_seq_length: int) -> int:
    """So that a passage has room for a token."""
    return min(MAX_QUERY_LENGTH, max_seq_length - FRAME_LENGTH - 1)


def answer(
    questions: Sequence[str | bytes],
    passages: Sequence[str | bytes],
    tokenizer: FullTokenizer,
    compute: Callable,
    max_seq_length: int,
    *,
    allow_no_answer: bool = False,
    null_score_diff_threshold: float = 0.0,
    n_best_size: int = 20,
    max_answer_length: int = 30,
    doc_stride: int = 128,
    max_query_length: int | None = None,
) -> list[AnswerText]:
    """Reads each question's passage in windows; the rest is run_squad.py's.

    Args:
        compute: gives start_logits and end_logits of windows.
        max_query_length: int. Longer questions are cut; None: as long as
            `longest_query` says.
    """
    questions, passages = map(list_texts, (questions, passages))
    if len(questions) != len(passages):
        raise ValueError(
            f"Every question needs a passage of its own, but there are "
            f"{len(questions)} questions and {len(passages)} passages."
        )
    examples = []
    for i, texts in enumerate(zip(questions, passages, strict=True)):
        question, passage = map(convert_to_unicode, texts)
        for name, text in (("question", question), ("passage", passage)):
            if not tokenizer.encode(text):
                raise ValueError(f"The {name} has no words: {text[:40]!r}.")
        examples.append(SquadExample(str(i), question, split_words(passage)))
    windows = []
    convert_examples_to_features(
        examples,
        tokenizer,
        max_seq_length=max_seq_length,
        doc_stride=doc_stride,
        max_query_length=max_query_length or longest_query(max_seq_length),
        is_training=False,
        output_fn=windows.append,
        num_workers=1,
    )
    results = [
        RawResult(window.unique_id, row["start_logits"], row["end_logits"])
        for window, row in zip(windows, compute(windows), strict=True)
    ]
    found = answer_questions(
        examples,
        windows,
        results,
        n_best_size=n_best_size,
        max_answer_length=max_answer_length,
        do_lower_case=tokenizer.basic_tokenizer.do_lower_case,
        version_2_with_negative=allow_no_answer,
        null_score_diff_threshold=null_score_diff_threshold,
    )
    return [
        AnswerText(
            text=text,
            probability=next(
                a["probability"] for a in found.nbest[key] if a["text"] == text
            ),
            nbest=found.nbest[key],
            null_odds=found.null_odds.get(key),
        )
        for key, text in found.answers.items()
    ]
