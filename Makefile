# Each target sets up what it needs, once: .venv, torch, the compiled package. `make help` lists them.

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
SEED ?= 0
WORKERS ?= 2
ARGS ?=
TESTS ?= tests
TORCH_INDEX ?=
export PYTHON VENV VLLM_VENV TORCH_INDEX

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help quickstart test test-vllm vllm build lint format bench clean distclean

BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
SOURCES := pyproject.toml CMakeLists.txt constraints.txt .ci/setup $(shell find csrc -type f)
RUN := runs/quickstart-$(SEED)
VLLM_STAMP := $(VLLM_VENV)/stamps/vllm
CXX_SOURCES = find csrc tests/cpp -name '*.cpp' -o -name '*.h'

# An environment that was moved, or whose Python is gone, is set up again from the start.
ifneq ($(shell test -x $(BIN)/python && cat $(STAMPS)/location 2>/dev/null),$(CURDIR))
$(shell rm -rf $(STAMPS))
endif
ifneq ($(shell test -x $(VLLM_VENV)/bin/python && cat $(VLLM_VENV)/stamps/location 2>/dev/null),$(CURDIR))
$(shell rm -rf $(VLLM_VENV)/stamps)
endif

help:
	@echo 'make quickstart [SEED=0]   train a small model to use Python, from nothing; a few minutes on two cores'
	@echo 'make test [TESTS=tests/..] run the CPU tests; ARGS=... goes to pytest'
	@echo 'make test-vllm             the tests of the vLLM engine, in an environment of its own (3.5 GB)'
	@echo 'make vllm                  build that environment, for --engine.python $(VLLM_VENV)/bin/python'
	@echo 'make build                 create $(VENV) and build the package into it'
	@echo 'make lint                  ruff, pyright and clang-format, changing nothing'
	@echo 'make format                ruff and clang-format, changing files'
	@echo 'make bench                 measure training throughput'
	@echo 'make clean                 remove build outputs and caches; distclean removes $(VENV) too'
	@echo
	@echo 'PYTHON=python3.12 picks the Python, VENV=DIR the environment, TORCH_INDEX=URL one more index for torch.'

quickstart: $(STAMPS)/package
	@$(BIN)/agentmath rl quickstart --run.seed $(SEED) $(if $(wildcard $(RUN)/recipe.toml),--resume) $(ARGS)

test: $(STAMPS)/dev
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) -q $(ARGS) $(TESTS)

test-vllm: $(STAMPS)/dev $(VLLM_STAMP)
	@AGENTMATH_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -q $(ARGS) tests/vllm

vllm: $(VLLM_STAMP)
	@echo 'built: agentmath rl RECIPE --engine.kind vllm --engine.python $(abspath $(VLLM_VENV))/bin/python'

build: $(STAMPS)/package
	@echo 'built: $(BIN)/agentmath'

lint: $(STAMPS)/dev
	@failed=0; \
	$(BIN)/ruff check . || failed=1; \
	$(BIN)/ruff format --check . || failed=1; \
	$(BIN)/pyright --pythonpath $(BIN)/python || failed=1; \
	$(CXX_SOURCES) | xargs $(BIN)/clang-format --dry-run -Werror || failed=1; \
	exit $$failed

format: $(STAMPS)/dev
	@$(BIN)/ruff check --select I --fix .
	@$(BIN)/ruff format .
	@$(CXX_SOURCES) | xargs $(BIN)/clang-format -i

bench: $(STAMPS)/dev
	@$(BIN)/python bench/train_throughput.py --json $(ARGS)

clean:
	@rm -rf build dist .ruff_cache .pytest_cache .hypothesis
	@find python kernels tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'kept: $(VENV) and runs'

distclean: clean
	@rm -rf $(VENV) $(VLLM_VENV)

$(STAMPS)/venv:
	@.ci/setup venv
	@mkdir -p $(STAMPS)
	@printf '%s' '$(CURDIR)' > $(STAMPS)/location
	@touch $@

$(VLLM_STAMP): vllm-requirements.txt
	@VENV=$(VLLM_VENV) .ci/setup vllm
	@mkdir -p $(VLLM_VENV)/stamps
	@printf '%s' '$(CURDIR)' > $(VLLM_VENV)/stamps/location
	@touch $@

$(STAMPS)/torch: $(STAMPS)/venv constraints.txt
	@.ci/setup torch
	@touch $@

$(STAMPS)/package: $(STAMPS)/torch $(SOURCES)
	@.ci/setup package
	@touch $@

$(STAMPS)/dev: $(STAMPS)/torch $(SOURCES)
	@.ci/setup dev
	@touch $(STAMPS)/package $@
