# Two commands matter: `make demo` and `make test`. Each sets itself up in .venv and can be run again.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
FILE ?= examples/scenarios/fig36.yaml

SEED ?= 1
MINUTES ?= 5

# Where it is set, as in many containers, each of hundreds of processes compiles the project anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test test-k8s lint check fmt bench lab storm lock

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: .venv/installed ## Make .venv with everything, from requirements.lock

.venv/installed: requirements.lock pyproject.toml
	@echo "setting up .venv (once; about two minutes)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e . >&2
	@$(BIN)/python -m mesh.local.software
	@touch $@

demo: .venv/installed ## Three real Kafka clusters, thirteen nodes, a real feed, certified live (ARGS="--duration 60 -o json")
	@exec $(BIN)/mesh demo $(ARGS)

# Whole meshes with an audit need the cores to themselves: among others they miss their deadlines.
SUITE := --dist loadfile --no-loadscope-reorder --ignore tests/k8s
test: .venv/installed ## The whole test suite: whole meshes first, then all else in four processes, file by file
ifeq ($(strip $(ARGS)),)
	@$(BIN)/python -m mesh.local.software
	@$(BIN)/python -m pytest -n 2 $(SUITE) tests/e2e
	@exec $(BIN)/python -m pytest -n 4 $(SUITE) --ignore tests/e2e
else
	@exec $(BIN)/python -m pytest -n 4 $(SUITE) $(ARGS)
endif

test-k8s: .venv/installed ## The chart on a real API server: on MESH_TEST_KUBECONFIG, else on one made here (root, Go, Docker)
	@exec $(BIN)/python -m pytest tests/k8s $(ARGS)

# No run of the suite tries tests/k8s: its types are held, lest it name what is not there any more.
lint: .venv/installed ## Lint, types and import contracts: seconds
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/mypy tests/k8s && $(BIN)/lint-imports

check: lint ## The same, with unit tests and a tenth of the property tests
	@$(BIN)/python -m pytest -q -n 4 --dist worksteal --hypothesis-profile=quick tests/unit tests/property tests/test_tidy.py tests/test_pages.py

fmt: .venv/installed ## Format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: .venv/installed ## The mesh beside a raw loop and MirrorMaker 2, on the same brokers
	@exec $(BIN)/python -m tests.bench $(ARGS)

lab: .venv/installed ## Run a scenario file (FILE=..., ARGS="--backend kafka")
	@exec $(BIN)/mesh lab run $(FILE) $(ARGS)

storm: .venv/installed ## Random faults on real Kafka under load, judged by the checker (SEED=1 MINUTES=5)
	@exec $(BIN)/mesh lab storm examples/scenarios/storm.yaml --seed $(SEED) --minutes $(MINUTES) $(ARGS)

lock: ## Compile requirements.lock again (needs uv)
	@echo 'pyspark==4.0.0' | uv pip compile -q --universal --generate-hashes --no-emit-index-url \
	  --python-version 3.11 --all-extras --group dev -c - pyproject.toml -o requirements.lock
