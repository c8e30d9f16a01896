# Parsimony Agent. `make demo` and `make test` are all that a fresh machine needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo lab test test-ci test-all lint browser redis strace docs notebooks release-check clean

help: ## what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || { \
	  echo "Python 3.11 to 3.13 is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python cannot make virtual environments."; \
	  echo "On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@command -v uv > /dev/null || $(PIP) uv || true

# The same packages from the same index: uv takes seconds where pip takes minutes, and where there
# is no uv, or it doesn't get through to the index, pip installs them.
UV  = $(shell command -v uv || echo $(BIN)/uv) pip install --quiet --python $(BIN)/python
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# A stamp for each set of extras: nothing is asked of an index again until pyproject.toml changes.
$(VENV)/.installed: $(BIN)/python pyproject.toml
	$(UV) --editable '.[lab]' || $(PIP) --editable '.[lab]'
	@touch $@

$(VENV)/.test-installed: $(BIN)/python pyproject.toml
	$(UV) --compile-bytecode --editable '.[lab,test]' || $(PIP) --editable '.[lab,test]'
	@touch $(VENV)/.installed $@

install: $(VENV)/.installed ## the package and JupyterLab, in .venv

demo: $(VENV)/.installed ## runs the quickstart notebook with the embedded offline model
	@$(BIN)/jupyter-parsimony demo

lab: $(VENV)/.installed ## opens JupyterLab on the example notebooks
	$(BIN)/jupyter lab $$([ "$$(id -u)" != 0 ] || echo --allow-root) notebooks

# The real browser only: Ubuntu's `chromium` is a stub that asks for snap.
browser:
	@if ! sh tests/browser/find-chromium > /dev/null; then \
	  if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] && grep -q '^ID=debian' /etc/os-release; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium > /dev/null || true; \
	  fi; \
	fi
	@sh tests/browser/find-chromium > /dev/null || echo "No Chromium here (Debian's package is \`chromium\`): the browser tests are skipped."

# A real server, which the tests start on loopback and end themselves.
redis:
	@if ! command -v redis-server > /dev/null; then \
	  if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] && grep -q '^ID=debian' /etc/os-release; then \
	    apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server > /dev/null || true; \
	  fi; \
	fi
	@command -v redis-server > /dev/null || echo "No Redis here (Debian's package is \`redis-server\`): its tests are skipped."

lint: $(VENV)/.test-installed ## ruff, mypy, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Processes that tests start take seconds less where the modules are compiled once.
unexport PYTHONDONTWRITEBYTECODE

# Which test runs where. A test without a mark of these runs in `make test`; none runs in both.
SLOW   := slow or kernel or browser
PYTEST := $(BIN)/python -m pytest -p no:nbval -n 2 --dist loadfile --no-loadscope-reorder \
  --durations=10 -rs
FULL    = PARSIMONY_CHROMIUM="$$(sh tests/browser/find-chromium || true)" $(PYTEST)

test: $(VENV)/.test-installed ## the fast tests, in five minutes
	$(BIN)/ruff check --quiet .
	$(PYTEST) -m 'not ($(SLOW) or exhaustive)' $(TEST_ARGS)

test-ci: $(VENV)/.test-installed browser redis strace ## the slow tests: kernels, browser, Redis, storms
	@$(FULL) -m '($(SLOW)) and not exhaustive' $(TEST_ARGS)

test-all: $(VENV)/.test-installed browser redis strace lint ## every test, every case of the exhaustive ones
	@$(FULL) --hypothesis-profile=exhaustive $(TEST_ARGS)

# Kills a process at each of its system calls, so that what is on the disk then can be looked at.
strace:
	@if ! command -v strace > /dev/null; then \
	  if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] && grep -q '^ID=debian' /etc/os-release; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq strace > /dev/null || true; \
	  fi; \
	fi
	@command -v strace > /dev/null || echo "No strace here (Debian's package is \`strace\`): its tests are skipped."

docs: $(VENV)/.test-installed ## builds the documentation into build/site; warnings are errors
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

notebooks: $(VENV)/.test-installed ## records the example notebooks again and prints what changed
	$(BIN)/python notebooks/refresh.py

# Elsewhere than in the checkout: in build/release, an environment for each Python that is found.
release-check: $(BIN)/python ## builds the release and tries the wheel on Python 3.11, 3.12 and 3.13
	$(PIP) build
	$(BIN)/python tests/packaging/release.py $(RELEASE_ARGS)

clean: ## removes the environment and what was built
	rm -rf $(VENV) dist build parsimony-demo
