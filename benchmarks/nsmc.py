"""Does pre-training help on Korean film reviews? NSMC, three seeds.

    python benchmarks/nsmc.py --output_dir=/tmp/nsmc --report=docs/NSMC.md

A vocabulary and a BERT of four layers are learned from the reviews of NSMC's
training set, without their labels. Then three models learn from the same
labelled reviews, drawn anew for each seed: that BERT, the same BERT from
random weights, and logistic regressions on bags of words and of pieces. All
are tested on NSMC's whole test set; nothing is chosen on it.

The same command resumes. --stop_after=NAME ends early, --nothing with --report
writes the page from what is there. In miniature, for a try:

    python benchmarks/nsmc.py --output_dir=/tmp/try --max_reviews=2000 \
        --train_reviews=500 --steps=20 --epochs=1 --seeds=1 --vocab_size=3000
"""

import argparse
import json
import pathlib
import random
import statistics

from data import describe_machine
from measuring import read_scores
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from stages import Stages

from keras_bert_ref import FullTokenizer
from keras_bert_ref.tokenization import BasicTokenizer

ROOT = pathlib.Path(__file__).parent.parent
LENGTH, PREDICTIONS, BATCH_SIZE = 64, 10, 64
VOCAB_REVIEWS = 40000  # enough to learn a vocabulary from
CONFIG = {
    "hidden_act": "gelu",
    "hidden_size": 256,
    "initializer_range": 0.02,
    "intermediate_size": 1024,
    "max_position_embeddings": LENGTH,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "type_vocab_size": 2,
}
CONTENDERS = {
    "pretrained": "BERT 4/256/4, pre-trained here, fine-tuned",
    "random": "the same BERT from random weights",
    "words": "logistic regression on a bag of words",
    "pieces": "logistic regression on a bag of pieces and pairs of pieces",
}
REPORT = """# Korean film reviews: what pre-training brings

    {command}

{machine}

NSMC: {train:,} labelled reviews of its training set to learn from, drawn anew
for each of {seeds} seeds and the same for all rows; {test:,} reviews of its
test set to test on. The BERT was pre-trained for {steps:,} steps of {batch}
sequences of up to {length} pieces in {minutes:.0f} minutes without dropout, on
the reviews of the training set without their labels and without pairs of
sentences; its vocabulary has {pieces:,} pieces, learned from the same reviews.
Fine-tuning: {epochs:g} epochs, batches of 32, learning rate 3e-4, dropout 0.1.
Every setting was fixed beforehand. Accuracy on the test set:

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
        for part, copies in (("train", 5), ("dev", 1)):
            self.run(
                f"records {part}",
                lambda part=part, copies=copies: self.make_records(
                    part, copies
                ),
            )
        self.run("pretraining", self.pretrain)
        for seed in range(self.options.seeds):
            self.run(f"sample {seed}", lambda seed=seed: self.sample(seed))
            for name in CONTENDERS:
                is_bert = name in ("pretrained", "random")
                work = self.fine_tune if is_bert else self.regress
                self.run(
                    f"{name} {seed}",
                    lambda work=work, name=name, seed=seed: work(name, seed),
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
        for rate, path in self.configs.items():
            config = {**CONFIG, "vocab_size": size}
            config["hidden_dropout_prob"] = rate
            config["attention_probs_dropout_prob"] = rate
            path.write_text(json.dumps(config))
        return {"pieces": size}

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
            "--learning_rate=5e-4",
            f"--num_train_steps={steps}",
            f"--num_warmup_steps={steps // 10}",
        )
        self.command(
            "run_pretraining.py",
            *shared,
            "--do_eval",
            f"--input_file={self.folder}/dev.tfrecord",
        )
        return read_scores(self.folder / "pretrained")

    def sample(self, seed: int) -> None:
        """The labelled reviews of a seed; what run_classifier.py calls dev is
        the test set."""
        source = self.folder / "korean/nsmc"
        limit = self.options.max_reviews
        rows = read_rows(source / "train.tsv", limit)
        count = self.options.train_reviews
        target = self.folder / f"sample_{seed}"
        write_rows(
            target / "train.tsv", random.Random(seed).sample(rows, count)
        )
        write_rows(target / "dev.tsv", read_rows(source / "test.tsv", limit))

    def fine_tune(self, name: str, seed: int) -> dict:
        start = f"{self.folder}/pretrained/model.ckpt-{self.options.steps}"
        output_dir = self.folder / f"{name}_{seed}"
        self.command(
            "run_classifier.py",
            "--task_name=tsv",
            "--text_a_column=document",
            "--label_column=label",
            f"--data_dir={self.folder}/sample_{seed}",
            f"--bert_config_file={self.configs[0.1]}",
            f"--vocab_file={self.vocab}",
            "--nodo_lower_case",
            *([f"--init_checkpoint={start}"] * (name == "pretrained")),
            f"--max_seq_length={LENGTH}",
            "--train_batch_size=32",
            "--learning_rate=3e-4",
            f"--num_train_epochs={self.options.epochs}",
            f"--seed={seed}",
            "--trim_batches",
            "--do_train",
            "--do_eval",
            f"--output_dir={output_dir}",
        )
        return {"accuracy": read_scores(output_dir)["eval_accuracy"]}

    def regress(self, name: str, seed: int) -> dict:
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
        folder = self.folder / f"sample_{seed}"
        texts, labels = texts_and_labels(folder / "train.tsv")
        model = LogisticRegression(max_iter=1000)
        model.fit(bag.fit_transform(texts), labels)
        texts, labels = texts_and_labels(folder / "dev.tsv")
        return {"accuracy": model.score(bag.transform(texts), labels)}

    def report(self) -> str:
        seeds = range(self.options.seeds)
        scores = {
            name: [100 * self.results[f"{name} {s}"]["accuracy"] for s in seeds]
            for name in CONTENDERS
        }
        rows = [
            f"| {title} | {statistics.mean(scores[name]):.2f} | "
            f"{spread(scores[name])} | "
            f"{', '.join(f'{x:.2f}' for x in scores[name])} | "
            f"{self.mean_seconds(name):,.0f} |"
            for name, title in CONTENDERS.items()
        ]
        return REPORT.format(
            command=self.describe_command(),
            machine=describe_machine(),
            train=self.options.train_reviews,
            test=len(read_rows(self.folder / "sample_0/dev.tsv")),
            seeds=self.options.seeds,
            steps=self.options.steps,
            batch=BATCH_SIZE,
            length=LENGTH,
            minutes=self.results["pretraining"]["seconds"] / 60,
            pieces=self.results["vocabulary"]["pieces"],
            epochs=self.options.epochs,
            rows="\n".join(rows),
            verdict=compare(scores["pretrained"], scores["random"]),
        )

    def mean_seconds(self, name: str) -> float:
        return statistics.mean(
            self.results[f"{name} {seed}"]["seconds"]
            for seed in range(self.options.seeds)
        )

    def describe_command(self) -> str:
        names = ["steps", "train_reviews", "epochs", "seeds", "vocab_size"]
        names += ["max_reviews"] * (self.options.max_reviews is not None)
        flags = [f"--{name}={getattr(self.options, name):g}" for name in names]
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
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--train_reviews", type=int, default=20000)
    parser.add_argument("--epochs", type=float, default=3.0)
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
