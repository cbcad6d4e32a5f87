"""Every published number, each pinned; every flagfile parses."""

import pathlib
import re
import shlex

import pytest

from helpers import runners
from keras_bert_ref import commands
from keras_bert_ref.choice.tasks import PUBLISHED
from keras_bert_ref.classifier import published
from keras_bert_ref.classifier.tasks import get_task
from keras_bert_ref.commands import Options
from keras_bert_ref.config import find_model, find_run
from keras_bert_ref.ner import published as ner_published
from keras_bert_ref.reproduce import checks, run
from keras_bert_ref.reproduce.catalogue import CHECKS, RUNNERS, read_catalogue
from keras_bert_ref.reproduce.materials import Materials
from keras_bert_ref.squad.published import published_scores as squad_published
from keras_bert_ref.training import trials

CATALOGUE = read_catalogue()
ROWS = {row.name: row for row in CATALOGUE.rows}
# Line, then values in the order of the columns; a/b are two metrics.
TABLES = {
    "table1 test mnli qqp qnli sst2 cola stsb mrpc rte average": """
        base 84.6/83.4 71.2 90.5 93.5 52.1 85.8 88.9 66.4 79.6
        large 86.7/85.9 72.1 92.7 94.9 60.5 86.5 89.3 70.1 82.1""",
    "table2 dev": """
        base 80.8/88.5
        large 84.1/90.9
        large_ensemble 85.8/91.8
        large_triviaqa 84.2/91.1
        large_triviaqa_ensemble 86.2/92.2""",
    "table2 test": """
        large_triviaqa 85.1/91.8
        large_triviaqa_ensemble 87.4/93.2""",
    "table3 dev": "large 78.7/81.9",
    "table3 test": "large 80.0/83.1",
    "table4 dev": """
        base 81.6
        large 86.6""",
    "table4 test": "large 86.3",
    "table5 dev mnli qnli mrpc sst2 squad": """
        base 84.4 88.4 86.7 92.7 88.5
        no_nsp 83.9 84.9 86.5 92.6 87.9
        ltr_no_nsp 82.1 84.3 77.5 92.1 77.8
        ltr_no_nsp_bilstm 82.1 84.1 75.7 91.6 84.9""",
    "table6 held-out perplexity": """
        3_768_12 5.84
        6_768_3 5.24
        6_768_12 4.68
        12_768_12 3.99
        12_1024_16 3.54
        24_1024_16 3.23""",
    "table6 dev mnli mrpc sst2": """
        3_768_12 77.9 79.8 88.4
        6_768_3 80.6 82.2 90.7
        6_768_12 81.9 84.8 91.3
        12_768_12 84.4 86.7 92.9
        12_1024_16 85.7 86.9 93.3
        24_1024_16 86.6 87.8 93.7""",
    "table7 dev": """
        large 96.6
        base 96.4
        features_embeddings 91.0
        features_second_to_last 95.6
        features_last 94.9
        features_weighted_last_four 95.9
        features_concatenated_last_four 96.1
        features_weighted_all 95.5""",
    "table7 test": """
        large 92.8
        base 92.4""",
    "table8 dev mnli ner ner_features": """
        80_10_10 84.2 95.4 94.9
        100_0_0 84.3 94.9 94.0
        80_0_20 84.1 95.2 94.6
        80_20_0 84.4 95.2 94.7
        0_20_80 83.7 94.8 94.6
        0_0_100 83.6 94.9 94.6""",
    "figure5 dev mnli": """
        mlm_30k 78.6
        mlm_50k 79.6
        mlm_100k 80.5
        mlm_200k 82.2
        mlm_400k 83.2
        mlm_600k 84.0
        mlm_800k 84.3
        mlm_1000k 84.4
        ltr_30k 79.4
        ltr_50k 79.8
        ltr_100k 80.3
        ltr_200k 81.0
        ltr_400k 81.7
        ltr_600k 81.9
        ltr_800k 82.1
        ltr_1000k 82.2""",
    "miniatures test score cola sst2 mrpc stsb qqp": """
        tiny 64.2 0 83.2 81.1/71.1 74.3/73.6 62.2/83.4
        mini 65.8 0 85.9 81.1/71.8 75.4/73.3 66.4/86.2
        small 71.2 27.8 89.7 83.4/76.2 78.8/77 68.1/87
        medium 73.5 38 89.6 86.6/81.6 80.4/78.4 69.6/87.9""",
    "miniatures test mnli qnli rte wnli ax": """
        tiny 70.2/70.3 81.5 57.2 62.3 21
        mini 74.8/74.3 84.1 57.9 62.3 26.1
        small 77.6/77 86.4 61.8 62.3 28.6
        medium 80/79.1 87.7 62.2 62.3 30.5""",
    "readme dev squad_v1": """
        base 81.25/88.41
        large 84.39/90.87""",
    "readme dev wwm_squad_v1 wwm_mnli": """
        uncased_original 84.3/91.0 86.05
        uncased_wwm 86.7/92.8 87.07
        cased_original 84.8/91.5 86.09
        cased_wwm 86.7/92.9 86.46""",
    "readme test xnli_translate_train_cased xnli_translate_train_uncased "
    "xnli_translate_test_uncased xnli_zero_shot_uncased": """
        en 81.9 81.4 81.4 81.4
        zh 76.6 74.2 70.1 63.8
        es 77.8 77.3 74.9 74.3
        de 75.9 75.2 74.4 70.5
        ar 70.7 70.5 70.4 62.1
        ur 61.6 61.7 62.1 58.3""",
    "readme test xnli_zh": """
        multilingual 74.2
        chinese 77.2""",
    "tiny test": """
        cola 0
        sst2 83.2
        mrpc 81.1/71.1
        stsb 74.3/73.6
        rte 57.2
        wnli 62.3""",
    "minilm test": "stsb 82.741/82.032",
    "bleurt six-pairs": "tiny 0",
}
NOT_IN_TABLES = {
    "predictions/squad_v1": {
        "dev": {"exact_match": 86.20624408703878, "f1": 92.19557978351129}
    },
    "predictions/squad_v2": {
        "dev": {
            "exact": 78.74168280973637,
            "f1": 81.77528052374727,
            "HasAns_exact": 74.10593792172739,
            "HasAns_f1": 80.18183293833516,
            "NoAns_exact": 83.36417157275021,
        }
    },
    "readme/mrpc/base": {"dev": {"accuracy": [84.0, 88.0]}},
    "readme/pretraining_sample": {
        "train": {
            "loss": 0.0979674,
            "masked_lm_accuracy": 0.985479,
            "masked_lm_loss": 0.0979328,
            "next_sentence_accuracy": 1.0,
            "next_sentence_loss": 3.45724e-05,
        }
    },
}


