"""The commands that write files, each on inputs small enough for many runs.

The inputs of later commands are the undisturbed outputs of earlier ones, and
these are what every disturbed run has to reach in the end.
"""

import dataclasses
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from helpers import runners

ROOT = pathlib.Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
NUM_STEPS = 40
SIZES = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 32,
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "type_vocab_size": 2,
}
TRAINING = (
    "--do_train",
    "--deterministic",
    "--train_batch_size=4",
    "--save_checkpoints_steps=5",
    "--log_steps=10",
)


@dataclasses.dataclass(frozen=True)
class Subject:
    """A command.

    Attributes:
        words: the script, or -m and a module.
        inputs: name -> path below the workspace, of files it reads.
        flags: (inputs, output folder) -> flags.
        compared: what must come out, relative to the output folder; a name
            that ends in * stands for a checkpoint, compared by its values.
        trains: whether only one process at a time may do this.
        refuses_old: whether it refuses to replace what is there.
        num_workers: processes that do it together.
    """

    name: str
    words: tuple[str, ...]
    inputs: Mapping[str, str]
    flags: Callable[[Mapping[str, str], str], list[str]]
    compared: tuple[str, ...]
    trains: bool = False
    refuses_old: bool = False
    num_workers: int = 1

    def find_inputs(self, workspace: pathlib.Path) -> dict[str, str]:
        return {name: str(workspace / p) for name, p in self.inputs.items()}

    def start(
        self,
        inputs: Mapping[str, str],
        output: pathlib.Path,
        *,
        before: Sequence[str] = (),
        max_file_size: int | None = None,
    ) -> list["Process"]:
        """Starts the command; one process a worker.

        Args:
            before: words that stand between Python and the command.
            max_file_size: the disk is full for files beyond so many bytes.
        """
        flags = self.flags(inputs, str(output))
        if self.num_workers == 1:
            return [Process(self, output, [*before], flags, max_file_size)]
        hosts = ",".join(runners.free_addresses(self.num_workers))
        return [
            Process(
                self,
                output,
                [*before],
                [*flags, f"--worker_hosts={hosts}", f"--task_index={i}"],
                max_file_size,
            )
            for i in range(self.num_workers)
        ]


class Process:
    """A running command, in a process group of its own as a shell would have
    it. Its log and its temporary files lie beside its output."""

    _count = 0

    def __init__(self, subject, output, before, flags, max_file_size):
        Process._count += 1
        script = list(subject.words)
        if script[0] != "-m":
            script[0] = str(ROOT / script[0])
        temporary = output.with_name(f"{output.name}.tmp")
        temporary.mkdir(parents=True, exist_ok=True)
        self.log_file = output.with_name(f"{output.name}.log{Process._count}")

        def prepare() -> None:
            # A campaign in the background would pass on that it ignores it.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            if max_file_size is not None:
                sizes = (max_file_size, max_file_size)
                resource.setrlimit(resource.RLIMIT_FSIZE, sizes)

        with open(self.log_file, "wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, *before, *script, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
                start_new_session=True,
                preexec_fn=prepare,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "TF_CPP_MIN_LOG_LEVEL": "2",
                    "TMPDIR": str(temporary),
                },
            )

    @property
    def log(self) -> str:
        return self.log_file.read_bytes().decode("utf-8", "replace")


def make_workspace(workspace: pathlib.Path) -> None:
    """Writes the inputs that no command makes."""
    corpus = (GOLDEN / "corpus.txt").read_text("utf-8")
    (workspace / "corpus.txt").write_text(corpus * 4, "utf-8")
    lines = [line for line in corpus.split("\n") if line][:60]
    (workspace / "lines.txt").write_text("\n".join(lines) + "\n", "utf-8")
    vocabulary = (GOLDEN / "vocab.txt").read_text("utf-8")
    (workspace / "vocab.txt").write_text(vocabulary, "utf-8")
    config = {**SIZES, "vocab_size": len(vocabulary.split("\n")) - 1}
    (workspace / "bert_config.json").write_text(json.dumps(config))
    (workspace / "mrpc").mkdir()
    for name in ("train", "dev", "test"):
        source = GOLDEN / "mrpc" / f"{name}.tsv"
        rows = source.read_bytes().rstrip(b"\n").split(b"\n")
        copies = 4 if name == "train" else 1
        content = b"\n".join([rows[0], *rows[1:] * copies, b""])
        (workspace / "mrpc" / f"{name}.tsv").write_bytes(content)
    squad = (GOLDEN / "squad_v1.json").read_bytes()
    (workspace / "squad.json").write_bytes(squad)


def _model(inputs: Mapping[str, str]) -> list[str]:
    return [
        f"--vocab_file={inputs['vocabulary']}",
        f"--bert_config_file={inputs['config']}",
        f"--init_checkpoint={inputs['checkpoint'].removesuffix('.index')}",
    ]


def _create_flags(inputs, output) -> list[str]:
    return [
        f"--input_file={inputs['corpus']}",
        f"--vocab_file={inputs['vocabulary']}",
        f"--output_file={output}/a.tfrecord,{output}/b.tfrecord.gz",
        "--max_seq_length=64",
        "--num_workers=2",
        "--dupe_factor=4",
    ]


