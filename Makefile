# Two commands matter: `make serve` and `make test`.  `make help` lists the rest.
# `.ci/need` installs what the machine lacks (apt, as root), or says what to install.

PYTHON ?= python3
PYPY ?= pypy3
VENV ?= .venv
# Debian's is built with PGO and LTO; servers are compared on one and the same build.
BENCH_PYTHON ?= /usr/bin/python3
ARGS ?=
SECONDS ?= 30

RUN := $(VENV)/bin/python -I
MADE := $(VENV)/.made-by$(subst /,-,-$(PYTHON))
SOURCES := pyproject.toml setup.py $(wildcard cparsers/*.h cparsers/*.c cparsers/*.py native/*.h native/*.c native/*.py)

.PHONY: help agents ready-pypy serve test repeat test-whole test-all test-native-off test-next test-next-clean suites suite others check quick lint coverage wheel wheels release-check soak soak-million hunt storm drill moving cluster fuzz mutants sanitize \
	bench bench-neighbours bench-sidecar bench-rpc bench-reload bench-http2 bench-preload bench-report bench-tables bench-ready bench-quick bench-probes bench-pictures docs site clean
.DELETE_ON_ERROR:

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*  ## /\1	/p' Makefile | expand -t 16

serve: $(VENV)/.ready  ## build and serve the demo app on http://127.0.0.1:8000 (ARGS="module:app --threads 8")
	@$(VENV)/bin/aserve $(or $(ARGS),aserve.demo:app)

test:  ## the suite without tests marked long, on CPython and on PyPy where it is, and the fuzzers beside; with ARGS="-k settings": any tests
	@.ci/need tools
	@$(if $(ARGS),,.ci/beside) $(MAKE) --no-print-directory suites PYTHONS="$(PYTHON) $$(command -v $(PYPY))" \
	    $(if $(ARGS),,CHILDREN=5 AT_ONCE="-j --output-sync=recurse" MEASURED="$(if $(findstring pypy,$(PYTHON)),,$(PYTHON))")

test-whole: $(VENV)/.ready-test  ## all tests, those marked long too, on CPython and PyPy: over half an hour, in steps that go on where they stopped (ROUNDS=5)
	@.ci/need tools
	@! command -v $(PYPY) >/dev/null || $(MAKE) --no-print-directory ready-pypy
	@$(VENV)/bin/python tests/whole.py --rounds $(or $(ROUNDS),1) $(VENV) $$(ls -d .venv-pypy 2>/dev/null)

repeat: $(VENV)/.ready-test  ## one test again and again, several beside each other, up to its first failure: TEST=tests/e2e/test_x.py::test_y (COUNT=200)
	$(RUN) -X faulthandler -m pytest -x --children $(CHILDREN) --repeat $(or $(COUNT),200) '$(TEST)'

test-next: export ARGS := $(ARGS)
test-next:  ## the suite, as make test has it, on the interpreters that Debian is testing, in a root of theirs (as root; ARGS="-k settings")
	@.ci/next

test-next-clean:  ## remove that root
	@.ci/next --clean

test-native-off: export ASERVE_NATIVE = off
test-native-off:  ## the suite on CPython with --native off as the default (ARGS="-k settings")
	@.ci/need tools
	@$(MAKE) --no-print-directory suite

test-all:  ## the suite on the interpreters you name: PYTHONS="python3.9 python3.13"
	@$(MAKE) --no-print-directory suites PYTHONS="$(or $(PYTHONS),$(PYTHON))"

# A part of a run is an interpreter's whole suite, or one half of the suite of the one that is measured: its unit tests, under coverage, or
# all others. Each interpreter has a venv of its own. One part that fails does not hide another.
PARTS = $(foreach python,$(PYTHONS),$(if $(filter $(python),$(MEASURED)),$(python)+coverage $(python)+others,$(python)+suite))
venv_of = $(if $(filter $(PYTHON),$1),$(VENV),$(if $(filter %pypy3,$1),.venv-pypy,.venv-$(notdir $1)))

suites:
	@mkdir -p build && rm -f build/summary
	@$(if $(AT_ONCE),echo "All parts run at once; failures are told at once; all that a part has printed is shown when it ends:" $(PARTS))
	@TELL=9 $(MAKE) --no-print-directory --keep-going $(AT_ONCE) $(PARTS:%=part/%) 9>&1; failed=$$?; \
	printf "\nSummary\n"; cat build/summary; exit $$failed

$(PARTS:%=part/%): python = $(firstword $(subst +, ,$(@:part/%=%)))
$(PARTS:%=part/%): kind = $(lastword $(subst +, ,$@))
$(PARTS:%=part/%): venv = $(call venv_of,$(python))
# PyPy's environment is made after CPython's, as both build the extension in this folder.
$(PARTS:%=part/%): | $(if $(filter $(PYTHON),$(PYTHONS)),$(VENV)/.ready-test)
	@if $(MAKE) --no-print-directory $(kind) PYTHON=$(python) VENV=$(venv); then result=passed; else result=FAILED; fi; \
	echo "  $$result  $$($(venv)/bin/python -c 'import platform as p; \
	print(p.python_implementation(), p.python_version())' 2>/dev/null || echo $(python))$(NOTE_$(kind))" >> build/summary; \
	[ $$result = passed ]

NOTE_coverage = , the unit tests and what they cover
NOTE_others = , the other tests

# Seconds for each part (a test takes at most 2 minutes): on PyPy, 530 with a load of 6 on two cores.
LIMIT ?= 1800
WITHIN := $(VENV)/bin/python -I tests/within.py $(LIMIT)
# The suite runs in CHILDREN processes, as tests wait for more than a third of the time, forked once the tests are collected (tests/harness/children.py);
# what ARGS chooses runs in one, as --pdb and -s need it. On PyPy it runs with plain asserts: PyPy 7.3.11 has crashed
# (2026-11-22, once in some ten runs) while pytest compiled a test file that it had rewritten.
CHILDREN ?= 4
SPREAD := $(if $(ARGS),,--brief --children $(CHILDREN) $(if $(findstring pypy,$(PYTHON)),--assert=plain))

# The environment of this shell may keep Python from writing bytecode: each server of a test would compile the package, for 0.4 s.
suite others coverage: export PYTHONDONTWRITEBYTECODE =
# PyPy takes half of the largest cache for new objects, 240 MB in each process on a server's CPU: 2.6 GB in each of the four (docs/pypy.md).
suite: export PYPY_GC_NURSERY = 32M
suite others: $(VENV)/.ready-test
	$(WITHIN) $(RUN) -X faulthandler -m pytest $(SPREAD) $(if $(filter others,$@),--part others) $(ARGS)

# Both at once, in one environment; one failing does not hide the other.
check: $(VENV)/.ready-all  ## what guards the code besides its tests: lint, and the site
	@$(MAKE) --no-print-directory --keep-going --output-sync -j2 lint site

lint: $(VENV)/.ready-lint  ## ruff, mypy, codespell, clang-format, the C compilers' warnings
	@command -v clang-format >/dev/null || .ci/need packages clang-format
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(VENV)/bin/codespell
	$(VENV)/bin/python tests/measures.py
	clang-format --dry-run -Werror --style=file:cparsers/.clang-format cparsers/*.[ch] native/*.[ch] tests/fuzz/*.[ch]
	for compiler in cc clang; do \
	    ! command -v $$compiler >/dev/null || $(MAKE) --no-print-directory -C tests/fuzz check CC=$$compiler PYTHON=$(abspath $(VENV))/bin/python || exit 1; \
	done

# What has refused changes that pass their own tests: pages that are made from code, links, the order of rooms, the build.
QUICK := tests/test_layout.py tests/test_docs.py tests/test_measures.py tests/test_faults.py tests/test_features.py tests/test_setup.py \
	tests/test_benchmarks.py tests/test_simulate_scale.py tests/settings/test_table.py tests/command/test_cli.py \
	tests/compat/moving/test_uwsgi_table.py tests/compat/uwsgi_api/test_names.py \
	$(addprefix tests/e2e/test_conformance.py::test_,the_page_is_up_to_date every_rule_is_one deviations_are_on_the_page) \
	$(addprefix tests/e2e/test_moving_table.py::test_,the_table_is_of_the_records the_pages_are_of_the_records)

# The second run of mypy is a user's: of an example, without this project's settings.
quick: $(VENV)/.ready-test $(VENV)/.ready-lint  ## ruff, mypy, measures, and the tests of layout, pages and build: under a minute
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m mypy --strict --config-file= --follow-imports=silent --cache-dir=.mypy_cache/user examples/typed.py
	$(VENV)/bin/python tests/measures.py
	$(WITHIN) $(RUN) -m pytest -q $(QUICK)

coverage: $(VENV)/.ready-test  ## branch coverage of each module by the unit tests, beside its floor in tests/floors.py
	rm -f .coverage .coverage.*
	$(WITHIN) $(RUN) -X faulthandler -m coverage run -m pytest -q --brief --children $(CHILDREN) --part measured $(ARGS)
	$(RUN) -m coverage combine --quiet
	$(RUN) tests/floors.py

wheel: $(VENV)/.ready-wheel  ## sdist and wheel in dist/; a wheel for every CPython is audited
	ASERVE_BUILD_NATIVE=off $(RUN) -m build
	@for wheel in dist/*-abi3-*.whl; do [ ! -e "$$wheel" ] || $(VENV)/bin/abi3audit --strict --summary $$wheel || exit; done

wheels: $(VENV)/.ready-wheel  ## beside these, a wheel for each CPython you name, with the native path: PYTHONS="python3.12 python3.13"
	@ls dist/*.tar.gz >/dev/null 2>&1 || $(MAKE) --no-print-directory wheel
	@for python in $(or $(PYTHONS),$(PYTHON)); do \
	    $(VENV)/bin/python -I -m pip --python $$(command -v $$python) wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz || exit; \
	done

release-check: EACH = $(or $(PYTHONS),$(PYTHON) $(shell command -v $(PYPY)))
release-check: $(VENV)/.ready-wheel  ## the files of a release: built anew, audited, installed and serving here and in fresh roots of Debian (ARGS=--save, PYTHONS="python3.9 pypy3")
	rm -rf dist
	@$(MAKE) --no-print-directory wheel
	@$(MAKE) --no-print-directory wheels PYTHONS="$(EACH)"
	$(VENV)/bin/python tests/release.py --pythons "$(EACH)" $(ARGS)

soak: $(VENV)/.ready-test  ## good and bad clients for SECONDS=30, memory and descriptors watched (ARGS=--save: into benchmarks/results)
	$(VENV)/bin/python tests/soak.py $(SECONDS) $(ARGS)
	$(VENV)/bin/python tests/soak.py $(SECONDS) $(ARGS) --threads 0

soak-million: $(VENV)/.ready-test  ## a million requests of every kind, memory flat; into benchmarks/results (PYTHON=pypy3 VENV=.venv-pypy)
	$(VENV)/bin/python tests/million.py --save $(ARGS)

hunt: $(VENV)/.ready-test  ## a million requests at one thread, and starts, beside busy processes, each answered within a second; in pieces of a minute, goes on where it stopped
	$(VENV)/bin/python tests/hunt.py $(ARGS)

storm: $(VENV)/.ready-test  ## workers replaced, stopped and killed under load: each test for SECONDS=30 (ARGS=--save: into benchmarks/results)
	@.ci/need tools
	STORM_SECONDS=$(SECONDS) STORM_SAVE=$(filter --save,$(ARGS)) $(RUN) -m pytest tests/e2e/test_storm_*.py $(filter-out --save,$(ARGS))

drill: $(VENV)/.ready-test  ## ten faults in a Django server of two workers: what tells of each, when, and when it is quiet again; eight minutes (ARGS=killed: that one; ARGS=--again)
	$(VENV)/bin/python tests/drill.py $(ARGS)

moving: $(VENV)/.ready .venv-moving/.ready-moving  ## cases of uWSGI and gunicorn on these and on aserve, into docs/moving-table.md; goes on where it stopped (ARGS=--again)
	$(VENV)/bin/python tests/moving/compare.py .venv-moving/bin/ $(VENV)/bin/aserve $(ARGS)

# Of a Python that other users can read, as some cases become www-data; without pip's cache, whose uWSGI may be built for another.
# uWSGI has routes and JSON only where it was built with PCRE (libpcre2-dev) and jansson (libjansson-dev); the comparison says so.
.venv-moving/.ready-moving:
	@$(BENCH_PYTHON) -m venv .venv-moving
	@.venv-moving/bin/pip install --quiet --no-cache-dir uwsgi==2.0.31 gunicorn==23.0.0 gevent==25.9.1 PasteDeploy==3.1.0 flask==3.1.3 uvicorn==0.54.0
	@touch $@

cluster: $(VENV)/.ready-cluster  ## three hosts as network namespaces, balancers in front: deploys and faults under load (as root; ARGS=--save: into benchmarks/results)
	@.ci/need tools
	CLUSTER=1 CLUSTER_SAVE=$(filter --save,$(ARGS)) $(RUN) -m pytest tests/cluster $(filter-out --save,$(ARGS))

agents:  ## ddtrace, New Relic and OpenTelemetry's, each around two workers, in an environment of their own; see docs/agents.md
	@$(MAKE) --no-print-directory .venv-agents/.ready-agents VENV=.venv-agents
	.venv-agents/bin/python -m pytest tests/e2e/test_agents.py $(ARGS)

fuzz: $(VENV)/.ready-test  ## each protocol under Hypothesis, each C parser under libFuzzer, for SECONDS=30
	@.ci/need tools
	FUZZ_SECONDS=$(SECONDS) $(RUN) -m pytest tests/fuzz $(ARGS)
	$(MAKE) -C tests/fuzz fuzz SECONDS=$(SECONDS)

mutants: $(VENV)/.ready-test  ## ten modules, one of each room, each with one change at a time: a test must fail; ten minutes (ARGS="settings/crontab 17": this one)
	@.ci/need tools
	$(VENV)/bin/python tests/mutants.py $(ARGS)

sanitize: $(VENV)/.ready-test  ## the C code under the sanitizers of addresses, undefined behaviour and conversions: parsers over the corpus, both extensions by their tests; five minutes (ARGS="-k head": of these)
	@.ci/need tools
	$(MAKE) --no-print-directory -C tests/fuzz replay native PYTHON=$(abspath $(VENV))/bin/python

bench: bench-ready  ## aserve beside other servers (ARGS="--app echo", ARGS=--targets); see benchmarks/README.md
	@.venv-bench/bin/python benchmarks/bench_serve.py $(ARGS)

bench-neighbours: bench-ready  ## beside a busy process, a second service, requests that compute (ARGS="--before VENV": and another aserve)
	@.venv-bench/bin/python benchmarks/bench_neighbours.py $(ARGS)

bench-sidecar: bench-ready  ## behind nginx, beside uWSGI
	@.venv-bench/bin/python benchmarks/bench_sidecar.py $(ARGS)

bench-mixed:  ## mixed requests over kept connections (ARGS='--server "old=COMMAND"': beside another aserve)
	@$(MAKE) --no-print-directory .venv-bench/.ready-test PYTHON=$(BENCH_PYTHON) VENV=.venv-bench
	@.venv-bench/bin/python benchmarks/bench_mixed.py $(ARGS)

bench-rpc: bench-ready  ## RPC calls, beside uWSGI
	@.venv-bench/bin/python benchmarks/bench_rpc.py $(ARGS)

bench-reload: bench-ready  ## requests that fail while workers are reloaded, recycled, killed and ended, beside other servers
	@.venv-bench/bin/python benchmarks/bench_reload.py $(ARGS)

bench-http2: bench-ready  ## HTTP/2 over TLS beside gunicorn, granian and hypercorn: streams side by side, floods, h2spec
	@.venv-bench/bin/python benchmarks/bench_http2.py $(ARGS)

bench-preload: bench-ready  ## memory of four workers of a Django project, and how soon a new one answers, beside gunicorn
	@.venv-bench/bin/python benchmarks/bench_preload.py $(ARGS)

bench-report: bench-ready  ## every suite on CPython and PyPy, into benchmarks/results and benchmarks/report; under an hour (ARGS="--suites A,D")
	@$(MAKE) --no-print-directory .venv-bench/.ready-bench PYTHON=$(BENCH_PYTHON) VENV=.venv-bench
	@.venv-bench/bin/python benchmarks/bench_report.py $(ARGS)

bench-quick: bench-ready  ## the targets that can be had in four minutes, met or not (ARGS="--targets 1,2")
	@.venv-bench/bin/python benchmarks/bench_quick.py $(ARGS)

bench-probes: bench-ready  ## start, idle and slow clients, growth of memory, the spread over workers, beside other servers
	@.venv-bench/bin/python benchmarks/bench_probes.py $(ARGS)

bench-tables:  ## write benchmarks/results/README.md and targets.md from the files beside them; a run that is saved has done so
	@$(PYTHON) benchmarks/pages.py

bench-pictures:  ## write benchmarks/report: one page with all charts and tables, and each chart as a picture
	@$(MAKE) --no-print-directory .venv-bench/.ready-bench PYTHON=$(BENCH_PYTHON) VENV=.venv-bench
	@.venv-bench/bin/python benchmarks/make_report.py

# The environments of aserve and of the servers beside it; PEERS names another place for the latter.
bench-ready:
	@$(MAKE) --no-print-directory .venv-bench/.ready-test PYTHON=$(BENCH_PYTHON) VENV=.venv-bench
	@pypy=$$(command -v $(PYPY)) || exit 0; \
	$(MAKE) --no-print-directory .venv-pypy/.ready-test PYTHON=$$pypy VENV=.venv-pypy
	@pypy=$$(command -v pypy3.11) || exit 0; \
	$(MAKE) --no-print-directory .venv-pypy3.11/.ready-test PYTHON=$$pypy VENV=.venv-pypy3.11
	@PYTHON=$(BENCH_PYTHON) PYPY=$(PYPY) benchmarks/setup_peers.sh

docs: $(VENV)/.ready  ## write docs/settings.md from the rows of settings, docs/conformance.md from the tests
	$(RUN) docs/make_settings.py > docs/settings.md
	$(RUN) docs/make_conformance.py > docs/conformance.md
	$(RUN) docs/make_moving.py
	$(RUN) docs/make_uwsgi_names.py > docs/uwsgi-names.md
	$(RUN) docs/simulate_scale.py

site: $(VENV)/.ready-docs  ## the pages as a site in build/site; a warning is an error
	$(RUN) -m sphinx --fail-on-warning --keep-going --fresh-env --write-all --quiet -c docs . build/site
	@echo "build/site/index.html"

clean:  ## remove everything that make has made
	rm -rf .venv .venv-* build dist *.egg-info .coverage* htmlcov
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis tests/fuzz/bin
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -f aserve/*.so

# PyPy's environment, where PyPy is.
ready-pypy:
	@pypy=$$(command -v $(PYPY)) || exit 0; \
	$(MAKE) --no-print-directory .venv-pypy/.ready-test PYTHON=$$pypy VENV=.venv-pypy

# The interpreter is part of the stamp's name: another PYTHON makes the venv anew.
$(MADE):
	@.ci/need build "$(PYTHON)"
	"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.ready: $(MADE) $(SOURCES)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

# One installation where three would each build the extension.
$(VENV)/.ready-all: $(MADE) $(SOURCES)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[test,lint,docs]'
	@touch $@ $(addprefix $(VENV)/.ready,-test -lint -docs) $(VENV)/.ready

$(VENV)/.ready-%: $(MADE) $(SOURCES)
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[$*]'
	@touch $@ $(VENV)/.ready