def test_every_value():
    seen = {(name, split) for name, v in NOT_IN_TABLES.items() for split in v}
    for head, body in TABLES.items():
        table, split, *columns = head.split()
        for line in body.strip().split("\n"):
            place, *cells = line.split()
            parts = [f"{column}/" for column in columns] or [""]
            for part, cell in zip(parts, cells, strict=True):
                name = f"{table}/{part}{place}"
                values = ROWS[name].values[split.replace("-p", " p")]
                assert list(values.values()) == [
                    float(x) for x in cell.split("/")
                ], name
                seen.add((name, split.replace("-p", " p")))
    for name, values in NOT_IN_TABLES.items():
        assert ROWS[name].values == values
    assert seen == {(row.name, s) for row in ROWS.values() for s in row.values}


@pytest.mark.parametrize(
    ("table", "count"),
    [
        *(("table1", 2), ("table2", 5), ("table3", 1), ("table4", 2)),
        *(("table5", 4), ("table6", 6), ("table7", 8), ("table8", 6)),
        *(("figure5", 16), ("miniatures", 4)),
    ],
)
def test_lines_of_the_paper(table, count):
    assert len({r.line for r in ROWS.values() if r.table == table}) == count


def test_names_are_unique():
    assert len(ROWS) == len(CATALOGUE.rows) == 204


def test_scores_that_run_classifier_shows():
    """classifier/published.py has the same numbers."""
    compared = 0
    for task, metric in published.COLUMNS:
        shown = published.published_scores(task, metric)
        key = metric if task != "MNLI-mm" else f"mismatched_{metric}"
        column = task.removesuffix("-mm").lower().replace("-", "")
        for model, value in shown.items():
            size = model.lower()
            table = "table1" if size in ("base", "large") else "miniatures"
            row = ROWS[f"{table}/{column}/{size}"]
            assert row.values["test"][key] == value, row.name
            compared += 1
    in_tables = [
        value
        for row in ROWS.values()
        if row.table in ("table1", "miniatures") and row.runner
        for value in row.values["test"].values()
    ]
    assert compared == len(in_tables) == 18 + 4 * 13


