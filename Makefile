# The two commands: `make demo` and `make test`. Each sets up everything it needs in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: help setup demo browser test compiled test-compiled slow chaos check lint types bench gate lock audit sbom docs site clean
help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */  make \1\t/' | expand -t 16

# Every package comes in the version of the lock file, and only if its hash is the one written there.
LOCK   := requirements-dev.txt
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check
$(READY): pyproject.toml $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r $(LOCK)
	$(PIP) --no-build-isolation --no-deps -e .
	@touch $@

setup: $(READY)  ## install Opilio and its tools into .venv

demo: $(READY)   ## crawl a small web from a bookmark file, offline, and say where to look
	$(BIN)/opilio demo

# Pages are tested in a real browser. Where there is none, Debian's is installed, which takes the rights to do so.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable
SUDO     := $(shell test "$$(id -u)" = 0 || echo sudo)
browser:         ## install Chromium, unless there is one
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
	  $(SUDO) apt-get install -y --no-install-recommends chromium || \
	  { $(SUDO) apt-get update && $(SUDO) apt-get install -y --no-install-recommends chromium; } || \
	  { echo "error: the tests of pages need Chromium; install it, then run make again" >&2; exit 1; }

# One process more than there are cores: tests also wait for crawls.
TESTERS  ?= $(shell expr $$(nproc) + 1)
# Bytecode is written whatever the environment says: compiling the tests again takes each process of pytest 8 s.
test: export PYTHONDONTWRITEBYTECODE =
test: $(READY) browser  ## run the tests
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal

# A copy of the source is compiled: modules of C in src would be imported long after their source has changed.
COMPILED := build/compiled
compiled: $(READY)  ## compile the modules in which a crawl spends its time, in build/compiled; PYTHONPATH=build/compiled/src uses it
	rm -rf $(COMPILED) && mkdir -p $(COMPILED)/docs/reference
	cp -r src setup.py pyproject.toml README.md $(COMPILED) && cp docs/reference/opilio.1 $(COMPILED)/docs/reference
	cd $(COMPILED) && OPILIO_COMPILE=1 $(abspath $(BIN))/python setup.py --quiet build_ext --inplace

test-compiled: compiled  ## run the tests of what is compiled over the compiled modules
	OPILIO_COMPILE=1 PYTHONPATH=$(COMPILED)/src $(BIN)/python -m pytest -n $(TESTERS) tests/test_compiled.py \
	  tests/test_analyze_*.py tests/test_model_url.py tests/test_fetch_*.py tests/test_crawl_end_to_end.py

slow: $(READY)   ## run the tests that take minutes: clusters that lose nodes, many kills in a row
	$(BIN)/python -m pytest -m slow

chaos: $(READY)  ## crawl for half an hour while everything around fails, and check that nothing is lost
	$(BIN)/python -m bench.chaos

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

check: lint types test  ## lint, types, tests

bench: $(READY)  ## speed against peers, quick form (full: python -m bench.speed.NAME)
	$(PIP) --no-build-isolation -e '.[bench]'
	$(BIN)/python -m bench.speed.store --quick
	$(BIN)/python -m bench.speed.frontier --quick
	$(BIN)/python -m bench.speed.throughput --quick
	$(BIN)/python -m bench.speed.probes --quick
	$(BIN)/python -m bench.speed.classify --quick
	$(BIN)/python -m bench.speed.scoring --quick
	$(BIN)/python -m bench.speed.retraining --quick
	$(BIN)/python -m bench.speed.search --quick
	$(BIN)/python -m bench.speed.publish --quick
	$(BIN)/python -m bench.speed.cluster --quick
	$(BIN)/python -m bench.speed.encoder --quick

gate: $(READY)   ## quality and speed against pinned floors, and the audit
	$(PIP) --no-build-isolation -e '.[bench]'
	$(BIN)/python bench/gate.py

lock:            ## write the newest versions of all dependencies and their hashes to the lock file
	$(PYTHON) -m venv $(VENV)
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --extra dev pyproject.toml --output-file $(LOCK)
	$(MAKE) setup
	$(BIN)/python docs/dependencies.py

audit: $(READY)  ## look up known vulnerabilities of the locked versions; needs a network
	$(PIP) --no-build-isolation -e '.[bench]'
	$(BIN)/python bench/gate.py --only audit

sbom: $(READY)   ## write sbom.cdx.json: what is installed, with versions and licences (CycloneDX)
	$(PIP) cyclonedx-bom
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-file sbom.cdx.json $(BIN)/python

docs: $(READY)   ## regenerate the reference pages from the code
	$(BIN)/python docs/generate.py

site: $(READY)   ## the documentation as a site, with a gallery of portals, in the folder site; a minute
	$(PIP) --no-build-isolation -e '.[site]'
	$(BIN)/python docs/build_site.py

clean:           ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache build site src/*.egg-info
