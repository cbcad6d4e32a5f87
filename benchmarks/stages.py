"""A long piece of work in stages: each is done once, the next call goes on."""

import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).parent.parent


class Stages:
    """Runs what is not there yet; remembers what it gave.

    Args:
        folder: where files go.
        stop_after: the name of the last stage to run.
        results: a file with a line for each stage; None: results.jsonl in the
            folder.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        stop_after: str | None = None,
        results: pathlib.Path | None = None,
    ):
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stop_after = stop_after
        self.path = results or self.folder / "results.jsonl"
        text = self.path.read_text() if self.path.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        self.results = {line["name"]: line for line in lines}

    def run(self, name: str, work: Callable[[], dict | None]) -> dict:
        """Does a piece of work unless its result is known."""
        if name not in self.results:
            print("running", name, flush=True)
            start = time.time()
            line = {"name": name, **(work() or {})}
            line["seconds"] = round(time.time() - start, 1)
            self.results[name] = line
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
        if name == self.stop_after:
            sys.exit(0)
        return self.results[name]

    def command(self, script: str, *arguments) -> None:
        """Runs a script of the checkout or a module; log.txt has its log."""
        is_module = script.startswith("keras_bert_ref.")
        module = ["-m", script] if is_module else [ROOT / script]
        with (self.folder / "log.txt").open("a") as log:
            subprocess.run(
                [sys.executable, *module, *map(str, arguments)],
                check=True,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
