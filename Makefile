# `make demo` and `make test` need Python 3.10 or newer, git and make; they make their own environment in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
TEXTS := tests/data/prose.txt tests/data/code.txt tests/data/cjk.txt

.PHONY: help setup check fmt test quick test-nojit demo bench clean

help:
	@echo "make setup       make the environment in $(VENV) and install the project into it"
	@echo "make check       lint, format, types, import rules"
	@echo "make fmt         format the code"
	@echo "make test        all tests; make quick leaves the slow ones out"
	@echo "make test-nojit  the tests with the kernels as plain Python, on small inputs; prints coverage"
	@echo "make demo        train, encode and decode the texts of tests/data, and compare"
	@echo "make bench       the benchmarks"
	@echo "make clean       remove what the others made"

setup: $(READY)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "bpejit needs Python 3.10 or newer, and \`$(PYTHON)\` is `$(PYTHON) --version 2>&1`: run make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "this Python has no venv module: install it (Debian and Ubuntu: apt install python3-venv) and try again"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,check]'
	@touch $@

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(READY)
	$(BIN)/python -m pytest

quick: $(READY)
	$(BIN)/python -m pytest -m "not slow"

test-nojit: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m "not slow" --cov --cov-report=term-missing:skip-covered

demo: $(READY)
	@rm -rf demo && mkdir demo && cat $(TEXTS) > demo/texts.txt
	$(BIN)/bpejit train demo/texts.txt --vocab-size 8192 --out demo/tokenizer
	$(BIN)/bpejit encode demo/texts.txt --tokenizer demo/tokenizer --out demo/tokens.bin
	$(BIN)/bpejit decode demo/tokens.bin --tokenizer demo/tokenizer --out demo/back.txt
	cmp demo/texts.txt demo/back.txt
	@echo "demo/back.txt equals demo/texts.txt byte for byte"
	@wc -c demo/*.* demo/tokenizer/*

bench: $(READY)
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist demo *.egg-info .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
