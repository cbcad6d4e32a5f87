"""Results that need no training: published predictions, scores, vectors."""

import os

import numpy as np

from keras_bert_ref import files
from keras_bert_ref.checkpoints import conversion, tf1
from keras_bert_ref.classifier import metrics
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.reproduce import data_sets, steps
from keras_bert_ref.reproduce.catalogue import Row
from keras_bert_ref.reproduce.materials import Materials
from keras_bert_ref.sentence_pairs import encode_pair
from keras_bert_ref.squad import metrics as squad_metrics
from keras_bert_ref.tokenization import FullTokenizer

MINILM_LENGTH = 256  # tokens, the model's own limit
BLEURT_LENGTH = 128


def squad_predictions(
    row: Row, materials: Materials, _folder, _lock
) -> dict[str, float]:
    """The official metric on predictions of the authors of BERT."""
    version = row.data.removeprefix("SQuAD v")
    squad = os.path.join(materials.data_dir, "squad")
    articles = files.read_json(squad, f"dev-v{version}.json")["data"]
    published = data_sets.predictions(row, materials.data_dir)
    predictions = files.read_json(published)
    if version.startswith("1"):
        return squad_metrics.evaluate_v1(articles, predictions)
    return squad_metrics.evaluate_v2(articles, predictions)


def bleurt_scores(
    row: Row, materials: Materials, _folder, _lock
) -> dict[str, float]:
    """How far the scores of BLEURT-Tiny are from its published ones."""
    folder = materials.model_folder(row.model)
    text = files.read(materials.data_dir, "bleurt", "scores.tsv").decode()
    rows = [line.split("\t") for line in text.split("\n")[1:] if line]
    tokenizer = FullTokenizer(f"{folder}/vocab.txt", do_lower_case=True)
    model = BertModel.from_checkpoint(folder)
    head = tf1.read(f"{folder}/variables/variables")
    differences = []
    for reference, candidate, published, *_ in rows:
        ids, segments = encode_pair(
            reference, candidate, BLEURT_LENGTH, tokenizer
        )
        outputs = model(np.array([ids]), segment_ids=np.array([segments]))
        pooled = outputs["pooled_output"].numpy()
        score = pooled @ head["dense/kernel"] + head["dense/bias"]
        differences.append(abs(score.item() - float(published)))
    return {"largest_difference": max(differences)}


def minilm_stsb(
    row: Row, materials: Materials, folder: str, lock
) -> dict[str, float]:
    """Cosines of mean-pooled vectors, beside people's scores."""
    path = (materials.data_dir, "glue", "STS-B", "sts-test-labelled.tsv")
    lines = files.read(*path).decode("utf-8").split("\n")
    rows = [line.split("\t") for line in lines if line]
    scores = np.array([float(row[4]) for row in rows])
    sentences = [row[5] for row in rows] + [row[6] for row in rows]
    model = os.path.join(folder, "minilm")
    if not os.path.exists(f"{model}/bert_config.json"):
        conversion.convert(materials.model_folder(row.model), model)
    lines_file = os.path.join(folder, "sentences.txt")
    files.replace(lines_file, "\n".join(sentences) + "\n")
    output = os.path.join(folder, "vectors.npz")
    words = [
        f"--vocab_file={model}/vocab.txt",
        f"--bert_config_file={model}/bert_config.json",
        f"--init_checkpoint={model}/bert_model.ckpt",
        f"--input_file={lines_file}",
        f"--output_file={output}",
        "--output_format=npz",
        "--pooling=mean",
        "--layers=-1",
        f"--max_seq_length={MINILM_LENGTH}",
    ]
    steps.run_step(steps.Step("extract_features", words, folder), lock)
    vectors = np.load(output)["values"][:, 0].astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    first, second = np.split(vectors, 2)
    cosines = (first * second).sum(axis=1)
    return {
        "pearson": 100 * metrics.pearson(scores, cosines),
        "spearman": 100 * metrics.spearman(scores, cosines),
    }
