# Every target sets up what it needs, and skips what exists. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH_READY := .venv/.ready-bench
TESTS ?= tests
CODE := src testbed tests bench examples conftest.py
# Tests wait more than they compute, so there are more workers than cores. A worker takes one file after the other,
# in the order of tests/schedule.py.
WORKERS ?= 4
PYTEST := $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
# A run starts some hundred interpreters: without bytecode each would compile its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## the virtual environment in .venv, with the runyard command

.PHONY: demo
demo: $(READY) ## the whole product in a minute, without a cluster (KEEP=1: leave it running)
	@$(BIN)/python -m examples.demo $(if $(KEEP),--keep) $(if $(STOP),--stop "$(STOP)")

.PHONY: demo-cluster
demo-cluster: $(READY) ## the same on real pods: a cluster of this machine, started if need be (CLUSTER=name, KEEP=1)
	@$(BIN)/python -m testbed setup
	@$(BIN)/python -m examples.demo --cluster $${CLUSTER:-dev} $(if $(KEEP),--keep) $(if $(STOP),--stop "$(STOP)")

.PHONY: demo-node
demo-node: $(READY) ## the virtual node between two clusters of this machine
	@$(BIN)/python -m testbed setup
	@$(BIN)/python -m examples.virtual_node

.PHONY: recording
recording: $(READY) ## record the terminal session of the README anew
	@$(BIN)/python -m examples.recording

.PHONY: test
test: gates ## everything: gates, then every test, on a real cluster
	@$(BIN)/python -m testbed setup
	@echo "== tests, while Kubernetes is compiled if it is not yet"
	@nice $(BIN)/python -m testbed setup --build & build=$$!; trap 'kill $$build 2> /dev/null || true' EXIT; \
	code=0; $(PYTEST) --durations=20 $(TESTS) || code=$$?; \
	wait $$build; \
	if [ $$code = 1 ]; then $(BIN)/python -m tests.second_attempt; else exit $$code; fi

.PHONY: check
check: gates ## gates and unit tests, a few minutes
	@echo "== unit tests"
	@$(PYTEST) tests/unit

