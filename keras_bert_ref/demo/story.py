"""The whole life of a small BERT, with the commands a user would type.

Learns a vocabulary from the embedded corpus, writes TFRecords, pre-trains two
layers, and shows what the model predicts for masked words before and after.
Fine-tunes the model to tell paraphrases from contradictions, and to answer
questions on passages it has not seen.
"""

import collections
import importlib.resources
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable

import tqdm
from absl import logging

from keras_bert_ref.commands import Options
from keras_bert_ref.config import BertConfig
from keras_bert_ref.demo import page, report
from keras_bert_ref.training import progress

SAMPLES = importlib.resources.files("keras_bert_ref.demo")
LENGTH = 32
# A question with its passage is longer.
QUESTION_LENGTH = 64
PREDICTIONS = 5
STEPS = 900
# One document in so many is held out to evaluate on.
HELD_OUT = 10
LOG_FILE = "log.txt"
# The flags of each command, and what a user would type after `python`.
COMMANDS = {
    "learn_vocabulary": ("vocabulary.flags", "-m keras_bert_ref.vocabulary"),
    "create_pretraining_data": (
        "pretraining.create_data_flags",
        "create_pretraining_data.py",
    ),
    "run_pretraining": ("pretraining.flags", "run_pretraining.py"),
    "run_classifier": ("classifier.flags", "run_classifier.py"),
    "run_squad": ("squad.flags", "run_squad.py"),
    "view": ("view.flags", "-m keras_bert_ref.view"),
}
INDENTS = {"initial_indent": "    ", "subsequent_indent": "    "}


def main(options: Options, _words=()) -> None:
    start = time.perf_counter()
    if options.verbosity <= 0:
        logging.set_verbosity(logging.WARNING)  # what it tells, it prints
    folder = options.output_dir
    os.makedirs(folder)
    copy_samples(folder)
    run_command(
        folder,
        "learn_vocabulary",
        input_file=f"{folder}/train.txt",
        vocab_size=1000,
        num_unused=0,
        output_file=f"{folder}/vocab.txt",
    )
    write_config(folder)
    results = pretrain(folder)
    words = report.show_predictions(folder, STEPS)
    results.append(fine_tune_pairs(folder))
    results.append(fine_tune_questions(folder))
    report.show_answers(folder)
    run_command(
        folder,
        "view",
        model=f"{folder}/pretrained/model.ckpt-0",
        compare=f"{folder}/pretrained/model.ckpt-{STEPS}",
        text=page.VIEWED,
        output=f"{folder}/{page.VIEW_FILE}",
    )
    report.show_summary(folder, results, time.perf_counter() - start)
    path = page.write_story(folder, words, results)
    print(f"\nThe whole story on one page: {path}")


def pretrain(folder: str) -> list[report.Result]:
    """Writes records, trains on most of them, evaluates on the others."""
    start = time.perf_counter()
    for part, copies in (("train", 20), ("heldout", 5)):
        run_command(
            folder,
            "create_pretraining_data",
            input_file=f"{folder}/{part}.txt",
            output_file=f"{folder}/{part}.tfrecord",
            vocab_file=f"{folder}/vocab.txt",
            max_seq_length=LENGTH,
            max_predictions_per_seq=PREDICTIONS,
            dupe_factor=copies,
        )
    common = {
        "bert_config_file": f"{folder}/tiny_config.json",
        "vocab_file": f"{folder}/vocab.txt",
        "output_dir": f"{folder}/pretrained",
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
    }
    evaluation = {"eval_batch_size": 32, "max_eval_steps": 10}
    run_command(
        folder,
        "run_pretraining",
        input_file=f"{folder}/train.tfrecord",
        do_train=True,
        train_batch_size=64,
        learning_rate=7e-4,
        num_train_steps=STEPS,
        num_warmup_steps=STEPS // 10,
        eval_input_file=f"{folder}/heldout.tfrecord",
        eval_every_steps=STEPS // 3,
        **evaluation,
        **common,
    )
    run_command(
        folder,
        "run_pretraining",
        input_file=f"{folder}/heldout.tfrecord",
        do_eval=True,
        **evaluation,
        **common,
    )
    seconds = time.perf_counter() - start
    scores = progress.read_results(f"{folder}/pretrained")
    words, sentences = "masked_lm_accuracy", "next_sentence_accuracy"
    return [
        report.Result(
            "pre-training: masked words",
            scores[words],
            report.unigram_accuracy(folder),
            "always the commonest word",
            seconds,
        ),
        report.Result(
            "pre-training: next sentences",
            scores[sentences],
            0.5,
            "a coin",
        ),
    ]


