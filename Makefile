# Every command of the project; CONTRIBUTING.md tells when to use which.
#
#   make demo        build, then simulate and plot a small cluster below demo/
#   make test        build, then run the tests and the examples of the documentation
#   make test-traces the long replays of public traces, some minutes
#   make test-slurm  the broker in front of a real Slurm, as root; installs Debian's packages of it
#   make test-ray    gangs and a sweep on a real Ray, in a network of its own
#   make docs        the documentation into build/docs; fails for broken links
#   make fuzz        matchings of 100,000 graphs against brute force and peers, some minutes
#   make check       formatting, lint, types, stubs against the native modules
#   make san         the tests again, with AddressSanitizer and UBSan in the native modules
#   make bench       all benchmarks, full size (bench-smoke: small, to see that they run;
#                    bench-readme: README's table alone, some minutes;
#                    bench-stale: which figures are older than their sources;
#                    bench-save, bench-compare: a change against what was before;
#                    bench-against: a change against a commit, in turns)
#   make figures     figures 9 and 10 of Muri again, beside what its authors recorded
#   make test-all    the tests on every CPython >= 3.11 of this machine
#   make test-free-threaded   the same on those without the GIL
#   make wheel       sdist, and a wheel built from it, in dist/
#   make format      rewrite the sources in the house format
#   make clean       remove everything that make made
#
# Needed: a C++20 compiler and CPython >= 3.11 with its headers; all else is installed into .venv.
# Another interpreter:  make test PYTHON=python3.13

.PHONY: demo test test-traces test-slurm test-ray docs install-docs install-peers fuzz build modules check san bench bench-smoke bench-readme bench-stale bench-save bench-compare bench-against figures wheel test-all test-free-threaded format clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Most modules of what is installed are never imported.
export PIP_COMPILE := 0
# Tests start Python hundreds of times: what it has compiled it keeps, in images too that forbid it.
unexport PYTHONDONTWRITEBYTECODE

# What the library needs is fetched while the compiler works.
demo:
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/installed
	@echo 'step 3 of 3: simulating five tenants'
	@$(BIN)/hivecore demo --out demo

# So many processes; a debugger needs WORKERS=0. Tests of services wait much, so a process more than
# processors is faster.
WORKERS ?= 3
PYTEST  = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# A third of what the tests say that they try: the same cases each time; the weekly run tries others.
test: export HIVECORE_EXAMPLES ?= 0.35
test: build
	$(PYTEST) -m 'not whole_trace' $(ARGS)

test-traces: build
	$(PYTEST) -m whole_trace tests/golden $(ARGS)

SLURM = slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins
test-slurm: build
	@test $$(id -u) = 0 || { echo 'test-slurm: slurmd emulates nodes only as root'; exit 1; }
	@{ command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null || { \
	    command -v apt-get >/dev/null || { echo 'test-slurm: install $(SLURM)'; exit 1; }; \
	    apt-get update -qq && apt-get install -qq --no-install-recommends $(SLURM); }
	$(BIN)/python -m pytest -v -rs --durations=5 tests/interop/slurm/test_real_slurm.py

# Ray listens on all addresses of the machine. Some let only root make a network of its own.
test-ray: build
	$(BIN)/python -m pip install -qq --group ray
	$$(unshare -rn true 2>/dev/null && echo unshare -rn || echo sudo -n unshare -n) \
	    sh -c 'ip link set lo up && exec $(BIN)/python -m pytest -v -rs --durations=5 tests/interop/test_real_ray.py tests/sim/test_sweep.py'

# So many times the 3,000 graphs that pytest tries.
FUZZ ?= 34
fuzz: build
	HIVECORE_EXAMPLES=$(FUZZ) $(BIN)/python -m pytest -v -s --no-header $(addprefix tests/matching/test_,fuzz.py peers.py)

# `make docs MKDOCS=serve` shows the pages and follows edits.
docs: build install-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(MKDOCS),build)

install-docs: $(VENV)/docs
$(VENV)/docs: pyproject.toml | $(VENV)/tools
	$(BIN)/python -m pip install -qq --group docs
	@touch $@

build: modules $(VENV)/dev

# Compiles what changed, straight into python/hivecore/.
modules: $(VENV)/tools
	@$(BIN)/python setup.py -q build_ext --inplace

# The library in editable form, with what the demo needs.
INSTALL = $(BIN)/python -m pip install -qq --no-build-isolation --editable
$(VENV)/installed: pyproject.toml | modules $(VENV)/sim
	@$(INSTALL) '.[sim]'
	@touch $@

SIM = import tomllib; of = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
      print(*of["dependencies"], *of["optional-dependencies"]["sim"], sep="\n")
$(VENV)/sim: pyproject.toml | $(VENV)/tools
	@echo 'step 2 of 3: what the library and the demo need, while it compiles'
	@$(BIN)/python -c '$(SIM)' >$@.txt
	@$(BIN)/python -m pip install -qq --requirement $@.txt
	@touch $@

