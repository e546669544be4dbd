# `make simulate` and `make test` each set up all that they need in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests wait more than they compute; each worker takes whole files of them.
WORKERS ?= 4
EXAMPLE := examples/terminal

.PHONY: simulate test test-long lint types docs data train-embedded ablations bench format setup-base setup setup-train weights clean

simulate: setup-base ## A scripted terminal session, predicted by the embedded model, beside what a real bash answered
	$(BIN)/worldlm simulate terminal --script $(EXAMPLE)/session.txt --compare $(EXAMPLE)/recording.jsonl \
		--concurrency 4

test: setup-train weights ## All tests but the long ones
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not long and not alone"
	$(BIN)/pytest -m "alone and not long" $$(grep -rl "mark\.alone" tests --include "*.py")

test-long: setup-train weights ## The end-to-end runs of minutes
	$(BIN)/pytest -m long --timeout 1800

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: setup-train
	$(BIN)/mypy

docs: setup ## The documentation as a site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

data: setup ## RealTurns, our own data set, into out/realturns: played, cleaned, split and mixed
	$(BIN)/worldlm data build out/realturns --workers 2

# MINUTES=N does as much of these two as fits; the same command goes on.
SLICE = $(if $(MINUTES),--minutes $(MINUTES))

train-embedded: setup-train weights ## The adapter of the embedded model into out/embedded: trained, exported, measured
	$(BIN)/python scripts/train_embedded.py $(SLICE)

ablations: setup-train weights ## Short runs that differ in one thing, and one table of them
	$(BIN)/python scripts/ablations.py $(SLICE)

bench: setup-train weights ## Every benchmark, one after another
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[trl]'
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

# What is asked for is installed, and no more: to simulate takes little, and torch is large.
setup-base: $(VENV)/.ready-base
setup: $(VENV)/.ready
setup-train: $(VENV)/.ready-train

weights: setup-base
	@$(BIN)/worldlm models pull || echo "No weights: tests of the embedded model will be skipped." >&2

$(VENV)/.ready-base: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "worldlm needs Python 3.11 or newer; name one with: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "This Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.ready: $(VENV)/.ready-base
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,real,data,report]'
	@touch $@

$(VENV)/.ready-train: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis site
