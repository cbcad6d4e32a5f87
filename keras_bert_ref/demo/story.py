"""The whole life of a small BERT, with the commands a user would type.

    python -m keras_bert_ref.demo --output_dir=demo_output

Learns a vocabulary from the embedded corpus, writes TFRecords, pre-trains two
layers, and shows what the model guesses for masked words before and after.
Fine-tunes the model to tell paraphrases from contradictions, and to answer
questions on passages it has not seen.
"""

import importlib.resources
import os
import subprocess
import sys
import time

import tensorflow as tf
from absl import app, flags

from keras_bert_ref.config import BertConfig
from keras_bert_ref.demo import report as demo_report

SAMPLES = importlib.resources.files("keras_bert_ref.demo")
LENGTH = 32
# A question with its passage is longer.
QUESTION_LENGTH = 64
PREDICTIONS = 5
STEPS = 900
# One document in so many is held out to evaluate on.
HELD_OUT = 10


def main(folder: str) -> None:
    start = time.perf_counter()
    tf.io.gfile.makedirs(folder)
    copy_samples(folder)
    command(
        "keras_bert_ref.vocabulary",
        input_file=f"{folder}/train.txt",
        vocab_size=1000,
        num_unused=0,
        output_file=f"{folder}/vocab.txt",
    )
    write_config(folder)
    results = pretrain(folder)
    demo_report.show_guesses(folder, STEPS)
    results.append(fine_tune_pairs(folder))
    results.append(fine_tune_questions(folder))
    demo_report.show_answers(folder)
    demo_report.show_summary(folder, results, time.perf_counter() - start)


def pretrain(folder: str) -> list[demo_report.Result]:
    """Writes records, trains on most of them, evaluates on the others."""
    start = time.perf_counter()
    for part, copies in (("train", 20), ("heldout", 5)):
        command(
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
        "output_dir": f"{folder}/pretrained",
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
    }
    command(
        "run_pretraining",
        input_file=f"{folder}/train.tfrecord",
        do_train=True,
        train_batch_size=64,
        learning_rate=7e-4,
        num_train_steps=STEPS,
        num_warmup_steps=STEPS // 10,
        **common,
    )
    command(
        "run_pretraining",
        input_file=f"{folder}/heldout.tfrecord",
        do_eval=True,
        eval_batch_size=32,
        max_eval_steps=10,
        **common,
    )
    seconds = time.perf_counter() - start
    scores = demo_report.read_results(f"{folder}/pretrained")
    words, sentences = "masked_lm_accuracy", "next_sentence_accuracy"
    return [
        demo_report.Result(
            "pre-training: masked words",
            scores[words],
            demo_report.unigram_accuracy(folder),
            "always the commonest word",
            seconds,
        ),
        demo_report.Result(
            "pre-training: next sentences",
            scores[sentences],
            0.5,
            "a coin",
        ),
    ]


def fine_tune_pairs(folder: str) -> demo_report.Result:
    """Do two sentences say the same? In the layout of MRPC."""
    start = time.perf_counter()
    command(
        "run_classifier",
        task_name="mrpc",
        data_dir=f"{folder}/pairs",
        do_train=True,
        do_eval=True,
        max_seq_length=LENGTH,
        train_batch_size=16,
        learning_rate=3e-4,
        num_train_epochs=15,
        **start_from(folder, "pairs"),
    )
    return demo_report.Result(
        "pairs: same or not",
        demo_report.read_results(f"{folder}/pairs")["eval_accuracy"],
        demo_report.commonest_class_accuracy(folder),
        "always the commonest class",
        time.perf_counter() - start,
    )


def fine_tune_questions(folder: str) -> demo_report.Result:
    """Which words of a passage answer a question? In the format of SQuAD."""
    start = time.perf_counter()
    command(
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
        **start_from(folder, "questions"),
    )
    return demo_report.Result(
        "questions: exact answers",
        demo_report.read_results(f"{folder}/questions")["exact_match"] / 100,
        demo_report.first_word_accuracy(folder),
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


def command(module: str, **arguments) -> None:
    """Shows a command and runs it, as a user would."""
    words = [f"--{name}={value}" for name, value in arguments.items()]
    shown = (
        f"python {module}.py" if "." not in module else f"python -m {module}"
    )
    print(f"\n$ {' '.join([shown, *words])}", flush=True)
    subprocess.run([sys.executable, "-m", module, *words], check=True)


def run() -> None:
    output_dir = flags.DEFINE_string(
        "output_dir", "demo_output", "Where everything goes."
    )

    def start(_):
        if os.path.exists(output_dir.value):
            sys.exit(
                f"{output_dir.value} exists already; remove it, or choose "
                "another place with --output_dir."
            )
        main(output_dir.value)

    app.run(start)


if __name__ == "__main__":
    run()
