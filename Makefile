# All commands for developers and CI. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help setup build check test demo fresh torture fuzz torture-selftest bench bench-record install uninstall deb deb-test wheel wheel-test test-uring

# Variables of `make torture`: seconds for each campaign (mutated images, crashes, faults) and for each test that kills
# daemons, and the number of cases of each random test without a budget.
BUDGET ?= 600
CASES ?= 20000

# The seed of the random tests in `make test`, so that a change is stopped only by what it does itself. `cargo test` and
# `make torture` take new seeds, and explore.
SPINDLE_SEED ?= 1984

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install the tools for the tests, except Rust (Debian packages, Python environment, cargo tools)
	scripts/setup

build: ## Build the optimised binary, target/release/spindle
	cargo build --release --bin spindle

check: ## Check formatting, lints and licences; run no tests
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --features spindle-python/extension,spindle-fuzz/libfuzzer --quiet -- -D warnings
	PATH="$${SPINDLE_TOOLS:-.tools}/bin:$$PATH" cargo deny --log-level error check licenses sources

test: setup check ## Run all tests, also those with foreign tools and mounts (as root)
	@[ "$$(id -u)" = 0 ] || { echo "the tests mount, chown and mknod: run make test as root" >&2; exit 1; }
	SPINDLE_SEED=$(SPINDLE_SEED) cargo test --workspace
	$(MAKE) test-uring
	scripts/wheel-test

test-uring: ## Run the tests of mounts with requests through io_uring, if the kernel has it
	SPINDLE_SEED=$(SPINDLE_SEED) SPINDLE_MOUNT_OPTIONS=io_uring scripts/with-io-uring \
		cargo test --workspace --exclude spindle-interop --test mounted --test processes

demo: build ## Make an image, mount it, copy a tree into it, unmount and check it
	scripts/demo

fresh: ## Run demo and test in a new clone with an empty cargo cache: make fresh [ONLY=demo]
	scripts/fresh $(ONLY)

torture: ## Run the random tests (torture_*) for a long time: make torture [BUDGET=seconds] [CASES=n] [SPINDLE_SEED=n] [SPINDLE_CRASH=state]
ifndef SPINDLE_CRASH
	SPINDLE_CASES=$(CASES) SPINDLE_BUDGET=$(BUDGET) cargo test --profile torture --workspace --exclude spindle-torture -- torture_ --nocapture
	SPINDLE_BUDGET=$(BUDGET) cargo test --profile torture -p spindle-torture -- torture_ --nocapture --skip torture_crash
endif
	SPINDLE_BUDGET=$(BUDGET) cargo test --quiet --profile torture -p spindle-torture --test crash -- torture_crash --nocapture

fuzz: ## Fuzz a decoder: make fuzz FUZZ="superblock 600"; without FUZZ it lists the decoders
	scripts/fuzz $(FUZZ)

torture-selftest: ## Check that the tests find planted bugs: make torture-selftest [BUGS="name ..."]
	scripts/torture-selftest $(BUGS)

bench: setup build ## Measure the speed relative to kernel ext4 and fuse2fs (docs/PERFORMANCE.md): make bench [BENCH="--rounds 5"]
	cargo run --release --quiet -p spindle-bench -- $(BENCH)

bench-record: setup build ## Measure the cost of recording a trace, beside strace: make bench-record [BENCH="--rounds 5"]
	scripts/bench-record $(BENCH)

PREFIX ?= /usr/local
SBIN ?= /sbin

install: build ## Install the program with its manual and completions in PREFIX (/usr/local), the helpers of mount, mkfs and fsck in SBIN (/sbin)
	PREFIX='$(PREFIX)' SBIN='$(SBIN)' DESTDIR='$(DESTDIR)' scripts/install target/release/spindle

uninstall: ## Remove what make install has installed, with the same PREFIX, SBIN and DESTDIR
	PREFIX='$(PREFIX)' SBIN='$(SBIN)' DESTDIR='$(DESTDIR)' scripts/install --remove

deb: build ## Build a Debian package in target/debian (DEBFULLNAME and DEBEMAIL name the maintainer)
	scripts/deb target/release/spindle target/debian

deb-test: deb ## Install the package in a bare Debian 12 and use it there (as root; some minutes)
	scripts/deb-test "$$(ls -t target/debian/spindle_*.deb | head -n 1)" target/release/spindle

wheel: ## Build the wheel of the Python module spindle_fs in target/wheel, and print its path (docs/PYTHON.md)
	@scripts/wheel

wheel-test: ## Run the tests of the Python module with a wheel that is installed in an empty environment
	scripts/wheel-test
