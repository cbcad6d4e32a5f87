"""Fine-tunes BertForTokenClassification of transformers on PyTorch.

Run by ner.py. All of it is the peer's, reading, the fast tokenizer and batches
included; the scores are our metrics. Sentence by sentence. A batch is sorted by
length and computed in parts, which gives the same gradient with less padding.
"""

import pathlib
import time

import torch
import torch_training
import transformers

from keras_bert_ref.ner import metrics, tags

NO_LABEL = -100  # what the loss of transformers passes over
PART_SIZE = 4
FILES = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}


def read(path: pathlib.Path) -> list[tuple[list[str], list[str]]]:
    """Words and tags, in IOB2, of each sentence."""
    sentences, rows = [], []
    for line in [*path.read_text(encoding="utf-8").split("\n"), ""]:
        columns = line.split()
        if columns and columns[0] != "-DOCSTART-":
            rows.append((columns[0], columns[-1]))
        elif rows:
            words, found = zip(*rows, strict=True)
            sentences.append((list(words), tags.to_iob2(found)))
            rows = []
    return sentences


class Batches:
    """Sentences of a file, to be put together to batches."""

    def __init__(self, flags, tokenizer, name: str, labels: list[str]):
        self.tags = []
        sentences = read(flags.data_dir / FILES[name])
        words = [words for words, _ in sentences]
        self.inputs = tokenizer(
            words,
            is_split_into_words=True,
            truncation=True,
            max_length=flags.max_seq_length,
        )
        self.labels = []
        for i, (_, found) in enumerate(sentences):
            self.tags.append(found)
            places = self.inputs.word_ids(i)
            is_first = [
                word is not None and word != places[j - 1]
                for j, word in enumerate(places)
            ]
            self.labels.append(
                [
                    labels.index(found[word]) if first else NO_LABEL
                    for word, first in zip(places, is_first, strict=True)
                ]
            )
        self.tokenizer = tokenizer

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        inputs = {
            name: [values[i] for i in rows.tolist()]
            for name, values in self.inputs.items()
        }
        batch = self.tokenizer.pad(inputs, return_tensors="pt")
        labels = torch.full_like(batch["input_ids"], NO_LABEL)
        for i, row in enumerate(rows.tolist()):
            labels[i, : len(self.labels[row])] = torch.tensor(self.labels[row])
        return {**batch, "labels": labels}

    def split(self, rows: torch.Tensor) -> list[tuple[dict, float]]:
        """A batch in parts of similar lengths, each with its share of words."""
        lengths = [len(self.labels[i]) for i in rows.tolist()]
        order = torch.tensor(lengths).argsort()
        parts = [self.take(part) for part in rows[order].split(PART_SIZE)]
        words = [int((part["labels"] != NO_LABEL).sum()) for part in parts]
        return [(p, n / sum(words)) for p, n in zip(parts, words, strict=True)]


def train(model, batches: Batches, flags) -> int:
    num_steps = int(len(batches) / flags.batch_size * flags.epochs)
    optimizer = torch_training.Optimizer(model, flags.learning_rate, num_steps)
    model.train()
    for step, rows in enumerate(
        torch_training.choose_order(len(batches), num_steps, flags.batch_size)
    ):
        loss = optimizer.minimize(
            share * model(**part).loss for part, share in batches.split(rows)
        )
        if step % 100 == 0:
            print(f"step {step}/{num_steps}: loss {loss:.4f}", flush=True)
    return num_steps


@torch.inference_mode()
def predict(model, batches: Batches, labels: list[str], batch_size: int):
    """The tags of each sentence; O for words that were cut off."""
    model.eval()
    predicted = []
    for rows in torch.arange(len(batches)).split(batch_size):
        batch = batches.take(rows)
        expected = batch.pop("labels")
        chosen = model(**batch).logits.argmax(-1)
        for row, ids, mask in zip(
            rows.tolist(), chosen, expected != NO_LABEL, strict=True
        ):
            found = [labels[i] for i in ids[mask].tolist()]
            missing = len(batches.tags[row]) - len(found)
            predicted.append(found + [tags.OUTSIDE] * missing)
    return predicted


def main():
    parser = torch_training.make_parser(__doc__)
    flags = parser.parse_args()

    tokenizer = transformers.AutoTokenizer.from_pretrained(flags.model)
    sentences = read(flags.data_dir / FILES["train"])
    labels = list(tags.find_labels(found for _, found in sentences))
    data = {name: Batches(flags, tokenizer, name, labels) for name in FILES}
    torch.manual_seed(flags.seed)
    model = torch_training.load(
        transformers.BertForTokenClassification,
        flags.model,
        num_labels=len(labels),
    )
    start = time.perf_counter()
    num_steps = train(model, data["train"], flags)
    results = {
        "global_step": num_steps,
        "train_seconds": time.perf_counter() - start,
    }
    for name, prefix in (("dev", "eval_"), ("test", "test_")):
        found = predict(model, data[name], labels, flags.batch_size)
        scores = metrics.score(data[name].tags, found).as_dict()
        results |= {prefix + key: value for key, value in scores.items()}
    lines = [f"{name} = {value}\n" for name, value in results.items()]
    (flags.output_dir / "eval_results.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
