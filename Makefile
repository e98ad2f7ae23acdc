# One command each. Say `make` to see them.

VENV := .venv
BIN := $(VENV)/bin
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest
CHECKED := $(wildcard src tests benchmarks examples scripts)
ARGS ?=
# Hundreds of short processes: what is compiled once is kept, whatever the machine is set to.
unexport PYTHONDONTWRITEBYTECODE
# Hundreds of databases that are thrown away: in memory where there is room, so that no test waits for the disk. What is killed are processes, never the machine.
IN_MEMORY := $(shell [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'NR == 2 { print $$4 }')" -gt 8000000 ] && echo TMPDIR=/dev/shm)

.DEFAULT_GOAL := help
.PHONY: help up dev services fleet test collected quick lint format chaos verify simulate soak fuzz mutants bench bench-peers docs constraints clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  ARGS="..." is passed on: make test ARGS="-k cron", make up ARGS="--help".'
	@echo '  PYTHON=... chooses the interpreter (3.11 or newer).'

up: $(VENV)/.installed ## Install on first use, then run the scheduler in the foreground
	@exec $(BIN)/duly up $(ARGS)

dev: $(VENV)/.installed-dev ## Everything a contributor needs: tools, test services, commit hooks
	@scripts/install-test-services
	@if git rev-parse --git-dir >/dev/null 2>&1; then $(BIN)/pre-commit install; fi
	@echo "Ready. Next: make quick (seconds), make test (everything), make up (run it)."

services: $(VENV)/.installed-dev ## Run PostgreSQL, Redis, etcd and Kafka on loopback, and print how to use them
	@scripts/install-test-services
	@exec $(BIN)/duly dev --services

fleet: $(VENV)/.installed-dev ## Run a whole fleet on loopback: what it stands on, two servers, two workers
	@scripts/install-test-services
	@exec $(BIN)/duly dev --fleet $(ARGS)

test: $(VENV)/.installed-dev ## Install what the tests need, check, and run all tests
	@scripts/install-test-services
	@$(MAKE) --no-print-directory -j 2 lint collected
	@$(IN_MEMORY) $(PYTEST) -n 4 --dist worksteal --durations 25 $(ARGS)

# All tests are compiled once here, beside the linters, and not by each of four processes at the same time.
collected: $(VENV)/.installed-dev
	@$(PYTEST) --collect-only -qq >$(VENV)/collected.log 2>&1 || { cat $(VENV)/collected.log; exit 1; }

quick: $(VENV)/.installed-dev ## The tests that take seconds
	@$(IN_MEMORY) $(PYTEST) -n 2 -m "not (slow or chaos)" $(ARGS)

lint: $(VENV)/.installed-dev ## ruff, mypy and the import contracts
	@$(BIN)/ruff check --quiet $(CHECKED)
	@$(BIN)/ruff format --check --quiet $(CHECKED) || { echo "Some files are not formatted: make format"; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(VENV)/.installed-dev ## Format the code and fix what ruff can fix
	@$(BIN)/ruff check --quiet --fix-only $(CHECKED)
	@$(BIN)/ruff format $(CHECKED)

chaos: $(VENV)/.installed-dev ## Kill, pause and cut off real processes, the long form
	@scripts/install-test-services
	@$(PYTEST) -m chaos --long --timeout 3600 $(ARGS)

verify: $(VENV)/.installed-dev ## Test the guarantees on this machine for two minutes (see docs/how-to/verify.md)
	@exec $(BIN)/duly verify $(ARGS)

simulate: $(VENV)/.installed-dev ## Fleets on virtual time, seed by seed (ARGS="--seeds 0:100000 --jobs 2")
	@$(BIN)/python -m tests.simulation $(ARGS)

soak: $(VENV)/.installed-dev ## An hour of churn under an old snapshot: nothing may grow (ARGS="--minutes 5")
	@scripts/install-test-services
	@$(BIN)/python -m tests.soak $(ARGS)

fuzz: $(VENV)/.installed-dev ## Fuzz the API from its own document, with every check (ARGS="--seconds 1800")
	@$(BIN)/python -m tests.http.fuzz $(ARGS)

mutants: $(VENV)/.installed-dev ## Put known bugs into a copy, one by one: the tests must notice each
	@scripts/install-test-services
	@$(BIN)/python -m tests.mutants --markdown docs/explanation/proof/mutants.md $(ARGS)

bench: $(VENV)/.installed-dev ## Measure on this machine, all questions in ten minutes (ARGS="--full": in earnest)
	@scripts/install-test-services
	@$(BIN)/python -m benchmarks $(ARGS)

bench-peers: $(VENV)/.installed-dev ## Measure the peers beside Duly, in earnest (ARGS="--short" to try it)
	@scripts/install-test-services
	@$(BIN)/python -m benchmarks.peers.install || true
	@$(BIN)/python -m benchmarks.peers $(ARGS)

docs: $(VENV)/.installed-docs ## Build the documentation as a site in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "build/site/index.html"

constraints: ## Resolve pyproject.toml anew and rewrite constraints.txt
	@scripts/make-venv .venv-constraints
	@.venv-constraints/bin/python -m pip install --quiet --editable '.[postgres,dev]'
	@scripts/write-constraints .venv-constraints constraints.txt
	@rm -rf .venv-constraints

clean: ## Remove the environment, builds and caches (never your data)
	rm -rf $(VENV) .venv-constraints build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/python:
	@scripts/make-venv $(VENV)

# Editable, so that a pull is enough to run new code; again only when dependencies change.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Duly"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what builds the documentation"
	@$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Duly, PostgreSQL support and the development tools"
	@$(PIP) --no-compile --editable '.[postgres,dev]'
	@touch $@ $(VENV)/.installed
