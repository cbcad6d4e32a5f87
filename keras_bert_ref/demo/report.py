"""What the demo shows: predictions, answers, baselines and a summary."""

import collections
import csv
import json
import re
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_ref.heads import BertPretraining
from keras_bert_ref.records.files import read_records
from keras_bert_ref.squad import metrics as squad_metric
from keras_bert_ref.tokenization import FullTokenizer

SENTENCES = [
    "Tom is a [MASK] .",
    "Anna bakes white [MASK] and honey cakes .",
    "The lighthouse is [MASK] , and it stands on a rock .",
    "Every morning Tom takes his [MASK] out of the harbour .",
]


class Result(NamedTuple):
    """A line of the summary."""

    name: str
    value: float
    baseline: float
    rule: str  # of the baseline
    seconds: float | None = None  # None: as the line before


def read_questions(folder: str) -> list[dict]:
    with open(f"{folder}/questions/dev.json", encoding="utf-8") as file:
        return json.load(file)["data"]


def unigram_accuracy(folder: str) -> float:
    """How often the most frequent masked word of training would be right."""
    words = {}
    for part in ("train", "heldout"):
        words[part] = collections.Counter()
        for record in read_records([f"{folder}/{part}.tfrecord"]):
            features = tf.train.Example.FromString(record.numpy()).features
            ids = features.feature["masked_lm_ids"].int64_list.value
            weights = features.feature["masked_lm_weights"].float_list.value
            words[part].update(
                i for i, w in zip(ids, weights, strict=True) if w
            )
    ((best, _),) = words["train"].most_common(1)
    return words["heldout"][best] / words["heldout"].total()


def commonest_class_accuracy(folder: str) -> float:
    """How often the most frequent class of training would be right."""
    labels = {}
    for split in ("train", "dev"):
        with open(f"{folder}/pairs/{split}.tsv", encoding="utf-8") as file:
            rows = csv.DictReader(file, delimiter="\t")
            labels[split] = [row["Quality"] for row in rows]
    ((commonest, _),) = collections.Counter(labels["train"]).most_common(1)
    return labels["dev"].count(commonest) / len(labels["dev"])


def first_word_accuracy(folder: str) -> float:
    """How often the first word of the passage would be the answer."""
    articles = read_questions(folder)
    answers = {
        question["id"]: paragraph["context"].split()[0]
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    }
    return squad_metric.evaluate_v1(articles, answers)["exact_match"] / 100


def show_predictions(folder: str, step: int) -> list[tuple[str, str, str]]:
    """Prints the likeliest words for some masks, before and after; returns
    sentences with both."""
    tokenizer = FullTokenizer(f"{folder}/vocab.txt", do_lower_case=True)
    before, after = (
        BertPretraining.from_checkpoint(
            f"{folder}/pretrained/model.ckpt-{saved}"
        )
        for saved in (0, step)
    )
    print("\nPredictions for [MASK], before and after pre-training:")
    rows = []
    for sentence in SENTENCES:
        words = [
            ", ".join(predict_words(model, tokenizer, sentence))
            for model in (before, after)
        ]
        print(f"  {sentence}\n    before: {words[0]}\n    after:  {words[1]}")
        rows.append((sentence, *words))
    return rows


def predict_words(model, tokenizer, sentence: str, count: int = 3) -> list[str]:
    """The likeliest words in place of [MASK], best first."""
    left, right = sentence.split("[MASK]")
    tokens = ["[CLS]", *tokenizer.tokenize(left), "[MASK]"]
    position = len(tokens) - 1
    tokens += [*tokenizer.tokenize(right), "[SEP]"]
    logits = model(
        {
            "input_ids": np.array([tokenizer.convert_tokens_to_ids(tokens)]),
            "masked_lm_positions": np.array([[position]]),
        }
    )["masked_lm_logits"]
    best = np.argsort(-logits.numpy()[0, 0])[:count]
    return tokenizer.convert_ids_to_tokens(best.tolist())


def show_answers(folder: str, count: int = 2) -> None:
    """Prints answers to the questions on some passages, in their sentences."""
    with open(f"{folder}/questions/predictions.json", encoding="utf-8") as file:
        answers = json.load(file)
    (article,) = read_questions(folder)
    print("\nAnswers, on passages that were not in training:")
    for paragraph in article["paragraphs"][:count]:
        print(f"  {paragraph['context']}")
        for question in paragraph["qas"]:
            answer = answers[question["id"]]
            right = question["answers"][0]["text"]
            is_right = squad_metric.compute_exact(right, answer)
            verdict = "" if is_right else f"   (right: {right})"
            marked = mark_answer(paragraph["context"], answer)
            print(f"    {question['question']:40}{marked}{verdict}")


def mark_answer(passage: str, answer: str) -> str:
    """The answer in brackets, within its sentence."""
    sentences = re.split(r"(?<=\.) ", passage)
    sentence = next((s for s in sentences if answer in s), passage)
    return sentence.replace(answer, f"[{answer}]", 1)


def show_summary(folder: str, results: list[Result], seconds: float) -> None:
    """Prints the results as a table."""
    title = f"{'On held-out text':32}{'value':>7}{'baseline':>11}"
    print(f"\n{title}{'seconds':>37}")
    for name, value, baseline, rule, spent in results:
        time = "" if spent is None else f"{spent:.0f}"
        print(
            f"{name:32}{value:>7.1%}{baseline:>11.1%}  {f'({rule})':28}"
            f"{time:>7}"
        )
    print(
        f"\nDone in {seconds:.0f} s. The whole log: {folder}/log.txt. The "
        f"model: BertModel.from_checkpoint({folder + '/pretrained'!r})"
    )
