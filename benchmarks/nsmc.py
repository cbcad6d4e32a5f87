"""Does pre-training help on Korean film reviews? NSMC, three seeds.

    python benchmarks/nsmc.py --output_dir=/tmp/nsmc --report=docs/NSMC.md

A vocabulary and a BERT of two layers are learned from the reviews of NSMC's
training set, without their labels. Then that BERT, the same BERT from random
weights, and logistic regressions on bags of words and of pieces learn from
the same labelled reviews, drawn anew for each seed. Each chooses its learning
rate, or its regularization, on reviews held out from the training set; then
it is tested once, on the whole test set.

The same command resumes. --stop_after=NAME ends early, --nothing with --report
writes the page from what is there. In miniature, for a try:

    python benchmarks/nsmc.py --output_dir=/tmp/try --max_reviews=2000 \
        --train_reviews=500 --steps=20 --seeds=1 --vocab_size=3000
"""

import argparse
import json
import os
import pathlib
import random
import statistics

import numpy as np
from data import describe_machine
from measuring import read_scores
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from stages import Stages

from keras_bert_ref import FullTokenizer
from keras_bert_ref.tokenization import BasicTokenizer
from keras_bert_ref.training import progress
from keras_bert_ref.training.report import total_seconds

ROOT = pathlib.Path(__file__).parent.parent
LENGTH, PREDICTIONS, BATCH_SIZE = 64, 10, 96
VOCAB_REVIEWS = 40_000  # enough to learn a vocabulary from
DEV_REVIEWS = 2_000  # to choose settings on
FINE_TUNING_STEPS = 600  # whatever the number of reviews
RATES = "3e-4,1e-3"  # learning rates to choose from
REGULARIZATIONS = (0.03, 0.1, 0.3, 1.0)
CONFIG = {
    "hidden_act": "gelu",
    "hidden_size": 128,
    "initializer_range": 0.05,  # for a short training
    "intermediate_size": 512,
    "max_position_embeddings": LENGTH,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
}
CONTENDERS = {
    "pretrained": "BERT 2/128/2, pre-trained here, fine-tuned",
    "random": "the same BERT from random weights",
    "words": "logistic regression on a bag of words",
    "pieces": "logistic regression on a bag of pieces and pairs of pieces",
}
REPORT = """# Korean film reviews: what pre-training brings

    {command}

{machine}

NSMC: {test:,} reviews of its test set to test on; to learn from, reviews of
its training set, drawn anew for each of {seeds} seeds and the same for all
rows of a table. The BERT was pre-trained for {steps:,} steps of {batch}
reviews of up to {length} pieces in {minutes:.0f} minutes on {cores}, without
dropout, on the {train:,} reviews of the training set that are not held out,
without their labels and without pairs of sentences. On the reviews held out
it then predicts {words:.1%} of the masked pieces. Its vocabulary has {pieces:,}
pieces, learned from {vocabulary:,} of the same reviews. Fine-tuning: about
{tuning:,} steps of 32 reviews with dropout 0.1; the learning rate ({rates})
and the regularization of the regressions were chosen for each seed on
{dev:,} reviews that were held out, before the test. Accuracy on the test set,
in percent:

{tables}
"""
TABLE = """## {count:,} labelled reviews

| Model | Mean | Standard deviation | Each seed | Seconds to train and test |
|---|--:|--:|---|--:|
{rows}

{verdict}
"""


def read_rows(path: pathlib.Path, limit: int | None = None) -> list[str]:
    """The lines of a file without its header."""
    text = path.read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")[1:][:limit]


