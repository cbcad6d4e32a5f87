"""What a run of the generator made, for people to read."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from keras_bert_ref.casing import has_capitals
from keras_bert_ref.pretraining.corpus import Corpus
from keras_bert_ref.pretraining.settings import Settings

# A vocabulary that fits its text leaves well under one token in a hundred.
HIGH_UNKNOWN_SHARE = 0.05


class Summary:
    """Counts, and the seconds each phase of the work took."""

    def __init__(self):
        self.counts: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start

    def report(self, settings: Settings) -> str:
        """Returns the summary as lines of text."""
        counts = self.counts
        room = counts["instances"] * settings.max_seq_length
        seconds = sum(self.seconds.values())
        phases = ", ".join(f"{k} {v:.1f} s" for k, v in self.seconds.items())
        lines = {
            "documents": f"{counts['documents']:,}",
            "sentences": f"{counts['sentences']:,}",
            "tokens": f"{counts['tokens']:,}",
            "unknown tokens": _share(counts["unknown"], counts["tokens"]),
            "instances": f"{counts['instances']:,}",
            "random next": _share(counts["random_next"], counts["instances"]),
            "masked tokens": _share(counts["masked"], counts["positions"]),
            "padding": _share(room - counts["positions"], room)
            + (" before packing" if settings.pack_sequences else ""),
            "time": f"{seconds:.1f} s ({phases})",
            "speed": f"{counts['instances'] / seconds:,.0f} instances/s",
        }
        return "\n".join(f"{key:>15}: {lines[key]}" for key in lines)

    def unknown_warning(self, settings: Settings, do_lower_case: bool) -> str:
        """Names the likely cause if many tokens are unknown, else ''."""
        share = self.counts["unknown"] / max(self.counts["tokens"], 1)
        if share < HIGH_UNKNOWN_SHARE:
            return ""
        if not do_lower_case and not has_capitals(settings.vocab):
            cause = (
                "the vocabulary has no capital letters, but "
                "--do_lower_case=False keeps those of the text; set "
                "--do_lower_case=True"
            )
        else:
            cause = (
                "the vocabulary is probably of another language or script "
                "than the text; choose or learn another --vocab_file"
            )
        return f"{share:.1%} of all tokens are [UNK]: {cause}."


def count_corpus(corpus: Corpus, settings: Settings) -> Counter[str]:
    unknown = corpus.tokens == settings.vocab["[UNK]"]
    return Counter(
        documents=corpus.num_documents,
        sentences=corpus.num_sentences,
        tokens=len(corpus.tokens),
        unknown=int(unknown.sum()),
    )


def count_instances(instances: np.ndarray) -> Counter[str]:
    """Counts what was drawn; `positions` are those without padding."""
    lengths = instances["a_length"] + instances["b_length"] + 3
    return Counter(
        instances=len(instances),
        random_next=int(instances["is_random_next"].sum()),
        masked=int(instances["num_masked"].sum()),
        positions=int(lengths.sum()),
    )


def _share(part: int, whole: int) -> str:
    return f"{part:,} ({part / max(whole, 1):.2%})"
