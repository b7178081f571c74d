# Each target sets up .venv by itself; `make PYTHON=/path/to/python3` names the Python to use.
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
PYTEST_ARGS ?= -q -n 2 --dist loadscope
SCALE ?= 0.1
BENCH_ARGS ?=
FUZZ_SECONDS ?= 300
SUITES ?= $(IVM_SUITES)
CONFORMANCE_ARGS ?=
TORTURE := tests/torture tests/api/names/test_names.py tests/api/names/test_names_in_ddl.py tests/cdc/postgres/test_histories.py

.PHONY: help setup test test-all lint format demo bench fuzz torture conformance clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## make .venv with everything in it

# An existing .venv is completed, not rebuilt; a changed pyproject.toml installs again.
# The warning silenced is of folders that hide the package: here they are the package.
$(READY): pyproject.toml .ci/venv
	.ci/venv $(VENV)
	PYTHONWARNINGS="ignore:Editable installation" \
		$(PY) -m pip install --quiet --disable-pip-version-check --group dev -e .
	@touch $@

test: $(READY)  ## run the quick tests, in minutes
	IVM_TESTS=quick $(PY) -m pytest $(PYTEST_ARGS)

test-all: $(READY)  ## run all tests: before an issue is closed or a release made
	IVM_TESTS=full $(PY) -m pytest $(PYTEST_ARGS)

lint: $(READY)  ## ruff (rules and format) and mypy --strict
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(READY)  ## let ruff mend what it can
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

demo: $(READY)  ## TPC-H with eight live views (SCALE=0.1)
	$(PY) -m benchmarks.demo --scale $(SCALE)

bench: $(READY)  ## the benchmark tables (BENCH_ARGS=--quick for a short first one alone)
	$(PY) -m benchmarks.run $(BENCH_ARGS)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.shapes)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.everyday --keep)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.load --keep)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.steady --keep)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.cdc)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.tpch_refresh --scale 1 --keep)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.nexmark --keep)
	$(if $(BENCH_ARGS),,$(PY) -m benchmarks.endless --keep)

fuzz: $(READY)  ## the property tests with new seeds until FUZZ_SECONDS are over
	@end=$$(( $$(date +%s) + $(FUZZ_SECONDS) )); \
	while [ $$(date +%s) -lt $$end ]; do \
		seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
		echo "seed $$seed"; \
		IVM_TESTS=fuzz $(PY) -m pytest -q -n 2 -m hypothesis --hypothesis-seed=$$seed || exit 1; \
	done

torture: $(READY)  ## sessions, signals, faults and names with new seeds, for hours (IVM_SEED=n: from there)
	@seed=$${IVM_SEED:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}; \
	echo "IVM_SEED=$$seed"; \
	IVM_TESTS=fuzz IVM_SEED=$$seed $(PY) -m pytest $(PYTEST_ARGS) --timeout=3600 $(TORTURE)

conformance: $(READY)  ## peers' public suites (SUITES=/path/to/suites)
	@test -n "$(SUITES)" || { echo "conformance suites NOT RUN: make conformance SUITES=/path"; exit 1; }
	$(PY) -m tests.conformance $(SUITES) $(CONFORMANCE_ARGS)

clean:  ## remove what the targets made
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
