"""Opens trained models of all kinds, with what their texts need."""

import io
import os
from collections.abc import Sequence

import keras
import tensorflow as tf

from keras_bert_ref import casing, heads
from keras_bert_ref.checkpoints import conversion, names
from keras_bert_ref.checkpoints.pretrained import TAGGING
from keras_bert_ref.modeling import BertModel
from keras_bert_ref.text.preprocessor import BertPreprocessor
from keras_bert_ref.text.text_model import TextModel
from keras_bert_ref.tokenization import FullTokenizer, VocabFile

# Whatever of ours a file may hold besides heads.
LAYERS = {"BertPreprocessor": BertPreprocessor}
BILSTM_KERNEL = "bilstm/both/forward_lstm/lstm_cell/recurrent_kernel"  # [U, 4U]


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
    configs of a Hugging Face folder, or in the vocabulary.

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
    record, vocabulary, lower_cases = {}, None, None
    if path.endswith(".keras"):
        model = load_model(path)
    else:
        if not tf.io.gfile.glob(path + "*"):
            raise FileNotFoundError(
                f"There is neither a folder nor a checkpoint {path}. "
                f"{names.suggest(path)}"
            )
        source = conversion.READERS[conversion.detect_format(path)](path)
        record = source.record
        _check_problem(path, record)
        model = _build(source)
        vocabulary, lower_cases = source.vocabulary, source.do_lower_case
    if vocab_file is None and vocabulary is None:
        raise ValueError(
            f"{path} has no vocab.txt beside it; give the vocabulary of the "
            "model: open_model(path, vocab_file=...)."
        )
    lines = io.BytesIO(vocabulary) if vocab_file is None else vocab_file
    tokenizer = FullTokenizer(lines)
    casing.check_vocabulary_size(tokenizer.vocab, model.config.vocab_size)
    guess = not casing.has_capitals(tokenizer.vocab)
    found = (do_lower_case, lower_cases, guess)
    lower_cases = next(x for x in found if x is not None)
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


def _check_problem(path: str, record: dict) -> None:
    if record.get("problem_type") == "multi_label_classification":
        raise ValueError(
            "A classifier here gives a text one class, but that in "
            f"{path} gives it any number (problem_type="
            f"{record['problem_type']}); build it with checkpoints/"
            "huggingface.py, and take the sigmoid of its logits."
        )


def _build(source):
    """The model whose head the weights are of."""
    tensors = source.tensors
    kwargs = {}
    if BILSTM_KERNEL in tensors:
        kwargs["bilstm_units"] = len(tensors[BILSTM_KERNEL])
    if "cls/squad/output_weights" in tensors:
        return source.build(heads.BertSpan, **kwargs)
    if "output_weights" in tensors:
        kwargs["num_labels"] = len(tensors["output_weights"])
        is_tagger = source.record.get("task") == TAGGING
        head = heads.BertTagger if is_tagger else heads.BertClassifier
        return source.build(head, **kwargs)
    if "cls/predictions/output_bias" in tensors:
        return source.build(heads.BertPretraining)
    return source.build(BertModel)
