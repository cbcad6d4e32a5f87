"""A short campaign, and what campaigns are made of. `make test-chaos` runs all
of it; `make test` leaves the campaign out."""

import os
import random

import pytest

from chaos import attacks
from chaos.campaign import Campaign

SEED = int(os.environ.get("KERAS_BERT_CHAOS_SEED", "1"))
TRIALS = [
    ("create_pretraining_data", attacks.kill_at_random),
    ("create_pretraining_data", attacks.fill_the_disk),
    ("run_pretraining", attacks.kill_at_a_file),
    ("run_pretraining", attacks.send_signal),
]


@pytest.mark.slow
@pytest.mark.exhaustive
def test_a_short_campaign(tmp_path):
    campaign = Campaign(tmp_path, {name for name, _ in TRIALS}, SEED)
    campaign.run_undisturbed()
    by_name = {subject.name: subject for subject in campaign.chosen}
    for name, attack in TRIALS:
        assert campaign.attack(by_name[name], attack), campaign.losses
    assert "| all | all | 4 | 4 | 0 |" in campaign.table()


def test_the_table_counts_what_was_lost(tmp_path):
    campaign = Campaign(tmp_path, {"vocabulary"}, SEED)
    campaign.seconds["vocabulary"] = 1.0

    def lose(trial):
        raise attacks.Lost("all of it")

    lose.__name__ = "kill_at_random"
    assert not campaign.attack(campaign.chosen[0], lose)
    assert "| kill at random | vocabulary | 1 | 0 | 1 |" in campaign.table()
    assert campaign.losses[0].startswith("vocabulary, kill_at_random: all of")


def test_damage_always_changes_a_file():
    content = bytes(range(1, 255)) * 8
    for seed in range(200):
        assert attacks.damage(content, random.Random(seed)) != content


def test_who_answers_ctrl_c():
    frame = '  File "site.py", line 1, in <module>\n    import os\n'
    ours = '  File "run_squad.py", line 6, in <module>\n    command()\n'
    assert attacks.is_importing(f"{frame}KeyboardInterrupt\n")
    assert not attacks.is_importing(f"{ours}{frame}KeyboardInterrupt\n")
    assert not attacks.is_importing("Interrupted: asked to end by Ctrl-C.")
