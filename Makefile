# `make demo` and `make test` do all set-up in a fresh clone. See README.md.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start hundreds of processes: where nothing is written, each compiles all modules anew (1 s).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: matrix sanitize wheel help setup demo test test-all test-gpu bench suites lint format whole-ops clean

help:
	@echo "make demo       install into $(VENV) and run examples/demo.py and examples/cluster.py"
	@echo "make test       install, lint, type-check, and run the sample of the tests"
	@echo "make test-all   the whole matrices, slow tests included (up to an hour)"
	@echo "make test-gpu   the tests that need a CUDA device"
	@echo "make matrix     a sample with other NumPys, numbers of workers, without compiler, zarr, numba"
	@echo "make sanitize   random programs and tests of C under address and thread sanitizers"
	@echo "make wheel      a wheel for this machine in dist/, checked in a fresh environment"
	@echo "make bench      the benchmarks"
	@echo "make suites     other projects' tests on this library (tests/suites/README.md)"
	@echo "make lint       ruff and mypy"
	@echo "make format     rewrite the sources with ruff"
	@echo "make clean      remove $(VENV), every cache and what was built"
	@echo "PYTHON=python3.12 chooses the interpreter, PYTEST_ARGS='-k ops' is passed to pytest"

setup: $(STAMP)

# torch first and alone, so that nothing else can choose its version; then what setup.py needs. The
# C of the package is built in src (docs/decisions/0024-built-extensions.md).
$(STAMP): pyproject.toml setup.py constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt torch==2.13.0
	$(BIN)/python -m pip install -c constraints.txt setuptools numpy
	$(BIN)/python -m pip install -c constraints.txt --no-build-isolation -e '.[test]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/cluster.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n 2 -m "not slow and not gpu and not remote" $(PYTEST_ARGS)
	INFINITENSOR_WORKERS=16 $(BIN)/python -m pytest -n 2 -q -m "not slow and not gpu and not remote" \
	    tests/test_tiny.py tests/memory/test_at_once.py tests/api/eager/test_row_parts.py
	@$(BIN)/python tools/whole_ops.py

test-all: lint
	INFINITENSOR_TEST_ALL=1 $(BIN)/python -m pytest -n 2 -m "not gpu and not remote" \
	    --timeout=1800 -o faulthandler_timeout=1900 $(PYTEST_ARGS)
	@$(BIN)/python tools/whole_ops.py

test-gpu: $(STAMP)
	$(BIN)/python -m pytest -m gpu $(PYTEST_ARGS)

matrix: $(STAMP)
	$(BIN)/python -m tools.matrix

sanitize: $(STAMP)
	$(BIN)/python -m tools.sanitize

wheel: $(STAMP)
	rm -rf build dist
	$(BIN)/python -m pip wheel -q . --no-deps --no-build-isolation -w dist
	$(BIN)/python -m tools.check_wheel dist/*.whl

bench: $(STAMP)
	$(BIN)/python -m benchmarks

suites: $(STAMP)
	$(BIN)/python -m tests.suites --jobs 2

whole-ops: $(STAMP)
	@$(BIN)/python tools/whole_ops.py

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.egg-info' -type d -prune -exec rm -rf {} +
	find src -name '*.so' -delete
