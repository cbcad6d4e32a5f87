"""Runs run_pretraining.py several times in one process: once for each line
of the file it is given, which has the flags as JSON."""

import json
import pathlib
import sys

import runners  # beside this file

for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
    with runners.load_runner("run_pretraining") as command:
        runners.run(command, *json.loads(line))