def fine_tune_pairs(folder: str) -> report.Result:
    """Do two sentences say the same? In the layout of MRPC."""
    start = time.perf_counter()
    run_command(
        folder,
        "run_classifier",
        task_name="mrpc",
        data_dir=f"{folder}/pairs",
        do_train=True,
        do_eval=True,
        max_seq_length=LENGTH,
        train_batch_size=16,
        learning_rate=3e-4,
        num_train_epochs=15,
        eval_every_steps=50,
        **start_from(folder, "pairs"),
    )
    return report.Result(
        "pairs: same or not",
        progress.read_results(f"{folder}/pairs")["eval_accuracy"],
        report.commonest_class_accuracy(folder),
        "always the commonest class",
        time.perf_counter() - start,
    )


def fine_tune_questions(folder: str) -> report.Result:
    """Which words of a passage answer a question? In the format of SQuAD."""
    start = time.perf_counter()
    run_command(
        folder,
        "run_squad",
        train_file=f"{folder}/questions/train.json",
        predict_file=f"{folder}/questions/dev.json",
        do_train=True,
        do_predict=True,
        max_seq_length=QUESTION_LENGTH,
        max_query_length=16,
        trim_batches=True,
        train_batch_size=32,
        learning_rate=1e-3,
        num_train_epochs=40,
        eval_every_steps=100,
        **start_from(folder, "questions"),
    )
    return report.Result(
        "questions: exact answers",
        progress.read_results(f"{folder}/questions")["exact_match"] / 100,
        report.first_word_accuracy(folder),
        "always the first word",
        time.perf_counter() - start,
    )


def start_from(folder: str, task: str) -> dict:
    """What all fine-tuning of the pre-trained model has in common."""
    return {
        "vocab_file": f"{folder}/vocab.txt",
        "bert_config_file": f"{folder}/tiny_config.json",
        "init_checkpoint": f"{folder}/pretrained/model.ckpt-{STEPS}",
        "output_dir": f"{folder}/{task}",
    }


def copy_samples(folder: str) -> None:
    """Copies the texts; every tenth document of the corpus is held out."""
    documents = sample("corpus.txt").strip().split("\n\n")
    held_out = documents[::HELD_OUT]
    train = [d for i, d in enumerate(documents) if i % HELD_OUT]
    write(f"{folder}/train.txt", "\n\n".join(train) + "\n")
    write(f"{folder}/heldout.txt", "\n\n".join(held_out) + "\n")
    for task, kind in (("pairs", "tsv"), ("questions", "json")):
        os.mkdir(f"{folder}/{task}")
        for split in ("train", "dev"):
            text = sample(f"{task}_{split}.{kind}")
            write(f"{folder}/{task}/{split}.{kind}", text)


def sample(name: str) -> str:
    return (SAMPLES / name).read_text(encoding="utf-8")


def write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_config(folder: str) -> None:
    """The released Tiny, two layers of 128, with this vocabulary.

    Dropout and small initial weights are for long training. With the values
    of the paper the model would not get beyond the frequency of words in the
    minute that it has here.
    """
    with open(f"{folder}/vocab.txt", encoding="utf-8") as file:
        vocab_size = len(file.readlines())
    BertConfig(
        vocab_size=vocab_size,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.05,
        max_position_embeddings=QUESTION_LENGTH,
        type_vocab_size=2,
    ).to_json_file(f"{folder}/tiny_config.json")


def run_command(folder: str, name: str, **arguments) -> None:
    """Shows a command and runs it as a user would; its log goes to log.txt."""
    words = [f"--{flag}={value}" for flag, value in arguments.items()]
    module, script = COMMANDS[name]
    print(f"\n$ python {script} \\")
    print(textwrap.fill(" ".join(words), 76, **INDENTS), flush=True)
    code = f"from keras_bert_ref.{module} import command; command()"
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with open(f"{folder}/{LOG_FILE}", "a", encoding="utf-8") as log:
        log.write(f"\n$ python {script} {' '.join(words)}\n")
        last = follow(process.stdout, log)
    seconds = time.perf_counter() - start
    if process.wait():
        sys.exit(
            f"{script} ended with code {process.returncode}; the end of "
            f"{folder}/{LOG_FILE}:\n{last}"
        )
    print(f"  done in {seconds:.0f} s", flush=True)


def follow(output: Iterable[str], log) -> str:
    """Writes what a command says into the log; on a terminal, shows its steps
    as a bar. Returns its last lines."""
    last = collections.deque(maxlen=20)
    bar = tqdm.tqdm(unit="step", leave=False, disable=None)
    with bar:
        for line in output:
            log.write(line)
            last.append(line)
            step = re.match(r"step (\d+)/(\d+): (.*)", line)
            if step and not bar.disable:
                bar.total = int(step[2])
                bar.set_postfix_str(step[3].split(",")[0], refresh=False)
                bar.update(int(step[1]) - bar.n)
    return "".join(last)
