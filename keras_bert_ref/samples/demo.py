"""The whole life of a small BERT, with the commands a user would type.

    python -m keras_bert_ref.samples.demo --output_dir=demo_output

Learns a vocabulary from the embedded corpus, writes TFRecords, pre-trains two
layers, and shows what the model guesses for masked words before and after.
"""

import collections
import importlib.resources
import os
import subprocess
import sys
import time

import numpy as np
import tensorflow as tf
from absl import app, flags

from keras_bert_ref.config import BertConfig
from keras_bert_ref.data.records import read_records
from keras_bert_ref.heads import BertPretraining
from keras_bert_ref.tokenization import FullTokenizer

LENGTH = 32
PREDICTIONS = 5
STEPS = 900
# One document in so many is held out to evaluate on.
HELD_OUT = 10
SENTENCES = [
    "Tom is a [MASK] .",
    "Anna bakes white [MASK] and honey cakes .",
    "The lighthouse is [MASK] , and it stands on a rock .",
    "Every morning Tom takes his [MASK] out of the harbour .",
]


def main(folder: str) -> None:
    start = time.perf_counter()
    tf.io.gfile.makedirs(folder)
    split_corpus(folder)
    command(
        "keras_bert_ref.vocabulary",
        input_file=f"{folder}/train.txt",
        vocab_size=1000,
        num_unused=0,
        output_file=f"{folder}/vocab.txt",
    )
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
    write_config(folder)
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
    show_guesses(folder)
    show_summary(folder, time.perf_counter() - start)


def split_corpus(folder: str) -> None:
    """Copies the embedded corpus, every tenth document into a file apart."""
    samples = importlib.resources.files("keras_bert_ref.samples")
    text = (samples / "corpus.txt").read_text(encoding="utf-8")
    documents = text.strip().split("\n\n")
    parts = {
        "heldout": documents[::HELD_OUT],
        "train": [d for i, d in enumerate(documents) if i % HELD_OUT],
    }
    for name, chosen in parts.items():
        with open(f"{folder}/{name}.txt", "w", encoding="utf-8") as file:
            file.write("\n\n".join(chosen) + "\n")


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
        max_position_embeddings=LENGTH,
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


def show_guesses(folder: str) -> None:
    """Prints the likeliest words for some masks, before and after."""
    tokenizer = FullTokenizer(f"{folder}/vocab.txt", do_lower_case=True)
    before, after = (
        BertPretraining.from_checkpoint(
            f"{folder}/pretrained/model.ckpt-{step}"
        )
        for step in (0, STEPS)
    )
    print("\nGuesses for [MASK], before and after pre-training:")
    for sentence in SENTENCES:
        print(f"  {sentence}")
        print(f"    before: {', '.join(guess(before, tokenizer, sentence))}")
        print(f"    after:  {', '.join(guess(after, tokenizer, sentence))}")


def guess(model, tokenizer, sentence: str, count: int = 3) -> list[str]:
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


def show_summary(folder: str, seconds: float) -> None:
    """Prints the results as a table."""
    with open(f"{folder}/pretrained/eval_results.txt") as file:
        results = dict(line.strip().split(" = ") for line in file)
    rows = [
        (
            "masked words, held-out documents",
            f"{float(results['masked_lm_accuracy']):.1%}",
            f"{unigram_accuracy(folder):.1%} (always the commonest word)",
        ),
        (
            "next sentences, held-out documents",
            f"{float(results['next_sentence_accuracy']):.1%}",
            "50.0% (a coin)",
        ),
    ]
    print(f"\n{'':36}{'accuracy':12}baseline")
    for name, ours, baseline in rows:
        print(f"{name:36}{ours:12}{baseline}")
    print(
        f"\nDone in {seconds:.0f} s. Curves: {folder}/pretrained/curves.png; "
        f"the model: BertModel.from_checkpoint({folder + '/pretrained'!r})"
    )


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
