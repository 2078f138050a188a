# Everything from a fresh clone. `make` alone lists what there is.
#
#   PYTHON=...       interpreter that .venv is made with (default python3)
#   TORCH_INDEX=...  index to take torch from, if pip's own gives a build that is too large
#   HEADWAY_HOME=... where headway keeps its state (default .headway)

SHELL := /bin/sh
BIN := .venv/bin
SETUP := pyproject.toml constraints.txt scripts/setup.sh

.PHONY: help demo setup test lint types imports unit packages campaign bench peers format clean

help:
	@echo 'make demo            from files on disk to an answered request, in .venv and .headway'
	@echo 'make test            lint, types, import rules and all tests'
	@echo 'make campaign N=20   demos, ten times as many rounds of jobs, and evaluations, under kill -9 of random processes; large datasets'
	@echo 'make bench           the benchmark tables; `make peers` first, to have others in them'
	@echo 'make format          ruff, with its repairs'
	@echo 'make clean           stops headway, removes .headway, .venv and what tools left'

demo: .venv/.demo
	@$(BIN)/headway demo $(ARGS)

setup: .venv/.dev

.venv/.demo: $(SETUP)
	@sh scripts/setup.sh demo
	@touch $@

# dev holds all of demo
.venv/.dev: $(SETUP)
	@sh scripts/setup.sh dev
	@touch .venv/.demo $@

packages:
	@sh scripts/debian.sh

test: .venv/.dev packages lint types imports
	@$(BIN)/python -m pytest $(ARGS)

lint: .venv/.dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: .venv/.dev
	@$(BIN)/mypy

imports: .venv/.dev
	@$(BIN)/lint-imports

# the tests without processes, sockets and databases of their own
unit: .venv/.dev
	@$(BIN)/python -m pytest tests/unit $(ARGS)

N ?= 20
campaign: .venv/.dev
	@$(BIN)/python tests/campaign/kill_demo.py --runs $(N) $(ARGS)
	@$(BIN)/python tests/campaign/kill_jobs.py --runs $$(( $(N) * 10 ))
	@$(BIN)/python tests/campaign/kill_evaluations.py --kills $$(( $(N) * 50 ))
	@$(BIN)/python tests/campaign/kill_push.py --kills $$(( $(N) * 5 / 2 ))
	@$(BIN)/python tests/campaign/million_files.py
	@$(BIN)/python tests/campaign/large_file.py

BENCHES = $(sort $(filter-out bench/_%,$(wildcard bench/*.py)))
bench: .venv/.dev
	@set -e; for bench in $(BENCHES); do echo "== $$bench"; $(BIN)/python $$bench $(ARGS); done

peers: .venv/.dev
	@sh bench/peers.sh

format: .venv/.dev
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

clean:
	@test ! -d .headway || $(BIN)/headway down --home .headway
	@test ! -d .headway || $(BIN)/python scripts/stop_runs.py .headway
	rm -rf .venv .headway .peers .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache examples/digits/data
