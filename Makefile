# `make demo` and `make test` do all set-up themselves, once, in .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH ?= compile/time
PYTHONS ?= 3.11 3.12 3.13
PACKAGES := chromium postgresql prometheus

# Without compiled modules, each process of the tests would compile hundreds anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test tests test-all test-pythons packages audit lint bench docs java clean

help:  ## Show what can be typed here
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 19

demo: $(READY) java  ## Explain the finance program, run it on Spark, show the results
	@rm -rf out/finance
	$(BIN)/anabranch explain apps/finance.py
	$(BIN)/anabranch run apps/finance.py

test: $(READY) java  ## Check everything, as CI does
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line lint tests

# A test that fails runs once more, alone. If it passes then, it is named, to be mended.
tests: $(READY)
	@rm -rf .pytest_cache
	$(BIN)/pytest -n 4 --durations=10 --durations-min=2 || { \
	echo "Once more, alone, what failed:" && \
	$(BIN)/pytest --last-failed --last-failed-no-failures=none --maxfail=3 -rp && \
	echo "Passed now, and failed before: mend these tests"; }

test-all: $(READY) java lint packages audit  ## Check everything and leave nothing out: long tests, browser, servers
	$(BIN)/pytest -n 3 --all

test-pythons:  ## Run the tests on each Python that is supported and is found here; say which is not
	@for version in $(PYTHONS); do \
		found=; \
		for python in python$$version $$HOME/.pyenv/versions/$$version.*/bin/python; do \
			[ -n "$$found" ] || ! $$python -c '' 2>/dev/null || found=$$python; \
		done; \
		[ -n "$$found" ] || { missing="$$missing $$version"; continue; }; \
		venv=$(VENV)/python$$version; \
		$(MAKE) --no-print-directory PYTHON=$$found VENV=$$venv $$venv/.ready && \
		$$venv/bin/pytest -n 3 && passed="$$passed $$version" || failed="$$failed $$version"; \
	done; \
	echo "Passed on:$${passed:- none}; failed on:$${failed:- none}; not found:$${missing:- none}"; \
	[ -z "$$failed" ] && [ -n "$$passed" ]

packages: $(VENV)/servers/.ready  ## Install what `make test-all` needs: Debian packages, servers of stores and Kafka
	@for package in $(PACKAGES); do dpkg -s $$package >/dev/null 2>&1 || missing="$$missing $$package"; done; \
	[ -z "$$missing" ] || { apt-get update -q && apt-get install -y -q --no-install-recommends $$missing; } || \
	{ echo "make test-all needs Debian packages; install them as root: apt-get install$$missing"; exit 1; }

audit: $(READY)  ## Look for known faults in the packages, where the lists of them can be reached
	@$(PYTHON) -m venv $(VENV)/audit && $(VENV)/audit/bin/python -m pip install --quiet pip-audit || \
	{ echo "Not audited: pip-audit cannot be installed here"; exit 0; }; \
	found=$$($(VENV)/audit/bin/pip-audit --progress-spinner off --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') 2>&1); \
	status=$$?; echo "$$found" | tail -40; \
	case "$$found" in \
	*"could not be audited"*) echo "Not audited, or not wholly: the lists of some packages cannot be reached"; exit $$status;; \
	*"known vulnerabilit"*) exit $$status;; \
	*) echo "Not audited: the lists cannot be reached";; esac

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench  ## Run a benchmark: make bench BENCH=compile/time
	$(BIN)/anabranch bench $(BENCH)

docs: $(VENV)/.docs  ## Build the documentation into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # --quiet would hide the warnings that --strict counts
	@echo "open site/index.html; to search, serve the pages: python3 -m http.server --directory site"

java: $(READY)  ## Check that there is a Java that Spark can run on
	@$(BIN)/python -m anabranch.engines.spark.session

clean:  ## Remove what was made: the environment, caches, outputs
	rm -rf $(VENV) out site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Anabranch needs Python 3.11 or later; $(PYTHON) is %d.%d; install a later one and say make PYTHON=python3.11" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@

FAST_S3 = github.com/versity/versitygw/cmd/versitygw@v1.8.0
GOOGLE = github.com/fsouza/fake-gcs-server@v1.56.1
AZURE = azurite@3.35.0
# An S3 server, which asks for other versions of packages than we do, and Kafka, whose
# jars the Ivy of PySpark finds by their name.
$(VENV)/servers/.ready: $(READY)
	$(PYTHON) -m venv $(VENV)/servers
	$(VENV)/servers/bin/python -m pip install --quiet 'moto[server]==5.2.5'
	java -jar $$($(BIN)/python -c 'import glob, pyspark; print(*glob.glob(pyspark.__path__[0] + "/jars/ivy-*.jar"))') \
	  -cache $(VENV)/servers/ivy -warn -confs default -types jar bundle -dependency org.apache.kafka kafka_2.13 4.1.1 \
	  -retrieve '$(VENV)/servers/kafka/[artifact]-[revision].[ext]'
	command -v go >/dev/null && GOBIN=$(abspath $(VENV))/servers/bin go install $(FAST_S3) || \
	  echo "Without Go, bench/connectors/s3.py measures moto, a server in Python"
	command -v go >/dev/null && GOBIN=$(abspath $(VENV))/servers/bin go install $(GOOGLE) || \
	  echo "Without Go, Google Cloud Storage is not tested"
	command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix $(VENV)/servers $(AZURE) || \
	  echo "Without npm, Azure is not tested"
	@touch $@

$(VENV)/.bench: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@
