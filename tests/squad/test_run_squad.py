"""The command: flags, files, scores, order, interruptions, tfds."""

import json
import pathlib
import random
import re
import signal
import subprocess
import time

import numpy as np
import pytest
import tensorflow as tf
from absl import flags

from helpers import configs, runners, squad_files
from keras_bert_ref import heads
from keras_bert_ref.checkpoints import tf1
from keras_bert_ref.config import BertConfig
from keras_bert_ref.records import batches
from keras_bert_ref.squad import answers as squad_answers
from keras_bert_ref.squad import examples as squad
from keras_bert_ref.squad import logits
from keras_bert_ref.squad import metrics as metric
from keras_bert_ref.squad import records as squad_records
from keras_bert_ref.squad import tfds as squad_tfds
from keras_bert_ref.squad.spans import RawResult
from keras_bert_ref.tokenization import FullTokenizer
from keras_bert_ref.training import evaluations

# Name, type, default, required: all flags of the original.
ORIGINAL_FLAGS = """
bert_config_file string None required
vocab_file string None required
output_dir string None required
train_file string None -
predict_file string None -
init_checkpoint string None -
do_lower_case bool True -
max_seq_length int 384 -
doc_stride int 128 -
max_query_length int 64 -
do_train bool False -
do_predict bool False -
train_batch_size int 32 -
predict_batch_size int 8 -
learning_rate float 5e-05 -
num_train_epochs float 3.0 -
warmup_proportion float 0.1 -
save_checkpoints_steps int 1000 -
iterations_per_loop int 1000 -
n_best_size int 20 -
max_answer_length int 30 -
use_tpu bool False -
tpu_name string None -
tpu_zone string None -
gcp_project string None -
master string None -
num_tpu_cores int 8 -
verbose_logging bool False -
version_2_with_negative bool False -
null_score_diff_threshold float 0.0 -
"""
CONFIG = configs.tiny(
    vocab_size=len(squad_files.VOCAB),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=48,
)
SIZES = squad_files.Sizes(48, 16, 12)
FILES = ("predictions.json", "nbest_predictions.json", "null_odds.json")
TIMEOUT = 300


@pytest.fixture(scope="module")
def run_squad():
    with runners.load_runner("run_squad") as runner:
        yield runner


@pytest.fixture
def folder(tmp_path):
    """A config, a vocabulary and data of both versions."""
    (tmp_path / "vocab.txt").write_text("\n".join(squad_files.VOCAB) + "\n")
    CONFIG.to_json_file(str(tmp_path / "config.json"))
    for version in ("v1", "v2"):
        for split in ("train", "dev"):
            data = {"data": make_data(version == "v2", split)}
            path = tmp_path / f"{split}_{version}.json"
            path.write_text(json.dumps(data))
    return tmp_path


def make_data(is_v2: bool, split: str) -> list[dict]:
    """Texts from short to several windows; some questions have no answer."""
    rng = random.Random(f"{split} {is_v2}")
    paragraphs = []
    for i in range(7):
        words = [f"w{rng.randrange(10)}" for _ in range(2 + 7 * (i % 4))]
        context = " ".join(["the", *words])
        questions = []
        for j in range(2):
            name = f"{split} {i} {j}"
            if is_v2 and (i + j) % 3 == 0:
                question = squad_files.make_question(name, answers=[])
                question["is_impossible"] = True
            else:
                answer = rng.choice(words)
                question = squad_files.make_answered(name, context, answer)
                if is_v2:
                    question["is_impossible"] = False
            question["question"] = f"which w{j}?"
            questions.append(question)
        paragraphs.append((context, questions))
    return squad_files.make_articles(*paragraphs)


def make_flags(folder, version="v1") -> list[str]:
    return [
        f"--bert_config_file={folder}/config.json",
        f"--vocab_file={folder}/vocab.txt",
        f"--output_dir={folder}/out",
        f"--train_file={folder}/train_{version}.json",
        f"--predict_file={folder}/dev_{version}.json",
        f"--max_seq_length={SIZES.max_seq_length}",
        f"--doc_stride={SIZES.doc_stride}",
        f"--max_query_length={SIZES.max_query_length}",
        "--train_batch_size=4",
        "--num_train_epochs=0.6",
        "--predict_batch_size=4",
        f"--version_2_with_negative={version == 'v2'}",
    ]


