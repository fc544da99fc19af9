# Two commands: `make run` shows what the package does, `make test` runs every check.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test explore verdicts records images hero bench soak docs clean

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

run: $(READY)
	$(BIN)/neuralrace reproduce --only 'saxe2022-*' --out results

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

explore: $(READY)  # a page in the browser: forecasts at once, training as it arrives
	$(BIN)/neuralrace explore

verdicts: $(READY)  # every experiment at full size; fails where a verdict is other than recorded
	$(BIN)/neuralrace reproduce --out results

records: verdicts  # the record that the docs' page of verdicts is made from
	$(BIN)/python -m docs.verdicts results

images: $(READY)  # figures with images at the paper's sizes, on a GPU; FOLDER=... holds the published files
	$(BIN)/python -m docs.images --folder $(FOLDER) --out results/images
	$(BIN)/python -m docs.verdicts --larger results/images/results

hero: $(READY)  # the picture of the race, from a run
	$(BIN)/python -m docs.hero

bench: $(READY)
	$(BIN)/python -m benchmarks

soak: $(READY)  # thousands of forecasts, kills and bad input, for an hour; the source must not change meanwhile
	$(BIN)/python tests/soak.py 3600

docs: $(READY)
	$(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) site results build dist
