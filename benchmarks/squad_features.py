"""Features of SQuAD questions, and answers from logits: ours or a peer's.

Run by squad.py, each time in a process of its own. The clock starts after
the imports and stops while logits are drawn.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

MAX_SEQ_LENGTH = 384
DOC_STRIDE = 128
MAX_QUERY_LENGTH = 64
N_BEST = 20
MAX_ANSWER_LENGTH = 30
BATCH = 1000  # questions; what `datasets` hands to a function
KINDS = ("scattered", "peaked")
CANDIDATES = {  # by the arguments of this command
    "ours": ["ours"],
    "Hugging Face, threads": ["huggingface"],
    "Hugging Face, processes": [
        "huggingface",
        f"--processes={os.cpu_count()}",
    ],
}

Logits = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def draw_logits(kind: str, num_questions: int) -> Logits:
    """Logits of window k of question i, the same for all candidates.

    They are random; if peaked, higher around some place of the text, as
    those of a trained model are.
    """
    rng = np.random.default_rng(0)
    shape = 2, num_questions, MAX_SEQ_LENGTH
    logits = rng.standard_normal(shape, dtype=np.float32)
    if kind == "peaked":
        start = rng.integers(20, 120, (num_questions, 1))
        for i, place in enumerate((start, start + 3)):
            distance = np.abs(np.arange(MAX_SEQ_LENGTH) - place)
            logits[i] -= np.minimum(distance, 40) / 4

    def look_up(i: int, k: int) -> tuple[np.ndarray, np.ndarray]:
        row = (i + 97 * k) % num_questions
        return logits[0, row], logits[1, row]

    return look_up


def run_ours(flags) -> Iterator[float]:
    """Works as run_squad.py does, on all cores; it also writes records."""
    from keras_bert_ref.squad import answers as squad_answers
    from keras_bert_ref.squad import examples as squad
    from keras_bert_ref.squad import records, windows
    from keras_bert_ref.squad.spans import RawResult
    from keras_bert_ref.tokenization import FullTokenizer

    start = time.perf_counter()
    tokenizer = FullTokenizer(flags.vocab, do_lower_case=True)
    examples = squad.read_squad_examples(flags.data, is_training=False)
    features = []
    windows.convert_examples_to_features(
        *(examples, tokenizer, MAX_SEQ_LENGTH, DOC_STRIDE, MAX_QUERY_LENGTH),
        *(False, features.append),
    )
    yield time.perf_counter() - start
    start = time.perf_counter()
    path = os.path.join(flags.output_dir, "eval.tf_record")
    with records.open_feature_writer(path, False, MAX_SEQ_LENGTH) as write:
        for feature in features:
            write(feature)
    yield time.perf_counter() - start
    yield len(features)
    for kind in KINDS:
        logits = draw_logits(kind, len(examples))
        results = [
            RawResult(f.unique_id, *logits(f.example_index, f.doc_span_index))
            for f in features
        ]
        start = time.perf_counter()
        squad_answers.write_predictions(
            *(examples, features, results, N_BEST, MAX_ANSWER_LENGTH, True),
            *paths(flags.output_dir, kind),
            flags.is_v2,
        )
        yield time.perf_counter() - start


def run_huggingface(flags) -> Iterator[float]:
    """Works as the question answering example of transformers does.

    It goes through the data in batches (`datasets`, which is not at hand,
    would also write the results to a file). The tokenizer has a thread for
    each core; with --processes, each batch is one of several processes'.
    """
    from transformers import BertTokenizerFast

    start = time.perf_counter()
    tokenizer = BertTokenizerFast(flags.vocab, do_lower_case=True)
    examples = list(read_questions(flags.data))
    batches = [
        (first, examples[first : first + BATCH])
        for first in range(0, len(examples), BATCH)
    ]
    windows = [[] for _ in examples]
    for features in map_batches(tokenizer, batches, flags.processes):
        for feature in features:
            windows[feature["example"]].append(feature)
    yield time.perf_counter() - start
    yield None  # no records
    yield sum(map(len, windows))
    for kind in KINDS:
        logits = draw_logits(kind, len(examples))
        results = [
            [logits(i, k) for k in range(len(features))]
            for i, features in enumerate(windows)
        ]
        start = time.perf_counter()
        answer_all(
            examples, windows, results, flags.is_v2, flags.output_dir, kind
        )
        yield time.perf_counter() - start


def read_questions(path: str) -> Iterator[dict]:
    for article in json.loads(pathlib.Path(path).read_text())["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield {
                    "id": question["id"],
                    "question": question["question"].lstrip(),
                    "context": paragraph["context"],
                }


def map_batches(tokenizer, batches: list, processes: int) -> Iterable[list]:
    if not processes:
        for batch in batches:
            yield make_windows(tokenizer, *batch)
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    fork = multiprocessing.get_context("fork")
    with fork.Pool(processes, keep_tokenizer, (tokenizer,)) as pool:
        yield from pool.imap(make_windows_apart, batches)


def keep_tokenizer(tokenizer) -> None:
    """Each process gets it once."""
    global _tokenizer
    _tokenizer = tokenizer


def make_windows_apart(batch: tuple[int, Sequence[dict]]) -> list:
    return make_windows(_tokenizer, *batch)


def make_windows(tokenizer, first: int, examples: Sequence[dict]) -> list:
    """Tokenizes questions with their texts; windows overlap by the stride."""
    encoded = tokenizer(
        [example["question"] for example in examples],
        [example["context"] for example in examples],
        truncation="only_second",
        max_length=MAX_SEQ_LENGTH,
        stride=DOC_STRIDE,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        padding="max_length",
    )
    features = []
    for i, sample in enumerate(encoded["overflow_to_sample_mapping"]):
        parts = encoded.sequence_ids(i)
        offsets = encoded["offset_mapping"][i]
        features.append(
            {
                "example": first + sample,
                "input_ids": encoded["input_ids"][i],
                "token_type_ids": encoded["token_type_ids"][i],
                "attention_mask": encoded["attention_mask"][i],
                "offsets": [  # None outside of the text
                    offset if part == 1 else None
                    for offset, part in zip(offsets, parts, strict=True)
                ],
            }
        )
    return features


def answer_all(examples, windows, results, is_v2, folder, kind) -> None:
    """Answers all questions and writes the three files."""
    answers, nbest, null_odds = {}, {}, {}
    for example, features, logits in zip(
        examples, windows, results, strict=True
    ):
        ranked, null = rank(example["context"], features, logits, is_v2)
        name = example["id"]
        answers[name] = ranked[0]["text"]
        if is_v2:
            best = next((a for a in ranked if a["text"]), None)
            if best:
                odds = null - best["start_logit"] - best["end_logit"]
            else:
                odds = 0.0
            null_odds[name] = float(odds)
            answers[name] = best["text"] if best and odds <= 0 else ""
        nbest[name] = [
            {
                key: value if isinstance(value, str) else float(value)
                for key, value in answer.items()
            }
            for answer in ranked
        ]
    files = zip(paths(folder, kind), (answers, nbest, null_odds), strict=True)
    for path, content in files:
        pathlib.Path(path).write_text(json.dumps(content, indent=4) + "\n")


def rank(context, features, logits, is_v2) -> tuple[list[dict], float]:
    """Combines starts and ends in a loop; returns the n best answers, with
    probabilities, and the score of no answer."""
    spans, null = [], None
    for feature, (start_logits, end_logits) in zip(
        features, logits, strict=True
    ):
        offsets = feature["offsets"]
        if null is None or start_logits[0] + end_logits[0] < sum(null):
            null = start_logits[0], end_logits[0]
        starts = np.argsort(start_logits)[: -N_BEST - 1 : -1].tolist()
        ends = np.argsort(end_logits)[: -N_BEST - 1 : -1].tolist()
        for start in starts:
            for end in ends:
                if offsets[start] is None or offsets[end] is None:
                    continue
                if end < start or end - start + 1 > MAX_ANSWER_LENGTH:
                    continue
                spans.append(
                    {
                        "place": (offsets[start][0], offsets[end][1]),
                        "score": start_logits[start] + end_logits[end],
                        "start_logit": start_logits[start],
                        "end_logit": end_logits[end],
                    }
                )
    if is_v2:
        no_answer = dict(zip(("start_logit", "end_logit"), null, strict=True))
        spans.append({"place": (0, 0), "score": sum(null), **no_answer})
    best = sorted(spans, key=lambda span: span["score"], reverse=True)[:N_BEST]
    if is_v2 and all(span["place"] != (0, 0) for span in best):
        best.append(spans[-1])
    for span in best:
        first, last = span.pop("place")
        span["text"] = context[first:last]
    if not any(span["text"] for span in best):
        empty = dict.fromkeys(("score", "start_logit", "end_logit"), 0.0)
        best.insert(0, {"text": "empty", **empty})
    scores = np.array([span.pop("score") for span in best])
    weights = np.exp(scores - scores.max())
    probabilities = weights / weights.sum()
    for span, probability in zip(best, probabilities, strict=True):
        span["probability"] = probability
    return best, sum(null)


def paths(folder: str, kind: str) -> list[str]:
    names = ("predictions", "nbest_predictions", "null_odds")
    return [os.path.join(folder, f"{kind}_{name}.json") for name in names]


def compare(ours: str, theirs: str) -> dict[str, float]:
    """The share of questions that two folders answer in the same words."""
    shares = {}
    for kind in KINDS:
        a, b = (
            json.loads(pathlib.Path(paths(folder, kind)[0]).read_text())
            for folder in (ours, theirs)
        )
        same = sum(a[k].split() == b[k].split() for k in a)
        shares[kind] = same / len(a)
    return shares


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("candidate", choices=("ours", "huggingface"))
    parser.add_argument("--processes", type=int, default=0)
    parser.add_argument("--data", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--is_v2", action="store_true")
    parser.add_argument("--output_dir", required=True)
    flags = parser.parse_args()
    run = run_ours if flags.candidate == "ours" else run_huggingface
    names = ("features", "records", "windows", *KINDS)
    print(json.dumps(dict(zip(names, run(flags), strict=True))))


if __name__ == "__main__":
    main()
