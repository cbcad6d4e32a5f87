"""The wheel: installed elsewhere, it has everything the README shows."""

import configparser
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
SOURCES = ("keras_bert_ref", "configs")
FILES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE")

pytestmark = pytest.mark.slow


def call(*words, **kwargs) -> str:
    return subprocess.run(
        words, capture_output=True, check=True, text=True, **kwargs
    ).stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> pathlib.Path:
    """A folder that the wheel was installed into, and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in SOURCES:
        shutil.copytree(
            ROOT / name,
            source / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    for name in FILES:
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    alone = ("--no-deps", "--no-build-isolation", "--quiet")
    call(*pip, "wheel", *alone, "-w", folder, source)
    (wheel,) = folder.glob("*.whl")
    call(*pip, "install", *alone[::2], "--target", folder / "site", wheel)
    return folder / "site"


@pytest.fixture(scope="module")
def environment(site) -> dict[str, str]:
    """In which Python finds the installed package first."""
    return {**os.environ, "PYTHONPATH": str(site)}


def commands() -> list[str]:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options.entry_points"]["console_scripts"].split("\n")
    return [line.split("=")[0].strip() for line in lines if line]


def test_nothing_but_the_package_at_the_top(site):
    names = {path.name.split("-")[0] for path in site.iterdir()}
    assert names == {"keras_bert_ref", "bin"}


def test_every_module_is_there(site):
    for path in (ROOT / "keras_bert_ref").rglob("*"):
        if path.is_file() and "__pycache__" not in str(path):
            assert (site / path.relative_to(ROOT)).is_file(), path


@pytest.mark.parametrize("kind", ["models", "runs"])
def test_every_config_is_there(site, kind):
    names = {path.name for path in (ROOT / "configs" / kind).iterdir()}
    assert len(names) > 20
    there = site / "keras_bert_ref" / "configs" / kind
    assert names == {path.name for path in there.iterdir()}


@pytest.mark.parametrize("name", commands())
def test_every_command_starts(site, environment, tmp_path, name):
    result = subprocess.run(
        [sys.executable, site / "bin" / name, "--help"],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        text=True,
        check=False,
    )
    shown = result.stdout + result.stderr
    assert result.returncode == 0, shown
    assert "--" in shown or "glue.zip" in shown


def test_configs_are_found_by_name_from_anywhere(environment, tmp_path):
    code = """
import pathlib
import keras_bert_ref
from keras_bert_ref import config
site = pathlib.Path(keras_bert_ref.__file__).parent
for find, name, ending in (
    (config.find_model, "uncased_L-12_H-768_A-12", "json"),
    (config.find_model, "configs/models/uncased_L-2_H-128_A-2.json", ""),
    (config.find_run, "glue_mrpc_base", "flags"),
    (config.find_run, "configs/runs/glue_mrpc_base.flags", ""),
):
    path = pathlib.Path(find(name))
    assert site in path.parents and path.is_file(), path
"""
    call(sys.executable, "-c", code, cwd=tmp_path, env=environment)


def test_flagfiles_are_found_by_name_from_anywhere(site, environment, tmp_path):
    result = subprocess.run(
        [
            *(sys.executable, site / "bin" / "run_classifier"),
            *("--flagfile=glue_mrpc_base", "--data_dir=x", "--vocab_file=x"),
            "--bert_config_file=uncased_L-2_H-128_A-2",
            f"--output_dir={tmp_path}/out",
        ],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr == (
        "Error: There is no file x; check the path, or copy the file there.\n"
    )
