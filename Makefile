# One command each. `make demo` and `make test` need only Python 3.11+, pip, make and git.
PYTHON ?= python3
BIN := .venv/bin
DEMO := paceline-demo

.PHONY: demo test test-all check format docs

# torch comes first and pinned: any other package would otherwise drag in gigabytes of CUDA builds
.venv/.torch: constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch numpy
	touch $@

.venv/.installed: .venv/.torch pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[report]' --group dev
	touch $@

# apart from the rest: only who builds or checks the docs needs it
.venv/.docs: .venv/.installed pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	touch $@

# apart from the rest too: only the tests of trainings that others' libraries drive need them, and skip without
.venv/.frameworks: .venv/.installed pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group frameworks
	touch $@

demo: .venv/.installed
	rm -rf $(DEMO)
	$(BIN)/paceline study --workers 1,2 --repeats 3 --steps 20 --out $(DEMO) mnist

# what may share the machine runs two at a time, then what times something runs alone
test: .venv/.installed
	@failed=0; \
	$(BIN)/python -m pytest -m 'not slow and not alone' -n 2 --dist loadfile --no-loadscope-reorder || failed=1; \
	$(BIN)/python -m pytest -m 'not slow and alone' $$(grep -rl pytest.mark.alone tests --include='test_*.py') || failed=1; \
	exit $$failed

test-all: .venv/.installed
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest

check: .venv/.installed .venv/.docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/house

format: .venv/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo 'open site/index.html'