def test_scores_that_other_commands_show():
    def shown(row_name, split="dev"):
        values = ROWS[row_name].values.get(split, {})
        return next(iter(values.values()), None)

    names = {"exact_match": "exact match", "exact": "exact match", "f1": "F1"}
    compared = 0
    for table, is_v2 in (("table2", False), ("table3", True)):
        for size in ("base", "large"):
            row = ROWS.get(f"{table}/{size}")
            for metric, value in row.values["dev"].items() if row else ():
                scores = squad_published(is_v2, names[metric])
                assert scores[f"dev: {size.capitalize()}"] == value
                compared += 1
    assert compared == 6
    for metric, split in (("f1", "dev"), ("test f1", "test")):
        assert ner_published.published_scores(metric) == {
            f"{split}: {size.capitalize()}": shown(f"table7/{size}", split)
            for size in ("large", "base")
        }
    for features, value in ner_published.FEATURES.items():
        name = features.replace("concat_", "concatenated_")
        assert shown(f"table7/features_{name}") == value
    assert PUBLISHED["swag"] == {
        f"{split}: {size.capitalize()}": shown(f"table4/{size}", split)
        for size, split in (
            ("base", "dev"),
            ("large", "dev"),
            ("large", "test"),
        )
    }


FLAGFILES = sorted(pathlib.Path(find_run("ner_base")).parent.glob("*.flags"))
# Numbers of headers besides those of rows: of a single run; NVIDIA's.
OTHER_NUMBERS = {
    "glue_mrpc_readme": {84.55},
    "xnli_zh_chinese_base": {77.4},
    "pretraining_lamb_large_phase1": {1.67, 90.9},
    "pretraining_lamb_large_phase2": {1.67, 90.9},
}
WITHOUT_NUMBERS = {
    "pretraining_base_phase1",
    "pretraining_base_phase2",
    "pretraining_large_phase1",
    "pretraining_large_phase2",
    "squad_triviaqa_large",  # comes before another
    "wikipedia_sections",  # ours
}


def numbers_of(row) -> set[float]:
    found = set()
    for values in row.values.values():
        for value in values.values():
            found.update(value if isinstance(value, list) else [value])
    return found


@pytest.mark.parametrize("path", FLAGFILES, ids=lambda path: path.stem)
def test_header_of_a_flagfile(path):
    """Every published number in it is that of a row that uses the flagfile,
    and the numbers of the table it is made for are all there."""
    lines = [x for x in path.read_text().split("\n") if x.startswith("#")]
    text = re.sub(r"\s+#?\s*", " ", "\n".join(lines))
    match = re.search(r"Published: (.*?)\.? (Not run here|Then as)", text)
    numbers = re.findall(r"\b\d+\.\d+\b", match[1] if match else "")
    if path.stem in WITHOUT_NUMBERS:
        assert not numbers
        return
    users = [row for row in ROWS.values() if path.stem in row.flagfiles]
    if path.stem.startswith("masking_"):
        users += [r for r in ROWS.values() if r.line == "80_10_10"]
    known = set().union(
        OTHER_NUMBERS.get(path.stem, ()), *map(numbers_of, users)
    )
    assert {float(number) for number in numbers} <= known
    if "_lamb_" in path.stem:
        return
    table = re.search(r"table \d|README", text)[0]
    own = [r for r in users if table in r.source and is_own(r, path)]
    assert own
    for row in own:
        for number in numbers_of(row):
            assert re.search(rf"\b{number:g}(\.0)?\b", match[1]), row.name
        if not row.pretrains:
            assert row.model.split("/")[-1] in text, row.name


def is_own(row, path) -> bool:
    """Whether a flagfile is made for this row, not just used by it."""
    if path.stem.startswith(("masking_", "pretraining_")):
        return not row.line.endswith("bilstm")
    if path.stem == "xnli_en_multilingual":
        return row.line == "en"
    others = "readme/(wwm_.*(original|/cased.*)|xnli.*train.*|xnli.*lingual)"
    return row.flagfiles[-1] == path.stem and not (
        row.table == "tiny" or re.fullmatch(others, row.name)
    )


def plan_all(tmp_path):
    """Each row with its commands, as --dry_run prints them."""
    options = Options(
        {
            "catalogue": None,
            "data_dir": str(tmp_path / "some data"),
            "models_dir": str(tmp_path / "models"),
            "wheels_dir": str(tmp_path / "wheels"),
            "output_dir": str(tmp_path / "out"),
            "more_flags": [],
        }
    )
    materials = run.make_materials(options)
    for row in ROWS.values():
        text = run.format_commands(row, materials, options, lacks=())
        lines = [x for x in text.split("\n") if x and not x.startswith("#")]
        yield row, [shlex.split(line.replace("<best>", "8")) for line in lines]
    assert not list(tmp_path.iterdir()), "nothing is made"