.PHONY: gates
gates: $(READY)
	@echo "== ruff, mypy, import-linter"
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/ruff format --quiet --check $(CODE) || { echo "not formatted: run make fmt"; $(BIN)/ruff format --check $(CODE); exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo --cache-dir .import_linter_cache > .venv/lint-imports.txt || { cat .venv/lint-imports.txt; exit 1; }

.PHONY: fmt
fmt: $(READY) ## format the code and fix what ruff can fix
	@$(BIN)/ruff check --fix --quiet $(CODE) || true
	@$(BIN)/ruff format $(CODE)

.PHONY: docs
docs: $(READY) ## write docs/users/reasons.md from the codes, and docs/users/cli.md from the commands
	@$(BIN)/python -m tests.unit.architecture.reasons_page
	@$(BIN)/python -m tests.unit.architecture.cli_page

.PHONY: sdk
sdk: $(READY) ## write src/runyard/sdk/sync from src/runyard/sdk/aio
	@$(BIN)/python -m tests.unit.sdk.sync_source

.PHONY: bench
bench: $(BENCH_READY) cluster-setup ## run the benchmarks, and print the figures beside their goals
	@$(BIN)/python -m bench

.PHONY: cluster-up
cluster-up: $(READY) ## start a real Kubernetes on this machine (ARGS="--gpus 4 …")
	@$(BIN)/python -m testbed setup
	@$(BIN)/python -m testbed up $(ARGS)

.PHONY: cluster-down
cluster-down: $(READY) ## stop it and leave nothing behind
	@$(BIN)/python -m testbed down $(ARGS)

.PHONY: cluster-setup
cluster-setup: $(READY)
	@$(BIN)/python -m testbed setup --build

.PHONY: test-versions
test-versions: $(READY) ## the tests that need Kubernetes, on every supported version
	@for version in 1.36 1.34; do \
	  echo "== Kubernetes $$version"; \
	  $(BIN)/python -m testbed setup --build --kubernetes $$version; \
	  RUNYARD_CONTRACT_LONG=1 RUNYARD_CONTRACT_IN_ONE_NAMESPACE=all RUNYARD_TESTBED_KUBERNETES=$$version \
	    $(PYTEST) -m kubernetes; \
	done

.PHONY: test-ingress
test-ingress: $(READY) ## Services of the virtual node through a real ingress controller, which is compiled first
	@nice $(BIN)/python -m testbed setup --build --traefik
	@$(BIN)/pytest tests/cluster/node/test_ingress_controller.py

.PHONY: node-load
node-load: $(READY) ## the virtual node under a mixed load of 1,000 pods for 20 minutes (PODS=, DURATION=, SEED=)
	@$(BIN)/python -m testbed setup
	@$(BIN)/python -m tests.node_load --pods $${PODS:-1000} --seconds $${DURATION:-1200} --seed $${SEED:-15}

.PHONY: chaos
chaos: cluster-setup ## 300 runs through half an hour of faults, with a new seed (RUNS=40 LASTS=60 SEED=7)
	@$(BIN)/pytest -s --timeout 1200 tests/cluster/chaos/test_single_faults.py tests/cluster/chaos/test_changed_worlds.py
	@$(BIN)/python -m tests.chaos --runs $${RUNS:-300} --seconds $${LASTS:-1800} --seed $${SEED:-$$RANDOM}

.PHONY: chaos-kube
chaos-kube: cluster-setup ## the reflector's storm for ten minutes, with a new seed
	@RUNYARD_STORM_SECONDS=$${RUNYARD_STORM_SECONDS:-600} RUNYARD_STORM_SEED=$${RUNYARD_STORM_SEED:-$$RANDOM} \
	  $(BIN)/pytest -s --timeout 1200 tests/cluster/kube/test_storm.py

.PHONY: chaos-node
chaos-node: $(READY) ## every fault of the virtual node, 50 pods in flight, a cut of ten minutes (PODS=, CUT=, STALL=)
	@$(BIN)/python -m testbed setup
	@$(BIN)/python -m tests.node_faults --pods $${PODS:-50} --cut $${CUT:-600} --stall $${STALL:-120}

.PHONY: chaos-local
chaos-local: $(READY) ## kill the server under 100 runs of the local engine, with a new seed
	@RUNYARD_LOCAL_RUNS=$${RUNS:-100} RUNYARD_LOCAL_KILLS=$${KILLS:-25} RUNYARD_LOCAL_SEED=$${SEED:-$$RANDOM} \
	  $(BIN)/pytest -s --timeout 1200 tests/integration/local/test_server_killed.py

.PHONY: adversary
adversary: $(READY) ## hostile users against policies and profiles (CASES=1000000 for a long run)
	@$(BIN)/python -m tests.adversary --count $${CASES:-20000} --seed $${SEED:-$$RANDOM} --workers 2

.PHONY: attack
attack: $(READY) ## large bodies, hostile headers and data in every shape to every route, and how long others wait (COUNT=0: all)
	@$(BIN)/python -m tests.attack --seed $${SEED:-$$RANDOM} --count $${COUNT:-5000}

.PHONY: mutants
mutants: $(READY) ## planted faults that the tests must notice (ARGS="--only queue")
	@$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: constraints
constraints: $(READY) ## update the exact versions in constraints.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-emit-index-url \
	  --all-extras --group dev --group bench pyproject.toml --output-file constraints.txt
	@echo "constraints.txt is fresh: run make test, then commit it"

.PHONY: clean
clean: ## remove what make created here (compiled Kubernetes stays in its cache)
	@if [ -x $(BIN)/python ] && [ "$$(id -u)" = 0 ]; then $(BIN)/python -m testbed down; fi
	rm -rf .venv dist .artifacts .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@echo "== setting up .venv"
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed, this is " + sys.version.split()[0] + ": make PYTHON=/path/to/python")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@$(BIN)/uv pip install --quiet --compile-bytecode --constraint constraints.txt --group dev --editable '.[kubernetes,local,node,server,postgres,s3]'
	@touch $@

$(BENCH_READY): $(READY)
	@echo "== installing the clients to compare with"
	@$(BIN)/uv pip install --quiet --constraint constraints.txt --group bench
	@touch $@
