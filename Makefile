# Two commands set a fresh clone up: `make start` runs a broker on localhost:9092, `make test` runs the tests.
# Each makes what it needs in .venv first, and does that again only when what is installed has changed.

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
BUILD_INPUTS := pyproject.toml setup.py pkafka/records/_loops.py pkafka/records/_keys.py pkafka/records/_writing.py $(wildcard pkafka/records/_*.pxd) scripts/make-venv.sh
# Tests that start processes of their own run after the others, a file at a time in each of a few workers with brokers
# of their own: they wait for sessions, time-outs and other processes most of the time.
WITH_PROCESSES := tests/e2e tests/faults tests/interop
WITHOUT := $(WITH_PROCESSES:%=--ignore=%)
EACH_CHANGE := not nightly and not root and not oracle
IN_WORKERS := -n 6 --dist loadfile --no-loadscope-reorder # in the order of tests/conftest.py
# Tests start thousands of processes. Where Python may not keep what it compiles, each of them would compile everything
# that it imports.
unexport PYTHONDONTWRITEBYTECODE
# Nightly runs go in another order each time; SEED=n repeats one.
SEED ?= $(shell date +%s)

.PHONY: help start test lint lint-types lint-text interop bench compiled nightly regenerate format clean

help: ## What can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 20

.venv/.run-ready: $(BUILD_INPUTS)
	@echo "Installing pkafka into .venv ..."
	@sh scripts/make-venv.sh
	@touch $@

.venv/.test-ready: $(BUILD_INPUTS)
	@echo "Installing pkafka and what its tests need into .venv ..."
	@sh scripts/make-venv.sh test lint
	@touch $@ .venv/.run-ready

start: .venv/.run-ready ## A broker in the foreground on localhost:9092, data in ./data, nothing to set up
	@exec $(BIN)/pk-server-start

test: .venv/.test-ready ## Every test that needs no root, within 15 minutes
	@sh scripts/say-what-tests-lack.sh
	$(PYTEST) -q -n auto $(WITHOUT) -m "$(EACH_CHANGE)"
	$(PYTEST) -q $(IN_WORKERS) -m "$(EACH_CHANGE)" $(WITH_PROCESSES)

lint: lint-types lint-text ## Format, lint rules, types, import direction, spelling

lint-types: .venv/.test-ready
	$(BIN)/mypy

lint-text: .venv/.test-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/codespell $$(git ls-files '*.py' '*.md' '*.toml' '*.yaml' '*.sh' Makefile)

format: .venv/.test-ready ## Formats the code and mends what can be mended
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

interop: .venv/.test-ready ## The same scripts on Apache Kafka and on pkafka
	@sh scripts/say-what-tests-lack.sh
	$(PYTEST) $(IN_WORKERS) -m "not nightly" tests/interop

bench: .venv/.test-ready ## Apache Kafka and pkafka in turn: every figure, its ratio and its bar (hours; BENCH=--quick for minutes)
	@copy=$$(sh scripts/bench-copy.sh) && cd $$copy && exec .venv/bin/python -m benchmarks $(BENCH)

compiled: .venv/.test-ready ## The unit tests with the hot path compiled by mypyc, in a copy
	sh scripts/test-compiled.sh

nightly: .venv/.test-ready ## Everything, the long ones too: many seeds, faults, soak; as root, networks that break
	HYPOTHESIS_PROFILE=deep $(PYTEST) --randomly-seed=$(SEED) -n auto $(WITHOUT)
	sh scripts/test-compiled.sh
	PKAFKA_SPARK_ARCHIVE=1 HYPOTHESIS_PROFILE=deep $(PYTEST) --randomly-seed=$(SEED) $(IN_WORKERS) $(WITH_PROCESSES)

regenerate: .venv/.test-ready ## Files made from the code: the reference, completions, man pages
	$(BIN)/python scripts/regenerate.py

clean: ## Removes what was made here, but not ./data
	rm -rf .venv .bench build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
