"""Opens trained models of all kinds, with what their texts need."""

import io
import os
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_ref import casing, heads
from keras_bert_ref.checkpoints import conversion, names
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.text.preprocessor import BertPreprocessor
from keras_bert_ref.text.text_model import TextModel
from keras_bert_ref.tokenization import FullTokenizer, VocabFile
from keras_bert_ref.training import run_record

# Whatever of ours a file may hold besides heads.
LAYERS = {"BertPreprocessor": BertPreprocessor}


def load_model(path: str | os.PathLike, **kwargs) -> keras.Model:
    """Opens a `.keras` file of ours; takes the arguments of Keras' own.

    Keras knows our classes once their modules are imported, as they are here.
    """
    kwargs.setdefault("custom_objects", LAYERS)
    return keras.saving.load_model(path, **kwargs)


def open_model(
    path: str | os.PathLike,
    vocab_file: VocabFile | None = None,
    do_lower_case: bool | None = None,
    labels: Sequence[str] | None = None,
    max_seq_length: int | None = None,
) -> TextModel:
    """Opens a model for texts.

    What is not given is found: in the run.json that our runs leave, in the
    tokenizer's config of a Hugging Face folder, or in the vocabulary.

    Args:
        path: a released folder, an output_dir of ours, the prefix of a TF1
            checkpoint, a folder of Hugging Face's or keras-hub's, or a .keras
            file.
        vocab_file: the vocabulary, if it is not beside the model.
        do_lower_case: bool. Whether text is lower-cased.
        labels: the names of classes, in the order of the model's outputs.
        max_seq_length: int. Longer inputs are cut.
    """
    path = os.fspath(path)
    record = {}
    if path.endswith(".keras"):
        model, vocabulary = load_model(path), None
        lower_cases = None
    else:
        if not tf.io.gfile.glob(path + "*"):
            raise FileNotFoundError(
                f"There is neither a folder nor a checkpoint {path}. "
                f"{names.suggest(path)}"
            )
        folder = path if tf.io.gfile.isdir(path) else os.path.dirname(path)
        record = run_record.read(folder) or {}
        source = conversion.READERS[conversion.detect_format(path)](path)
        model = _build(source, record.get("task"))
        vocabulary, lower_cases = source.vocabulary, source.do_lower_case
    if vocab_file is None and vocabulary is None:
        raise ValueError(
            f"{path} has no vocab.txt beside it; give the vocabulary of the "
            "model: open_model(path, vocab_file=...)."
        )
    lines = io.BytesIO(vocabulary) if vocab_file is None else vocab_file
    tokenizer = FullTokenizer(lines)
    casing.check_vocabulary_size(tokenizer.vocab, model.config.vocab_size)
    found = (do_lower_case, record.get("do_lower_case"), lower_cases)
    guess = not casing.has_capitals(tokenizer.vocab)
    lower_cases = next((x for x in found if x is not None), guess)
    tokenizer.basic_tokenizer.do_lower_case = lower_cases
    limit = model.config.max_position_embeddings
    return TextModel(
        model,
        tokenizer,
        labels=list(labels or record.get("labels") or ()),
        max_seq_length=max_seq_length or record.get("max_seq_length") or limit,
        allows_no_answer=bool(
            record.get("flags", {}).get("version_2_with_negative")
        ),
    )


def _build(source, task: str | None):
    """The model whose head the weights are of."""
    tensors = source.tensors
    if "cls/squad/output_weights" in tensors:
        return source.build(heads.BertSpan)
    if "output_weights" in tensors:
        count = np.shape(tensors["output_weights"])[0]
        head = heads.BertTagger if task == "ner" else heads.BertClassifier
        return source.build(head, num_labels=count)
    if "cls/predictions/output_bias" in tensors:
        return source.build(heads.BertPretraining)
    return source.build(BertModel)
