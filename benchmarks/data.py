"""Speed and memory of the tokenizer and of create_pretraining_data.py.

    .venv-peers/bin/python benchmarks/data.py \
        --corpus=../shared/data/corpus/wikipedia_sections.txt \
        --vocab=../shared/data/vocab/bert-base-uncased-vocab.txt \
        --output=docs/BENCHMARK_DATA.md

Needs the extra `benchmarks`, and Linux (memory is read from /proc). Every
measurement is a process of its own; the candidates take turns, and medians
over the rounds are reported.
"""

import argparse
import itertools
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

ROOT = pathlib.Path(__file__).parent.parent
RUNNER = ROOT / "create_pretraining_data.py"
MEGABYTE = 1_000_000
PACKAGES = ("tensorflow", "tensorflow-text", "tokenizers", "numpy")

# The original release on this corpus: measured once, on one core of another
# machine of the same size; see the page for its speed on this one.
ORIGINAL_TOKENS = 0.22e6
ORIGINAL_INSTANCES = 2190

REPORT = """# Speed and memory of making pre-training data

    {command}

{machine}

Medians of {rounds} rounds, every run a process of its own, the candidates in
turn. Tokenizers start with empty caches. Instances/s is that of
the whole command with `--dupe_factor=10`, from its start to its end, the import
of TensorFlow included. Memory is the peak of all processes together. RSS is the
sum of their resident pages, and so counts the libraries once for each process;
allocated is what no file stands behind, shared pages counted once. The numbers
of the original were measured before, on one core of another machine, not in
this run.

{tables}
"""


def tokenize_ours(lines: list[str], vocab: str) -> tuple[int, float]:
    from keras_bert_ref.tokenization import FullTokenizer

    tokenizer = FullTokenizer(vocab, do_lower_case=True)
    start = time.perf_counter()
    count = sum(len(tokenizer.encode(line)) for line in lines)
    return count, time.perf_counter() - start


