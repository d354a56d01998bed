# Everything a developer does. Each target sets itself up: a fresh clone needs `make test` and nothing before it.
# For set-up: PYTHON names the interpreter, TORCH_INDEX where PyTorch's builds are looked for. `make torture ROWS=1,2` runs some rows,
# `make claims MINUTES=10` the claims, and the documents' commands, that take no longer.

PYTHON ?= python3
PY := .venv/bin/python
READY := .venv/.ready
WORKERS ?= 2
ROWS ?=

export TORCH_INDEX
export ROWS

.PHONY: setup demo test coverage check format torture claims mutants

$(READY): pyproject.toml constraints.txt scripts/setup.py
	$(PYTHON) scripts/setup.py
	@touch $@

setup: $(READY)

test: $(READY)
	$(PY) -m pytest -n $(WORKERS)

coverage: $(READY)
	$(PY) -m pytest -n $(WORKERS) --cov --cov-report=term --cov-fail-under=90

check: $(READY)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

format: $(READY)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

torture: $(READY)
	$(PY) -m tests.torture

demo: $(READY)
	$(PY) -m scripts.demo $(if $(CORPUS),--corpus "$(CORPUS)") $(if $(MINUTES),--minutes $(MINUTES))

claims: AT_MOST = $(if $(MINUTES),--max-minutes $(MINUTES))
claims: $(READY)
	.venv/bin/qkv reproduce --table docs/claims.md $(AT_MOST); met=$$?; \
	$(PY) -m tests.integration.documents $(AT_MOST) && exit $$met

mutants: $(READY)
	$(PY) -m tests.mutants
