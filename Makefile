# Two commands do everything: `make run` (sets up, diagnoses the bundled example) and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# What `make bench` checks the speed of `outplace check` on: by default the installed torch's own Python files.
TREE ?=
AS_ROOT := $(shell test "$$(id -u)" = 0 || echo sudo -n)

.PHONY: run test quick lint chromium sarif vscode bench docs clean

run: $(STAMP)
	@cd examples/captioner && ../../$(BIN)/outplace run train.py --steps 3; status=$$?; \
	  test $$status -eq 1 || { echo "expected the example to fail with exit code 1, got $$status"; exit 1; }

test: $(STAMP) lint chromium sarif vscode
	$(BIN)/python -m pytest -n 2 --dist worksteal -rs

# While you work: lint, types and the tests of what changed, in under two minutes.
quick: $(STAMP) lint
	$(BIN)/python tools/quick_tests.py --run

# Other versions of torch and Python, one environment after the other. ROWS="2.15.0/3.14" chooses.
matrix:
	$(PYTHON) tools/matrix.py $(ROWS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The HTML report is tried in a real browser.
chromium:
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	  { $(AS_ROOT) apt-get update -qq && $(AS_ROOT) apt-get install -qq -y chromium; } || \
	  echo "There is no Chromium, and it cannot be installed here: tests/report/test_html_browser.py is left out."

# What `outplace check --output-format sarif` writes is held to the official schema, of which no copy is kept here.
sarif: $(STAMP)
	@$(BIN)/python tools/sarif_schema.py $(VENV)/share/sarif-schema-2.1.0.json

# The extension for VS Code is tried with Node.
vscode:
	@test -d editors/vscode/node_modules || (cd editors/vscode && npm ci --silent) || \
	  echo "There is no npm, or it finds no packages: the tests of editors/vscode are left out."

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file mkdocs.ja.yml
	@$(BIN)/python tools/japanese_docs.py
	@echo "open site/index.html"

bench: $(STAMP)
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/updates.py --out build/updates
	$(BIN)/python benchmarks/check_speed.py $(TREE)

$(STAMP): pyproject.toml constraints.txt hatch_build.py src/outplace.pth $(wildcard src/outplace/*/*/_*.c)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist site