def write_rows(path: pathlib.Path, rows: list[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    text = "".join(f"{row}\n" for row in ["id\tdocument\tlabel", *rows])
    path.write_text(text, encoding="utf-8")


def texts_and_labels(path: pathlib.Path) -> tuple[list[str], list[str]]:
    rows = [row.split("\t") for row in read_rows(path)]
    return [row[1] for row in rows], [row[2] for row in rows]


class Nsmc(Stages):
    def __init__(self, options):
        super().__init__(pathlib.Path(options.output_dir), options.stop_after)
        self.options = options
        self.vocab = self.folder / "vocab.txt"
        # By rate of dropout: a short pre-training does not overfit.
        self.configs = {
            rate: self.folder / f"dropout_{rate}.json" for rate in (0.0, 0.1)
        }

    def run_all(self) -> None:
        self.run("data", self.prepare)
        self.run("vocabulary", self.learn_vocabulary)
        self.run("configs", self.write_configs)
        for part, copies in (("train", 5), ("dev", 1)):
            self.run(
                f"records {part}",
                lambda part=part, copies=copies: self.make_records(
                    part, copies
                ),
            )
        self.run("pretraining", self.pretrain)
        for count in self.options.train_reviews:
            for seed in range(self.options.seeds):
                self.run_seed(count, seed)

    def run_seed(self, count: int, seed: int) -> None:
        data_dir = self.folder / f"sample_{count}_{seed}"
        self.run(
            f"sample {count} {seed}", lambda: self.sample(data_dir, count, seed)
        )
        for name in CONTENDERS:
            is_bert = name in ("pretrained", "random")
            work = self.fine_tune if is_bert else self.regress
            self.run(
                f"{name} {count} {seed}",
                lambda work=work, name=name: work(name, data_dir, count, seed),
            )

    def prepare(self) -> None:
        self.command(
            "keras_bert_ref.korean",
            f"--data_dir={self.options.data_dir}",
            f"--output_dir={self.folder}/korean",
        )
        for part in ("train", "dev"):
            rows = read_rows(
                self.folder / f"korean/nsmc/{part}.tsv",
                self.options.max_reviews,
            )
            self.write_corpus(part, rows)
            if part == "train":
                self.write_corpus("vocabulary", rows[:VOCAB_REVIEWS])

    def write_corpus(self, name: str, rows: list[str]) -> None:
        """A review is a document of one line."""
        text = "".join(row.split("\t")[1] + "\n\n" for row in rows)
        (self.folder / f"{name}.txt").write_text(text, encoding="utf-8")

    def learn_vocabulary(self) -> dict:
        self.command(
            "keras_bert_ref.vocabulary",
            f"--input_file={self.folder}/vocabulary.txt",
            f"--vocab_size={self.options.vocab_size}",
            "--nodo_lower_case",
            "--num_unused=0",
            f"--output_file={self.vocab}",
        )
        size = len(FullTokenizer(str(self.vocab), do_lower_case=False).vocab)
        return {"pieces": size}

    def write_configs(self) -> None:
        for rate, path in self.configs.items():
            config = {
                **CONFIG,
                "vocab_size": self.results["vocabulary"]["pieces"],
                "hidden_dropout_prob": rate,
                "attention_probs_dropout_prob": rate,
            }
            path.write_text(json.dumps(config))

    def make_records(self, part: str, copies: int) -> None:
        self.command(
            "create_pretraining_data.py",
            f"--input_file={self.folder}/{part}.txt",
            f"--output_file={self.folder}/{part}.tfrecord",
            f"--vocab_file={self.vocab}",
            "--nodo_lower_case",
            "--nonext_sentence_pairs",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            f"--dupe_factor={copies}",
        )

    def pretrain(self) -> dict:
        steps = self.options.steps
        shared = [
            f"--bert_config_file={self.configs[0.0]}",
            f"--vocab_file={self.vocab}",
            "--nodo_lower_case",
            "--nonext_sentence_loss",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            f"--output_dir={self.folder}/pretrained",
        ]
        self.command(
            "run_pretraining.py",
            *shared,
            "--do_train",
            "--trim_batches",
            f"--input_file={self.folder}/train.tfrecord",
            f"--train_batch_size={BATCH_SIZE}",
            "--learning_rate=1e-3",
            f"--num_train_steps={steps}",
            f"--num_warmup_steps={steps // 20}",
        )
        self.command(
            "run_pretraining.py",
            *shared,
            "--do_eval",
            f"--input_file={self.folder}/dev.tfrecord",
        )
        cores = len(os.sched_getaffinity(0))  # fewer under taskset
        return {**read_scores(self.folder / "pretrained"), "cores": cores}

    def sample(self, target: pathlib.Path, count: int, seed: int) -> None:
        """The reviews of a seed, in the layout of run_classifier.py."""
        source = self.folder / "korean/nsmc"
        draw = random.Random(seed).sample
        parts = {
            name: read_rows(source / f"{name}.tsv", self.options.max_reviews)
            for name in ("train", "dev", "test")
        }
        parts["train"] = draw(parts["train"], count)
        parts["dev"] = parts["dev"][:DEV_REVIEWS]
        for name, rows in parts.items():
            write_rows(target / f"{name}.tsv", rows)

    def fine_tune(
        self, name: str, data_dir: pathlib.Path, count: int, seed: int
    ) -> dict:
        start = f"{self.folder}/pretrained/model.ckpt-{self.options.steps}"
        output_dir = self.folder / f"{name}_{count}_{seed}"
        epochs = max(1, round(FINE_TUNING_STEPS * 32 / count))
        self.command(
            "run_classifier.py",
            "--task_name=tsv",
            "--text_a_column=document",
            "--label_column=label",
            f"--data_dir={data_dir}",
            f"--bert_config_file={self.configs[0.1]}",
            f"--vocab_file={self.vocab}",
            "--nodo_lower_case",
            *([f"--init_checkpoint={start}"] * (name == "pretrained")),
            f"--max_seq_length={LENGTH}",
            "--train_batch_size=32",
            "--eval_batch_size=64",
            "--predict_batch_size=64",
            f"--learning_rates={RATES}",
            f"--num_train_epochs={epochs}",
            f"--seed={seed}",
            "--do_train",
            "--do_eval",
            "--do_predict",
            f"--output_dir={output_dir}",
        )
        probabilities = np.loadtxt(output_dir / "test_results.tsv")
        _, labels = texts_and_labels(data_dir / "test.tsv")
        chosen = probabilities.argmax(axis=1)
        return {"accuracy": float((chosen == np.array(labels, int)).mean())}

    def regress(
        self, name: str, data_dir: pathlib.Path, _count: int, _seed: int
    ) -> dict:
        if name == "words":
            words = BasicTokenizer(do_lower_case=False)
            tokenize, ngrams = words.tokenize, (1, 1)
        else:
            full = FullTokenizer(str(self.vocab), do_lower_case=False)
            tokenize, ngrams = full.tokenize, (1, 2)
        bag = CountVectorizer(
            tokenizer=tokenize,
            token_pattern=None,
            lowercase=False,
            ngram_range=ngrams,
        )
        texts, labels = texts_and_labels(data_dir / "train.tsv")
        counts = bag.fit_transform(texts)
        dev_texts, dev_labels = texts_and_labels(data_dir / "dev.tsv")
        dev_counts = bag.transform(dev_texts)
        models = [
            LogisticRegression(C=c, max_iter=1000).fit(counts, labels)
            for c in REGULARIZATIONS
        ]
        best = max(models, key=lambda m: m.score(dev_counts, dev_labels))
        texts, labels = texts_and_labels(data_dir / "test.tsv")
        return {"accuracy": best.score(bag.transform(texts), labels)}

    def report(self) -> str:
        results, options = self.results, self.options
        cores = results["pretraining"]["cores"]
        counts = [
            count
            for count in options.train_reviews
            if f"pieces {count} {options.seeds - 1}" in results
        ]
        source = self.folder / "korean/nsmc"
        lines = progress.read_metrics(str(self.folder / "pretrained"))
        return REPORT.format(
            command=self.describe_command(),
            machine=describe_machine(),
            test=len(read_rows(source / "test.tsv", options.max_reviews)),
            train=len(read_rows(source / "train.tsv", options.max_reviews)),
            dev=DEV_REVIEWS,
            seeds=options.seeds,
            steps=options.steps,
            batch=BATCH_SIZE,
            length=LENGTH,
            minutes=total_seconds(lines) / 60,
            cores="one core" if cores == 1 else f"{cores} cores",
            words=results["pretraining"]["masked_lm_accuracy"],
            pieces=results["vocabulary"]["pieces"],
            vocabulary=VOCAB_REVIEWS,
            tuning=FINE_TUNING_STEPS,
            rates=RATES.replace(",", " or "),
            tables="\n".join(self.table(count) for count in counts),
        )

    def table(self, count: int) -> str:
        scores, rows = {}, []
        for name, title in CONTENDERS.items():
            found = [
                self.results[f"{name} {count} {seed}"]
                for seed in range(self.options.seeds)
            ]
            scores[name] = [100 * one["accuracy"] for one in found]
            each = ", ".join(f"{score:.2f}" for score in scores[name])
            seconds = statistics.mean(one["seconds"] for one in found)
            rows.append(
                f"| {title} | {statistics.mean(scores[name]):.2f} | "
                f"{spread(scores[name])} | {each} | {seconds:,.0f} |"
            )
        return TABLE.format(
            count=count,
            rows="\n".join(rows),
            verdict=compare(scores["pretrained"], scores["random"]),
        )

    def describe_command(self) -> str:
        names = ["steps", "seeds", "vocab_size"]
        names += ["max_reviews"] * (self.options.max_reviews is not None)
        flags = [f"--{name}={getattr(self.options, name):g}" for name in names]
        counts = " ".join(map(str, self.options.train_reviews))
        flags.append(f"--train_reviews {counts}")
        return " ".join(["python benchmarks/nsmc.py", *flags])


def spread(values: list[float]) -> str:
    return f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""


def compare(ours: list[float], theirs: list[float]) -> str:
    """By seed, since both learned from the same reviews."""
    gains = [a - b for a, b in zip(ours, theirs, strict=True)]
    by_seed = ", ".join(f"{gain:+.2f}" for gain in gains)
    return (
        f"Pre-training changes accuracy by {statistics.mean(gains):+.2f} "
        f"points on average; seed by seed: {by_seed}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--report", help="the page to write")
    parser.add_argument("--nothing", action="store_true", help="run nothing")
    parser.add_argument("--stop_after", help="the last result to make")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument(
        "--train_reviews", type=int, nargs="+", default=[2000, 10000]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--vocab_size", type=int, default=8000)
    parser.add_argument("--max_reviews", type=int, help="for a try")
    parser.add_argument(
        "--data_dir", default=ROOT.parent / "shared/data/korean"
    )
    nsmc = Nsmc(parser.parse_args())
    if not nsmc.options.nothing:
        nsmc.run_all()
    if nsmc.options.report:
        pathlib.Path(nsmc.options.report).write_text(nsmc.report())


if __name__ == "__main__":
    main()
