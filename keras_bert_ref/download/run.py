"""The body of keras_bert_ref.download."""

import os
import shutil
import urllib.parse
from collections.abc import Sequence

from absl import logging

from keras_bert_ref import commands, files
from keras_bert_ref.commands import Options
from keras_bert_ref.download import archives, released_models, releases
from keras_bert_ref.download.transfer import fetch

MIRROR_VARIABLE = "BERT_MIRROR"


def main(options: Options, words: Sequence[str] = ()) -> None:
    if not words:
        lines = [
            f"{item.name:44} {item.address or 'TensorFlow Datasets'}"
            for item in releases.ITEMS
        ]
        commands.show("\n".join(lines))
        return
    for item in releases.find(words):
        if item.kind == "tfds":  # knows what is there already
            prepare_with_tfds(item, os.path.join(options.data_dir, "tfds"))
            continue
        target = target_of(item, options)
        if os.path.exists(target):
            logging.info("Already there: %s.", target)
            continue
        GETTERS[item.kind](item, target, options)
        logging.info("%s: in %s.", item.name, target)


def target_of(item: releases.Item, options: Options) -> str:
    """The file or folder that an item becomes."""
    if item.kind == "model":
        return os.path.join(options.models_dir, item.name)
    if item.kind == "xnli":  # both zips fill one folder
        part = "multinli" if "MT" in item.name else "xnli.dev.tsv"
        return os.path.join(options.data_dir, "xnli", part)
    return os.path.join(options.data_dir, item.name)


def get_file(item: releases.Item, path: str, options: Options) -> None:
    """Brings a file here, from the mirror if there is one."""
    mirror = options.mirror or os.environ.get(MIRROR_VARIABLE)
    address = item.address
    if mirror and urllib.parse.urlsplit(mirror).scheme in ("http", "https"):
        address = f"{mirror.rstrip('/')}/{item.file}"
    elif mirror:
        source = os.path.join(mirror, item.file)
        if not os.path.exists(source):
            raise ValueError(
                f"The mirror has no file {source}; put it there, or drop "
                f"--mirror and the variable {MIRROR_VARIABLE}."
            )
        with files.unfinished([path]) as (name,):
            shutil.copyfile(source, name)
        return
    fetch(address, path, retries=options.retries)


def get_model(item: releases.Item, target: str, options: Options) -> None:
    name = os.path.basename(item.name)

    def check(folder: str) -> None:
        if item.name != releases.ALL_MODELS:
            released_models.check(folder, name)

    zip_file = f"{target}.zip"
    get_file(item, zip_file, options)
    unpack(zip_file, target, check, name, options)
    if item.name == releases.ALL_MODELS:
        unpack_all(target)


def unpack_all(folder: str) -> None:
    """Puts each model of the large zip where it would be alone."""
    for path in sorted(files.glob(os.path.join(folder, "*.zip"))):
        name = os.path.basename(path).removesuffix(".zip")
        target = os.path.join(os.path.dirname(folder), name)
        if not os.path.exists(target):
            archives.unpack(
                path,
                target,
                lambda inner, name=name: released_models.check(inner, name),
                strip=name,
            )


def get_questions(item: releases.Item, target: str, options: Options) -> None:
    """A JSON file of SQuAD, with as many questions as were published."""
    arrived = f"{target}.unchecked"
    get_file(item, arrived, options)
    count = sum(
        len(paragraph["qas"])
        for article in files.read_json(arrived)["data"]
        for paragraph in article["paragraphs"]
    )
    if count != item.questions:
        raise ValueError(
            f"{arrived} has {count:,} questions, {item.name} was published "
            f"with {item.questions:,}; remove it and download it again."
        )
    os.replace(arrived, target)


def get_xnli(item: releases.Item, target: str, options: Options) -> None:
    """Both zips of XNLI in one folder, as run_classifier.py reads them."""
    name = os.path.basename(item.name)
    folder = os.path.dirname(target)
    zip_file = os.path.join(options.data_dir, f"{name}.zip")
    unpacked = os.path.join(options.data_dir, f".{name}")

    def check(inner: str) -> None:
        wanted = os.path.join(inner, os.path.basename(target))
        if not os.path.exists(wanted):
            raise ValueError(
                f"{zip_file} has no {os.path.basename(target)}, which "
                f"{name} was published with; download it again."
            )

    get_file(item, zip_file, options)
    shutil.rmtree(unpacked, ignore_errors=True)
    unpack(zip_file, unpacked, check, name, options)
    os.makedirs(folder, exist_ok=True)
    # What tells that it is there comes last.
    last = os.path.basename(target)
    for entry in sorted(os.listdir(unpacked), key=last.__eq__):
        place = os.path.join(folder, entry)
        if not os.path.exists(place):
            os.rename(os.path.join(unpacked, entry), place)
    shutil.rmtree(unpacked)


def unpack(path: str, target: str, check, strip: str, options: Options) -> None:
    """Unpacks a zip, and removes it; one that is broken in any case, so that
    it is fetched anew."""
    try:
        archives.unpack(path, target, check, strip)
    except ValueError:
        os.remove(path)
        raise
    if not options.keep_zips:
        os.remove(path)


def prepare_with_tfds(item: releases.Item, folder: str) -> None:
    """Lets TensorFlow Datasets download and prepare a data set."""
    import tensorflow_datasets as tfds

    try:
        tfds.builder(item.name, data_dir=folder).download_and_prepare()
    except Exception as error:  # of many kinds, from many libraries
        message = f"{type(error).__name__}: {str(error).strip()}"
        raise ValueError(
            f"TensorFlow Datasets could not prepare {item.name} in {folder} "
            f"({message[:300]}); try again, or copy a folder that it prepared "
            "elsewhere."
        ) from None
    logging.info("%s: prepared in %s.", item.name, folder)


GETTERS = {"model": get_model, "squad": get_questions, "xnli": get_xnli}
