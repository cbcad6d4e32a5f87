"""The paper's ablations in miniature: tables 5 and 8, figure 5.

    python benchmarks/ablations.py --output_dir=/tmp/ablations \
        --report=docs/ABLATIONS.md

Two-layer models are pre-trained on one corpus, each with the same number of
sequences, then fine-tuned on SST-2 and on CoNLL-2003, three seeds each, before
the next one is. Every command resumes, and what it gave is a line of the
results' file; so this one resumes too, also on another machine, where only a
model with rows that are still missing is pre-trained again. --stop_after=NAME
ends early, --nothing with --report writes the page from what is there.
"""

import argparse
import json
import math
import pathlib
import re
import statistics
import sys
import textwrap

import numpy as np
from data import describe_machine
from measuring import error_of, mean_and_error, read_scores
from stages import Stages

from keras_bert_ref import files

ROOT = pathlib.Path(__file__).parent.parent
SHARED_DATA = ROOT.parent / "shared/data"
LENGTH, PREDICTIONS, BATCH_SIZE, VOCAB_SIZE = 64, 10, 64, 4000
SETTINGS = ("steps", "sst2_epochs", "ner_epochs", "max_documents")
FREQUENCIES = "word frequencies"
# A model whose perplexity is above this share of what the frequencies of words
# alone give has not learned from context.
LEARNED = 0.9
HELD_OUT = 40  # one document of so many
SEEDS = 3

