# `make demo` and `make test` need Python 3.10 or newer, git and make; they create their own environment in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BASE := $(VENV)/base
READY := $(VENV)/ready
BOTH_PATHS := $(addprefix tests/,jit kernels/splitting kernels/encoding splitting encoding compat)
COMPILE = @$(BIN)/python .ci/compile_kernels.py
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes, which otherwise compile every module again
.PHONY: help setup check fmt test thorough quick test-other-path test-nojit oldest matrix readers parity faults demo docs pictures bench wheel release clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1: /p' Makefile

setup: $(READY) ## create the environment and install the project and its tools into it

$(BASE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "bpejit needs Python 3.10 or newer; \
	'$(PYTHON)' is $$($(PYTHON) --version 2>&1): select another, such as make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) .ci/install.py $(VENV)

$(READY): pyproject.toml tests/vocabularies.txt | $(BASE)
	@$(PYTHON) .ci/install.py $(VENV) test check data plot t2t test-cluster test-transformers docs

check: $(READY) ## check style, types and import rules
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(READY) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(READY) ## compile the kernels and run all tests
	$(COMPILE)
	$(BIN)/python .ci/run_tests.py

thorough: $(READY) ## run all tests with eight times as many random examples; some half an hour
	BPEJIT_EXAMPLES=400 $(MAKE) test

quick: $(READY) ## run the tests that are not slow, with fewer random examples and without the optional data; TESTS=... selects some
	$(COMPILE)
	BPEJIT_SHARED_DATA= BPEJIT_EXAMPLES=$${BPEJIT_EXAMPLES:-10} $(BIN)/python .ci/run_tests.py -m "not slow" $(TESTS)

test-other-path: $(READY) ## run the tests of splitting and encoding with AVX2, or with AVX-512 emulated if make test uses AVX2
	@cpu=$$($(BIN)/python -c 'from bpejit.jit import target; now = target.current(); print("x86-64-v3" if now.has_avx512_vbmi \
	else target.EMULATED_AVX512 if now.has_avx2 else "")') && \
	if [ -z "$$cpu" ]; then echo "this processor has one path: make test takes it"; else echo "BPEJIT_CPU=$$cpu"; \
	export BPEJIT_CPU=$$cpu BPEJIT_EXAMPLES=$${BPEJIT_EXAMPLES:-20}; $(BIN)/python .ci/compile_kernels.py && \
	$(BIN)/python .ci/run_tests.py -m "not slow" $(BOTH_PATHS); fi

test-nojit: $(READY) ## run the tests with the kernels as plain Python, on small inputs, and print the coverage
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -m "not slow" --cov --cov-report=term-missing:skip-covered

oldest: ## run the fast tests with the oldest supported version of each dependency
	$(PYTHON) .ci/matrix.py --python "$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')" --versions oldest $(MATRIX)

matrix: ## run the fast tests on each installed Python with oldest and newest dependencies, and the readers of other tools
	$(PYTHON) .ci/matrix.py && $(MAKE) readers

readers: $(READY) ## install the readers of other tools into .readers and test them on files of bpejit; some ten minutes
	@for list in tests/readers/*.txt; do \
		name=.readers/$$(basename $$list .txt); \
		[ $$name/ready -nt $$list ] || { rm -rf $$name; $(PYTHON) -m venv $$name && \
		$$name/bin/python -m pip install -qq --disable-pip-version-check -r $$list \
			$$(sed -n '1s/^# no dependencies:.*/--no-deps/p' $$list) && touch $$name/ready; } || exit 1; \
	done
	$(BIN)/python -m pytest -n 2 --dist worksteal tests/readers

parity: $(READY) ## compare with other tools on large corpora (optional data); some ten minutes
	BPEJIT_PARITY=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m parity

faults: $(READY) ## damage files, kill processes and exhaust resources, generated from a seed; print the figures
	$(BIN)/python -m tests.faults

demo: $(BASE) ## install the package alone; train, encode, decode, compare and show
	@$(BIN)/python .ci/demo.py

docs: $(READY) ## build the documentation in build/docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -c docs -d build/doctrees . build/docs

pictures: $(READY) ## make the pictures of the documentation; needs chromium and chromedriver
	$(BIN)/python .ci/pictures.py docs/pictures && $(BIN)/python -m benchmarks.scaling_plan

bench: $(READY) ## install other tools, measure everything and write the tables (about an hour on two quiet cores)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[bench]'
	@for list in benchmarks/environments/*.txt; do \
		name=.bench/$$(basename $$list .txt); \
		[ $$name/ready -nt $$list ] || { rm -rf $$name; $(PYTHON) -m venv $$name && \
		$$name/bin/python -m pip install -qq --disable-pip-version-check -r $$list && touch $$name/ready; } || exit 1; \
	done
	-for text in english code; do [ -f .bench/$$text-large.txt ] || $(BIN)/python -m benchmarks.large_texts $$text .bench/$$text-large.txt; done
	$(BIN)/python -m benchmarks.compare

wheel: $(READY) ## build a wheel with compiled kernels, in dist; for Linux on x86-64
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[release]'
	$(BIN)/python .ci/make_wheel.py dist

release: $(READY) ## build all files of a release in dist, and try each in an empty environment; TAG=v... is compared
	$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[release]'
	$(BIN)/python .ci/release.py dist $(if $(TAG),--tag $(TAG))

clean: ## remove everything that the other targets created
	rm -rf $(VENV) .bench .matrix .readers build dist demo *.egg-info .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
