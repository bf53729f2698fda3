# The two commands are `make demo` and `make test`; both make .venv on the first run and reuse it afterwards.
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo test test-oldest test-newest lint check check-readme lock dist mutate fuzz fuzz-replay bench bench-full torture torture-writers clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "forgepack needs Python 3.11 to 3.14 on the PATH" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'

# requirements/ holds the versions that CI runs, each with its digests; `make lock` makes them anew.
HASHED := $(BIN)/python -m pip install --quiet --require-hashes --requirement
EDITABLE := $(BIN)/python -m pip install --quiet --no-deps --editable .

$(VENV)/installed: pyproject.toml requirements/run.txt | $(BIN)/python
	$(HASHED) requirements/run.txt
	$(EDITABLE)
	@touch $@

$(VENV)/installed-dev: pyproject.toml requirements/test.txt $(VENV)/installed
	$(HASHED) requirements/test.txt
	@touch $@

$(VENV)/installed-release: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --group release
	@touch $@

demo: $(VENV)/installed  ## run the whole job on the embedded miniature
	$(BIN)/forgepack demo $(ARGS)

# Two processes; the tests of a file stay together, since they share what is dear to make.
PYTEST := -m pytest -n 2 --dist loadfile

test: $(VENV)/installed-dev  ## run the test suite
	$(BIN)/python $(PYTEST) $(ARGS)

test-whole: $(VENV)/installed-dev  ## the suite, looking at all of what it samples otherwise
	$(BIN)/python $(PYTEST) --whole $(ARGS)

# The suite on other versions than the locked ones, in an environment of its own below build/.
define suite
$(PYTHON) -m venv --clear build/$(1)
$(BIN)/uv pip compile --quiet --python build/$(1)/bin/python $(2) --group test pyproject.toml -o build/$(1)/versions.txt
$(BIN)/uv pip sync --quiet --python build/$(1)/bin/python build/$(1)/versions.txt
$(BIN)/uv pip install --quiet --python build/$(1)/bin/python --no-deps --editable .
build/$(1)/bin/python $(PYTEST) $(ARGS)
endef

test-oldest: $(VENV)/installed-release  ## the suite on the oldest versions that pyproject.toml allows (Python 3.11)
	$(call suite,oldest,--resolution lowest-direct)

test-newest: $(VENV)/installed-release  ## the suite on the newest versions; PYTHON=python3.13 chooses the Python
	$(call suite,newest,--upgrade)

lint: $(VENV)/installed-dev  ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test  ## what CI runs

check-readme: $(VENV)/installed-dev  ## hold README and docs against the code; ARGS=--update writes them again
	$(BIN)/python -m tests.docs.check $(ARGS)

LOCK := UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-annotate --upgrade pyproject.toml

lock: $(VENV)/installed-release  ## resolve requirements/ anew, with digests, for every Python and platform
	$(LOCK) -o requirements/run.txt
	$(LOCK) --group test --group lint --group clients -c requirements/run.txt -o requirements/test.txt

dist: $(VENV)/installed-release  ## wheel and sdist into dist/, the same bytes for the same commit
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct 2>/dev/null || echo 315532800) $(BIN)/python -m build --outdir dist .

mutate: $(VENV)/installed-dev  ## change every field, constant and tensor of the miniature in turn: the score
	$(BIN)/python -m tests.mutation.run --json $(VENV)/mutation.json $(ARGS)

fuzz-replay: $(VENV)/installed-dev  ## 1000 seeds of damage through every reader and the package's program
	$(BIN)/python -m fuzz.replay $(ARGS)

READERS ?= sidecar safetensors npy npz tokenizer lock manifest report profile \
	config record metadata traces_identity release sums replay_report policy timings toml build_lock blob mil \
	attestation waivers deny baseline inspect
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

torture: $(VENV)/installed-dev torture-writers  ## kill everything that writes, 200 times each
	$(BIN)/python -m benchmarks.torture $(ARGS)

torture-writers: $(VENV)/installed-dev  ## kill bundle, attest, fetch, build, and a replacement without exchange
	$(BIN)/python -m tests.disk.kills $(ARGS)

clean:  ## remove the environment and build output
	rm -rf $(VENV) build dist
