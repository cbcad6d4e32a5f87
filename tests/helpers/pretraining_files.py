"""Small pre-training records and configs, and flags that fit them."""

import json
import pathlib

import numpy as np

from helpers import configs, golden_training

VOCAB_SIZE = 30
WORDS = 2


def write_config(folder: pathlib.Path, **changes) -> pathlib.Path:
    config = configs.tiny(vocab_size=VOCAB_SIZE, **changes)
    path = folder / "config.json"
    path.write_text(json.dumps(config.to_dict()))
    return path


def examples(length: int, count: int, seed: int = 0) -> list[dict]:
    """Examples of various lengths; their ids, masked or not, are random."""
    random = np.random.default_rng(seed)
    rows = []
    for size in random.integers(4, length + 1, count):
        mask = np.arange(length) < size
        rows.append(
            {
                "input_ids": random.integers(1, VOCAB_SIZE, length) * mask,
                "input_mask": mask.astype(int),
                "segment_ids": mask
                * (np.arange(length) > size // 2).astype(int),
                "masked_lm_positions": np.array([1, 2]),
                "masked_lm_ids": random.integers(1, VOCAB_SIZE, WORDS),
                "masked_lm_weights": np.array([1.0, size % 2]),
                "next_sentence_labels": np.array([size % 2]),
            }
        )
    return rows


def write_records(path: pathlib.Path, length: int, count: int = 10) -> str:
    path.parent.mkdir(exist_ok=True)
    rows = examples(length, count, seed=length)
    return golden_training.write_records(path, rows)


def flags(config_file, input_file, length: int, output_dir) -> list[str]:
    """Of run_pretraining.py; later ones win."""
    return [
        f"--bert_config_file={config_file}",
        f"--input_file={input_file}",
        f"--output_dir={output_dir}",
        f"--max_seq_length={length}",
        f"--max_predictions_per_seq={WORDS}",
        "--do_train",
        "--train_batch_size=4",
        "--num_train_steps=6",
        "--num_warmup_steps=2",
        "--learning_rate=1e-2",
    ]