def tokenize_huggingface(lines: list[str], vocab: str) -> tuple[int, float]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    model = models.WordPiece.from_file(vocab, unk_token="[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    start = time.perf_counter()
    count = 0
    for batch in in_batches(lines):
        encodings = tokenizer.encode_batch_fast(batch)
        count += sum(len(encoding.ids) for encoding in encodings)
    return count, time.perf_counter() - start


def tokenize_tensorflow_text(lines: list[str], vocab: str) -> tuple[int, float]:
    import tensorflow as tf
    import tensorflow_text

    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tokenizer = tensorflow_text.BertTokenizer(vocab, lower_case=True)
    start = time.perf_counter()
    count = 0
    for batch in in_batches(lines):
        count += int(tf.size(tokenizer.tokenize(batch).flat_values))
    return count, time.perf_counter() - start


TOKENIZERS: dict[str, Callable[[list[str], str], tuple[int, float]]] = {
    "ours": tokenize_ours,
    "Hugging Face tokenizers": tokenize_huggingface,
    "tensorflow-text": tokenize_tensorflow_text,
}


def in_batches(lines: list[str], size: int = 1000) -> Iterator[list[str]]:
    for start in range(0, len(lines), size):
        yield lines[start : start + size]


def measure_tokenizer(name: str, corpus: str, vocab: str) -> tuple[int, float]:
    """Tokens, and tokens a second, in a new process: nothing is cached."""
    command = [sys.executable, __file__, f"--corpus={corpus}"]
    command += [f"--vocab={vocab}", f"--tokenizer={name}"]
    result = subprocess.run(command, capture_output=True, check=True, text=True)
    count, seconds = result.stdout.split()[-2:]
    return int(count), int(count) / float(seconds)


class MemoryWatch(threading.Thread):
    """Peak memory of a process and all its descendants, in bytes.

    Attributes:
        rss: all resident pages of every process, libraries included.
        allocated: pages without a file behind them, shared ones counted once.
    """

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.pid = pid
        self.rss = self.allocated = 0

    def run(self):
        while sizes := list(self._sizes(self.pid)):
            rss, allocated = map(sum, zip(*sizes, strict=True))
            self.rss = max(self.rss, rss)
            self.allocated = max(self.allocated, allocated)
            time.sleep(0.1)

    def _sizes(self, pid: int) -> Iterator[tuple[int, int]]:
        process = pathlib.Path("/proc", str(pid))
        try:
            memory = (process / "smaps_rollup").read_text()
            children = [
                child
                for path in process.glob("task/*/children")
                for child in path.read_text().split()
            ]
        except OSError:  # it has ended meanwhile
            return
        if memory:
            yield read_size(memory, "Rss"), read_size(memory, "Pss_Anon")
        for child in children:
            yield from self._sizes(int(child))


def read_size(memory: str, name: str) -> int:
    return int(re.search(rf"^{name}: +(\d+) kB$", memory, re.M)[1]) << 10


def measure_generator(
    corpus: str, vocab: str, num_workers: int, is_sharded: bool, dupes: int = 10
) -> dict[str, float]:
    """Runs the command as a user would; the time is that of all of it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, RUNNER),
            f"--input_file={corpus}",
            f"--output_file={folder}/out.tfrecord",
            f"--vocab_file={vocab}",
            f"--num_workers={num_workers}",
            f"--sharded={is_sharded}",
            f"--dupe_factor={dupes}",
        ]
        start = time.perf_counter()
        with open(f"{folder}/log", "w") as log:
            process = subprocess.Popen(command, stderr=log, stdout=log)
        watch = MemoryWatch(process.pid)
        watch.start()
        if process.wait():
            sys.exit(pathlib.Path(folder, "log").read_text())
        seconds = time.perf_counter() - start
        watch.join()
        log = pathlib.Path(folder, "log").read_text()
    instances = re.search(r" instances: ([\d,]+)", log)[1].replace(",", "")
    return {
        "instances": int(instances),
        "seconds": seconds,
        "speed": int(instances) / seconds,
        "rss": watch.rss,
        "allocated": watch.allocated,
    }


def write_slice(corpus: str, num_bytes: int, path: pathlib.Path) -> str:
    """Cuts or repeats a corpus to that size, ending where a line ends."""
    text = pathlib.Path(corpus).read_bytes().rstrip() + b"\n\n"
    text = (text * (num_bytes // len(text) + 1))[:num_bytes]
    path.write_bytes(text[: text.rfind(b"\n")])
    return str(path)


def benchmark_tokenizers(corpus: str, vocab: str, rounds: int) -> list[str]:
    speeds, counts = defaultdict(list), {}
    for _, name in itertools.product(range(rounds), TOKENIZERS):
        counts[name], speed = measure_tokenizer(name, corpus, vocab)
        speeds[name].append(speed)
    rows = [
        "| Tokenizer, one thread | Tokens | Million tokens/s |",
        "|---|--:|--:|",
    ]
    for name, values in speeds.items():
        speed = statistics.median(values) / 1e6
        rows.append(f"| {name} | {counts[name]:,} | {speed:.2f} |")
    rows.append(f"| original | | {ORIGINAL_TOKENS / 1e6:.2f} |")
    return rows


def benchmark_generators(corpus: str, vocab: str, rounds: int) -> list[str]:
    results = defaultdict(list)
    modes = list(itertools.product((False, True), (1, 2)))
    for _, (is_sharded, num_workers) in itertools.product(range(rounds), modes):
        results[is_sharded, num_workers].append(
            measure_generator(corpus, vocab, num_workers, is_sharded)
        )
    rows = [
        "| Mode | Workers | Instances | Seconds | Instances/s | Times the "
        "original | Allocated, MB | RSS, MB |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (is_sharded, num_workers), runs in results.items():
        median = {
            name: statistics.median(run[name] for run in runs)
            for name in runs[0]
        }
        rows.append(
            f"| {'sharded' if is_sharded else 'exact'} | {num_workers} "
            f"| {median['instances']:,.0f} | {median['seconds']:.1f} "
            f"| {median['speed']:,.0f} "
            f"| {median['speed'] / ORIGINAL_INSTANCES:.1f} "
            f"| {median['allocated'] / MEGABYTE:.0f} "
            f"| {median['rss'] / MEGABYTE:.0f} |"
        )
    rows.append(f"| original | | | | {ORIGINAL_INSTANCES:,} | 1.0 | | |")
    return rows


def benchmark_memory(corpus: str, vocab: str) -> list[str]:
    rows = [
        "| Sharded mode, 2 workers | Allocated, MB | RSS, MB |",
        "|---|--:|--:|",
    ]
    code = "import tensorflow; print(open('/proc/self/smaps_rollup').read())"
    memory = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    ).stdout
    rows.append(
        "| only `import tensorflow`, 1 process "
        f"| {read_size(memory, 'Pss_Anon') / MEGABYTE:.0f} "
        f"| {read_size(memory, 'Rss') / MEGABYTE:.0f} |"
    )
    with tempfile.TemporaryDirectory() as folder:
        for size in (5, 20, 100):
            path = pathlib.Path(folder, "corpus.txt")
            text = write_slice(corpus, size * MEGABYTE, path)
            run = measure_generator(text, vocab, 2, is_sharded=True, dupes=2)
            rows.append(
                f"| {size} MB of text | {run['allocated'] / MEGABYTE:.0f} "
                f"| {run['rss'] / MEGABYTE:.0f} |"
            )
    return rows


def describe_machine(packages: Sequence[str] = PACKAGES) -> str:
    from importlib.metadata import version

    cpu = re.search(
        r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()
    )
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores; "
        f"Python {platform.python_version()}, {versions}."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--output", help="a Markdown file for the tables")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus_bytes", type=int, help="a slice, to try it")
    parser.add_argument("--tokenizer", choices=TOKENIZERS, help="internal")
    flags = parser.parse_args()
    if flags.tokenizer:
        lines = pathlib.Path(flags.corpus).read_bytes().decode().split("\n")
        print(*TOKENIZERS[flags.tokenizer](lines, flags.vocab))
        return
    with tempfile.TemporaryDirectory() as folder:
        corpus = flags.corpus
        if flags.corpus_bytes:
            path = pathlib.Path(folder, "corpus.txt")
            corpus = write_slice(corpus, flags.corpus_bytes, path)
        tables = [
            benchmark_tokenizers(corpus, flags.vocab, flags.rounds),
            benchmark_generators(corpus, flags.vocab, flags.rounds),
            benchmark_memory(corpus, flags.vocab),
        ]
    report = REPORT.format(
        command=" \\\n    ".join(["python", *sys.argv]),
        rounds=flags.rounds,
        machine=describe_machine(),
        tables="\n\n".join("\n".join(rows) for rows in tables),
    )
    print(report)
    if flags.output:
        pathlib.Path(flags.output).write_text(report)


if __name__ == "__main__":
    main()
