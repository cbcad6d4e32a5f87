"""The sharded generator as an Apache Beam pipeline.

Documents are keyed by shard, grouped, and every group is sampled by the code
that the local generator uses: the records are the same, their order is not.
Only this module needs apache-beam.
"""

from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions

from keras_bert_ref.pretraining.corpus import Corpus, Encoded, encode_block
from keras_bert_ref.pretraining.settings import Settings
from keras_bert_ref.pretraining.shards import (
    SHARD_BYTES,
    choose_shard,
    count_shards,
    sample_shard,
    split_documents,
)
from keras_bert_ref.pretraining.summary import Summary
from keras_bert_ref.records.files import split_output
from keras_bert_ref.text_files import count_bytes, read_blocks
from keras_bert_ref.tokenization import FullTokenizer

# A document's file and place in it, its tokens and sentence lengths.
Document = tuple[int, int, np.ndarray, np.ndarray]


def run(
    paths: list[str],
    tokenizer: FullTokenizer,
    settings: Settings,
    output: str,
    options: list[str],
    summary: Summary,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Runs the pipeline to its end.

    Args:
        paths: text files; each is read by one worker, so that many small
            ones are better than a few large ones.
        tokenizer: of the vocabulary in `settings`.
        settings: how to make instances.
        output: one name, or `name@count` for numbered files.
        options: options of the pipeline, such as `--runner=DirectRunner`.
        summary: is filled in.
        shard_bytes: int. How much text a shard has.
    """
    if "," in output:
        raise ValueError(
            "A Beam pipeline writes to one name or to name@count, but "
            f"--output_file={output} has several; use name@count."
        )
    prefix, num_files, suffix = split_output(output)
    num_shards = count_shards(count_bytes(paths), shard_bytes)
    encode = _EncodeFile(tokenizer, settings.random_seed, num_shards)
    sample = _SampleShard(settings)
    write = beam.io.WriteToTFRecord(
        prefix,
        file_name_suffix=suffix,
        num_shards=num_files or 1,
        shard_name_template="-SSSSS-of-NNNNN" if num_files else "",
    )
    with summary.phase("pipeline"):
        pipeline = beam.Pipeline(options=PipelineOptions(options))
        _ = (
            pipeline
            | "List files" >> beam.Create(list(enumerate(paths)))
            | "Spread files" >> beam.Reshuffle()
            | "Encode" >> beam.ParDo(encode)
            | "Group by shard" >> beam.GroupByKey()
            | "Sample" >> beam.ParDo(sample)
            | "Spread records" >> beam.Reshuffle()
            | "Write" >> write
        )
        result = pipeline.run()
        result.wait_until_finish()
    for counter in result.metrics().query()["counters"]:
        if counter.key.metric.namespace == __name__:
            summary.counts[counter.key.metric.name] += counter.result


class _EncodeFile(beam.DoFn):
    """A file -> its documents, keyed by shard."""

    def __init__(
        self, tokenizer: FullTokenizer, random_seed: int, num_shards: int
    ):
        self.tokenizer = tokenizer
        self.random_seed = random_seed
        self.num_shards = num_shards

    def process(
        self, indexed_path: tuple[int, str]
    ) -> Iterator[tuple[int, Document]]:
        file, path = indexed_path
        blocks = (
            encode_block(self.tokenizer, block) for block in read_blocks(path)
        )
        for index, document in enumerate(split_documents(blocks)):
            shard = choose_shard(self.random_seed, file, index, self.num_shards)
            yield shard, (file, index, *document)


class _SampleShard(beam.DoFn):
    """A shard and its documents -> serialized instances."""

    def __init__(self, settings: Settings):
        self.settings = settings

    def process(self, group: tuple[int, Iterable[Document]]) -> Iterator[bytes]:
        shard, documents = group
        # They arrive in any order; that of the input makes them the same
        # shard everywhere.
        documents = sorted(documents, key=lambda document: document[:2])
        corpus = Corpus.from_encoded(
            Encoded(tokens, lengths) for _, _, tokens, lengths in documents
        )
        for copy in range(self.settings.dupe_factor):
            records, counts = sample_shard(corpus, self.settings, shard, copy)
            for name, count in counts.items():
                Metrics.counter(__name__, name).inc(count)
            yield from records
