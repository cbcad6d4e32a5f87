"""Parts of SQuAD's dev sets: to learn from, to score on, to try things."""

import hashlib
import json
import os
import pathlib
import zlib
from collections.abc import Callable, Iterable

from keras_bert_ref.tokenization import FullTokenizer

MAX_SEQ_LENGTH = 128
MAX_QUERY_LENGTH = 32
DOC_STRIDE = 64
BATCH_SIZE = 4
TRAIN_QUESTIONS = 900
TEST_QUESTIONS = 350
PER_ARTICLE = 80  # so that no article is most of it
SIZES = {
    "batch_size": BATCH_SIZE,
    "train_questions": TRAIN_QUESTIONS,
    "test_questions": TEST_QUESTIONS,
}


def write_split(
    squad_dir: str, version: str, vocab: str, folder: str, limit: int | None
) -> tuple[str, str]:
    """Writes train.json and test.json, from different articles.

    Every question fits one window, with its paragraph. Training questions
    have one answer, and we know where: XQuAD says so, or its text is in the
    paragraph only once. Of the unanswerable ones a quarter is left there: with
    more, so few questions teach to give no answer at all. Test questions are
    as they are.

    Args:
        limit: int. Questions of each; None: as many as above.
    """
    articles = read(squad_dir, f"dev-{version}.json")
    articles.sort(key=lambda a: hashlib.sha256(a["title"].encode()).digest())
    known = {
        question["id"]: question["answers"][0]
        for article in read(squad_dir, "xquad.en.json")
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    tokenizer = FullTokenizer(vocab, do_lower_case=True)

    def fits(context: str, question: dict) -> bool:
        length = len(tokenizer.encode(question["question"]))
        room = MAX_SEQ_LENGTH - 3 - min(length, MAX_QUERY_LENGTH)
        return len(tokenizer.encode(context)) <= room

    def to_train(context: str, question: dict) -> dict | None:
        if question.get("is_impossible"):
            is_kept = zlib.crc32(question["id"].encode()) % 4 == 0
            return question if is_kept and fits(context, question) else None
        answers = [
            answer
            for answer in question["answers"]
            if context.count(answer["text"]) == 1
        ]
        if question["id"] in known:
            answers = [known[question["id"]]]
        if not answers or not fits(context, question):
            return None
        return {**question, "answers": answers[:1]}

    def to_test(context: str, question: dict) -> dict | None:
        return question if fits(context, question) else None

    test = take(articles, limit or TEST_QUESTIONS, to_test)
    rest = articles[len(test) :]
    train = take(rest, limit or TRAIN_QUESTIONS, to_train)
    return (
        write(train, os.path.join(folder, "train.json")),
        write(test, os.path.join(folder, "test.json")),
    )


def write_first(squad_dir: str, version: str, folder: str, limit: int) -> str:
    """Writes the first questions of a dev set."""
    articles = read(squad_dir, f"dev-{version}.json")
    first = take(articles, limit, lambda _, question: question)
    return write(first, os.path.join(folder, f"first-{version}.json"))


def take(
    articles: Iterable[dict],
    count: int,
    choose: Callable[[str, dict], dict | None],
) -> list[dict]:
    """Takes the questions that `choose` makes something of.

    Articles without any are kept, so that the next one is known.
    """
    taken = []
    for article in articles:
        if not count:
            break
        room = min(count, PER_ARTICLE)
        paragraphs = []
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            chosen = (choose(context, qa) for qa in paragraph["qas"])
            qas = list(filter(None, chosen))[:room]
            room -= len(qas)
            count -= len(qas)
            if qas:
                paragraphs.append({"context": context, "qas": qas})
        taken.append({"title": article["title"], "paragraphs": paragraphs})
    if count:
        raise ValueError(f"The articles have {count} questions too few.")
    return taken


def read(folder: str, name: str) -> list[dict]:
    return json.loads(pathlib.Path(folder, name).read_text())["data"]


def write(articles: list[dict], path: str) -> str:
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_text(json.dumps({"data": articles}))
    return path
