# Each target does its own set-up: the environment in .venv is made, and brought up to date when pyproject.toml changes.
#
#   make run            the daemon in the foreground        ARGS="--port 9000"  what `journeyman serve` takes
#   make test           all tests                           ARGS="-k sources"   what pytest takes
#   make check          format, lint, strict types, import layers, documents
#   make bench NAME=x   one benchmark                       QUICK=1  SABOTAGE=what
#   make format         rewrite the sources as `check` wants them
#   make wheel          dist/journeyman-*.whl
#   make clean          remove what these targets made, the environment included
#
# TORCH_INDEX=URL takes torch from another index (for a build with or without CUDA); PYTHON=python3.12 another Python.

PYTHON ?= python3
TORCH_INDEX ?=
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check
PACKAGES := agent memory reflection updater
SOURCES := $(PACKAGES) tests benchmarks

.PHONY: run test check bench format wheel clean
.DEFAULT_GOAL := run

run: $(READY)
	@$(BIN)/journeyman serve $(ARGS)

test: $(READY)
	$(BIN)/python -m pytest $(ARGS)

check: $(READY)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_docs.py

bench: $(READY)
	@test -n "$(NAME)" || { echo "make bench NAME=... with one of:"; ls benchmarks/*.py | xargs -n1 basename -s .py; exit 2; }
	@QUICK="$(QUICK)" SABOTAGE="$(SABOTAGE)" $(BIN)/python -m benchmarks.$(NAME) $(ARGS)

format: $(READY)
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

wheel: $(READY)
	$(PIP) wheel --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The stamp is written last, so that an installation that was cut short is done again.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade "pip>=25.1"
ifneq ($(TORCH_INDEX),)
	$(PIP) install --index-url "$(TORCH_INDEX)" "torch==2.13.*"
endif
	$(PIP) install --editable . --group dev
	@touch $@