# Of records: the shares of [MASK] and of words that stay.
MASKING = {
    "80/10/10": (0.8, 0.1),
    "100/0/0": (1.0, 0.0),
    "0/0/100": (0.0, 0.0),
}
# Of models: what they are called, their records, direction and flags.
MODELS = {
    "mlm_nsp": ("MLM and NSP", "80/10/10", "bidi", ["--seed=1"]),
    "mlm_nsp_2": ("the same, another seed", "80/10/10", "bidi", ["--seed=2"]),
    "no_nsp": ("no NSP", "80/10/10", "bidi", ["--nonext_sentence_loss"]),
    "ltr": ("left to right, no NSP", "80/10/10", "ltr", []),
    **{
        name: (
            f"masked {masking}, rate 3e-4",
            masking,
            "bidi",
            ["--learning_rate=3e-4"],
        )
        for name, masking in (
            ("mask_80", "80/10/10"),
            ("mask_100", "100/0/0"),
            ("random_100", "0/0/100"),
        )
    },
}
# Of rows of the table: the model, the share of its steps, further flags.
ROWS = {name: (name, 1.0, []) for name in MODELS}
ROWS["random"] = (None, 1.0, [])
ROWS |= {
    f"{name}_bilstm": (*ROWS[name][:2], ["--bilstm_units=128"])
    for name in ("ltr", "no_nsp", "random")
}
FIGURE_5 = {
    f"{name}_at_{part}": (name, part / 3, [])
    for name in ("mlm_nsp", "ltr")
    for part in (1, 2)
}
TITLES = {name: title for name, (title, *_) in MODELS.items()} | {
    "random": "random weights",
    "ltr_bilstm": "left to right, no NSP, + BiLSTM",
    "no_nsp_bilstm": "no NSP, + BiLSTM",
    "random_bilstm": "random weights, + BiLSTM",
}
# What the paper has for Base: SST-2 and MNLI of table 5, NER of table 8.
PAPER = {
    "mlm_nsp": ("92.7", "84.4", ""),
    "no_nsp": ("92.6", "83.9", ""),
    "ltr": ("92.1", "82.1", ""),
    "ltr_bilstm": ("91.6", "82.1", ""),
    "mask_80": ("", "84.2", "95.4"),
    "mask_100": ("", "84.3", "94.9"),
    "random_100": ("", "83.6", "94.9"),
}
REPORT = """# The paper's ablations in miniature

    .venv-peers/bin/python benchmarks/ablations.py \\
        --output_dir=/tmp/ablations --report=docs/ABLATIONS.md

{machine} In all {hours:.1f} hours.

Two-layer models (2/128/2, vocabulary of {vocab_size:,}, dropout 0) pre-trained
on 19 MB of Wikipedia, each on {sequences:,} sequences of {length} tokens
({steps:,} steps of {batch_size}); then fine-tuned, {seeds} seeds each, on SST-2
(epochs: {sst2_epochs:g}) and CoNLL-2003, one sentence at a time (epochs:
{ner_epochs:g}). The models are uncased and a hundred times smaller than the
paper's, so absolute numbers are incomparable; what can be compared is their
order. Perplexity is that of masked words on held-out documents, masked 80/10/10
for all models; the frequencies of words alone give {frequencies:.0f}. That of
the left-to-right model is of next words and another quantity. SST-2 is accuracy
on dev, NER is F1 on testa. Means with their standard errors. The BiLSTM (128
units in each direction) starts from random weights in fine-tuning; the paper
has it on the left-to-right model only.

| Model | Perplexity | SST-2 | NER F1 | Paper, Base: SST-2 | MNLI | NER |
|---|--:|--:|--:|--:|--:|--:|
{rows}

The maskings are compared at a learning rate of 3e-4. At the 1e-3 of all others
only 80/10/10 gets beyond the frequencies of words within these steps (without
NSP at about step 2,700); 100/0/0 and 0/0/100 ended at perplexities of 701 and
726, below random weights in both tasks, and 100/0/0 was no further after 7,500
steps of 12,000. (Lines that begin with `1e-3` in the results' file.) At 3e-4
all three learn, but after these steps none is above random weights: the budget
is too small to tell maskings apart. In fine-tuning for NER, also at 1e-3, two
of three trainings of random weights with a BiLSTM found next to no names.

## By the number of steps (figure 5)

| Steps | MLM: SST-2 | NER | Left to right: SST-2 | NER |
|--:|--:|--:|--:|--:|
{figure}

## Which orders show

A difference shows if it exceeds two of its errors. These are made of what the
fine-tuning seeds of both rows differ by and, between two pre-trainings, of what
pre-trainings differ by. For the latter there is one pair that differs in the
seed only, by {noise}; so it is rough, and where it is most of an error, an
order that shows by little may be chance. There are {count} comparisons: one or
two of them may show by chance.

{orders}
"""
ORDERS = [
    ("mlm_nsp", "random", "Pre-training helps"),
    ("mlm_nsp", "no_nsp", "NSP helps (table 5)"),
    ("no_nsp", "ltr", "Both directions beat one (table 5)"),
    (
        *("ltr_bilstm", "ltr"),
        "A BiLSTM helps the left-to-right model (table 5: on SQuAD, not on "
        "SST-2)",
    ),
    (
        "no_nsp",
        "ltr_bilstm",
        "Both directions beat one with a BiLSTM (table 5)",
    ),
    ("no_nsp_bilstm", "ltr_bilstm", "Both directions beat one, both with it"),
    ("mask_80", "mask_100", "80/10/10 beats 100/0/0 (table 8: in NER)"),
    ("mask_80", "random_100", "80/10/10 beats 0/0/100 (table 8)"),
    ("mask_100", "random_100", "100/0/0 beats 0/0/100 (table 8: on MNLI)"),
]
TASKS = {"sst2": "eval_accuracy", "ner": "eval_f1"}
TITLES_OF_TASKS = {"sst2": "SST-2", "ner": "NER"}


