# Two commands matter: `make demo` and `make test`. Both set everything up first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Byte code is made when a module is first used, not for all of them: 150 MB less.
PIP    := $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt

.PHONY: demo test lint check bench clean

# What anykg needs to run. torch comes first and pinned: an unpinned torch would pull the CUDA build. Its C++ tests and
# headers, another 150 MB, are of no use here.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable .
	rm -rf $(VENV)/lib/python*/site-packages/torch/test $(VENV)/lib/python*/site-packages/torch/include
	touch $@

# And its tests: all extras, which take several times as much disk.
$(VENV)/.ready-test: $(VENV)/.ready
	$(PIP) --editable '.[test]'
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready-test
	$(PIP) --editable '.[dev]'
	touch $@

demo: $(VENV)/.ready
	$(BIN)/python -m anykg demo

test: $(VENV)/.ready-test
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

bench: $(VENV)/.ready-test
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf $(VENV) build dist src/*.egg-info