def read(folder, name):
    return json.loads((folder / "out" / name).read_text())


def read_results(folder) -> dict[str, str]:
    lines = (folder / "out/eval_results.txt").read_text().split("\n")
    assert lines.pop() == "" and lines == sorted(lines)
    return dict(line.split(" = ") for line in lines)


def predict_directly(folder, version, step, trim=False):
    """Files that the model's logits give, one window at a time."""
    is_v2 = version == "v2"
    config = BertConfig.from_json_file(f"{folder}/config.json")
    model = heads.BertSpan(config)
    tf1.load(model, f"{folder}/out/model.ckpt-{step}")
    examples = squad.read_squad_examples(
        f"{folder}/dev_{version}.json", False, is_v2
    )
    tokenizer = FullTokenizer(folder / "vocab.txt")
    features = squad_files.make_features(examples, tokenizer, SIZES)
    results = []
    for feature in features:
        length = SIZES.max_seq_length
        if trim:
            length = -(-len(feature.input_ids) // 8) * 8
        batch = squad_records.pad_features([feature], False, length)
        outputs = model(batch)
        results.append(
            RawResult(
                feature.unique_id,
                outputs["start_logits"][0].numpy(),
                outputs["end_logits"][0].numpy(),
            )
        )
    (folder / "direct").mkdir(exist_ok=True)
    return squad_answers.write_predictions(
        *(examples, features, results, 20, 30, True),
        *(str(folder / "direct" / name) for name in FILES),
        is_v2,
    )


def assert_same_nbest(ours, expected) -> None:
    """Texts and order are equal; numbers nearly, for batches differ."""
    assert list(ours) == list(expected)
    for name in ours:
        for one, other in zip(ours[name], expected[name], strict=True):
            assert one["text"] == other["text"]
            for key in ("probability", "start_logit", "end_logit"):
                assert one[key] == pytest.approx(other[key], abs=1e-5)


# Flags.


def test_flags(run_squad):
    runners.check_flags(ORIGINAL_FLAGS, 30)
    assert not flags.FLAGS["trim_batches"].default


def test_average_of_logits():
    def result(name, *values):
        return RawResult(name, np.array(values), -np.array(values))

    first = [result(1, 0.0, 2.0), result(2, 4.0)]
    second = [result(2, 0.0), result(1, 1.0, 0.0)]  # in another order
    mean = {r.unique_id: r for r in logits.average([first, second])}
    np.testing.assert_allclose(mean[1].start_logits, [0.5, 1.0])
    np.testing.assert_allclose(mean[1].end_logits, [-0.5, -1.0])
    np.testing.assert_allclose(mean[2].start_logits, [2.0])


@pytest.mark.slow
def test_ensemble(run_squad, folder, monkeypatch):
    """One model twice answers as it does alone; others are refused."""
    config = BertConfig.from_json_file(f"{folder}/config.json")
    prefixes = []
    for seed in (1, 2):
        tf.keras.utils.set_random_seed(seed)
        model = heads.BertSpan(config)
        model.build()
        prefixes.append(f"{folder}/{seed}/model.ckpt-1")
        tf1.save(model, prefixes[-1])
    arguments = [
        f"--bert_config_file={folder}/config.json",
        f"--vocab_file={folder}/vocab.txt",
        f"--predict_file={folder}/dev_v1.json",
        "--do_predict",
        "--max_seq_length=48",
        "--doc_stride=16",
        "--max_query_length=12",
    ]

    def answer(name, flag):
        out = folder / name
        runners.run(run_squad, *arguments, f"--output_dir={out}", flag)
        return json.loads((out / "nbest_predictions.json").read_text())

    alone = answer("alone", f"--init_checkpoint={prefixes[0]}")
    twice = f"{prefixes[0]},{prefixes[0]}"
    both = f"{prefixes[0]},{prefixes[1]}"
    assert answer("twice", f"--ensemble_checkpoints={twice}") == alone
    assert answer("both", f"--ensemble_checkpoints={both}") != alone
    bare = heads.BertPretraining(config)
    bare.build()
    tf1.save(bare, f"{folder}/bare.ckpt")
    monkeypatch.setattr(logits, "predict", None)  # found before the work
    with pytest.raises(ValueError, match="lacks cls/squad/.*fine-tuned on que"):
        answer("bare", f"--ensemble_checkpoints={twice},{folder}/bare.ckpt")


def test_flagfiles(run_squad):
    """Every published run parses, and leaves paths to the command line."""
    paths = sorted((runners.ROOT / "configs/runs").glob("squad_*.flags"))
    assert len(paths) == 12
    for path in paths:
        runners.parse(
            f"--flagfile={path}",
            *("--bert_config_file=x", "--vocab_file=x", "--output_dir=x"),
        )
        assert flags.FLAGS.do_train or "ensemble" in path.name
        assert flags.FLAGS.do_predict or path.name.startswith("squad_triviaqa")
        assert flags.FLAGS.train_file is None
        assert not flags.FLAGS.trim_batches
        assert "Not run here" in path.read_text()


# Whole runs.


@pytest.mark.slow
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_training_and_prediction(run_squad, folder, version):
    """Steps count questions; the files are what the logits give."""
    runners.run(
        run_squad,
        *make_flags(folder, version),
        *("--do_train", "--do_predict", "--eval_every_steps=1", "--keep_best"),
    )
    num_questions = 14
    step = int(num_questions / 4 * 0.6)
    assert step == 2
    written = read(folder, "run.json")
    assert written["task"] == "squad"
    is_v2 = written["flags"]["version_2_with_negative"]
    assert is_v2 == (version == "v2")
    assert (folder / "out" / "vocab.txt").exists()
    expected = predict_directly(folder, version, step)
    assert read(folder, "predictions.json") == expected.answers
    nbest = read(folder, "nbest_predictions.json")
    assert_same_nbest(nbest, expected.nbest)

    results = read_results(folder)
    first, second = evaluations.read_evals(f"{folder}/out")
    assert (first["step"], second["step"]) == (1, 2)
    assert {name: str(value) for name, value in second.items()} == {
        "step": results.pop("global_step"),
        **results,
    }
    best = evaluations.read_best(f"{folder}/out")
    assert best["f1"] == max(first["f1"], second["f1"])
    articles = squad.read_articles(f"{folder}/dev_{version}.json")
    report = (folder / "out" / "report.html").read_text()
    assert "published, dev: Large" in report and '["Question", ' in report
    if version == "v1":
        assert not (folder / "out/null_odds.json").exists()
        scores = metric.evaluate_v1(articles, expected.answers)
    else:
        null_odds = read(folder, "null_odds.json")
        assert null_odds == pytest.approx(expected.null_odds, abs=1e-5)
        scores = metric.evaluate_v2(articles, expected.answers)
        for kind in ("exact", "f1"):
            best = float(results.pop(f"best_{kind}"))
            threshold = float(results.pop(f"best_{kind}_thresh"))
            chosen = squad_answers.choose_answers(nbest, null_odds, threshold)
            again = metric.evaluate_v2(articles, chosen)[kind]
            assert best == pytest.approx(again) and best >= scores[kind]
    assert results == {name: str(value) for name, value in scores.items()}

    for name, is_training in (("train", True), ("eval", False)):
        schema = squad_records.make_schema(SIZES.max_seq_length, is_training)
        path = f"{folder}/out/{name}.tf_record"
        records = batches.find_records([path], schema, CONFIG.vocab_size)
        assert records.num_records > num_questions


@pytest.mark.slow
def test_prediction(run_squad, folder, caplog):
    """From a checkpoint: trimmed or not; the best threshold; no answers."""
    config = BertConfig.from_json_file(f"{folder}/config.json")
    tf.keras.utils.set_random_seed(1)
    model = heads.BertSpan(config)
    model.build()
    model.squad.output_weights.assign(
        np.random.default_rng(0).normal(size=(2, 16))
    )
    (folder / "out").mkdir()
    tf1.save(model, f"{folder}/out/model.ckpt-0")
    arguments = *make_flags(folder, "v2"), "--do_predict"
    arguments += (f"--init_checkpoint={folder}/out/model.ckpt-0",)

    untrimmed = predict_directly(folder, "v2", 0)
    trimmed = predict_directly(folder, "v2", 0, trim=True)
    for expected, flag in (
        (untrimmed, "--notrim_batches"),
        (trimmed, "--trim_batches"),
    ):
        runners.run(run_squad, *arguments, flag)
        assert read(folder, "predictions.json") == expected.answers
        assert_same_nbest(
            read(folder, "nbest_predictions.json"), expected.nbest
        )
    assert read_results(folder)["global_step"] == "0"

    runners.run(run_squad, *arguments, "--best_null_threshold")
    results = read_results(folder)
    assert float(results["f1"]) == pytest.approx(float(results["best_f1"]))
    assert read(folder, "predictions.json") == squad_answers.choose_answers(
        read(folder, "nbest_predictions.json"),
        read(folder, "null_odds.json"),
        float(results["best_f1_thresh"]),
    )

    articles = make_data(True, "dev")
    for paragraph in articles[0]["paragraphs"]:
        for question in paragraph["qas"]:
            del question["answers"], question["is_impossible"]
    (folder / "dev_v2.json").write_text(json.dumps({"data": articles}))
    runners.run(run_squad, *arguments, "--verbosity=0")
    assert "No scores: --predict_file lacks right answers" in caplog.text
    assert read(folder, "predictions.json") == untrimmed.answers
    assert not (folder / "out/eval_results.txt").exists()
    with pytest.raises(ValueError, match="with the right answers"):
        runners.run(run_squad, *arguments, "--best_null_threshold")


def test_batches_by_length(folder):
    """Each record once, in batches of one length, short ones being short."""
    tokenizer = FullTokenizer(folder / "vocab.txt")
    examples = squad.read_squad_examples(f"{folder}/dev_v1.json", False)
    features = []
    records = squad_records.write_records(
        *(f"{folder}/eval.tf_record", examples, tokenizer),
        **SIZES._asdict(),
        is_training=False,
        keep=features.append,
    )
    lengths = {f.unique_id: len(f.input_ids) for f in features}
    seen = []
    for batch in batches.batches_by_length(records, 3, 8):
        shape = batch["input_ids"].shape
        names = batch["unique_ids"].numpy().tolist()
        assert len(names) == shape[0] <= 3
        assert {-(-lengths[name] // 8) * 8 for name in names} == {shape[1]}
        seen += names
    assert sorted(seen) == sorted(lengths)
    assert len(set(lengths.values())) > 2


# Refusals.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Nothing to do: set --do_train, --do_predict or both"),
        (
            ["--do_train", "--train_file="],
            "--do_train needs questions; set --train_file",
        ),
        (
            ["--do_predict", "--predict_file="],
            "--do_predict needs questions; set --predict_file",
        ),
        (
            ["--do_predict", "--max_query_length=45"],
            "max_seq_length=48 leaves no room .*max_query_length=45",
        ),
        (
            ["--do_predict", "--max_seq_length=49"],
            "max_seq_length=49 exceeds max_position_embeddings=48",
        ),
        (
            ["--do_train", "--train_batch_size=99"],
            "has 14 questions with .*train_batch_size=99",
        ),
        (
            [
                "--do_predict",
                "--nodo_lower_case",
                "--init_checkpoint=/x/uncased_L-12_H-768_A-12/bert_model.ckpt",
            ],
            "casing of the text must fit",
        ),
        (["--do_predict", "--best_null_threshold"], "version_2_with_negative"),
        (["--do_predict"], "nothing to evaluate: no checkpoint in"),
    ],
)
def test_refusals(run_squad, folder, arguments, message):
    with pytest.raises(ValueError, match=message):
        runners.run(run_squad, *make_flags(folder), *arguments)
    assert not list(folder.glob("out/predictions.json"))


def test_no_scores_to_watch(run_squad, folder):
    articles = make_data(False, "dev")
    for question in articles[0]["paragraphs"][0]["qas"]:
        del question["answers"]
    (folder / "dev_v1.json").write_text(json.dumps({"data": articles}))
    flags = "--do_train", "--do_predict", "--eval_every_steps=2"
    with pytest.raises(ValueError, match="dev_v1.json lacks right ones; drop"):
        runners.run(run_squad, *make_flags(folder), *flags)
    assert not list(folder.glob("out/model*"))


def test_data_must_fit(run_squad, folder):
    """The vocabulary is the model's; trouble names its question."""
    flags = *make_flags(folder), "--do_train"
    articles = make_data(False, "train")
    articles[0]["paragraphs"][3]["qas"][1]["answers"] *= 2
    (folder / "train_v1.json").write_text(json.dumps({"data": articles}))
    with pytest.raises(ValueError, match="question train 3 1 has 2"):
        runners.run(run_squad, *flags)
    with open(folder / "vocab.txt", "a") as file:
        file.write("more\n")
    size = len(squad_files.VOCAB)
    with pytest.raises(ValueError, match=f"has {size + 1} .*is {size}"):
        runners.run(run_squad, *flags)
    (folder / "dev_v1.json").write_text('{"data": []}')
    with pytest.raises(ValueError, match="vocab_size"):
        runners.run(run_squad, *flags, "--do_predict")


def test_no_question_to_answer(run_squad, folder):
    (folder / "dev_v1.json").write_text('{"data": []}')
    with pytest.raises(ValueError, match="no question in .*dev_v1.json"):
        runners.run(run_squad, *make_flags(folder), "--do_predict")


# Interruptions.


def start(folder, name) -> subprocess.Popen:
    """Starts a run of its own process and folder."""
    return runners.start(
        "run_squad",
        folder / f"{name}.log",
        *make_flags(folder),
        *(f"--output_dir={folder}/{name}", "--num_train_epochs=20"),
        *("--do_train", "--do_predict", "--deterministic"),
        "--save_checkpoints_steps=5",
    )


@pytest.mark.long
def test_killed_run_ends_like_an_undisturbed_one(folder):
    undisturbed, killed = start(folder, "a"), start(folder, "b")
    processes = [undisturbed, killed]
    try:
        deadline = time.monotonic() + TIMEOUT
        while not list(folder.glob("b/model.ckpt-[1-9]*.index")):
            assert killed.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
        assert not (folder / "b/model.ckpt-70.index").exists()
        resumed = start(folder, "b")
        processes.append(resumed)
        assert resumed.wait(TIMEOUT) == 0, (folder / "b.log").read_text()
        assert undisturbed.wait(TIMEOUT) == 0, (folder / "a.log").read_text()
    finally:
        for process in processes:
            process.kill()
    assert re.search(r"RESUMING from .*ckpt", (folder / "b.log").read_text())
    ours, theirs = (
        tf1.read(f"{folder}/{name}/model.ckpt-70") for name in ("a", "b")
    )
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert value.tobytes() == theirs[name].tobytes(), name
    for name in ("train.tf_record", "eval.tf_record", *FILES[:2]):
        paths = [pathlib.Path(folder, run, name) for run in ("a", "b")]
        assert paths[0].read_bytes() == paths[1].read_bytes(), name


# TensorFlow Datasets.


def prepare_tfds(folder, articles, is_v2: bool) -> None:
    """Writes a data set as TensorFlow Datasets does, under SQuAD's name."""
    import tensorflow_datasets as tfds

    text = tfds.features.Text()
    features = {
        **dict.fromkeys(("id", "title", "context", "question"), text),
        "answers": tfds.features.Sequence(
            {"text": text, "answer_start": np.int32}
        ),
    }
    if is_v2:
        features["is_impossible"] = np.bool_
    rows = [
        {
            **question,
            "title": article["title"],
            "context": paragraph["context"],
            "answers": {
                key: [answer[key] for answer in question["answers"]]
                for key in ("text", "answer_start")
            },
        }
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]

    builder = tfds.builder_cls("squad")
    config = builder.builder_configs["v2.0" if is_v2 else "v1.1"]
    tfds.dataset_builders.store_as_tfds_dataset(
        name="squad",
        version=config.version or builder.VERSION,
        config=config.name,
        features=tfds.features.FeaturesDict(features),
        split_datasets={"validation": list(enumerate(rows))},
        data_dir=folder,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_v2", [pytest.param(False, marks=pytest.mark.long), True]
)
def test_tfds(tmp_path, is_v2):
    articles = make_data(is_v2, "dev")
    prepare_tfds(tmp_path, articles, is_v2)
    source = f"tfds:{tmp_path}"
    found = squad_tfds.read_articles(source, "validation", is_v2)
    assert len(found) == 1 and found[0]["title"] == "Tests"

    def by_context(paragraphs):
        return {
            paragraph["context"]: sorted(
                paragraph["qas"], key=lambda question: question["id"]
            )
            for paragraph in paragraphs
        }

    assert by_context(found[0]["paragraphs"]) == by_context(
        articles[0]["paragraphs"]
    )
    name = "squad/v1.1" if is_v2 else "squad/v2.0"
    with pytest.raises(ValueError, match=f"not prepared {name} in {tmp_path}"):
        squad_tfds.read_articles(source, "validation", not is_v2)
