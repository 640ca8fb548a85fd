# Everything this project does is a target here. The first call of any target makes .venv, installs the
# package with what its tests and examples need, and finds (or installs) a Java for Spark.
#
#   make demo        real flights through Spark: results, counters, a picture of the watermark
#   make test        all tests        make test-fast   those that start no Spark and take no seconds each
#   make test-spark  those that start Spark
#   make test-deep   all that start no Spark, with sixteen times the random examples and all of the long lists
#   make test-versions  what touches each part of Spark, on another Spark: SPARK=4.2 PYTHON=python3.13 PANDAS=3
#   make check       what CI does: format, lint, types, all tests as deep as they go, test-versions, audit
#   make lock        choose the versions of all packages anew, with their hashes (needs uv)
#   make audit       look the locked packages up among known vulnerabilities
#   make kafka       the toll example on a real Kafka broker, which it starts
#   make azure       a job of Event Hubs, Blob Storage, Delta Lake and PostgreSQL, on stand-ins and through kills
#   make cluster-queries  twenty recipes of the cookbook on a cluster of two workers, which it starts
#   make cluster     toll events on a cluster of two workers, which it starts and harms
#   make kills       kill runs on Spark at random, compare what readers of sinks find; KILLS="--kills 24 --seed 1"
#   make fuzz        an hour of damaged input of every kind; FUZZ="--minutes 5 --seed 7" for less or again
#   make costs       keep what kernels cost now as the thresholds of tests/costs
#   make bench       our engine beside Flink SQL, Structured Streaming and DuckDB; BENCH="--help" for more
#   make soak        an hour of 5 000 events/s with kills, and memory that must stay flat; SOAK="--minutes 10 --rate 1000"
#   make clean       remove what the targets made

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Compiled tests are kept, or every worker would compile them all at every run.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

# The other environment of `make test-versions`: one for each choice, kept beside each other.
SPARK ?= 4.2
PANDAS ?= 2
OTHER := .cache/spark-$(SPARK)-$(notdir $(PYTHON))-pandas-$(PANDAS)

.DEFAULT_GOAL := help
.PHONY: help setup lock audit demo kafka azure cluster test test-fast test-deep test-spark test-versions check format-check lint types bench cluster-queries kills fuzz soak costs clean

help:
	@sed -n 's/^#   \(make .*\)/\1/p' Makefile

setup: $(READY)

# What is installed is locked, with hashes: the packages that build others first, since no build fetches any.
LOCKED := requirements/build.lock requirements/dev.lock
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

$(READY): pyproject.toml $(LOCKED)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "tideglass needs Python 3.11 or newer; '$(PYTHON)' is not (or is not there)." >&2; \
	  echo "Install one and name it:  make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { \
	  echo "'$(PYTHON)' cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up $(VENV), once (about 1.6 GB: Spark, Arrow, DuckDB, tools)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP_INSTALL) --require-hashes -r requirements/build.lock
	@$(BIN)/python $(PIP_INSTALL) --require-hashes --no-build-isolation -r requirements/dev.lock
	@$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m tideglass.spark.session.java --install
	@echo "keeping the classes of Spark, so that it starts faster from now on"
	@$(BIN)/tideglass prepare || echo "they are not kept; starts take longer"
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/flights/demo.py

kafka: $(READY)
	@$(BIN)/python examples/kafka/demo.py

azure: $(READY)
	@PYTHONPATH=.:tests $(BIN)/python examples/azure/demo.py $(AZURE)

cluster: $(READY)
	@$(BIN)/python examples/cluster/demo.py

# Tests without a JVM share all cores; those with one follow each other in one session.
test: $(READY)
	$(PYTEST) -m "not spark" --numprocesses auto --dist worksteal
	$(PYTEST) -m spark

test-fast: $(READY)
	$(PYTEST) -m "not spark and not long" --numprocesses auto --dist worksteal

test-deep: $(READY)
	$(PYTEST) -m "not spark" --numprocesses auto --dist worksteal --hypothesis-profile deep

test-spark: $(READY)
	$(PYTEST) -m spark

$(OTHER)/.ready: pyproject.toml $(LOCKED)
	@echo "setting up $(OTHER), once (about 1.6 GB)"
	@test -x $(OTHER)/bin/python || $(PYTHON) -m venv $(OTHER)
	@sed -n 's/^\([a-zA-Z][^ ;]*\).*/\1/p' requirements/dev.lock | grep -v '^py4j=\|^pyspark=\|^pandas=' > $(OTHER)/locked
	@$(OTHER)/bin/python $(PIP_INSTALL) --constraint $(OTHER)/locked \
	  --editable '.[dev,examples]' 'pyspark==$(SPARK).*' 'pandas==$(PANDAS).*'
	@$(OTHER)/bin/python -m tideglass.spark.session.java --install
	@touch $@

test-versions: $(OTHER)/.ready
	PYTHONDONTWRITEBYTECODE= $(OTHER)/bin/python -m pytest -m versions

format-check: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

LOCK := uv pip compile --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --quiet

lock:
	@command -v uv >/dev/null || { echo "make lock needs uv" >&2; exit 1; }
	@$(LOCK) pyproject.toml --extra dev --extra examples --output-file requirements/dev.lock $(UPGRADE)
	@printf 'setuptools>=77,<81\nwheel\n' | $(LOCK) - --output-file requirements/build.lock $(UPGRADE)
	@echo 'pip-audit>=2.10' | $(LOCK) - --output-file requirements/audit.lock $(UPGRADE)

.cache/audit/.ready: requirements/audit.lock
	@test -x .cache/audit/bin/python || $(PYTHON) -m venv .cache/audit
	@.cache/audit/bin/python $(PIP_INSTALL) --require-hashes -r requirements/audit.lock
	@touch $@

audit: .cache/audit/.ready
	@.cache/audit/bin/python requirements/audit.py .cache/audit/bin/pip-audit requirements/dev.lock

check: format-check lint types test-deep test-spark test-versions audit

bench: $(READY)
	@$(BIN)/python bench/run.py $(BENCH)

cluster-queries: $(READY)
	@PYTHONPATH=.:tests $(BIN)/python -m support.cluster_recipes

kills: $(READY)
	@PYTHONPATH=tests $(BIN)/python -m support.kill_runs $(KILLS)

fuzz: $(READY)
	@$(BIN)/python tests/fuzz $(FUZZ)

soak: $(READY)
	$(BIN)/python bench/soak.py $(SOAK)

costs: $(READY)
	@$(BIN)/python tests/costs/kernel_costs.py --renew

clean:
	rm -rf $(VENV) build dist demo-output spark-warehouse .pytest_cache .ruff_cache .hypothesis .cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
