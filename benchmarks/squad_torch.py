"""Fine-tunes BertForQuestionAnswering of transformers on PyTorch.

Run by squad.py. The windows are ours and so are answers and scores: what is
compared is the training of the model alone.
"""

import argparse
import os
import pathlib
import time

import torch
import torch_training
import transformers

from keras_bert_ref.squad import answers as squad_answers
from keras_bert_ref.squad import examples as squad
from keras_bert_ref.squad import metrics as metric
from keras_bert_ref.squad import records, windows
from keras_bert_ref.squad.spans import RawResult
from keras_bert_ref.tokenization import FullTokenizer

INPUTS = {  # transformers' names for ours
    "input_ids": "input_ids",
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
}
LABELS = ("start_positions", "end_positions")


def train(model, batch: dict, num_steps: int, flags) -> None:
    """Trains on windows in an order that follows from the seed."""
    optimizer = torch_training.Optimizer(model, flags.learning_rate, num_steps)
    num_windows = len(batch["input_ids"])
    model.train()
    for step, rows in enumerate(
        torch_training.choose_order(num_windows, num_steps, flags.batch_size)
    ):
        outputs = model(
            **{name: batch[ours][rows] for name, ours in INPUTS.items()},
            **{name: batch[name][rows, 0] for name in LABELS},
        )
        loss = optimizer.minimize([outputs.loss])
        if step % 10 == 0:
            print(f"step {step}/{num_steps}: loss {loss:.4f}")


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
    windows.convert_examples_to_features(
        *(examples, tokenizer, flags.max_seq_length, flags.doc_stride),
        *(flags.max_query_length, is_training, features.append),
    )
    arrays = records.pad_features(features, is_training, flags.max_seq_length)
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
    model = torch_training.load(
        transformers.BertForQuestionAnswering, flags.model
    )
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