def _pretraining_flags(inputs, output) -> list[str]:
    return [
        f"--bert_config_file={inputs['config']}",
        f"--input_file={inputs['records']},{inputs['compressed records']}",
        f"--output_dir={output}",
        "--max_seq_length=64",
        f"--num_train_steps={NUM_STEPS}",
        "--num_warmup_steps=4",
        "--learning_rate=1e-3",
        "--do_eval",
        "--max_eval_steps=5",
        *TRAINING,
    ]


MODEL_INPUTS = {
    "vocabulary": "vocab.txt",
    "config": "bert_config.json",
    "checkpoint": f"run_pretraining/model.ckpt-{NUM_STEPS}.index",
    "weights": f"run_pretraining/model.ckpt-{NUM_STEPS}.data-00000-of-00001",
}
RECORDS = {
    "records": "create_pretraining_data/a.tfrecord",
    "compressed records": "create_pretraining_data/b.tfrecord.gz",
    "config": "bert_config.json",
}
# In the order in which they need each other.
SUBJECTS = (
    Subject(
        name="create_pretraining_data",
        words=("create_pretraining_data.py",),
        inputs={"corpus": "corpus.txt", "vocabulary": "vocab.txt"},
        flags=_create_flags,
        compared=("a.tfrecord", "b.tfrecord.gz"),
    ),
    Subject(
        name="create_pretraining_data --sharded",
        words=("create_pretraining_data.py",),
        inputs={"corpus": "corpus.txt", "vocabulary": "vocab.txt"},
        flags=lambda inputs, output: [
            *_create_flags(inputs, output),
            "--sharded",
            f"--output_file={output}/a.tfrecord@3",
        ],
        compared=tuple(f"a.tfrecord-0000{i}-of-00003" for i in range(3)),
    ),
    Subject(
        name="vocabulary",
        words=("-m", "keras_bert_ref.vocabulary"),
        inputs={"corpus": "corpus.txt"},
        flags=lambda inputs, output: [
            f"--input_file={inputs['corpus']}",
            f"--output_file={output}/vocab.txt",
            "--vocab_size=300",
            "--num_workers=2",
        ],
        compared=("vocab.txt",),
        refuses_old=True,
    ),
    Subject(
        name="run_pretraining",
        words=("run_pretraining.py",),
        inputs=RECORDS,
        flags=_pretraining_flags,
        compared=(f"model.ckpt-{NUM_STEPS}*", "eval_results.txt"),
        trains=True,
    ),
    Subject(
        name="run_pretraining, two workers",
        words=("run_pretraining.py",),
        inputs=RECORDS,
        flags=lambda inputs, output: [
            *_pretraining_flags(inputs, output),
            "--worker_timeout=75",  # the killed one may never have come
        ],
        compared=(f"model.ckpt-{NUM_STEPS}*", "eval_results.txt"),
        trains=True,
        num_workers=2,
    ),
    Subject(
        name="run_classifier",
        words=("run_classifier.py",),
        inputs={
            **MODEL_INPUTS,
            "train": "mrpc/train.tsv",
            "dev": "mrpc/dev.tsv",
            "test": "mrpc/test.tsv",
        },
        flags=lambda inputs, output: [
            *_model(inputs),
            "--task_name=mrpc",
            f"--data_dir={os.path.dirname(inputs['train'])}",
            f"--output_dir={output}",
            "--max_seq_length=48",
            "--num_train_epochs=2",
            "--do_eval",
            "--do_predict",
            *TRAINING,
        ],
        compared=("eval_results.txt", "test_results.tsv", "model.ckpt-32*"),
        trains=True,
    ),
    Subject(
        name="run_squad",
        words=("run_squad.py",),
        inputs={**MODEL_INPUTS, "questions": "squad.json"},
        flags=lambda inputs, output: [
            *_model(inputs),
            f"--train_file={inputs['questions']}",
            f"--predict_file={inputs['questions']}",
            f"--output_dir={output}",
            "--max_seq_length=96",
            "--doc_stride=32",
            "--max_query_length=16",
            "--do_predict",
            *TRAINING,
        ],
        compared=(
            "predictions.json",
            "nbest_predictions.json",
            "eval_results.txt",
        ),
        trains=True,
    ),
    Subject(
        name="extract_features",
        words=("extract_features.py",),
        inputs={**MODEL_INPUTS, "lines": "lines.txt"},
        flags=lambda inputs, output: [
            *_model(inputs),
            f"--input_file={inputs['lines']}",
            f"--output_file={output}/features.jsonl",
            "--layers=-1",
        ],
        compared=("features.jsonl",),
    ),
    Subject(
        name="convert",
        words=("-m", "keras_bert_ref.checkpoints.convert"),
        inputs=MODEL_INPUTS,
        flags=lambda inputs, output: [
            f"--source={os.path.dirname(inputs['checkpoint'])}",
            f"--target={output}/folder",
            "--target_format=huggingface",
        ],
        compared=("folder/model.safetensors", "folder/config.json"),
        refuses_old=True,
    ),
)
