# Two commands do everything, set-up included: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Absolute paths of somebody's machine have no place in the tree.
PATHS := (^|[^A-Za-z0-9_.])/(home|root|Users|work|farm|mnt|srv)/[A-Za-z0-9]

.PHONY: setup model demo test test-isa check proto bench bench-reuse bench-crowd bench-profile bench-placement bench-peers audit \
  pins clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Slipstream needs Python 3.11 or newer: make PYTHON=python3.11 setup' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# The default target, about 93 MB to fetch and 270 MB kept; at once when it is there already.
model: $(READY)
	$(BIN)/slipstream models fetch default

demo: model
	$(BIN)/slipstream demo $(DEMO)

test: model
	$(BIN)/python -m pytest $(TESTS)

# The tests of what rests on the processor's arithmetic, as a processor without AVX-512 runs them, as far as torch,
# oneDNN, MKL and FBGEMM let one choose. ISA="…" chooses otherwise.
ISA := ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 FBGEMM_ENABLE_INSTRUCTIONS=AVX2

test-isa: model
	$(ISA) $(BIN)/python -m pytest -m arithmetic $(TESTS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python proto/generate.py --check
	@! git grep -nIE '$(PATHS)' -- . || { echo 'Absolute paths of some machine stand in the tree.' >&2; exit 1; }

proto: $(READY)
	$(BIN)/python proto/generate.py

bench: model
	$(BIN)/python benchmarks/decode.py $(BENCH)

bench-reuse: model
	$(BIN)/python benchmarks/reuse.py $(BENCH)

bench-crowd: model
	$(BIN)/python benchmarks/crowd.py $(BENCH)

bench-profile: model
	$(BIN)/python benchmarks/step_profile.py $(BENCH)

bench-placement: model
	$(BIN)/python -m benchmarks.placement $(BENCH)

# Installs the peers first: about 4 GB, and a build that needs a C++ compiler.
bench-peers: model
	$(BIN)/python -m benchmarks.peers $(PEERS)

# An hour or more with its default of 1,000 prompts.
audit: model
	$(BIN)/slipstream audit parity --json benchmarks/out/parity.json $(AUDIT)

pins: $(READY)
	{ head -n 1 constraints.txt; $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) build dist benchmarks/out
