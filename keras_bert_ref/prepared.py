"""Data sets that TensorFlow Datasets has prepared on this machine."""

from collections.abc import Iterator

from keras_bert_ref.records.parallel import run_apart

PREFIX = "tfds"


def is_tfds(source: str) -> bool:
    """Whether a flag says `tfds` or `tfds:` and a folder."""
    return source == PREFIX or source.startswith(PREFIX + ":")


def folder_of(source: str) -> str | None:
    """The folder of such a source; None for tfds's own."""
    return source.removeprefix(PREFIX).removeprefix(":") or None


def read_apart(make, source: str, name: str, split: str):
    """Calls `make` with the rows of a data set, in a process of its own: what
    TensorFlow does there leaves the choice of devices to this one."""
    return run_apart(_read, make, source, name, split)


def _read(make, source: str, name: str, split: str):
    return make(load(source, name, split))


def load(source: str, name: str, split: str) -> Iterator[dict]:
    """The rows of a data set that is already there, as NumPy has them."""
    import tensorflow_datasets as tfds

    folder = folder_of(source)
    try:
        dataset = tfds.load(name, split=split, data_dir=folder, download=False)
    except (AssertionError, FileNotFoundError, ValueError) as error:
        where = f", data_dir={folder!r}" if folder else ""
        raise ValueError(
            f"TensorFlow Datasets has not prepared {name} in "
            f"{folder or 'its folder'}; once, and with a connection, run "
            f"tfds.load({name!r}{where}). It says: {error}"
        ) from error
    return iter(tfds.as_numpy(dataset))
