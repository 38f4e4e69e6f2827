# Set-up happens by itself: .venv is made when pyproject.toml changes.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed

.PHONY: demo test check bench profile chaos lint types format

demo: $(CORE)
	$(RUN) examples/accounts_payable/main.py

test: $(STAMP)
	$(RUN) -m pytest -n 2 -q

check: lint types test

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(STAMP)
	$(VENV)/bin/mypy

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(STAMP)
	$(RUN) -m benchmarks.run $(if $(QUICK),--quick)

# A flame graph of one scenario: make profile SCENARIO="superstep, SQLite"
profile: $(STAMP)
	@$(RUN) -m benchmarks.flame "$(SCENARIO)"

# The long forms of the safety tests. GRAPHKIT_CHAOS=0.1 takes a tenth, GRAPHKIT_SEED=n repeats a run.
chaos: $(STAMP)
	GRAPHKIT_CHAOS=$${GRAPHKIT_CHAOS:-1} GRAPHKIT_SEED=$${GRAPHKIT_SEED:-$$(date +%s)} \
	$(RUN) -m pytest -n 2 -q -o timeout=3600 tests/safety tests/test_concurrency.py

$(CORE): pyproject.toml
	@$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'Python 3.11 or newer is needed'"
	@$(PYTHON) -m venv $(VENV) || { echo "venv is missing; on Debian: apt-get install python3-venv"; exit 1; }
	$(RUN) -m pip install --quiet --disable-pip-version-check -e .
	touch $(CORE)

$(STAMP): $(CORE)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(STAMP)
