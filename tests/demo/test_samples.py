"""The texts of the demo: well-formed, and dev apart from train."""

import importlib.resources
import json

import pytest

from keras_bert_ref.demo.report import (
    Result,
    commonest_class_accuracy,
    first_word_accuracy,
    mark_answer,
    show_summary,
)
from keras_bert_ref.demo.story import copy_samples
from keras_bert_ref.tokenization import BasicTokenizer

SAMPLES = importlib.resources.files("keras_bert_ref.demo")
FILES = (
    "README.md",
    "corpus.txt",
    "pairs_dev.tsv",
    "pairs_train.tsv",
    "questions_dev.json",
    "questions_train.json",
)
PAIR_HEADER = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]


def read(name: str) -> str:
    return SAMPLES.joinpath(name).read_bytes().decode()


def read_documents() -> list[list[str]]:
    return [text.split("\n") for text in read("corpus.txt").split("\n\n")]


def read_pairs(split: str) -> list[list[str]]:
    lines = read(f"pairs_{split}.tsv").removesuffix("\n").split("\n")
    assert lines[0].split("\t") == PAIR_HEADER
    return [line.split("\t") for line in lines[1:]]


def read_paragraphs(split: str) -> list[dict]:
    articles = json.loads(read(f"questions_{split}.json"))["data"]
    return [
        paragraph for article in articles for paragraph in article["paragraphs"]
    ]


def read_questions(split: str) -> list[tuple[str, dict]]:
    """Returns (context, question) pairs."""
    return [
        (paragraph["context"], question)
        for paragraph in read_paragraphs(split)
        for question in paragraph["qas"]
    ]


@pytest.mark.parametrize("name", FILES)
def test_file_is_plain_text(name):
    text = read(name)
    assert text.isascii()
    assert text.endswith("\n") and not text.endswith("\n\n")
    assert "\r" not in text
    assert all(line == line.rstrip() for line in text.split("\n"))


def test_corpus_size():
    assert 35_000 <= len(read("corpus.txt")) <= 60_000
    assert 60 <= len(read_documents()) <= 100


def test_corpus_is_a_sentence_a_line():
    documents = read_documents()
    documents[-1].pop()  # what follows the last line end
    for sentences in documents:
        assert 6 <= len(sentences) <= 12
        for sentence in sentences:
            assert sentence == sentence.strip()
            assert sentence[0].isupper() and sentence[-1] in ".?"
            assert ". " not in sentence and "? " not in sentence


def test_no_document_appears_twice():
    documents = read_documents()
    assert len({sentences[0] for sentences in documents}) == len(documents)


@pytest.mark.parametrize(
    ("split", "smallest", "largest"), [("train", 160, 200), ("dev", 40, 40)]
)
def test_pairs_are_in_the_layout_of_mrpc(split, smallest, largest):
    rows = read_pairs(split)
    assert smallest <= len(rows) <= largest
    assert {len(row) for row in rows} == {len(PAIR_HEADER)}
    assert all(cell and cell == cell.strip() for row in rows for cell in row)
    assert {row[0] for row in rows} == {"0", "1"}
    assert sum(row[0] == "1" for row in rows) * 2 == len(rows)


def test_every_sentence_of_the_pairs_has_its_own_id():
    sentence_of = {}
    for _, id_1, id_2, string_1, string_2 in read_pairs("train") + read_pairs(
        "dev"
    ):
        assert string_1 != string_2
        assert sentence_of.setdefault(id_1, string_1) == string_1
        assert sentence_of.setdefault(id_2, string_2) == string_2
    assert len(set(sentence_of.values())) == len(sentence_of)


def test_no_sentence_of_the_dev_pairs_is_in_train():
    train, dev = (
        {sentence for row in read_pairs(split) for sentence in row[3:]}
        for split in ("train", "dev")
    )
    assert not train & dev


@pytest.mark.parametrize(
    ("split", "passages", "questions"),
    [("train", 40, 200), ("dev", 8, 40)],
)
def test_number_of_questions(split, passages, questions):
    assert len(read_paragraphs(split)) == passages
    assert len(read_questions(split)) == questions


@pytest.mark.parametrize("split", ["train", "dev"])
def test_every_answer_stands_at_its_start(split):
    words = BasicTokenizer().tokenize
    for context, question in read_questions(split):
        (answer,) = question["answers"]
        start, text = answer["answer_start"], answer["text"]
        end = start + len(text)
        assert text and context[start:end] == text, question["id"]
        # Whole words only: cutting the context there splits no token.
        parts = context[:start], text, context[end:]
        assert [w for part in parts for w in words(part)] == words(context)


def test_question_ids_are_unique():
    questions = read_questions("train") + read_questions("dev")
    assert len({question["id"] for _, question in questions}) == len(questions)


def test_no_dev_passage_is_in_train():
    train, dev = (
        {paragraph["context"] for paragraph in read_paragraphs(split)}
        for split in ("train", "dev")
    )
    assert len(train) == len(read_paragraphs("train"))
    assert len(dev) == len(read_paragraphs("dev"))
    assert not train & dev


def test_dev_asks_where_and_when_of_what_train_never_tells():
    """Persons, deeds and things are known, but not in this combination."""
    asked = {
        split: {
            question["question"]
            for _, question in read_questions(split)
            if question["question"].startswith(("Where", "When"))
        }
        for split in ("train", "dev")
    }
    assert len(asked["dev"]) == 2 * len(read_paragraphs("dev"))
    assert not asked["train"] & asked["dev"]


def test_dev_asks_only_what_train_has_taught():
    def kinds(split):
        return {
            question["question"].split()[0]
            for _, question in read_questions(split)
        }

    assert kinds("dev") <= kinds("train")


def test_answer_is_marked_in_its_sentence():
    passage = "It was at noon. Tom sold a net. Ben saw it."
    assert mark_answer(passage, "Tom") == "[Tom] sold a net."
    assert mark_answer(passage, "noon. Tom") == (
        "It was at [noon. Tom] sold a net. Ben saw it."
    )


def test_summary_has_a_line_for_each_result(capsys):
    results = [
        Result("words", 0.25, 0.125, "a guess", 61.4),
        Result("sentences", 0.75, 0.5, "a coin"),
    ]
    show_summary("out", results, 100.0)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["words", "25.0%", "12.5%", "(a", "guess)", "61"] in lines
    assert ["sentences", "75.0%", "50.0%", "(a", "coin)"] in lines


def test_baselines_are_counted_on_the_held_out_text(tmp_path):
    copy_samples(str(tmp_path))
    assert commonest_class_accuracy(str(tmp_path)) == 0.5
    # A person who begins the passage, and is asked for.
    is_first = [
        context.startswith(question["answers"][0]["text"] + " ")
        and question["question"].startswith("Who")
        for context, question in read_questions("dev")
    ]
    share = sum(is_first) / len(is_first)
    assert first_word_accuracy(str(tmp_path)) == pytest.approx(share)
    assert 0 < share < 0.2


def test_no_held_out_document_is_trained_on(tmp_path):
    copy_samples(str(tmp_path))
    train, held_out = (
        set((tmp_path / name).read_text().strip().split("\n\n"))
        for name in ("train.txt", "heldout.txt")
    )
    assert not train & held_out
    assert len(train) + len(held_out) == len(read_documents())
