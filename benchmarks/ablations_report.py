"""The page of benchmarks/ablations.py: tables, and which orders show."""

import math
import re
import statistics
import textwrap

from ablations_rows import (
    BATCH_SIZE,
    FREQUENCIES,
    LENGTH,
    MODELS,
    ROWS,
    SEEDS,
    TASKS,
    VOCAB_SIZE,
)
from data import describe_machine
from measuring import error_of, mean_and_error

# A model whose perplexity is above this share of what the frequencies of words
# alone give has not learned from context.
LEARNED = 0.9
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
TITLES_OF_TASKS = {"sst2": "SST-2", "ner": "NER"}


class Page:
    """Args:
    results: what each piece of work gave, by its name.
    options: of the command.
    """

    def __init__(self, results: dict[str, dict], options):
        self.results = results
        self.options = options

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
