"""Attacks all commands that write files, again and again, and counts.

python tests/chaos/campaign.py --minutes=10 --seed=1 --record=trials.jsonl

The table has a row for each command and attack: how often it was tried, how
often everything was there afterwards, and how often something was lost. With
--record it counts what earlier campaigns wrote there too. The exit code is 1
if anything was lost.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from chaos import attacks, subjects
from chaos.attacks import ATTACKS, Lost, Trial, is_possible


class Campaign:
    """Undisturbed runs first, then attacks on copies of them.

    Args:
        folder: where everything happens.
        chosen: the names of the commands to attack.
        record: a file that gets a line for each trial.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        chosen: Sequence[str],
        seed: int,
        record: pathlib.Path | None = None,
    ):
        self.folder = folder
        self.seed, self.random = seed, random.Random(seed)
        self.record = record
        self.seconds: dict[str, float] = {}
        self.counts = collections.Counter()
        self.losses: list[str] = []
        self.chosen = [s for s in subjects.SUBJECTS if s.name in chosen]
        self.number = 0
        subjects.make_workspace(folder)

    def run_undisturbed(self) -> None:
        needed = {
            path.split("/")[0]
            for s in self.chosen
            for path in s.inputs.values()
        }
        needed |= {"create_pretraining_data"}  # of the records of others
        for subject in subjects.SUBJECTS:
            if subject.name not in needed and subject not in self.chosen:
                continue
            start = time.monotonic()
            output = self.folder / subject.name
            inputs = subject.find_inputs(self.folder)
            for process in subject.start(inputs, output):
                if attacks.wait(process):
                    raise SystemExit(
                        f"{subject.name} fails undisturbed:\n{process.log}"
                    )
            self.seconds[subject.name] = time.monotonic() - start
            print(f"{subject.name}: {self.seconds[subject.name]:.1f} s alone")

    def attack(self, subject, attack) -> bool:
        """Does one trial; returns whether all was well."""
        self.number += 1
        folder = self.folder / f"trial_{self.number}"
        folder.mkdir()
        trial = Trial(
            subject=subject,
            inputs=subject.find_inputs(self.folder),
            expected=self.folder / subject.name,
            seconds=self.seconds[subject.name],
            output=folder / "output",
            random=random.Random(self.random.random()),
        )
        try:
            attack(trial)
        except Lost as loss:
            self.count(subject.name, attack.__name__, str(loss))
            self.losses.append(
                f"{subject.name}, {attack.__name__}: {loss} ({folder})"
            )
            print(f"LOST {self.losses[-1]}", flush=True)
            return False
        self.count(subject.name, attack.__name__, None)
        shutil.rmtree(folder)
        return True

    def count(self, command: str, attack: str, loss: str | None) -> None:
        self.counts[command, attack, "tried"] += 1
        self.counts[command, attack, "survived"] += loss is None
        if self.record:
            trial = {"command": command, "attack": attack, "lost": loss}
            with open(self.record, "a", encoding="utf-8") as file:
                file.write(json.dumps({**trial, "seed": self.seed}) + "\n")

    def add_record(self) -> None:
        """Counts what earlier campaigns have recorded."""
        if self.record and self.record.exists():
            for line in self.record.read_text(encoding="utf-8").splitlines():
                trial = json.loads(line)
                key = trial["command"], trial["attack"]
                self.counts[(*key, "tried")] += 1
                self.counts[(*key, "survived")] += trial["lost"] is None

    def run(self, minutes: float, wanted: Sequence = ATTACKS) -> None:
        """Attacks in turn: those that were tried least come first."""
        pairs = [
            (subject, attack)
            for attack in wanted
            for subject in self.chosen
            if is_possible(attack, subject)
        ]
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            self.random.shuffle(pairs)
            subject, attack = min(
                pairs,
                key=lambda p: self.counts[p[0].name, p[1].__name__, "tried"],
            )
            self.attack(subject, attack)
            left = max(0.0, end - time.monotonic())
            print(f"{self.number} trials, {left / 60:.1f} minutes left")

    def table(self) -> str:
        lines = ["| Attack | Command | Tried | Survived | Lost |"]
        lines.append("|---|---|--:|--:|--:|")
        totals = collections.Counter()
        for attack in ATTACKS:
            for subject in self.chosen:
                key = (subject.name, attack.__name__)
                tried = self.counts[(*key, "tried")]
                survived = self.counts[(*key, "survived")]
                if tried:
                    cells = (tried, survived, tried - survived)
                    title = attack.__name__.replace("_", " ")
                    row = " | ".join([title, subject.name, *map(str, cells)])
                    lines.append(f"| {row} |")
                    totals["tried"] += tried
                    totals["survived"] += survived
        tried, survived = totals["tried"], totals["survived"]
        lines.append(
            f"| all | all | {tried} | {survived} | {tried - survived} |"
        )
        return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--record", help="a file that trials are added to")
    parser.add_argument("--only", help="one command, by its name")
    parser.add_argument(
        "--attacks",
        help="some attacks, separated by commas: "
        + ", ".join(attack.__name__ for attack in ATTACKS),
    )
    arguments = parser.parse_args()
    seed = arguments.seed
    if seed is None:
        seed = int.from_bytes(os.urandom(4), "big")
    print(f"The seed is {seed}.")
    names = [s.name for s in subjects.SUBJECTS]
    chosen = [arguments.only] if arguments.only else names
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chaos-"))
    record = pathlib.Path(arguments.record) if arguments.record else None
    campaign = Campaign(folder, chosen, seed, record)
    campaign.add_record()
    if arguments.minutes:
        names = (arguments.attacks or "").split(",")
        wanted = [a for a in ATTACKS if a.__name__ in names] or ATTACKS
        campaign.run_undisturbed()
        campaign.run(arguments.minutes, wanted)
    print(campaign.table())
    if campaign.losses:
        print("\n".join(campaign.losses))
        sys.exit(f"Something was lost; the folders of these trials: {folder}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
