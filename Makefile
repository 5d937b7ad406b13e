# One command each. `make demo` and `make test` need only Python 3.11+, pip, make and git.
PYTHON ?= python3
BIN := .venv/bin
DEMO := paceline-demo

.PHONY: demo test test-all check format

# torch comes first and pinned: any other package would otherwise drag in gigabytes of CUDA builds
.venv/.torch: constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	touch $@

.venv/.installed: .venv/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[report]' --group dev
	touch $@

demo: .venv/.installed
	rm -rf $(DEMO)
	$(BIN)/paceline study --workers 1,2 --repeats 3 --steps 20 --out $(DEMO) mnist

# what may share the machine runs two at a time, then what times something runs alone
test: .venv/.installed
	$(BIN)/python -m pytest -m 'not slow and not alone' -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m 'not slow and alone' $$(grep -l pytest.mark.alone tests/test_*.py)

test-all: .venv/.installed
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest

check: .venv/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_sizes.py

format: .venv/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
