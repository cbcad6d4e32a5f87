"""The Beam pipeline makes the records of the local sharded generator."""

import pytest
import tensorflow as tf

pytest.importorskip("apache_beam")

from keras_bert_ref.pretraining import beam, sharded
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.records.files import expand_outputs, read_records
from keras_bert_ref.tokenization import FullTokenizer

pytestmark = pytest.mark.beam

OPTIONS = ["--runner=DirectRunner"]
SHARD_BYTES = 4000


@pytest.fixture
def tokenizer(golden_dir):
    return FullTokenizer(golden_dir / "vocab.txt")


def make_locally(paths, tokenizer, settings):
    summary = Summary()
    batches = sharded.generate(
        paths, tokenizer, settings, 1, summary, SHARD_BYTES
    )
    return [record for batch in batches for record in batch], summary


@pytest.mark.parametrize("output", ["out.tfrecord@3", "out.gz"])
@pytest.mark.parametrize("do_whole_word_mask", [False, True])
def test_same_records_as_the_local_generator(
    golden_dir, tmp_path, tokenizer, output, do_whole_word_mask
):
    paths = [str(golden_dir / name) for name in ("corpus.txt", "corpus_b.txt")]
    settings = Settings(
        tokenizer.vocab, dupe_factor=2, do_whole_word_mask=do_whole_word_mask
    )
    output = str(tmp_path / output)
    summary = Summary()
    beam.run(paths, tokenizer, settings, output, OPTIONS, summary, SHARD_BYTES)
    files = expand_outputs(output)
    assert sorted(map(str, tmp_path.iterdir())) == files
    for path in files:
        assert tf.io.gfile.stat(path).length > 0
    ours = sorted(read_records(files).as_numpy_iterator())
    theirs, their_summary = make_locally(paths, tokenizer, settings)
    assert ours == sorted(theirs)
    assert summary.counts == their_summary.counts


def test_one_output_name_only(tmp_path, tokenizer):
    with pytest.raises(ValueError, match=r"--output_file=a,b has several"):
        beam.run(
            [], tokenizer, Settings(tokenizer.vocab), "a,b", OPTIONS, Summary()
        )
