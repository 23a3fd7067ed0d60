# fencepost: which promises of a distributed lock survive which faults, on which version?
#
# Every target does its own set-up and is quick when there is nothing to do.
#   YES=1         install and start what is missing without asking
#   PYTHON=...    the interpreter to make .venv with (3.11, 3.12 or 3.13)
#   ARGS="..."    more for pytest, or for what the target runs

# Where modules are not kept compiled, each process of a run compiles all of them anew.
export PYTHONDONTWRITEBYTECODE :=

PY := .venv/bin/python
TESTS := $(sort $(wildcard */tests))
# Two processes, and with them two environments, at a time.
PARALLEL := -n 2

# What `make screenshots` runs: enough locks and faults for a matrix worth looking at.
PICTURED := $(addprefix --lock ,redis redlock redis-watchdog redis-fair etcd zookeeper postgres-session postgres-lease) \
    --faults none,freeze-holder,late-write,stall-renewal,kill-holder,pause-server,kill-server

# And the upgrade whose certificate it shows.
UPGRADED := --from etcd=3.4.23 --to etcd=3.5.16 --lock etcd --lock etcd-v3lock \
    --faults none,freeze-holder,stall-waiter,kill-server,upgrade-leader-last,rollback-half,rollback-end,planted-none,planted-kill-holder

.DEFAULT_GOAL := help
.PHONY: help certify smoke nightly soak literature screenshots track-record test fuzz mutants mutate bench lint format lock venv ready down clean

help:  ## this list; how long each takes was measured on two cores
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

certify: ready  ## hammer every lock under the faults that say most: a matrix and pages (8 to 13 min, Docker)
	@$(PY) -m pytest suites/ $(PARALLEL) $(ARGS)

smoke: ready  ## the same with few locks and faults (1 to 2 min, Docker)
	@$(PY) -m pytest suites/ $(PARALLEL) --profile smoke $(ARGS)

nightly: ready  ## the whole matrix on every version, compared with the night before (ARGS="--profile smoke")
	@$(PY) -m suites nightly run $(PARALLEL) $(ARGS)

soak: ready  ## random plans of overlapping faults, each of which must leave all clean (ARGS="--count 200")
	@$(PY) -m suites soak $(ARGS)

literature: ready  ## measure again what the literature says, and the curves (results/literature/README.md)
	@$(PY) -m suites literature $(ARGS)
	@$(PY) -m suites curves
	@$(PY) -m suites readme

screenshots: NEEDS := --tests
screenshots: $(if $(RUN),venv,ready)  ## the pictures in the README, from a run of some minutes (RUN=folder: from that one)
	@[ -n "$(RUN)" ] || $(PY) -m pytest suites/ -q $(PICTURED) $(ARGS) || [ $$? -eq 1 ]
	@$(PY) -m results.tests.browser.screenshots $(RUN)
	@[ -n "$(RUN)" ] || $(PY) -m pytest suites/ -q $(UPGRADED) $(ARGS) || s=$$?; [ $${s:-0} -le 1 ] || [ $$s -eq 5 ]
	@[ -n "$(RUN)" ] || $(PY) -m results.tests.browser.screenshots

track-record: ready  ## what certificates say of releases known to be bad (5 to 15 min each, Docker; ARGS=etcd-15247)
	@$(PY) -m suites track-record $(ARGS)
	@$(PY) -m suites readme

test: NEEDS := --tests
test: ready lint  ## the project's own tests, lint and types (8 min and more, Docker)
	@$(PY) -m pytest -p infra.tests.pools $(TESTS) -n 4 $(ARGS)

fuzz: venv  ## checkers against exhaustive search on random tiny histories (ARGS="--count 1000000")
	@$(PY) -m checkers.tests.fuzz $(ARGS)

mutants: ready  ## how many of the bugs planted in locks a default run catches (Docker; ARGS="--sample 30 --seed 2")
	@$(PY) -m suites mutants --score $(ARGS)

mutate: NEEDS := --tests
mutate: ready  ## stored small changes of the code, and which of them the tests catch (75 min and more, Docker)
	@[ -f .mutants/durations.json ] || $(PY) -m suites.tests.code_mutants record -p infra.tests.pools -n 4
	@$(PY) -m suites.tests.code_mutants run $(ARGS)

bench: venv  ## how fast the checkers are, beside Porcupine on the same histories (ARGS=--quick)
	@$(PY) -m checkers.bench $(ARGS)

lint: venv  ## ruff, mypy, and which module may import which (1 min)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@.venv/bin/lint-imports --no-logo

format: venv  ## let ruff put the code in order
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

venv:  ## .venv from requirements.lock
	@sh infra/bootstrap.sh

ready: venv  ## what every run needs: .venv, Docker Engine, first images (3 s; new machine: 28 s to 2 min)
	@$(PY) -m infra doctor --fix $(NEEDS)
	@$(if $(filter ready,$(MAKECMDGOALS)),echo "ready: all that a run needs is there ($(PY) -m infra doctor lists it)",:)

lock: venv  ## resolve pyproject.toml into requirements.lock (ARGS=--upgrade for the newest)
	@$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes \
	    --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --output-file requirements.lock $(ARGS) pyproject.toml

down:  venv  ## remove every environment that nobody uses any more
	@$(PY) -m infra down $(ARGS)

clean:  ## remove .venv and what tools left (not results/runs)
	@rm -rf .venv .venv.lock .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