def test_names_need_files_with_documents(tmp_path):
    """TensorFlow Datasets' copy has none, and --context=document wants them."""
    info = tmp_path / "tfds/conll2003/conll2003/1.0.0/dataset_info.json"
    info.parent.mkdir(parents=True)
    info.touch()
    (row,) = (row for row in ROWS.values() if row.name == "table7/base")
    folder = str(tmp_path)
    materials = Materials(folder, folder, folder, folder)
    lack = materials.missing(row)[-1]
    assert "conll2003/eng.train" in lack and "documents" in lack
    assert materials.data_flags(row, "ner_base") == [
        f"--data_dir={folder}/conll2003"
    ]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    return list(plan_all(tmp_path_factory.mktemp("planned")))


@pytest.mark.parametrize("runner", sorted(set(RUNNERS) - {"extract_features"}))
def test_commands_pass_the_checks_of_their_runner(planned, runner):
    count = 0
    with runners.load_runner(runner) as command:
        for row, lines in planned:
            for _, script, *words in lines:
                if script != f"{runner}.py":
                    continue
                runners.parse(*commands._find_flagfiles(words))
                options = commands.read_options()
                getattr(command.flags, "check", lambda options: None)(options)
                if runner == "run_classifier":
                    task = get_task(options.task_name, options.xnli_language)
                    assert task.name == row.data, row.name
                    trials.plan_from_options(options)
                count += 1
    assert count


def test_commands_are_in_order(planned):
    """Text, two phases, fine-tuning; each takes what the one before left."""
    for row, lines in planned:
        scripts = [script for _, script, *_ in lines]
        flags = [dict(w[2:].partition("=")[::2] for w in x[2:]) for x in lines]
        if row.pretrains:
            phases = sum("_phase" in name for name in row.flagfiles)
            texts = phases + (row.runner == "run_pretraining")
            assert scripts == [
                *["create_pretraining_data.py"] * texts,
                *["run_pretraining.py"] * phases,
                f"{row.runner}.py",
            ]
            made = [x["output_file"].split("@")[0] for x in flags[:texts]]
            read = [x.get("input_file", "")[:-1] for x in flags[texts:]]
            assert made == read[:texts], row.name
            at = f"/model.ckpt-{row.at_step}" if row.at_step else ""
            trained = flags[-2]["output_dir"] + at
            assert flags[-1]["init_checkpoint"] == trained
        elif row.name.endswith("ensemble"):
            *_, last = flags
            folders = [x["output_dir"] for x in flags[-8:-1]]
            assert last["ensemble_checkpoints"].split(",") == folders
            assert len({x["seed"] for x in flags[-8:-1]}) == 7
        elif row.flagfiles[1:]:
            first, second = flags
            assert second["init_checkpoint"] == first["output_dir"]
        else:
            assert len(lines) == len(row.flagfiles) + bool(row.seeds)


def test_rows_without_a_run_say_why():
    without = [r for r in ROWS.values() if not r.flagfiles and not r.is_check]
    assert len(without) == 2 + 2 * 4 + 6 + 1
    for row in without:
        assert row.note and not row.runner, row.name
    for row in ROWS.values():
        assert row.is_check == (row.tolerance is not None), row.name
    for name in CHECKS:
        assert callable(getattr(checks, name))


def test_models_are_released_ones():
    names = {row.model.split("/")[-1] for row in ROWS.values() if row.model}
    for name in names - {"bleurt_tiny", "minilm"}:
        assert find_model(name) != name


@pytest.mark.parametrize(
    ("pattern", "near"),
    [("table1/mprc/base", "table1/mrpc/base"), ("zzz", "none")],
)
def test_unknown_names(pattern, near):
    message = f"No published result is called {re.escape(pattern)}.*{near}"
    with pytest.raises(ValueError, match=message):
        CATALOGUE.find([pattern])


def test_patterns():
    assert len(CATALOGUE.find(["table7/*"])) == 8
    assert len(CATALOGUE.find(["table7/*", "table7/base"])) == 8
    assert [r.name for r in CATALOGUE.find(["table3/large"])] == [
        "table3/large"
    ]
