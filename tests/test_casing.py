"""Vocabulary, casing and checkpoint must belong together."""

import pytest

from keras_bert_ref import casing
from keras_bert_ref.checkpoints.pretrained import Pretrained
from keras_bert_ref.config import BertConfig
from keras_bert_ref.tokenization import load_vocab

CASED = {"[UNK]": 0, "Word": 1, "word": 2, "<S>": 3}
UNCASED = {"[UNK]": 0, "word": 1, "<S>": 2}


@pytest.mark.parametrize(
    ("words", "is_cased"),
    [
        ("word Word", True),
        ("word ##Word", True),
        ("слово Слово", True),
        ("word ##s 字 ##ß", False),
        ("[CLS] [UNK] <S> <T> word", False),  # as in the Chinese vocabulary
        ("ℝ ##ℝ word", False),  # a capital that has no small letter
        ("字 語 漢", False),
        ("", False),
    ],
)
def test_capitals(words, is_cased):
    assert casing.has_capitals(words.split()) is is_cased


@pytest.mark.parametrize(
    ("name", "is_cased"),
    [
        ("bert-base-uncased", False),
        ("bert-base-chinese", False),
        ("bert-base-cased", True),
        ("bert-base-multilingual-cased", True),
    ],
)
def test_capitals_of_released_vocabularies(shared_dir, name, is_cased):
    path = shared_dir / "data" / "vocab" / f"{name}-vocab.txt"
    assert casing.has_capitals(load_vocab(str(path))) is is_cased
    config = BertConfig(vocab_size=9)
    made = Pretrained("", config, {}, vocabulary=path.read_bytes())
    assert made.lower_cases() is not is_cased


@pytest.mark.parametrize(
    ("name", "do_lower_case"),
    [("uncased_L-12_H-768_A-12", False), ("multi_cased_L-12_H-768_A-12", True)],
)
def test_released_names_tell(name, do_lower_case):
    prefix = f"gs://models/{name}/bert_model.ckpt"
    vocabulary = CASED if "multi" in name else UNCASED
    casing.check_casing(not do_lower_case, prefix, vocabulary)
    message = f"do_lower_case={do_lower_case}, but {name}"
    with pytest.raises(ValueError, match=message):
        casing.check_casing(do_lower_case, prefix, vocabulary)


@pytest.mark.parametrize(
    ("do_lower_case", "vocabulary", "warning"),
    [
        (True, CASED, "no text will match; is the model a cased one?"),
        (False, UNCASED, "will be [UNK]; is the model uncased?"),
        (True, UNCASED, None),
        (False, CASED, None),
    ],
)
def test_vocabulary_warns(do_lower_case, vocabulary, warning, caplog):
    with caplog.at_level("WARNING", logger="absl"):
        casing.check_casing(do_lower_case, None, vocabulary)
    assert [warning in r.getMessage() for r in caplog.records] == (
        [True] if warning else []
    )


def test_vocabulary_size():
    casing.check_vocabulary_size(UNCASED, 3)
    with pytest.raises(ValueError, match="has 3 entries.* vocab_size is 4"):
        casing.check_vocabulary_size(UNCASED, 4)
