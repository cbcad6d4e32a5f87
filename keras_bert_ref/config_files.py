"""The configs that come with this package, found by name from anywhere."""

import pathlib

# In a checkout configs/ stands beside the package, in a wheel within it.
_PACKAGE = pathlib.Path(__file__).parent
_FOLDERS = (_PACKAGE / "configs", _PACKAGE.parent / "configs")


def folder() -> pathlib.Path:
    """The folder with models/ and runs/."""
    return next(path for path in _FOLDERS if (path / "models").is_dir())


def find_model(name: str) -> str:
    """The path of an architecture.

    Args:
        name: the path of a JSON file; or the name of a released model, such
            as uncased_L-12_H-768_A-12, or of a file of ours, such as
            configs/models/uncased_L-12_H-768_A-12.json.
    """
    return _find(name, "models", ".json")


def find_run(name: str) -> str:
    """The path of a flagfile, likewise: such as glue_mrpc_base."""
    return _find(name, "runs", ".flags")


def _find(name: str, kind: str, ending: str) -> str:
    if pathlib.Path(name).exists():
        return name
    if name.startswith("configs/"):
        ours = folder() / name.removeprefix("configs/")
    else:
        ours = folder() / kind / (name.removesuffix(ending) + ending)
    return str(ours) if ours.exists() else name
