"""Compares an export, in a fresh process, with the model it was made of."""

import json
import os
import subprocess
import sys

import numpy as np

from keras_bert_ref import files, heads
from keras_bert_ref.export import fresh_process, graphs
from keras_bert_ref.sentence_pairs import make_batch
from keras_bert_ref.squad.examples import split_words
from keras_bert_ref.text import answering
from keras_bert_ref.text.interfaces import TEXT_A, TEXT_B, answer_rows
from keras_bert_ref.text.text_model import TextModel

# Of a value, or of 1 where all values are smaller.
TOLERANCE = 1e-5
TEXTS = (
    "The cat sat on the mat, and nobody asked it why.",
    "",
    "Déjà vu in a naïve CAFÉ: 東京, ΟΔΟΣ, don't!",
    "It rains.\u202fThe streets\tare wet.",
)
LONG = 1000  # words; more than a model reads


def sample_rows(text_model: TextModel, inputs: tuple[str, ...]) -> list[dict]:
    """Texts to compare on: usual, blank, unusual and too long."""
    texts = list(TEXTS)
    if isinstance(text_model.model, heads.BertPretraining):
        texts = [f"[MASK] {text[:20]} [MASK]" for text in texts]
    if not isinstance(text_model.model, heads.BertTagger):
        words = [w for w in text_model.tokenizer.vocab if w.isalnum()]
        texts.append(f"{texts[0]} {' '.join(words[:LONG])}")
    rows = zip(texts, texts[::-1], strict=True)
    return [dict(zip(inputs, row, strict=False)) for row in rows]


def sample_batches(text_model: TextModel) -> list[dict]:
    """Two batches of different shapes, the second with padding."""
    batches = []
    limit = text_model.max_seq_length
    for texts in (TEXTS[:1], TEXTS):
        batch = make_batch(
            text_model.tokenizer,
            texts,
            texts[::-1] if text_model.bert.config.type_vocab_size > 1 else None,
            max_seq_length=limit,
        )
        if isinstance(text_model.model, heads.BertPretraining):
            positions = np.arange(len(texts), dtype=np.int32)
            positions = np.tile(positions[None], (len(texts), 1))
            batch["masked_lm_positions"] = positions
        batches.append(batch)
    return batches


def expect_texts(text_model: TextModel, rows: list[dict], top_k: int) -> dict:
    """What the model's Python methods give, laid out as in the graph."""
    if isinstance(text_model.model, heads.BertSpan):
        return _expect_spans(text_model, rows)
    answers = answer_rows(text_model, rows, top_k)
    return {
        name: _pad([answer[name] for answer in answers]) for name in answers[0]
    }


def _expect_spans(text_model: TextModel, rows: list[dict]) -> dict:
    """Logits of first windows, and the words that their tokens are of."""
    encode, vocab = text_model.tokenizer.encode, text_model.tokenizer.vocab
    limit = text_model.max_seq_length
    found = {name: [] for name in ("start_logits", "end_logits", "token_words")}
    for row in rows:
        query = encode(row[TEXT_A])[: answering.longest_query(limit)]
        room = limit - answering.FRAME_LENGTH - len(query)
        tokens = [
            (piece, word)
            for word in split_words(row[TEXT_B])
            for piece in encode(word)
        ][:room]
        ids = [vocab["[CLS]"], *query, vocab["[SEP]"]]
        segments = [0] * len(ids) + [1] * (len(tokens) + 1)
        words = [""] * len(ids) + [word for _, word in tokens] + [""]
        ids += [piece for piece, _ in tokens] + [vocab["[SEP]"]]
        logits = text_model.model(
            {"input_ids": np.array([ids]), "segment_ids": np.array([segments])}
        )
        for name, values in logits.items():
            found[name].append(values[0].numpy().tolist())
        found["token_words"].append(words)
    return {name: _pad(values) for name, values in found.items()}


def cut_words(outputs: dict, rows: list[dict]) -> dict:
    """Adds the words that a SavedModel gives the bytes of."""
    places = zip(outputs["word_starts"], outputs["word_ends"], strict=True)
    words = [
        [
            row[TEXT_B].encode()[start:end].decode() if end >= 0 else ""
            for start, end in zip(starts, ends, strict=True)
        ]
        for row, (starts, ends) in zip(rows, places, strict=True)
    ]
    return {**outputs, "token_words": words}


def run(format: str, path: str, requests: list) -> list[dict]:
    """Outputs of an export, loaded again in a process of its own."""
    if "://" not in path:
        path = os.path.abspath(path)  # the process works elsewhere
    with files.temporary_folder("bert_export") as folder:
        names = [os.path.join(folder, n) for n in ("requests", "answers")]
        with open(names[0], "w", encoding="utf-8") as file:
            json.dump(requests, file, default=lambda array: array.tolist())
        process = subprocess.run(
            [sys.executable, fresh_process.__file__, format, path, *names],
            capture_output=True,
            text=True,
            errors="replace",
            cwd=folder,
        )
        if process.returncode:
            lines = process.stderr.strip().splitlines() or ["no reason given"]
            raise ValueError(
                f"The export does not run in a fresh process: {lines[-1]} "
                "Nothing was written."
            )
        return files.parse_json(files.read(names[1]), names[1])


def compare_batches(text_model: TextModel, batches, outputs) -> float:
    """The largest difference between outputs and the model's own."""
    worst = 0.0
    for batch, found in zip(batches, outputs, strict=True):
        expected = graphs.run_model(text_model.model, batch)
        arrays = {name: x.numpy() for name, x in expected.items()}
        worst = max(worst, measure(arrays, found))
    return worst


def measure(expected: dict, found: dict) -> float:
    """The largest difference of numbers; raises if strings differ.

    Args:
        expected: outputs by name, padded arrays.
        found: those of the export, which may have more.
    """
    worst = 0.0
    for name, a in expected.items():
        b = np.array(found[name])
        if a.dtype.kind == "U":
            counts = np.ones(a.shape, bool)
            if name == "words" and "probabilities" in expected:
                counts = _stand_apart(expected["probabilities"])
            if a.shape != b.shape or (a != b)[counts].any():
                raise ValueError(
                    f"The export gives other {name} than the model; nothing "
                    "was written."
                )
        else:
            is_known = ~np.isnan(a)
            scale = max(1.0, np.abs(a[is_known]).max(initial=0))
            difference = np.abs(a - b)[is_known].max(initial=0) / scale
            worst = max(worst, float(difference))
    return worst


def _stand_apart(values: np.ndarray) -> np.ndarray:
    """Where a probability is not as good as equal to the one before or after
    it: words of those may change places."""
    ends = np.full((*values.shape[:-1], 1), np.inf)
    padded = np.concatenate([ends, values, -ends], axis=-1)
    gaps = np.abs(np.diff(padded, axis=-1)) > TOLERANCE
    return gaps[..., 1:] & gaps[..., :-1]


def _pad(rows: list) -> np.ndarray:
    """An array of nested lists; short ones are filled with "" or NaN."""
    if not isinstance(rows[0], list):
        return np.array(rows)
    is_nested = any(row and isinstance(row[0], list) for row in rows)
    if is_nested:
        width = max(len(row) for row in rows)
        size = len(next(row[0] for row in rows if row))
        blank = [_blank(rows)] * size
        return np.array([row + [blank] * (width - len(row)) for row in rows])
    width = max(map(len, rows))
    return np.array([row + [_blank(rows)] * (width - len(row)) for row in rows])


def _blank(rows):
    while isinstance(rows, list):
        rows = next(row for row in rows if row != [])
    return "" if isinstance(rows, str) else np.nan
