"""Files in CoNLL's columns -> sentences -> windows -> records."""

import io

import numpy as np
import pytest

from keras_bert_ref import prepared
from keras_bert_ref.ner import files, flags, records, tfds, windows
from keras_bert_ref.records import batches
from keras_bert_ref.tokenization import FullTokenizer

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
VOCAB += [f"##{c}" for c in "abcdefgh"]
TEXT = """-DOCSTART- -X- O

ab x B-X
c x O

d x I-Y
-DOCSTART- -X- O

e x O
"""


@pytest.fixture(scope="module")
def tokenizer() -> FullTokenizer:
    return FullTokenizer(io.BytesIO("\n".join(VOCAB).encode()))


def parse(text: str, **kwargs) -> files.TaggedFile:
    return files.parse(text.split("\n"), "f", **kwargs)


def test_sentences():
    data = parse(TEXT)
    assert [s.words for s in data.sentences] == [["ab", "c"], ["d"], ["e"]]
    assert data.tags == [["B-X", "O"], ["I-Y"], ["O"]]
    assert [s.document for s in data.sentences] == [1, 1, 2]
    assert [s.lines for s in data.sentences] == [[2, 3], [5], [8]]
    assert data.has_documents and data.num_words == 4


def test_any_columns():
    """Tabs, carriage returns, a space that is not one, words alone."""
    data = parse("a\tB-X\r\nb\u00a0c\tO\r\n\r\n")
    assert data.sentences[0].words == ["a", "b\u00a0c"]
    data = parse("a\nb\n\nc\n", needs_tags=False)
    assert not data.has_tags and data.num_words == 3
    data = parse("a NN\nb B-X\n", needs_tags=False)  # parts of speech
    assert not data.has_tags and data.num_words == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", "needs two columns or more.* line 2 of f has 1: 'b'"),
        ("a x O\nb O\n", "as its first, 3, but line 2 of f has 2: 'b O'"),
        ("a O\nb I-\n", "B- or I- and a type, but line 2 of f has 'I-'"),
        ("a I\n", "line 1 of f has 'I'"),
        ("a E-X\n", "line 1 of f has 'E-X'"),
        ("\n\n", "There is no word in f"),
        ("", "There is no word in f"),
    ],
)
def test_bad_files(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_unknown_labels():
    data = parse(TEXT)
    files.check_labels(data, ["O", "B-X", "I-X", "B-Y", "I-Y"])
    with pytest.raises(
        ValueError, match="line 6 of f has the tag 'I-Y', but .* with O, B-X;"
    ):
        files.check_labels(data, ["O", "B-X"])
    data = files.check_labels(data, ["O", "B-X"], needs_tags=False)
    assert not data.has_tags and data.num_words == 4


def test_missing_files(tmp_path):
    with pytest.raises(
        ValueError, match="no dev file in .* eng.testa, dev.txt"
    ):
        files.find_file(str(tmp_path), "dev")
    (tmp_path / "dev.txt").write_text("a O\n")
    assert files.find_file(str(tmp_path), "dev") == str(tmp_path / "dev.txt")


@pytest.mark.parametrize("start", ["-DOCSTART- -X- O", "-DOCSTART-"])
def test_predictions_stand_in_the_last_column(tmp_path, start):
    path = str(tmp_path / "out.txt")
    predicted = [["B-X", "I-X"], ["O"], ["B-Y"]]
    text = TEXT.replace("-DOCSTART- -X- O", start)
    files.write_predictions(path, parse(text), predicted)
    written = files.read_file(path)
    assert written.tags == predicted
    assert written.lines[2] == "ab x B-X B-X"
    assert len(written.lines) == len(TEXT.split("\n")) - 1
    # conlleval wants as many columns everywhere, also where documents start.
    counts = {len(line.split()) for line in written.lines if line.strip()}
    assert counts == {4}


def tokens_of(window, tokenizer) -> str:
    return " ".join(tokenizer.convert_ids_to_tokens(window.input_ids.tolist()))


def test_contexts(tokenizer):
    """What each shows, and which words it predicts."""
    sentences = parse(TEXT).sentences

    def make(context, length=16):
        found = windows.make_windows(
            sentences, tokenizer, max_seq_length=length, context=context
        )
        return [
            (tokens_of(w, tokenizer), w.positions.tolist(), w.words.tolist())
            for w in found
        ]

    assert make("sentence") == [
        ("[CLS] a ##b c [SEP]", [1, 3], [0, 1]),
        ("[CLS] d [SEP]", [1], [2]),
        ("[CLS] e [SEP]", [1], [3]),
    ]
    assert make("document") == [
        ("[CLS] a ##b c d [SEP]", [1, 3, 4], [0, 1, 2]),
        ("[CLS] e [SEP]", [1], [3]),
    ]
    assert make("sentence_in_document") == [
        ("[CLS] a ##b c d [SEP]", [1, 3], [0, 1]),
        ("[CLS] a ##b c d [SEP]", [4], [2]),
        ("[CLS] e [SEP]", [1], [3]),
    ]
    # There is room for two pieces beside [CLS] and [SEP].
    assert make("sentence_in_document", 4)[2:] == [
        ("[CLS] c d [SEP]", [2], [2]),
        ("[CLS] e [SEP]", [1], [3]),
    ]


def test_neighbours_share_the_room(tokenizer):
    data = parse("-DOCSTART- O\n\na O\nb O\n\nc O\n\nd O\ne O\nf O\n")
    found = windows.make_windows(
        data.sentences,
        tokenizer,
        max_seq_length=6,
        context="sentence_in_document",
    )
    assert [tokens_of(w, tokenizer) for w in found] == [
        "[CLS] a b c d [SEP]",
        "[CLS] b c d e [SEP]",
        "[CLS] c d e f [SEP]",
    ]


@pytest.mark.parametrize("context", flags.CONTEXTS)
def test_odd_words(tokenizer, context):
    """A word without pieces, and one longer than a window."""
    data = parse("a O\n\u200b O\nabcdefgh O\nb O\n")
    found = windows.make_windows(
        data.sentences,
        tokenizer,
        max_seq_length=6,
        context=context,
        doc_stride=2,
    )
    pairs = {
        word: tokenizer.convert_ids_to_tokens([w.input_ids[place]])
        for w in found
        for word, place in zip(w.words, w.positions, strict=True)
    }
    assert pairs == {0: ["a"], 1: ["[UNK]"], 2: ["a"], 3: ["b"]}
    assert max(len(w.input_ids) for w in found) <= 6


def test_stride(tokenizer):
    with pytest.raises(ValueError, match="doc_stride=0; set it to 1 or more"):
        windows.make_windows([], tokenizer, max_seq_length=8, doc_stride=0)


@pytest.mark.slow
@pytest.mark.parametrize("context", flags.CONTEXTS)
def test_every_word_once(shared_dir, context):
    """All of testa with the cased vocabulary: each word is predicted exactly
    once, at its first piece."""
    path = shared_dir / "data/vocab/bert-base-cased-vocab.txt"
    cased = FullTokenizer(str(path), do_lower_case=False)
    data = files.read_file(str(shared_dir / "data/conll2003/eng.testa"))
    found = windows.make_windows(
        data.sentences, cased, max_seq_length=128, context=context
    )
    counts = np.zeros(data.num_words, int)
    words = [word for s in data.sentences for word in s.words]
    for window in found:
        assert len(window.input_ids) <= 128
        counts[window.words] += 1
        firsts = window.input_ids[window.positions].tolist()
        expected = [cased.encode(words[i])[0] for i in window.words]
        assert firsts == expected
    assert data.num_words == 51_362
    assert (counts == 1).all()
    if context == "document":
        assert len({s.document for s in data.sentences}) == 216
        assert len(found) > 216


def test_records(tokenizer, tmp_path):
    """What is written is read; trimmed, all that goes by tokens is cut."""
    found = windows.make_windows(
        parse(TEXT).sentences, tokenizer, max_seq_length=12
    )
    label_ids = np.array([1, 0, 2, 0], np.int32)
    written = records.write_records(
        str(tmp_path / "x.tf_record"),
        found,
        label_ids,
        max_seq_length=12,
        vocab_size=len(VOCAB),
    )
    (batch,) = batches.batches_in_order(written, 5, length_multiple=4)
    assert batch["tag_ids"].numpy().tolist() == [
        [0, 1, 0, 0, 0, 0, 0, 0],
        [0, 2, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert batch["tag_mask"].numpy()[0].tolist() == [0, 1, 0, 1, 0, 0, 0, 0]
    assert batch["input_mask"].shape == (3, 8)


@pytest.mark.slow
def test_tfds(tmp_path):
    """What tfds has stored gives the sentences of the file."""
    import tensorflow_datasets

    library = tensorflow_datasets.features
    labels = {
        "pos": ["NN"],
        "chunks": ["O"],
        "ner": ["O", "B-PER", "I-PER"],
    }
    features = {"tokens": library.Sequence(library.Text())}
    for name, names in labels.items():
        label = library.ClassLabel(names=names)
        features[name] = library.Sequence(label)
    rows = [
        {"tokens": ["a", "b"], "pos": [0, 0], "chunks": [0, 0], "ner": [1, 2]},
        {"tokens": ["c"], "pos": [0], "chunks": [0], "ner": [0]},
    ]
    tensorflow_datasets.dataset_builders.store_as_tfds_dataset(
        name="conll2003",
        config="conll2003",
        version="1.0.0",
        data_dir=tmp_path,
        features=library.FeaturesDict(features),
        split_datasets={"dev": list(enumerate(rows))},
    )
    source = f"tfds:{tmp_path}"
    lines = tfds.make_lines(source, prepared.load(source, "conll2003", "dev"))
    data = files.parse(lines, "f")
    assert sorted((s.words, s.tags) for s in data.sentences) == [
        (["a", "b"], ["B-PER", "I-PER"]),
        (["c"], ["O"]),
    ]
    with pytest.raises(ValueError, match="not prepared conll2003 in .*nowhere"):
        prepared.load(f"tfds:{tmp_path}/nowhere", "conll2003", "dev")
