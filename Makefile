# The two commands are `make demo` and `make test`; both make .venv on the first run and reuse it afterwards.
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test lint check check-readme mutate fuzz fuzz-replay bench bench-full torture clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "forgepack needs Python 3.11 to 3.14 on the PATH" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group test --group lint --group clients
	@touch $@

demo: $(VENV)/installed  ## run the whole job on the embedded miniature
	$(BIN)/forgepack demo $(ARGS)

test: $(VENV)/installed-dev  ## run the test suite
	$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/installed-dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test  ## what CI runs

check-readme: $(VENV)/installed-dev  ## hold README and docs against the code; ARGS=--update writes them again
	$(BIN)/python -m tests.docs.check $(ARGS)

mutate: $(VENV)/installed-dev  ## change every field, constant and tensor of the miniature in turn: the score
	$(BIN)/python -m tests.mutation.run --json $(VENV)/mutation.json $(ARGS)

fuzz-replay: $(VENV)/installed-dev  ## 1000 seeds of damage through every reader
	$(BIN)/python -m fuzz.replay $(ARGS)

READERS ?= sidecar safetensors npy npz tokenizer lock manifest report profile
SECONDS ?= 600

fuzz: $(VENV)/installed-dev  ## coverage-guided fuzzing of the readers, SECONDS each
	$(BIN)/python -m pip install --quiet --group fuzz
	set -e; for reader in $(READERS); do \
		$(BIN)/python -m fuzz.run $$reader $(SCRATCH) -max_total_time=$(SECONDS) $(ARGS); done

SCRATCH ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/forgepack-bench

bench: $(VENV)/installed  ## measure at a quarter of the size, in minutes
	$(BIN)/python -m benchmarks.run $(SCRATCH) --scale medium $(ARGS)

bench-full: $(VENV)/installed  ## measure at full size: 30 GB in SCRATCH, most of an hour
	$(BIN)/python -m benchmarks.run $(SCRATCH) --scale full $(ARGS)

torture: $(VENV)/installed  ## kill quantize and emit 200 times each on the miniature
	$(BIN)/python -m benchmarks.torture $(ARGS)

clean:  ## remove the environment and build output
	rm -rf $(VENV) build dist
