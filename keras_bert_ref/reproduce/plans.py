"""The commands of a row, in the order of its flagfiles.

Each starts from what the one before it has left: records, a pre-trained
model, a fine-tuned one. What comes before the last command lies in a folder
that rows share, so that it is made once.
"""

import os
import pathlib
import re
from collections.abc import Sequence

from keras_bert_ref.config import find_run
from keras_bert_ref.reproduce.catalogue import Row
from keras_bert_ref.reproduce.materials import Materials
from keras_bert_ref.reproduce.steps import Step

# The first of fresh seeds: far from those of a grid, which start at --seed.
FRESH_SEED = 20000
SETTING = ("train_batch_size", "learning_rate", "num_train_epochs")
GRIDS = ("learning_rates", "train_batch_sizes", "epochs_grid")
# Models that answer together, each with a seed of its own (paper, table 2).
ENSEMBLE = 7
# Both phases of pre-training, and what perplexity is measured on: flags of
# create_pretraining_data.py.
RECORDS = {
    "128": (),
    "512": ("--max_seq_length=512", "--max_predictions_per_seq=80"),
    "held_out": (
        *("--max_seq_length=512", "--max_predictions_per_seq=80"),
        "--dupe_factor=1",
    ),
}
RECORDS_OF_PHASE = {"1": "128", "2": "512"}
FILES_OF_RECORDS = 100


def plan(
    row: Row, materials: Materials, folder: str, more_flags: Sequence[str]
) -> list[Step]:
    """The commands of a row.

    Args:
        folder: the row's own, for the last of them.
        more_flags: for every training.
    """
    prepared = os.path.join(materials.work_dir, "prepared")
    before = os.path.join(prepared, row.model)
    model = [] if row.pretrains else materials.model_flags(row)
    planned: list[Step] = []
    *earlier, last = row.flagfiles
    for name in earlier:
        if name.startswith("masking_"):
            before = os.path.join(prepared, name)
            planned += _plan_records(row, name, materials, before)
        elif name.startswith("pretraining_"):
            step = _plan_pretraining(name, materials, before, more_flags)
            planned.append(step)
            model = _flags_of_pretrained(step.output_dir, row.at_step)
        else:
            words = [*materials.data_flags(row, name), *model]
            trained = _plan_trainings(row, name, words, before, more_flags)
            planned += trained
            vocabulary, config, _ = model
            model = [vocabulary, config, _checkpoint_flag(trained)]
    data = materials.data_flags(row, last)
    if row.runner == "run_pretraining":
        data = [f"--input_file={_records(before, 'held_out')}*"]
    step = Step(
        row.runner,
        [
            f"--flagfile={last}",
            *data,
            *model,
            *row.flags,
            "--keep_checkpoint_max=1",
            *more_flags,
        ],
        os.path.join(folder, pathlib.Path(last).stem),
    )
    return [*planned, step]


def plan_fresh_seeds(row: Row, step: Step, setting: dict) -> Step:
    """The same command with one setting and several seeds."""
    chosen = [f"--{name}={setting[name]}" for name in SETTING]
    return Step(
        step.runner,
        [
            *step.words,
            *(f"--{name}=" for name in GRIDS),
            *chosen,
            f"--num_trials={row.seeds}",
            f"--seed={FRESH_SEED}",
            "--nodo_predict",
        ],
        f"{step.folder}_seeds",
    )


def read_flags(row: Row) -> dict[str, str]:
    """Flags with a value, of the row and its last flagfile."""
    with open(find_run(row.flagfiles[-1]), encoding="utf-8") as file:
        lines = [*file.read().split("\n"), *row.flags]
    pairs = [re.fullmatch(r"--(\w+)=(.*)", line) for line in lines]
    return {pair[1]: pair[2] for pair in pairs if pair}


def _records(folder: str, kind: str) -> str:
    return os.path.join(folder, f"records_{kind}", "part.tfrecord")


def _plan_records(
    row: Row, flagfile: str, materials: Materials, folder: str
) -> list[Step]:
    """Text -> records, of each length that a row needs."""
    phases = sorted(f[-1] for f in row.flagfiles if "_phase" in f)
    kinds = [RECORDS_OF_PHASE[phase] for phase in phases]
    if row.runner == "run_pretraining":
        kinds.append("held_out")
    return [
        Step(
            "create_pretraining_data",
            [
                f"--flagfile={flagfile}",
                f"--input_file={materials.text(kind == 'held_out')}",
                f"--output_file={_records(folder, kind)}@{FILES_OF_RECORDS}",
                f"--vocab_file={materials.vocabulary()}",
                "--sharded",
                *RECORDS[kind],
            ],
            os.path.dirname(_records(folder, kind)),
        )
        for kind in kinds
    ]


def _plan_pretraining(
    flagfile: str, materials: Materials, folder: str, more_flags: Sequence[str]
) -> Step:
    """A phase. Both have one output_dir, and each a folder for its log."""
    name, phase = flagfile.split("_phase")
    return Step(
        "run_pretraining",
        [
            f"--flagfile={flagfile}",
            f"--input_file={_records(folder, RECORDS_OF_PHASE[phase])}*",
            f"--vocab_file={materials.vocabulary()}",
            *more_flags,
        ],
        os.path.join(folder, flagfile),
        output_dir=os.path.join(folder, name),
    )


def _flags_of_pretrained(folder: str, at_step: int) -> list[str]:
    checkpoint = f"{folder}/model.ckpt-{at_step}" if at_step else folder
    return [
        f"--vocab_file={folder}/vocab.txt",
        f"--bert_config_file={folder}/bert_config.json",
        f"--init_checkpoint={checkpoint}",
    ]


def _plan_trainings(
    row: Row,
    flagfile: str,
    words: Sequence[str],
    folder: str,
    more_flags: Sequence[str],
) -> list[Step]:
    """What the last command starts from: one model, or an ensemble."""
    words = [f"--flagfile={flagfile}", *words, "--keep_checkpoint_max=1"]
    place = os.path.join(folder, flagfile)
    if row.flagfiles[-1] != f"{flagfile}_ensemble":
        return [Step(row.runner, [*words, *more_flags], place)]
    return [
        Step(row.runner, [*words, f"--seed={k}", *more_flags], f"{place}_{k}")
        for k in range(1, ENSEMBLE + 1)
    ]


def _checkpoint_flag(trained: Sequence[Step]) -> str:
    name = "ensemble_checkpoints" if trained[1:] else "init_checkpoint"
    return f"--{name}={','.join(step.folder for step in trained)}"
