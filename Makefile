# Needs a Python of 3.11 or newer with pip, and make. Everything else goes into .venv.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first interpreter that is new enough; `make PYTHON=/path/to/python3 …` chooses another.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python python3.13 python3.12 python3.11 python3.14; do \
	"$$p" -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { command -v "$$p"; break; }; done)

VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements-dev.lock
WORKERS ?= 2
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
FUZZ_MUTANTS ?= 20000
FUZZ_SECONDS ?= 1800
FUZZ_FILES ?= $(wildcard ../shared/captures/real/*/*.xplane.pb ../shared/captures/real/*/*.json.gz)
DEMO_OUT ?= demo-report
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 "$(PYTHON)" -m pip --python $(BIN)/python

##@ Use

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: env ## Set up, then write the report of a simulated capture
	@$(BIN)/explane demo -o $(DEMO_OUT) --force || [ $$? -eq 3 ]
	@echo "The report is $(CURDIR)/$(DEMO_OUT)/report.html (and report.md beside it)"

.PHONY: env
env: $(VENV)/.installed ## Make .venv from the lock file, once

##@ Check

.PHONY: check
check: env ## Set up, then lint, types, layers and tests
	@$(MAKE) lint
	@$(MAKE) types
	@$(MAKE) layers
	@$(MAKE) test

.PHONY: lint
lint: env ## Style rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: env ## mypy --strict on the package and the tests
	$(BIN)/mypy

.PHONY: layers
layers: env ## Import rules between the packages
	PYTHONPATH=src $(BIN)/lint-imports --no-logo

.PHONY: test
test: env ## All tests; TESTS=path chooses, WORKERS=n sets the processes
	$(BIN)/pytest -q -n $(WORKERS) $(TESTS)

.PHONY: browser
browser: env ## Only the tests that drive headless Chromium
	$(BIN)/pytest -q -m browser

.PHONY: fuzz
fuzz: env ## Damaged captures for FUZZ_SECONDS; FUZZ_FILES= whole captures to damage
	@mkdir -p out
	@$(BIN)/python -c 'from pathlib import Path; from tests.cli.captures import *; \
		write_small_capture(Path("out/small"))'
	$(BIN)/python tools/fuzz.py --mutants $(FUZZ_MUTANTS) --seconds $(FUZZ_SECONDS) \
		$$(find out/small -name 'node.*') $(FUZZ_FILES)

.PHONY: bench
bench: env ## Reading of large captures against jax's own reader; JAX_PYTHON= a Python with jax
	@[ -n "$(JAX_PYTHON)" ] || { echo "say which Python has jax: make bench JAX_PYTHON=…" >&2; exit 2; }
	$(BIN)/python benchmarks/read_xplane.py --jax-python "$(JAX_PYTHON)"

##@ Develop

.PHONY: format
format: env ## Sort imports and format the code
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: docs
docs: env ## Write docs/cli.md again from --help
	$(BIN)/python tools/write_cli_docs.py

.PHONY: lock
lock: ## Resolve the newest versions again into the lock files
	@$(MAKE) .venv-lock/bin/uv
	.venv-lock/bin/python tools/lock.py .venv-lock/bin/uv
	@echo "Then: make env, and $(VENV)/bin/python tools/bundle_vega.py (see there)"

.venv-lock/bin/uv:
	"$(PYTHON)" -m venv .venv-lock
	.venv-lock/bin/pip install --quiet uv

# Code that a protoc makes needs a runtime of its version or newer: this one is that of the lowest
# protobuf in pyproject.toml.
PROTOC := grpcio-tools==1.75.1

.PHONY: proto
proto: ## Generate the protobuf code again from hlo.proto
	"$(PYTHON)" -m venv .venv-proto
	.venv-proto/bin/pip install --quiet "$(PROTOC)"
	.venv-proto/bin/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src \
		src/explane/capture/_proto/hlo.proto

.PHONY: lowest
lowest: ## Tests with the lowest supported versions of what the package needs
	@$(MAKE) VENV=.venv-lowest .venv-lowest/.installed
	PIP_DISABLE_PIP_VERSION_CHECK=1 "$(PYTHON)" -m pip --python .venv-lowest/bin/python install \
		--quiet --require-hashes -r requirements-lowest.lock
	.venv-lowest/bin/pytest -q -n $(WORKERS) $(TESTS)

.PHONY: pythons
pythons: ## Tests with other Pythons; PYTHONS="python3.12 /path/to/python" chooses
	@for p in $(PYTHONS); do \
		v=$$("$$p" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue; \
		echo "== Python $$v"; \
		$(MAKE) VENV=.venv-$$v PYTHON="$$p" test || exit 1; \
	done

.PHONY: wheel
wheel: env ## Build dist/*.whl and the source archive
	$(BIN)/hatchling build

.PHONY: clean
clean: ## Remove environments, caches and outputs
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis \
		dist out $(DEMO_OUT)

# pip of the interpreter at hand installs into the new environment, so that neither ensurepip nor
# a second copy of pip is needed (Debian ships them apart from Python).
$(VENV)/.locked: $(LOCK)
	@[ -n "$(PYTHON)" ] || { echo "no Python of 3.11 or newer found; set PYTHON=" >&2; exit 1; }
	@echo "Setting up $(VENV) with $$("$(PYTHON)" --version) …"
	@"$(PYTHON)" -m venv --without-pip $(VENV)
	@$(PIP) install --quiet --require-hashes -r $(LOCK)
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@
