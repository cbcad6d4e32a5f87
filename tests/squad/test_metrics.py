"""SQuAD scores: the published ones, the definitions, the thresholds."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import runners
from helpers.squad_files import make_articles, make_question
from keras_bert_ref.squad.examples import read_articles
from keras_bert_ref.squad.metrics import (
    evaluate_v1,
    evaluate_v2,
    has_gold_answers,
    main,
    normalize_answer,
    score_questions,
)
from keras_bert_ref.squad.thresholds import find_best_threshold

# What the official scripts give for the predictions published with BERT.
PUBLISHED_V1 = {"exact_match": 86.20624408703878, "f1": 92.19557978351129}
PUBLISHED_V2 = {
    "exact": 78.74168280973637,
    "f1": 81.77528052374727,
    "total": 11873,
    "HasAns_exact": 74.10593792172739,
    "HasAns_f1": 80.18183293833516,
    "HasAns_total": 5928,
    "NoAns_exact": 83.36417157275021,
    "NoAns_f1": 83.36417157275021,
    "NoAns_total": 5945,
}


@pytest.mark.parametrize(
    ("version", "predictions", "expected"),
    [
        ("v1.1", "predictions-v1.1-bert-ensemble.json", PUBLISHED_V1),
        ("v2.0", "predictions-v2.0-bert-single.json", PUBLISHED_V2),
    ],
)
def test_published_predictions(shared_dir, version, predictions, expected):
    folder = shared_dir / "data/squad"
    articles = read_articles(str(folder / f"dev-{version}.json"))
    predictions = json.loads((folder / predictions).read_text())
    evaluate = evaluate_v1 if version == "v1.1" else evaluate_v2
    scores = evaluate(articles, predictions)
    assert scores == expected
    assert list(scores) == list(expected)


def make_data(golds: dict[str, list[str]], **fields) -> list[dict]:
    questions = [
        make_question(
            name, answers=[{"text": text} for text in texts], **fields
        )
        for name, texts in golds.items()
    ]
    return make_articles(("", questions))


def test_normalization():
    assert normalize_answer("The  (U.S.) A-Team,\xa0an ox") == "us ateam ox"
    assert normalize_answer("Another theme") == "another theme"
    assert normalize_answer("a the!") == ""
    assert normalize_answer("«Ä»") == "«ä»"  # ASCII punctuation only


def test_scores_of_v1():
    golds = {"1": ["the cat", "a black cat sat"], "2": ["dog"], "3": ["x"]}
    predictions = {"1": "Black cat!", "2": "Dog."}
    # Of "black cat sat" 2 words of 2 and 2 of 3, of "cat" 1 of 2 and all.
    best = 2 * (2 / 3) / (1 + 2 / 3)
    assert evaluate_v1(make_data(golds), predictions) == {
        "exact_match": 100 / 3,
        "f1": 100 * (best + 1) / 3,
    }


def test_words_count_as_often_as_they_occur():
    scores = evaluate_v1(make_data({"1": ["b b b c"]}), {"1": "b b d d"})
    assert scores["f1"] == 50.0


def test_no_words_on_both_sides():
    """Nothing in common for v1.1, the same for v2.0."""
    data = make_data({"1": ["the"]})
    assert evaluate_v1(data, {"1": "a"}) == {"exact_match": 100.0, "f1": 0.0}
    scores = evaluate_v2(data, {"1": "a"})
    assert scores["exact"] == scores["f1"] == 100.0


def test_scores_of_v2():
    data = make_data({"1": ["x y"], "2": [], "3": [], "4": ["z"]})
    predictions = {"1": "x", "2": "", "3": "x"}
    f1 = 100 * 2 / 3
    assert evaluate_v2(data, predictions) == pytest.approx(
        {
            "exact": 100 / 4,
            "f1": 100 * (2 / 3 + 1) / 4,
            "total": 4,  # with the last, which has no prediction
            "HasAns_exact": 0.0,
            "HasAns_f1": f1 / 2,
            "HasAns_total": 2,
            "NoAns_exact": 50.0,
            "NoAns_f1": 50.0,
            "NoAns_total": 2,
        }
    )
    odds = {"1": 2.0, "2": 0.5, "3": 1.5}
    scores = evaluate_v2(data, predictions, odds)
    assert (scores["HasAns_f1"], scores["NoAns_f1"]) == (0.0, 100.0)
    scores = evaluate_v2(data, predictions, odds, na_prob_thresh=2.0)
    assert (scores["HasAns_f1"], scores["NoAns_f1"]) == (
        pytest.approx(f1 / 2),
        50.0,
    )


def test_best_thresholds_by_hand():
    data = make_data({"1": ["x"], "2": [], "3": ["x y"], "4": ["z"]})
    predictions = {"1": "x", "2": "x", "3": "x", "4": "no"}
    odds = {"1": -3.0, "2": 0.0, "3": -2.0, "4": 4.0}
    # One is right without any answer; exactly right is one more, and the
    # words of a third in part.
    scores = evaluate_v2(data, predictions, odds)
    assert scores["best_exact"] == 50.0
    assert scores["best_exact_thresh"] == -3.0
    assert scores["best_f1"] == 100 * (1 + 1 + 2 / 3) / 4
    assert scores["best_f1_thresh"] == -2.0
    assert list(scores)[-4:] == [
        *("best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh")
    ]


def test_no_answer_at_all_may_be_best():
    data = make_data({"1": [], "2": ["x"]})
    predictions, odds = {"1": "x", "2": "no"}, {"1": -3.0, "2": -2.0}
    scores = score_questions(data, predictions)
    best = find_best_threshold(scores, "f1", predictions, odds)
    assert best == (50.0, -math.inf)
    # There the official script says 0.0.
    assert evaluate_v2(data, predictions, odds)["best_f1_thresh"] == 0.0


def test_empty_answers_cost_nothing_on_the_way():
    data = make_data({"1": [], "2": ["x"]})
    predictions, odds = {"1": "", "2": "x"}, {"1": -3.0, "2": -2.0}
    scores = score_questions(data, predictions)
    best = find_best_threshold(scores, "f1", predictions, odds)
    assert best == (100.0, -2.0)


WORDS = st.lists(st.sampled_from("xyz"), max_size=3).map(" ".join)


@settings(deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS.filter(bool)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_best_thresholds_are_best(pairs, random):
    """No threshold gives more than the best, which gives what it says."""
    golds = {str(i): [gold] * bool(gold) for i, (gold, _) in enumerate(pairs)}
    data = make_data(golds)
    answers = {str(i): text for i, (_, text) in enumerate(pairs)}
    values = random.sample(range(-99, 99), len(answers))
    odds = dict(zip(answers, values, strict=True))
    scores = score_questions(data, answers)
    for metric in ("exact", "f1"):
        best, threshold = find_best_threshold(scores, metric, answers, odds)
        by_threshold = {}
        for limit in (-math.inf, *odds.values()):
            kept = {
                name: text if odds[name] <= limit else ""
                for name, text in answers.items()
            }
            by_threshold[limit] = evaluate_v2(data, kept)[metric]
        assert best == pytest.approx(max(by_threshold.values()), abs=1e-9)
        assert best == pytest.approx(by_threshold[threshold], abs=1e-9)


def test_questions_without_predictions_count_as_wrong(caplog):
    data = make_data({"q7": ["x"], "q8": ["x"]})
    assert evaluate_v1(data, {"q8": "x"})["f1"] == 50.0
    assert evaluate_v2(data, {"q8": "x"})["f1"] == 50.0
    message = "1 of 2 questions have no prediction and count as wrong, such as"
    assert [m.startswith(message) for m in caplog.messages] == [True, True]
    # Even where no answer is the right one.
    data = make_data({"q7": [], "q8": []})
    scores = evaluate_v2(data, {"q8": ""}, {"q8": 2.0})
    assert [scores[k] for k in ("exact", "best_exact")] == [50.0, 50.0]


def test_refusals():
    data = make_data({"q7": []})
    with pytest.raises(ValueError, match="question q7 has 0; .* v2.0"):
        evaluate_v1(data, {"q7": "x"})
    with pytest.raises(ValueError, match="question q7 is not among the 1"):
        evaluate_v2(data, {"q7": "x"}, {"q8": 0.0})
    with pytest.raises(ValueError, match="there are 0"):
        evaluate_v2(data, {"q8": "x"})
    with pytest.raises(ValueError, match="there are 0"):
        evaluate_v1([], {})


def test_test_sets_cannot_be_scored():
    articles = [
        make_articles(("", [make_question("1", **fields)]))
        for fields in (
            {"answers": [{"text": "x"}], "is_impossible": False},
            {"answers": [], "is_impossible": True},
            {"answers": []},
            {},
        )
    ]
    assert [has_gold_answers(a, False) for a in articles] == [1, 0, 0, 0]
    assert [has_gold_answers(a, True) for a in articles] == [1, 1, 0, 0]


@pytest.fixture
def files(tmp_path):
    """Writes data, predictions and odds; returns their paths."""

    def write(data, **contents):
        paths = []
        for name, content in {"data": {"data": data}, **contents}.items():
            paths.append(str(tmp_path / f"{name}.json"))
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        return paths

    return write


@pytest.mark.slow
def test_command_v1(files):
    paths = files(make_data({"1": ["x"]}), predictions={"1": "x"})
    command = [sys.executable, "-m", "keras_bert_ref.squad.metrics", *paths]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    assert output == b'{"exact_match": 100.0, "f1": 100.0}\n'


def test_command_v2(files, tmp_path, monkeypatch, capsys):
    data = make_data({"1": ["x"], "2": []}, is_impossible=False)
    predictions, odds = {"1": "x", "2": "x"}, {"1": -1.0, "2": 1.5}
    *paths, odds_file = files(data, predictions=predictions, odds=odds)
    expected = evaluate_v2(data, predictions, odds, 2.0)
    assert expected["best_f1"] == 100.0
    text = json.dumps(expected, indent=2) + "\n"
    arguments = ["squad", *paths, f"--na_prob_file={odds_file}", "-t", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    main()
    assert capsys.readouterr().out == text
    out_file = tmp_path / "scores.json"
    monkeypatch.setattr(sys, "argv", [*arguments, "-o", str(out_file)])
    main()
    assert capsys.readouterr().out == ""
    assert out_file.read_text() == text


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nowhere.json", "Not scored. There is no file /nowhere.json"),
        (None, "Not scored. .* question 1 has 0"),
    ],
)
def test_command_refuses(files, capsys, monkeypatch, path, message):
    data_file, existing = files(make_data({"1": []}), predictions={"1": "x"})
    arguments = ["squad", data_file, path or existing]
    monkeypatch.setattr(sys, "argv", arguments)
    runners.check_refused(main, capsys, message)


@pytest.mark.parametrize(
    ("predictions", "odds", "message"),
    [
        ({"1": None}, {}, "predictions.json must have an answer .* 1 has None"),
        ({"1": "x"}, {"1": math.nan}, "odds.json must have a number .*1 has n"),
        ([], {}, "predictions.json holds a JSON list"),
    ],
)
def test_command_checks_types(
    files, capsys, monkeypatch, predictions, odds, message
):
    data = make_data({"1": ["x"]}, is_impossible=False)
    *paths, odds_file = files(data, predictions=predictions, odds=odds)
    arguments = ["squad", *paths, f"--na_prob_file={odds_file}"]
    monkeypatch.setattr(sys, "argv", arguments)
    runners.check_refused(main, capsys, f"Not scored. .*{message}")


def test_command_never_replaces_its_input(files, capsys, monkeypatch):
    paths = files(make_data({"1": ["x"]}), predictions={"1": "x"})
    monkeypatch.setattr(sys, "argv", ["squad", *paths, "-o", paths[1]])
    runners.check_refused(main, capsys, "no output .* an input")


def test_answers_are_needed():
    articles = make_articles(("", [make_question("q7")]))
    with pytest.raises(ValueError, match="question q7 has no `answers`"):
        evaluate_v2(articles, {"q7": "x"})