# What tests and checks need as well.
$(VENV)/dev: pyproject.toml | $(VENV)/installed
	@echo 'step 3 of 3: what tests and checks need'
	@$(INSTALL) '.[sim,kubernetes]' --group dev
	@touch $@

# What it takes to make packages.
$(VENV)/packaging: pyproject.toml | $(VENV)/tools
	$(BIN)/python -m pip install -qq --group packaging
	@touch $@

# What it takes to compile.
$(VENV)/tools: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "hivecore needs CPython >= 3.11, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 || true)"; \
	    echo "Name another one:  make PYTHON=python3.12"; exit 1; }
	@echo 'step 1 of 3: what it takes to compile, into $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install -qq --group build
	@touch $@

# --- quality -----------------------------------------------------------------------------------

CPP_FILES      = $(shell find src/cpp examples -name '*.[ch]pp') $(wildcard src/hivecore/*.[ch]pp)
NATIVE_MODULES = $(addprefix hivecore.,$(basename $(notdir $(wildcard src/hivecore/_*.pyx src/hivecore/_*.cpp))))

check: build
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)
	$(BIN)/mypy
	$(if $(wildcard tests/typing),$(BIN)/mypy tests/typing)
	$(BIN)/python -m mypy.stubtest $(NATIVE_MODULES)
	@set -e; for platform in linux macos windows; do \
	    wheels=$$($(BIN)/cibuildwheel --platform $$platform --print-build-identifiers); \
	    echo "wheels for $$platform:" $$wheels; done

format: $(VENV)/dev
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP_FILES)

# Sanitized modules live in build/san and are found there first; never beside the normal ones.
# Reports go to files: they must not vanish with the output of a test, or of a process that ends.
# What hardly reaches a kernel is left out, and what does the same with memory over and over: whole
# traces, and tests that go through all that can happen to find the one decision that is wrong. Of
# the histories of whole schedulers, only those of test_any_history.py are run.
SAN_TESTS = $(filter-out tests/interop/% tests/traces/% tests/gangs/% tests/sim/demo/% \
            $(addprefix tests/scheduler/,log/% orders/% rounds/% victims/%) \
            $(addprefix tests/test_,cli.py cpp_users.py docs.py examples.py figures.py house.py words.py) \
            $(addprefix tests/sim/,preemptive/test_job_plots.py test_devices.py test_failures.py test_opportunistic.py test_quotas.py storage/test_storage.py storage/test_storage_models.py test_report.py test_specs.py test_sweep.py test_workloads.py) \
            tests/quotas/decisions/test_explanations.py tests/quotas/decisions/test_reclaim_ends.py \
            tests/cells/groups/test_oracles.py tests/scheduler/moves/test_defragment.py \
            $(addprefix tests/scheduler/,stages/test_claims.py stages/test_plain_starts.py) \
            $(addprefix tests/scheduler/test_,adopt.py ctrl_c.py errors.py explanation.py explanations_hold.py failures.py guarantee.py) \
            $(addprefix tests/scheduler/test_,kinds.py long_histories.py mixed_histories.py per_domain.py per_node.py replaced_pods.py) \
            $(addprefix tests/golden/test_,openb.py replicas.py sim.py sim_preemptive.py),\
            $(sort $(shell find tests -name 'test_*.py'))) \
            $(addprefix tests/interop/,hived/test_lives.py hived/test_defects.py scheduler_file/test_documents.py)
# Sanitized modules are several times slower, and what they look for shows in few examples. These
# tests wait for nothing, and each process reads all of them first.
SAN_EXAMPLES ?= 0.1
san: WORKERS = 2
san: build
	rm -rf build/san build/sanitize/lib*
	HIVECORE_SANITIZE=1 $(BIN)/python -m pip install -qq --no-build-isolation --no-deps --target build/san .
	@set -e; export PYTHONPATH=$(CURDIR)/build/san PYTHONMALLOC=malloc HIVECORE_EXAMPLES=$(SAN_EXAMPLES); \
	export LD_PRELOAD="$$($${CXX:-g++} -print-file-name=libasan.so):$$($${CXX:-g++} -print-file-name=libstdc++.so)"; \
	export ASAN_OPTIONS=detect_leaks=0:log_path=$(CURDIR)/build/san/report; \
	export UBSAN_OPTIONS=print_stacktrace=1:log_path=$(CURDIR)/build/san/report; \
	$(BIN)/python -c 'import hivecore, sys; sys.exit("/build/san/" not in hivecore.__file__)'; \
	code=0; $(PYTEST) -p no:cacheprovider -m 'not slow' $(SAN_TESTS) $(ARGS) || code=$$?; \
	for report in build/san/report.*; do test ! -e $$report || { cat $$report; code=1; }; done; exit $$code

# The tests against the installed package, once per interpreter that pyenv or the PATH offers; a
# version that ends with t has no GIL. Few libraries have wheels for those: each that the tests need
# is installed by itself, and where one cannot be had its tests are skipped.
OFFERED = $$({ pyenv versions --bare 2>/dev/null || true; } \
        | { grep -E '^3\.(1[1-9]|[2-9][0-9])\.[0-9]+t?$$' || true; } \
        | while read -r v; do echo "$$(pyenv root)/versions/$$v/bin/python"; done; \
    for v in 3.11 3.12 3.13 3.13t 3.14 3.14t 3.15 3.15t; do command -v python$$v || true; done)
NEEDED = import tomllib; project = tomllib.load(open("pyproject.toml", "rb")); \
    groups = [project["dependency-groups"][name] for name in ("test-anywhere", "test")]; \
    lists = [*groups, *project["project"]["optional-dependencies"].values()]; \
    print(*(it for each in lists for it in each if isinstance(it, str) and "hivecore" not in it), sep="\n")
PYTHON_FREE_THREADED ?= $(OFFERED)

test-all: KIND = *[0-9]
test-all: INTERPRETERS = $(OFFERED)
test-all: NONE = no CPython >= 3.11 found
test-free-threaded: KIND = *t
test-free-threaded: INTERPRETERS = $(PYTHON_FREE_THREADED)
test-free-threaded: NONE = no CPython without the GIL found, nothing was tested; PYTHON_FREE_THREADED=python3.13t names one
test-all test-free-threaded: $(VENV)/packaging
	rm -rf build/sdist build/venvs
	$(BIN)/python -m build -q --sdist --outdir build/sdist
	@code=0; for python in $(INTERPRETERS); do \
	    version=$$($$python -c 'import sys; print(sys.version.split()[0] + getattr(sys, "abiflags", ""))' 2>/dev/null) || continue; \
	    case $$version in $(KIND)) ;; *) continue;; esac; \
	    venv=build/venvs/$$version; test ! -e $$venv || continue; \
	    echo "== Python $$version"; \
	    $$python -m venv $$venv; \
	    pip="$$venv/bin/python -m pip install -qq"; \
	    $$pip --upgrade 'pip>=25.1'; \
	    case $$version in \
	        *t) export PYTHON_GIL=0 PIP_PREFER_BINARY=1; \
	            extras=; $$venv/bin/python -c '$(NEEDED)' | while read -r one; do \
	            $$pip "$$one" >/dev/null 2>&1 || echo "without $$one, which cannot be installed"; done;; \
	        *) extras='[sim,kubernetes]'; $$pip --group test;; \
	    esac; \
	    : 'no cache: pip would take the wheel that it made of an earlier sdist of this name'; \
	    $$pip --no-cache-dir "hivecore$$extras @ file://$$(ls $(CURDIR)/build/sdist/*.tar.gz)"; \
	    (cd $$venv && bin/python -m pytest -c $(CURDIR)/pyproject.toml $(CURDIR)/tests --pyargs hivecore $(ARGS)) || code=1; \
	done; \
	test -d build/venvs || { echo '$(NONE)'; exit 1; }; exit $$code

# --- numbers -----------------------------------------------------------------------------------

# Not every peer can be installed everywhere; a benchmark goes without those that are missing.
install-peers: $(VENV)/peers
$(VENV)/peers: pyproject.toml | $(VENV)/tools
	-$(BIN)/python -m pip install -qq --group bench
	@touch $@

BENCHES = $(sort $(wildcard bench/bench_*.py))
bench: build $(VENV)/peers
	@set -e; for script in $(BENCHES); do echo "== $$script"; $(BIN)/python $$script --out bench/results; done
	$(BIN)/python docs/scripts/tables.py
	$(BIN)/python docs/scripts/pictures.py

bench-smoke: build $(VENV)/peers
	@set -e; for script in $(BENCHES); do echo "== $$script"; $(BIN)/python $$script --smoke --out build/bench-smoke; done
	$(BIN)/python bench/muri_figures.py --smoke --out build/bench-smoke
	$(BIN)/python -m pytest -q bench/test_regressions.py

bench-readme: build $(VENV)/peers
	$(BIN)/python bench/bench_readme.py --out bench/results
	$(BIN)/python docs/scripts/tables.py

bench-stale:
	@$(PYTHON) bench/digests.py

# One's own change against what was before (pytest-benchmark keeps its numbers in .benchmarks).
TRACK = $(BIN)/python -m pytest bench/test_regressions.py --benchmark-enable --benchmark-only
bench-save: build
	$(TRACK) --benchmark-autosave

bench-compare: build
	$(TRACK) --benchmark-compare --benchmark-sort=name

# A change against another commit, both measured in turns; fails if the change is slower.
BASE ?= main
bench-against: build
	$(BIN)/python bench/against.py $(BASE) --out build/against

figures: build
	$(BIN)/python bench/muri_figures.py --out bench/results

# --- packages ----------------------------------------------------------------------------------

wheel: $(VENV)/packaging
	rm -rf dist
	$(BIN)/python -m build -q
	$(if $(filter Linux,$(shell uname)),PATH=$(BIN):$$PATH auditwheel repair -w dist dist/*-linux_*.whl && rm dist/*-linux_*.whl)
	@ls -l dist

clean:
	rm -rf build dist demo $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -rf python/hivecore/*.so python/*.egg-info
	find python tests bench -name __pycache__ -prune -exec rm -rf {} +
