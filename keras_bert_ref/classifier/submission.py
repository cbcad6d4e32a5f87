"""Predictions as the GLUE server wants them.

python -m keras_bert_ref.classifier.submission glue.zip output_dir ...
"""

import io
import os
import sys
import zipfile
from collections.abc import Sequence

import numpy as np

from keras_bert_ref import commands, files
from keras_bert_ref.classifier.tasks import SUBMISSIONS, Split, Task
from keras_bert_ref.guard import guard

FOLDER = "submission"
LOWEST_SCORE, HIGHEST_SCORE = 0.0, 5.0  # of STS-B


def write_submission(
    output_dir: str, task: Task, split: Split, predictions: np.ndarray
) -> str:
    """Writes a split's file; returns its path.

    Args:
        predictions: for each example, the number of its class, or a score.
    """
    if task.is_regression:
        clipped = np.clip(predictions, LOWEST_SCORE, HIGHEST_SCORE)
        answers = [f"{score:.3f}" for score in clipped]
    else:
        answers = [task.labels[index] for index in predictions]
    path = os.path.join(output_dir, FOLDER, f"{split.submission}.tsv")
    lines = [f"{i}\t{answer}\n" for i, answer in enumerate(answers)]
    files.replace(path, "index\tprediction\n" + "".join(lines))
    return path


def zip_submissions(zip_file: str, output_dirs: Sequence[str]) -> list[str]:
    """Puts the files of several runs into one zip; returns what is missing."""
    found = {}
    for output_dir in output_dirs:
        for path in files.starting_with(os.path.join(output_dir, FOLDER, "")):
            name = os.path.basename(path)
            if not name.endswith(".tsv") or name.startswith("."):
                continue
            if name in found:
                raise ValueError(
                    f"Both {found[name]} and {path} are there; name only one "
                    "output_dir for each task."
                )
            found[name] = path
    if not found:
        raise ValueError(
            f"There is no {FOLDER}/*.tsv in {', '.join(output_dirs)}; make "
            "them with run_classifier.py --do_predict."
        )
    files.check_apart(found.values(), [zip_file])
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(found):
            archive.writestr(name, files.read(found[name]))
    files.replace(zip_file, content.getvalue())
    return [name for name in SUBMISSIONS if f"{name}.tsv" not in found]


def main() -> None:
    """The command."""
    arguments = sys.argv[1:]
    if commands.HELP_WORDS & set(arguments):
        print(__doc__)
        return
    if len(arguments) < 2:
        sys.exit(__doc__)
    zip_file, *output_dirs = arguments

    def work() -> None:
        missing = zip_submissions(zip_file, output_dirs)
        print(f"Wrote {zip_file}.")
        if missing:
            print(f"Missing: {', '.join(missing)}. GLUE wants all but AX.")

    guard(work, say=lambda text: print(text, file=sys.stderr))


if __name__ == "__main__":
    main()
