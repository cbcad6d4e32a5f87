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
import sys

import ablations_report
import numpy as np
from ablations_rows import (
    BATCH_SIZE,
    FIGURE_5,
    FREQUENCIES,
    LENGTH,
    MASKING,
    MODELS,
    PREDICTIONS,
    ROWS,
    SEEDS,
    TASKS,
    VOCAB_SIZE,
)
from measuring import read_scores
from stages import Stages

from keras_bert_ref import files

ROOT = pathlib.Path(__file__).parent.parent
SHARED_DATA = ROOT.parent / "shared/data"
SETTINGS = ("steps", "sst2_epochs", "ner_epochs", "max_documents")
HELD_OUT = 40  # one document of so many


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
        page = ablations_report.Page(ablations.results, ablations.options)
        path.write_text(ablations_report.wrap(page.report()))


if __name__ == "__main__":
    main()
