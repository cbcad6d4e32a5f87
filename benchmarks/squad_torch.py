"""Fine-tunes BertForQuestionAnswering of transformers on PyTorch.

Run by squad.py. The windows are ours and so are answers and scores: what is
compared is the training of the model alone.
"""

import argparse
import math
import os
import pathlib
import time

import torch
import transformers

from keras_bert_ref.data import squad, squad_answers
from keras_bert_ref.data.squad_spans import RawResult
from keras_bert_ref.metrics import squad as metric
from keras_bert_ref.tokenization import FullTokenizer

INPUTS = {  # transformers' names for ours
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}
LABELS = ("start_positions", "end_positions")


class OriginalAdam(torch.optim.Optimizer):
    """BERT's Adam: without bias correction, which PyTorch's always has.

    In a run of a hundred steps that is much: the correction would make the
    steps three to six times smaller.
    """

    def __init__(self, groups):
        super().__init__(groups, {"lr": 0.0, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if not self.state[p]:
                    self.state[p]["m"] = torch.zeros_like(p)
                    self.state[p]["v"] = torch.zeros_like(p)
                m, v = self.state[p]["m"], self.state[p]["v"]
                m.lerp_(p.grad, 0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                update = m / (v.sqrt() + 1e-6)
                update.add_(p, alpha=group["weight_decay"])
                p.add_(update, alpha=-group["lr"])


def make_optimizer(model, kind: str) -> torch.optim.Optimizer:
    """Biases and layer normalization do not decay."""
    groups = [{"params": [], "weight_decay": x} for x in (0.01, 0.0)]
    for name, p in model.named_parameters():
        groups["bias" in name or "LayerNorm" in name]["params"].append(p)
    if kind == "original":
        return OriginalAdam(groups)
    return torch.optim.AdamW(groups, eps=1e-6)


def train(model, batch: dict, num_steps: int, flags) -> None:
    """Trains on windows in an order that follows from the seed."""
    num_windows = len(batch["input_ids"])
    passes = math.ceil(num_steps * flags.batch_size / num_windows)
    order = torch.cat([torch.randperm(num_windows) for _ in range(passes)])
    optimizer = make_optimizer(model, flags.adam)
    num_warmup_steps = int(num_steps * 0.1)
    model.train()
    for step in range(num_steps):
        rows = order[step * flags.batch_size :][: flags.batch_size]
        loss = model(
            **{name: batch[ours][rows] for name, ours in INPUTS.items()},
            **{name: batch[name][rows, 0] for name in LABELS},
        ).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rate = flags.learning_rate * (1 - step / num_steps)
        if step < num_warmup_steps:
            rate = flags.learning_rate * step / num_warmup_steps
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}/{num_steps}: loss {loss.item():.4f}")


@torch.inference_mode()
def predict(model, batch: dict) -> list[RawResult]:
    model.eval()
    results = []
    for rows in torch.arange(len(batch["input_ids"])).split(32):
        outputs = model(
            **{name: batch[ours][rows] for name, ours in INPUTS.items()}
        )
        ids = batch["unique_ids"][rows, 0].tolist()
        logits = outputs.start_logits.numpy(), outputs.end_logits.numpy()
        results += map(RawResult, ids, *logits)
    return results


def make_windows(examples, tokenizer, is_training, flags):
    features = []
    squad.convert_examples_to_features(
        *(examples, tokenizer, flags.max_seq_length, flags.doc_stride),
        *(flags.max_query_length, is_training, features.append),
    )
    arrays = squad.pad_features(features, is_training, flags.max_seq_length)
    return features, {k: torch.tensor(v).long() for k, v in arrays.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "train_file", "predict_file", "output_dir"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("max_seq_length", "doc_stride", "max_query_length"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--batch_size", type=int, required=True)
    parser.add_argument("--learning_rate", type=float, required=True)
    parser.add_argument("--epochs", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--adam", choices=("original", "torch"))
    parser.add_argument("--is_v2", action="store_true")
    flags = parser.parse_args()
    folder = pathlib.Path(flags.output_dir)

    tokenizer = FullTokenizer(os.path.join(flags.model, "vocab.txt"), True)
    train_examples = squad.read_squad_examples(
        flags.train_file, True, flags.is_v2
    )
    _, train_batch = make_windows(train_examples, tokenizer, True, flags)
    examples = squad.read_squad_examples(flags.predict_file, False)
    features, batch = make_windows(examples, tokenizer, False, flags)

    torch.manual_seed(flags.seed)
    model = transformers.BertForQuestionAnswering.from_pretrained(
        flags.model, dtype=torch.float32
    )
    config = model.config
    if (config.hidden_act, config.hidden_dropout_prob) != ("gelu", 0.1):
        raise ValueError(f"Not what our runs have: {config}")
    num_steps = int(len(train_examples) / flags.batch_size * flags.epochs)
    start = time.perf_counter()
    train(model, train_batch, num_steps, flags)
    seconds = time.perf_counter() - start

    names = ("predictions", "nbest_predictions", "null_odds")
    predictions = squad_answers.write_predictions(
        *(examples, features, predict(model, batch), 20, 30, True),
        *(str(folder / f"{name}.json") for name in names),
        flags.is_v2,
    )
    evaluate = metric.evaluate_v2 if flags.is_v2 else metric.evaluate_v1
    articles = squad.read_articles(flags.predict_file)
    results = evaluate(articles, predictions.answers)
    results |= {"global_step": num_steps, "train_seconds": seconds}
    lines = [f"{name} = {value}\n" for name, value in results.items()]
    (folder / "eval_results.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
