"""TriviaQA-Wiki as training data in SQuAD's format (paper, section 4.2).

    python -m keras_bert_ref.squad.triviaqa \\
        --input_file=qa/wikipedia-train.json \\
        --evidence_dir=evidence/wikipedia --output_file=triviaqa.json

The paper takes the first 400 tokens of documents that contain one of the
answers; tokens are words between spaces here, which it leaves open. Of the
places where an answer stands, the first is trained on.
"""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator

from keras_bert_ref import files
from keras_bert_ref.guard import guard

MAX_WORDS = 400


def make_articles(
    questions: list[dict], read: Callable[[str], str], source: str
) -> Iterator[dict]:
    """Yields an article in SQuAD's format for each document with an answer.

    Args:
        questions: `Data` of a file of TriviaQA.
        read: file name -> text of a document.
        source: the name of the file, for messages.
    """
    for place, question in enumerate(questions):
        try:
            name, text = question["QuestionId"], question["Question"]
            pages = [page["Filename"] for page in question["EntityPages"]]
            answer = question["Answer"]
            answers = {answer["Value"], *answer.get("Aliases", [])}
            "".join([name, text, *pages, *answers])  # all of them are texts
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"Data[{place}] of {source} is no question of TriviaQA-Wiki "
                f"({type(error).__name__}: {error}); give wikipedia-train.json "
                "or wikipedia-dev.json."
            ) from error
        for page in pages:
            context = first_words(read(page), MAX_WORDS)
            found = find_answer(context, answers)
            if found:
                answer = {"text": found[0], "answer_start": found.start()}
                asked = {
                    "id": f"{name}--{page}",
                    "question": text,
                    "answers": [answer],
                }
                paragraph = {"context": context, "qas": [asked]}
                yield {"title": page, "paragraphs": [paragraph]}


def first_words(text: str, count: int) -> str:
    """The beginning of a text, so many words long."""
    words = re.finditer(r"\S+", text)
    ends = [word.end() for word, _ in zip(words, range(count), strict=False)]
    return text[: ends[-1]] if ends else ""


def find_answer(text: str, answers) -> re.Match | None:
    """The first of the answers in a text: whole words in any case."""
    longest_first = sorted((a for a in answers if a), key=len, reverse=True)
    choices = "|".join(map(re.escape, longest_first))
    if not choices:
        return None
    return re.search(rf"(?<!\w)(?:{choices})(?!\w)", text, re.IGNORECASE)


def convert(input_file: str, evidence_dir: str, output_file: str) -> int:
    """Writes a file in SQuAD's format; returns how many questions it has."""
    data = files.read_json(input_file)
    if not isinstance(data, dict) or not isinstance(data.get("Data"), list):
        raise ValueError(
            f"{input_file} has no list `Data`; a file of TriviaQA does."
        )

    def read(name: str) -> str:
        content = files.read(os.path.join(evidence_dir, name))
        return content.decode("utf-8", errors="replace")

    articles = list(make_articles(data["Data"], read, input_file))
    if not articles:
        raise ValueError(
            f"No document of {input_file} has an answer in its first "
            f"{MAX_WORDS} words; is {evidence_dir} the folder of its "
            "evidence?"
        )
    files.replace_json(output_file, {"version": "1.1", "data": articles})
    return len(articles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input_file", required=True)
    parser.add_argument("--evidence_dir", required=True)
    parser.add_argument("--output_file", required=True)
    options = parser.parse_args()

    def work() -> None:
        count = convert(**vars(options))
        print(
            f"Questions with a document each: {count}, in "
            f"{options.output_file}."
        )

    guard(work, say=lambda text: print(f"Error: {text}", file=sys.stderr))


if __name__ == "__main__":
    main()
