"""Damaged files: every reader gives an error that names the file's trouble,
or a result; never another exception, a hang or a crash.

The files of READERS are damaged at random, from a seed. `make test` tries a
few hundred; KERAS_BERT_FUZZ_TRIALS sets how many each reader gets,
KERAS_BERT_FUZZ_SEED another seed, KERAS_BERT_FUZZ_STRINGS how many strings
the tokenizer gets. A new reader is one line of the table.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from helpers import configs, golden_training, squad_files
from keras_bert_ref import text_files
from keras_bert_ref.checkpoints import huggingface, tf1
from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.choice import files as choice_files
from keras_bert_ref.choice.tasks import OPENBOOKQA, Task
from keras_bert_ref.classifier import features as classifier_features
from keras_bert_ref.classifier import files as classifier_files
from keras_bert_ref.classifier import splits, tasks
from keras_bert_ref.config import BertConfig
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.ner import files as ner_files
from keras_bert_ref.pretraining import features as pretraining_features
from keras_bert_ref.records import batches
from keras_bert_ref.squad import examples, metrics
from keras_bert_ref.squad import records as squad_records
from keras_bert_ref.tokenization import FullTokenizer, load_vocab
from keras_bert_ref.training import progress, run_record, state, trials

TRIALS = int(os.environ.get("KERAS_BERT_FUZZ_TRIALS", 25))
STRINGS = int(os.environ.get("KERAS_BERT_FUZZ_STRINGS", 5_000))
SEED = int(os.environ.get("KERAS_BERT_FUZZ_SEED", 13))
MAX_SECONDS = 30  # of one trial
LENGTH = 16

VOCAB = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + "\n".join("abcdefgh") + "\n"
CONTEXT = "a b c d e"
SQUAD = {
    "version": "v2.0",
    "data": squad_files.make_articles(
        (CONTEXT, [squad_files.make_answered("q1", CONTEXT, "b c")]),
        (
            CONTEXT,
            [squad_files.make_question("q2", answers=[], is_impossible=True)],
        ),
    ),
}
PUZZLES = (  # values of JSON and columns of TSV that nobody expects
    *("null", "true", "-1", "0", "1e999", "NaN", "-Infinity", '"x"', "[]"),
    *("{}", "1" + "0" * 30, "0.5", '"\\ud800"', '"\\n"', "[" * 3000, "\t"),
    *("\r", "\ufeff", "\u2028", "\0", '"a": 1, "a": 2'),
)


# Readers: each gets a folder in which its files stand.


def write_texts(**texts: str) -> Callable[[pathlib.Path], None]:
    def write(folder: pathlib.Path) -> None:
        for name, text in texts.items():
            (folder / name.replace("__", ".")).write_text(text)

    return write


def write_checkpoint(folder: pathlib.Path) -> None:
    values = np.arange(300, dtype=np.float32).reshape(3, 100)
    arrays = {f"bert/layer_{i}/kernel": values + i for i in range(3)}
    tf1.write(str(folder / "model.ckpt-5"), arrays)


def write_huggingface(folder: pathlib.Path) -> None:
    pretrained = Pretrained.of(BertModel(configs.tiny()))
    pretrained.vocabulary = VOCAB.encode()
    huggingface.write(str(folder), pretrained)


def write_records(make: Callable[[], dict], name: str = "a"):
    def write(folder: pathlib.Path) -> None:
        kind = "GZIP" if name.endswith(".gz") else None
        rows = [make() for _ in range(4)]
        golden_training.write_records(folder / name, rows, kind)

    return write


def sequence_features() -> dict:
    mask = np.arange(LENGTH) < 7
    return {
        "input_ids": np.where(mask, 5, 0),
        "input_mask": mask.astype(int),
        "segment_ids": np.zeros(LENGTH, int),
    }


def pretraining_row() -> dict:
    return {
        **sequence_features(),
        "masked_lm_positions": np.array([1, 2, 0]),
        "masked_lm_ids": np.array([5, 6, 0]),
        "masked_lm_weights": np.array([1.0, 1.0, 0.0]),
        "next_sentence_labels": np.array([1]),
    }


def classifier_row() -> dict:
    return {**sequence_features(), "label_ids": np.array([1])}


def squad_row() -> dict:
    numbers = ("unique_ids", "start_positions", "end_positions")
    return {
        **sequence_features(),
        **{name: np.array([3]) for name in numbers},
        "is_impossible": np.array([0]),
    }


def read_records(schema: dict) -> Callable[[pathlib.Path], list]:
    def read(folder: pathlib.Path) -> list:
        paths = [str(path) for path in folder.iterdir()]
        records = batches.find_records(paths, schema, vocab_size=100)
        rows = []
        with batches.readable_errors(records):
            for batch in batches.batches_in_order(records, 1):
                rows.append({k: v.numpy().tolist() for k, v in batch.items()})
        return rows

    return read


def read_tsv(task: str) -> Callable[[pathlib.Path], Any]:
    def read(folder: pathlib.Path) -> Any:
        row = tasks.get_task(task)
        return classifier_files.read_examples(row, row.train[0], str(folder))

    return read


def read_jsonl(folder: pathlib.Path) -> Any:
    task = splits.make_own_task(
        "jsonl",
        columns=["t", None, "y"],
        is_regression=False,
        data_dir=str(folder),
        output_dir=str(folder),
        kept_labels=None,
        is_training=True,
    )
    return classifier_files.read_examples(task, task.train[0], str(folder))


def read_squad(folder: pathlib.Path) -> Any:
    path = str(folder / "data.json")
    examples.read_squad_examples(path, False)
    articles = examples.read_articles(path)
    if metrics.has_gold_answers(articles, version_2=True):
        metrics.evaluate_v2(articles, {"q1": "b", "q2": ""})
    return examples.read_squad_examples(path, True, True)


def read_config(folder: pathlib.Path) -> Any:
    config = BertConfig.from_json_file(str(folder / "bert_config.json"))
    return config.to_json_string()


def read_corpus(folder: pathlib.Path) -> Any:
    blocks = text_files.read_blocks(str(folder / "corpus.txt"), 64)
    return [block.decode() for block in blocks]


def read_trials(folder: pathlib.Path) -> Any:
    return trials.read_results(str(folder)), progress.read_metrics(str(folder))


def read_checkpoint(folder: pathlib.Path) -> dict:
    arrays = tf1.read(str(folder / "model.ckpt-5"))
    return {name: value.tolist() for name, value in arrays.items()}


def read_huggingface(folder: pathlib.Path) -> None:
    pretrained = huggingface.read(str(folder))
    pretrained.fill(BertModel(pretrained.config))


class Reader(NamedTuple):
    """How to write files, and what must never fail in another way.

    Attributes:
        has_checksums: bool. Damage is found, or makes no difference.
    """

    write: Callable[[pathlib.Path], None]
    read: Callable[[pathlib.Path], Any]
    has_checksums: bool = False


def read_choices(kind: str):
    task = Task(
        kind,
        {"train": (f"train.{kind}",)},
        text_a="q",
        choices=("x", "y"),
    )
    return lambda f: choice_files.read_examples(task, "train", str(f))


CONFIG_TEXT = configs.tiny().to_json_string()
RECORD = {"task": "MRPC", "labels": ["0"], "flags": {"seed": 1}}
RESULT = {"run": "a", "flags": {}, "metrics": {"f1": 0.5}, "seconds": 1.0}
PRETRAINING = pretraining_features.make_schema(LENGTH, 3)
CLASSES = classifier_features.make_schema(LENGTH, False)
SPANS = squad_records.make_schema(LENGTH, True)
STATE = 'model_checkpoint_path: "model.ckpt-5"\n'

READERS = {
    "bert_config": Reader(
        write_texts(bert_config__json=CONFIG_TEXT), read_config
    ),
    "vocabulary": Reader(
        write_texts(vocab__txt=VOCAB), lambda f: load_vocab(f / "vocab.txt")
    ),
    "corpus": Reader(write_texts(corpus__txt="ä b\n\nc d\n" * 9), read_corpus),
    "CoLA": Reader(
        write_texts(train__tsv="x\t1\t\ta b\ny\t0\t*\tc d\n" * 3),
        read_tsv("CoLA"),
    ),
    "STS-B": Reader(
        write_texts(train__tsv="h\ta\tb\ts\n" + "1\tx\ty\t2.5\n" * 4),
        read_tsv("STS-B"),
    ),
    "jsonl": Reader(
        write_texts(train__jsonl='{"t": "a", "y": 1}\n{"t": "b", "y": 2}\n'),
        read_jsonl,
    ),
    "conll": Reader(
        write_texts(train__txt="-DOCSTART- O\n\na B-PER\nb I-PER\n\nc O\n"),
        lambda f: ner_files.read_file(str(f / "train.txt")),
    ),
    "choices": Reader(
        write_texts(train__csv="q,x,y,label\n" + 'a,"b c",d,1\n' * 4),
        read_choices("csv"),
    ),
    "choices jsonl": Reader(
        write_texts(train__jsonl='{"q":"a","x":"b","y":"c","label":1}\n' * 3),
        read_choices("jsonl"),
    ),
    "openbookqa": Reader(
        write_texts(
            train__jsonl=json.dumps(
                {"question": "Why?\n\nA. b\nB. c", "answer": "B. c"}
            )
        ),
        lambda f: choice_files.read_examples(OPENBOOKQA, "train", str(f)),
    ),
    "labels": Reader(
        write_texts(labels__txt="no\nyes\n"),
        lambda f: splits.read_labels(str(f)),
    ),
    "squad": Reader(write_texts(data__json=json.dumps(SQUAD)), read_squad),
    "run.json": Reader(
        write_texts(run__json=json.dumps(RECORD)),
        lambda f: run_record.read(str(f)),
    ),
    "results": Reader(
        write_texts(
            results__jsonl=(json.dumps(RESULT) + "\n") * 2,
            metrics__jsonl='{"step": 1, "loss": 2.0}\n' * 2,
        ),
        read_trials,
    ),
    "state file": Reader(
        write_texts(checkpoint=STATE), lambda f: state.latest(str(f))
    ),
    "checkpoint": Reader(write_checkpoint, read_checkpoint, True),
    "huggingface": Reader(write_huggingface, read_huggingface),
    "pretraining": Reader(
        write_records(pretraining_row), read_records(PRETRAINING), True
    ),
    "compressed": Reader(
        write_records(pretraining_row, "a.gz"), read_records(PRETRAINING), True
    ),
    "classifier": Reader(
        write_records(classifier_row), read_records(CLASSES), True
    ),
    "spans": Reader(write_records(squad_row), read_records(SPANS), True),
}


def damage(content: bytes, rng: random.Random) -> bytes:
    """Changes a file as disks, networks and people do."""
    place = rng.randrange(len(content) + 1)
    end = min(len(content), place + rng.choice([1, 1, 4, 16, 200]))
    kind = rng.choice(["flip", "cut", "drop", "double", "noise", "puzzle"])
    if kind == "flip" and place < len(content):
        flipped = content[place] ^ (1 << rng.randrange(8))
        return content[:place] + bytes([flipped]) + content[place + 1 :]
    if kind == "cut":
        return content[: rng.choice([place, len(content) - 1])]
    middle = {
        "drop": b"",
        "double": content[place:end] * 2,
        "noise": rng.randbytes(end - place),
        "puzzle": rng.choice(PUZZLES).encode(errors="surrogatepass"),
    }.get(kind, b"")
    if kind == "puzzle":  # in place of a word or number
        marks = b' \t\n,:"[]{}'
        while end < len(content) and content[end] not in marks:
            end += 1
        while place > 0 and content[place - 1] not in marks:
            place -= 1
    return content[:place] + middle + content[end:]


@contextlib.contextmanager
def limited_time() -> Iterator[None]:
    def give_up(*_):
        raise TimeoutError(f"a reader took more than {MAX_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name, tmp_path):
    reader = READERS[name]
    original = tmp_path / "original"
    original.mkdir()
    reader.write(original)
    files = {path.name: path.read_bytes() for path in original.iterdir()}
    rng = random.Random(f"{SEED} {name}")
    outcomes = {"refused": 0, "read": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reader.read(original)
        for trial in range(TRIALS):
            damaged = rng.choice(sorted(files))
            folder = tmp_path / "damaged"
            folder.mkdir(exist_ok=True)
            for file, content in files.items():
                if file == damaged:
                    content = damage(content, rng)
                    if rng.random() < 0.3:
                        content = damage(content, rng)
                (folder / file).write_bytes(content)
            where = f"{name}, {damaged}, trial {trial} of seed {SEED}"
            try:
                with limited_time():
                    result = reader.read(folder)
            except TimeoutError:
                raise
            except (ValueError, OSError) as error:
                outcomes["refused"] += 1
                assert str(error), where
            except BaseException as error:
                raise AssertionError(
                    f"{where}: {error!r} from {content[:300]!r}"
                ) from error
            else:
                outcomes["read"] += 1
                # Cut between two records, a file is a shorter one.
                if reader.has_checksums and isinstance(result, list):
                    assert result == expected[: len(result)], where
                elif reader.has_checksums:
                    assert result == expected, where
    print(name, outcomes)


def test_strings(golden_dir):
    """Any text has tokens, the same ones by both ways to ids."""
    rng = random.Random(SEED)
    both = [FullTokenizer(golden_dir / "vocab.txt", c) for c in (True, False)]
    ranges = ((32, 127), (0, 0x300), (0x4E00, 0x9FFF), (0, 0x110000))
    for _ in range(STRINGS):
        low, high = rng.choice(ranges)
        text = "".join(
            chr(rng.randrange(low, high)) for _ in range(rng.randrange(40))
        )
        for tokenizer in both:
            tokens = tokenizer.tokenize(text)
            assert tokenizer.encode(text) == tokenizer.convert_tokens_to_ids(
                tokens
            ), ascii(text)
