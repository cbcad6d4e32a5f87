"""Trials: which are planned, which count as finished, what is shown."""

import json
import math

import pytest

from keras_bert_ref.commands import Options
from keras_bert_ref.training import trials

OPTIONS = Options(
    {
        "output_dir": "out",
        "seed": 5,
        "learning_rate": 1e-3,
        "train_batch_size": 8,
        "num_train_epochs": 3.0,
        "vocab_file": "vocab.txt",
        "shuffle": True,
        "gradient_accumulation_steps": 1,
        "log_steps": 100,
    }
)
RANKING = trials.Ranking(
    "Task", ("eval_accuracy",), {"eval_accuracy": "accuracy"}
)


def test_plan():
    planned = trials.plan_trials(
        OPTIONS, {"learning_rate": [0.1, 0.2], "train_batch_size": []}, 2
    )
    assert [trial.name for trial in planned] == [
        "lr_0.1/trial_0",
        "lr_0.1/trial_1",
        "lr_0.2/trial_0",
        "lr_0.2/trial_1",
    ]
    last = planned[-1].options
    assert (last.learning_rate, last.seed) == (0.2, 6)
    assert last.output_dir == "out/lr_0.2/trial_1"
    assert OPTIONS.seed == 5 and OPTIONS.output_dir == "out"


def test_one_trial_is_the_command_itself():
    (trial,) = trials.plan_trials(OPTIONS, {}, 1)
    assert trial.name == ""
    assert trial.options.as_dict() == OPTIONS.as_dict()


@pytest.fixture
def run(tmp_path):
    """A function that runs two trials; counts those that are really run."""

    def run_two(**changes) -> int:
        options = OPTIONS.replace(output_dir=str(tmp_path), **changes)
        done = []

        def train_and_evaluate(options):
            done.append(options.seed)
            return {"eval_accuracy": 0.1 * options.seed}, True

        planned = trials.plan_trials(options, {}, 2)
        trials.compare(str(tmp_path), RANKING, planned, train_and_evaluate)
        return len(done)

    return run_two


def test_finished_trials_are_not_repeated(run):
    assert run() == 2
    assert run() == 0
    assert run(log_steps=7) == 0  # results do not depend on it


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocab_file", "other.txt"),
        ("shuffle", False),
        ("gradient_accumulation_steps", 2),
        ("learning_rate", 0.5),
    ],
)
def test_trials_with_other_flags_are_other_trials(run, name, value):
    run()
    before = getattr(OPTIONS, name)
    message = f"trial_0 was made with --{name}={before}, now it is {value}"
    with pytest.raises(ValueError, match=message):
        run(**{name: value})


def test_records_of_older_versions_count(run, tmp_path):
    """They have fewer flags; what they have must agree."""
    run()
    path = tmp_path / trials.RESULTS_FILE
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["flags"]["shuffle"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run(shuffle=False) == 0


def test_a_killed_write_costs_no_more_than_itself(run, tmp_path):
    run()
    path = tmp_path / trials.RESULTS_FILE
    path.write_text(path.read_text()[:-9])
    assert run() == 1


def test_the_spread_of_one_is_not_shown(run, tmp_path):
    run()
    results = trials.read_results(str(tmp_path))
    _, both = trials.format_table(RANKING, results).split("\n")
    assert both.split()[-5:] == ["2", "55.00", "7.07", "55.00", "60.00"]
    _, one = trials.format_table(RANKING, results[:1]).split("\n")
    assert one.split()[-5:] == ["1", "50.00", "-", "50.00", "50.00"]


def test_nan_is_never_best(tmp_path):
    values = iter([math.nan, 0.1])
    planned = trials.plan_trials(
        OPTIONS.replace(output_dir=str(tmp_path)), {}, 2
    )
    best = trials.compare(
        str(tmp_path),
        RANKING,
        planned,
        lambda options: ({"eval_accuracy": next(values)}, True),
    )
    assert best.name == "trial_1"
