# Two commands do all set-up on a fresh machine: `make demo` and `make test`. Nothing is written outside this folder.
.PHONY: setup demo test thorough checks lock floors bench

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_CACHE_DIR := 1

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: setup
	$(BIN)/python demo/run.py

checks: setup
	$(BIN)/ruff format --check src tests bench demo
	$(BIN)/ruff check src tests bench demo
	$(BIN)/basedpyright --level error
	$(BIN)/lint-imports --no-cache

floors: setup
	$(BIN)/lint-imports --no-cache

test: checks
	$(BIN)/pytest -n 2 --dist loadfile

# Everything, with new random examples; and every token of every real tokenizer, and a million rows. Takes long.
thorough: setup
	BURNISH_EXPLORE=1 $(BIN)/pytest -n 2 --dist loadfile -m ""

lock:
	$(PYTHON) -m venv .cache/lock
	.cache/lock/bin/pip install --quiet --requirement requirements.in
	.cache/lock/bin/pip freeze --exclude pip --exclude setuptools > requirements.lock

# Measures; the numbers that docs/benchmarks.md quotes. Wants a quiet machine.
bench: setup
	$(PYTHON) -m venv .cache/prime
	.cache/prime/bin/pip install --quiet prime
	$(BIN)/python bench/startup.py .cache/prime/bin/prime
	$(BIN)/python bench/dispatch.py
	$(BIN)/python bench/trainer.py
	$(PYTHON) -m venv .cache/trl
	.cache/trl/bin/pip install --quiet torch==2.13.0 trl datasets
	PYTHONPATH=demo:tests $(BIN)/python -c "import fetch; fetch.fetch_qwen3()"
	$(BIN)/python bench/preparation.py .cache/trl/bin/python .cache/qwen3
