"""Fine-tunes BertForSequenceClassification of transformers on PyTorch.

Run by glue.py. All of it is the peer's, reading, the fast tokenizer and
batches included; the scores are our metrics.
"""

import pathlib
import time
from collections.abc import Iterator

import numpy as np
import torch
import torch_training
import transformers

from keras_bert_ref.classifier import metrics as glue

# Columns of the texts and of the label.
COLUMNS = {
    "MRPC": ((3, 4), 0),
    "STS-B": ((7, 8), 9),
    "RTE": ((1, 2), 3),
    "CoLA": ((3,), 1),
    "SST-2": ((0,), 1),
}
METRICS = {
    "MRPC": (glue.accuracy, glue.f1),
    "STS-B": (glue.pearson, glue.spearman),
    "RTE": (glue.accuracy,),
    "CoLA": (glue.matthews_correlation,),
    "SST-2": (glue.accuracy,),
}
NO_HEADER = "CoLA"


def read(task: str, path: pathlib.Path) -> tuple[list[list[str]], list[str]]:
    """Returns lists of first and of second sentences, and the labels."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    rows = [line.split("\t") for line in lines[task != NO_HEADER :]]
    texts, label = COLUMNS[task]
    return [[row[i] for row in rows] for i in texts], [r[label] for r in rows]


class Batches:
    """Examples of a file, to be put together to batches.

    Args:
        labels: list to number the labels by; none: they are scores.
    """

    def __init__(self, flags, tokenizer, name: str, labels: list[str]):
        texts, values = read(flags.task, flags.data_dir / name)
        self.inputs = tokenizer(
            *texts, truncation=True, max_length=flags.max_seq_length
        )
        self.labels = np.array(
            [labels.index(x) if labels else float(x) for x in values],
            np.int64 if labels else np.float32,
        )
        self.padding = {"padding": flags.padding}
        if flags.padding == "max_length":
            self.padding["max_length"] = flags.max_seq_length
        self.tokenizer = tokenizer

    def take(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        inputs = {
            name: [values[i] for i in rows.tolist()]
            for name, values in self.inputs.items()
        }
        return self.tokenizer.pad(inputs, return_tensors="pt", **self.padding)


def train(model, batches: Batches, flags) -> int:
    num_examples = len(batches.labels)
    num_steps = int(num_examples / flags.batch_size * flags.epochs)
    optimizer = torch_training.Optimizer(model, flags.learning_rate, num_steps)
    labels = torch.tensor(batches.labels)
    lengths = torch.tensor(list(map(len, batches.inputs["input_ids"])))

    def compute_losses(rows: torch.Tensor) -> Iterator[torch.Tensor]:
        by_length = rows[lengths[rows].argsort()]
        for part in by_length.split(flags.part_size or flags.batch_size):
            outputs = model(**batches.take(part), labels=labels[part])
            yield outputs.loss * len(part) / len(rows)

    model.train()
    for step, rows in enumerate(
        torch_training.choose_order(num_examples, num_steps, flags.batch_size)
    ):
        loss = optimizer.minimize(compute_losses(rows))
        if step % 100 == 0:
            print(f"step {step}/{num_steps}: loss {loss:.4f}", flush=True)
    return num_steps


@torch.inference_mode()
def predict(model, batches: Batches, batch_size: int) -> np.ndarray:
    model.eval()
    all_rows = torch.arange(len(batches.labels)).split(batch_size)
    logits = [model(**batches.take(rows)).logits.numpy() for rows in all_rows]
    return np.concatenate(logits)


def main():
    parser = torch_training.make_parser(__doc__)
    parser.add_argument("--task", choices=COLUMNS, required=True)
    parser.add_argument("--padding", choices=("longest", "max_length"))
    parser.add_argument(
        "--part_size",
        type=int,
        help="Compute a batch in parts, by length: less padding, one step.",
    )
    flags = parser.parse_args()

    tokenizer = transformers.AutoTokenizer.from_pretrained(flags.model)
    is_regression = flags.task == "STS-B"
    values = read(flags.task, flags.data_dir / "train.tsv")[1]
    labels = [] if is_regression else sorted(set(values))
    train_batches, dev_batches = (
        Batches(flags, tokenizer, f"{name}.tsv", labels)
        for name in ("train", "dev")
    )
    torch.manual_seed(flags.seed)
    model = torch_training.load(
        transformers.BertForSequenceClassification,
        flags.model,
        num_labels=len(labels) or 1,
    )
    start = time.perf_counter()
    num_steps = train(model, train_batches, flags)
    seconds = time.perf_counter() - start
    model.save_pretrained(flags.output_dir)

    logits = predict(model, dev_batches, flags.batch_size)
    predictions = logits[:, 0] if is_regression else logits.argmax(-1)
    results = {
        f"eval_{metric.__name__}": metric(dev_batches.labels, predictions)
        for metric in METRICS[flags.task]
    }
    results |= {"global_step": num_steps, "train_seconds": seconds}
    lines = [f"{name} = {value}\n" for name, value in results.items()]
    (flags.output_dir / "eval_results.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