class Ablations(Stages):
    def __init__(self, options):
        folder = pathlib.Path(options.output_dir)
        super().__init__(
            folder, options.stop_after, pathlib.Path(options.results)
        )
        self.preparation = Stages(folder)
        self.options = options
        settings = {
            "vocab_size": VOCAB_SIZE,
            **{name: getattr(options, name) for name in SETTINGS},
        }
        found = self.run("settings", lambda: settings)
        if not settings.items() <= found.items():
            sys.exit(
                f"{self.path} holds results of {found}, but these runs have "
                f"{settings}; choose another --results, and another "
                "--output_dir."
            )
        if self.preparation.results.keys() - {"settings"}:
            kept = self.preparation.results.get("settings", {})
        else:
            kept = self.preparation.run("settings", lambda: settings)
        if not settings.items() <= kept.items():
            sys.exit(
                f"{folder} was made with {kept}, but these runs have "
                f"{settings}; choose another --output_dir."
            )

    def prepare(self) -> None:
        """Text, vocabulary, records and configs."""
        run = self.preparation.run
        run("text", self.split_corpus)
        run(
            "vocabulary",
            lambda: self.command(
                "keras_bert_ref.vocabulary",
                f"--input_file={self.folder}/train.txt",
                f"--vocab_size={VOCAB_SIZE}",
                f"--output_file={self.folder}/vocab.txt",
            ),
        )
        for masking in MASKING:
            run(
                f"records {masking}",
                lambda masking=masking: self.make_records(masking, "train", 5),
            )
        run(
            "records held out",
            lambda: self.make_records("80/10/10", "held_out", 1),
        )
        vocab = (self.folder / "vocab.txt").read_text().splitlines()
        config = json.loads(
            (ROOT / "configs/runs/wikipedia_sections.json").read_text()
        )
        config["vocab_size"] = len(vocab)
        for direction in ("bidi", "ltr"):
            path = self.folder / f"{direction}.json"
            values = {**config, "directionality": direction}
            path.write_text(json.dumps(values))

    def split_corpus(self) -> None:
        documents = pathlib.Path(self.options.corpus).read_text().split("\n\n")
        parts = {"train": [], "held_out": []}
        for i, text in enumerate(documents[: self.options.max_documents]):
            parts["held_out" if i % HELD_OUT == 0 else "train"].append(text)
        for name, texts in parts.items():
            path = self.folder / f"{name}.txt"
            path.write_text("\n\n".join(texts) + "\n")

    def records(self, masking: str, part: str) -> pathlib.Path:
        return self.folder / f"{part}_{masking.replace('/', '_')}.tfrecord"

    def make_records(self, masking: str, part: str, copies: int) -> None:
        mask, keep = MASKING[masking]
        self.command(
            "create_pretraining_data.py",
            f"--input_file={self.folder}/{part}.txt",
            f"--output_file={self.records(masking, part)}",
            f"--vocab_file={self.folder}/vocab.txt",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            f"--dupe_factor={copies}",
            f"--mask_prob={mask}",
            f"--keep_prob={keep}",
        )

    def count_words(self) -> dict:
        """What masked words cost if only the frequencies of words are known,
        with one more of each."""
        counts = np.ones(VOCAB_SIZE)
        for ids in self.masked_words("train"):
            counts += np.bincount(ids, minlength=VOCAB_SIZE)
        losses = np.log(counts.sum()) - np.log(counts)
        held_out = np.concatenate(list(self.masked_words("held_out")))
        return {"perplexity": math.exp(losses[held_out].mean())}

    def masked_words(self, part: str):
        import tensorflow as tf

        shape = [PREDICTIONS]
        schema = {
            "masked_lm_ids": tf.io.FixedLenFeature(shape, tf.int64),
            "masked_lm_weights": tf.io.FixedLenFeature(shape, tf.float32),
        }
        path = str(self.records("80/10/10", part))
        for batch in tf.data.TFRecordDataset(path).batch(10_000):
            found = tf.io.parse_example(batch, schema)
            is_masked = found["masked_lm_weights"].numpy() > 0
            yield found["masked_lm_ids"].numpy()[is_masked]

    def pretrain(self, name: str) -> dict:
        _, masking, direction, flags = MODELS[name]
        steps = self.options.steps
        shared = [
            f"--bert_config_file={self.folder}/{direction}.json",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            f"--output_dir={self.folder}/{name}",
            f"--train_batch_size={BATCH_SIZE}",
            "--learning_rate=1e-3",
            f"--num_train_steps={steps}",
            f"--num_warmup_steps={max(1, steps // 20)}",
            f"--save_checkpoints_steps={steps // 3}",
            "--keep_checkpoint_max=0",
            *flags,
        ]
        self.command(
            "run_pretraining.py",
            *shared,
            "--do_train",
            f"--input_file={self.records(masking, 'train')}",
        )
        self.command(
            "run_pretraining.py",
            *shared,
            "--do_eval",
            "--max_eval_steps=250",
            f"--input_file={self.records('80/10/10', 'held_out')}",
        )
        return read_scores(self.folder / name)

    def checkpoint(self, model: str, share: float) -> pathlib.Path:
        """The index file of a checkpoint after a share of the steps."""
        steps = self.options.steps
        step = steps if share == 1 else round(steps // 3 * 3 * share)
        return self.folder / model / f"model.ckpt-{step}.index"

    def fine_tune(self, row: str, task: str) -> dict:
        model, share, flags = {**ROWS, **FIGURE_5}[row]
        direction = MODELS[model][2] if model else "bidi"
        output_dir = self.folder / f"{row}_{task}"
        shared = [
            f"--bert_config_file={self.folder}/{direction}.json",
            f"--vocab_file={self.folder}/vocab.txt",
            f"--max_seq_length={LENGTH}",
            f"--output_dir={output_dir}",
            "--do_train",
            "--do_eval",
            "--train_batch_size=32",
            f"--num_trials={SEEDS}",
            "--keep_checkpoint_max=1",
            *flags,
        ]
        if model:
            path = self.checkpoint(model, share).with_suffix("")
            shared.append(f"--init_checkpoint={path}")
        if task == "sst2":
            self.command(
                "run_classifier.py",
                *shared,
                "--task_name=SST-2",
                f"--data_dir={self.options.data_dir}/glue/SST-2",
                "--learning_rate=3e-4",
                f"--num_train_epochs={self.options.sst2_epochs}",
            )
        else:
            self.command(
                "run_ner.py",
                *shared,
                f"--data_dir={self.options.data_dir}/conll2003",
                "--learning_rate=1e-3",
                f"--num_train_epochs={self.options.ner_epochs}",
            )
        trials = files.read_json_lines(str(output_dir / "results.jsonl"))
        return {"scores": [x["metrics"][TASKS[task]] for x in trials]}

    def run_all(self) -> None:
        if FREQUENCIES not in self.results:
            self.prepare()
        self.run(FREQUENCIES, self.count_words)
        for model in self.options.models:
            rows = [k for k, v in {**ROWS, **FIGURE_5}.items() if v[0] == model]
            wanted = {
                f"{row} {task}": (row, task) for row in rows for task in TASKS
            }
            if wanted.keys() <= self.results.keys():
                if self.stop_after in {*wanted, f"pretrain {model}"}:
                    sys.exit(0)
                continue
            self.prepare()
            if model:
                if not self.checkpoint(model, 1.0).exists():
                    self.results.pop(f"pretrain {model}", None)
                self.run(f"pretrain {model}", lambda m=model: self.pretrain(m))
            for name, arguments in wanted.items():
                self.run(name, lambda a=arguments: self.fine_tune(*a))

    def scores(self, row: str, task: str) -> list[float]:
        return [
            100 * x
            for x in self.results.get(f"{row} {task}", {}).get("scores", [])
        ]

    def report(self) -> str:
        options = self.options
        rows = []
        for row, (model, _, _) in ROWS.items():
            trained = self.results.get(f"pretrain {model}", {})
            perplexity = [
                f"{v:.1f}" for k, v in trained.items() if "perplexity" in k
            ]
            sst2, mnli, ner = PAPER.get(row, ("", "", ""))
            cells = [
                TITLES[row],
                perplexity[0] if perplexity else "",
                *(mean_and_error(self.scores(row, task)) for task in TASKS),
                *(sst2, mnli, ner),
            ]
            rows.append(f"| {' | '.join(cells)} |")
        figure = []
        for part in (1, 2, 3):
            cells = [f"{options.steps * part // 3:,}"]
            for model in ("mlm_nsp", "ltr"):
                row = model if part == 3 else f"{model}_at_{part}"
                cells += [
                    mean_and_error(self.scores(row, task)) for task in TASKS
                ]
            figure.append(f"| {' | '.join(cells)} |")
        orders = list(self.orders())
        seconds = sum(line["seconds"] for line in self.results.values())
        return REPORT.format(
            frequencies=self.perplexity_of_frequencies(),
            machine=describe_machine(),
            hours=seconds / 3600,
            sequences=options.steps * BATCH_SIZE,
            steps=options.steps,
            batch_size=BATCH_SIZE,
            length=LENGTH,
            vocab_size=VOCAB_SIZE,
            seeds=SEEDS,
            sst2_epochs=options.sst2_epochs,
            ner_epochs=options.ner_epochs,
            rows="\n".join(rows),
            figure="\n".join(figure),
            orders="\n".join(orders),
            noise=", ".join(
                f"{abs(gap):.1f} in {title}"
                for task, title in TITLES_OF_TASKS.items()
                if (gap := self.gap("mlm_nsp", "mlm_nsp_2", task)) is not None
            ),
            count=len(re.findall("shows|noise", "".join(orders))),
        )

    def gap(self, better: str, worse: str, task: str) -> float | None:
        """By how much the mean of one row is above that of another."""
        runs = [self.scores(x, task) for x in (better, worse)]
        if not all(runs):
            return None
        means = list(map(statistics.mean, runs))
        return means[0] - means[1]

    def variance(self, row: str, task: str, with_pretraining: bool) -> float:
        """Of the mean of a row, for one pre-training or for any."""
        variance = error_of(self.scores(row, task)) ** 2
        gap = self.gap("mlm_nsp", "mlm_nsp_2", task)
        if with_pretraining and ROWS[row][0] and gap is not None:
            variance += gap**2 / 2
        return variance

    def perplexity_of_frequencies(self) -> float:
        return self.results.get(FREQUENCIES, {}).get("perplexity", math.inf)

    def has_learned(self, row: str) -> bool:
        """Whether the model of a row predicts words from their context."""
        trained = self.results.get(f"pretrain {ROWS[row][0]}", {})
        bound = LEARNED * self.perplexity_of_frequencies()
        return all(v < bound for k, v in trained.items() if "perplexity" in k)

    def orders(self):
        for better, worse, claim in ORDERS:
            parts = []
            for task, title in TITLES_OF_TASKS.items():
                gap = self.gap(better, worse, task)
                if gap is None:
                    continue
                differ = ROWS[better][0] != ROWS[worse][0]
                error = math.sqrt(
                    sum(self.variance(x, task, differ) for x in (better, worse))
                )
                verdict = "within the noise"
                if abs(gap) > 2 * error:
                    verdict = "shows" if gap > 0 else "the reverse shows"
                part = f"{title} {gap:+.1f} ± {error:.1f}"
                is_fair = self.has_learned(worse)
                parts.append(f"{part}, {verdict}" if is_fair else part)
            if not parts:
                continue
            if not self.has_learned(worse):
                parts.append(
                    "not comparable: the second model has learned little more "
                    "than the frequencies of words"
                )
            yield f"- {claim}: {'; '.join(parts)}."


def wrap(page: str) -> str:
    """Paragraphs and lists in 80 columns; tables and commands as they are."""
    lines = []
    for block in page.split("\n\n"):
        if block.startswith(("|", "#", "    ")):
            lines.append(block)
            continue
        items = re.split(r"\n(?=- )", block)
        indent = "  " if block.startswith("- ") else ""
        lines.append(
            "\n".join(
                textwrap.fill(
                    item,
                    80,
                    subsequent_indent=indent,
                    break_on_hyphens=False,
                )
                for item in items
            )
        )
    return "\n\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument(
        "--results", default=ROOT / "benchmarks/results/ablations.jsonl"
    )
    parser.add_argument("--report", help="the page to write")
    parser.add_argument("--nothing", action="store_true", help="run nothing")
    parser.add_argument("--stop_after", help="the last result to make")
    parser.add_argument(
        "--models",
        type=lambda x: [None if y == "random" else y for y in x.split(",")],
        default=[*MODELS, None],
        help="some of the models only, with commas between; random: none",
    )
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--sst2_epochs", type=float, default=1.0)
    parser.add_argument("--ner_epochs", type=float, default=3.0)
    parser.add_argument("--max_documents", type=int, default=None)
    parser.add_argument("--data_dir", default=SHARED_DATA)
    parser.add_argument(
        "--corpus", default=SHARED_DATA / "corpus/wikipedia_sections.txt"
    )
    ablations = Ablations(parser.parse_args())
    if not ablations.options.nothing:
        ablations.run_all()
    if ablations.options.report:
        path = pathlib.Path(ablations.options.report)
        path.write_text(wrap(ablations.report()))


if __name__ == "__main__":
    main()
