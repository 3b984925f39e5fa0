# Everything a developer or CI calls. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help setup build check test demo fresh torture torture-selftest bench bench-record install

# `make torture`: seconds for mutated images, crashes and faults (each) and for each test that kills daemons, and how many cases each
# random test without a budget tries.
BUDGET ?= 600
CASES ?= 20000

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what the tests need beside Rust (Debian packages, Python environment, cargo tools)
	scripts/setup

build: ## The spindle binary, optimised: target/release/spindle
	cargo build --release --bin spindle

check: ## Formatting, lints and licences, without running a test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	PATH="$${SPINDLE_TOOLS:-.tools}/bin:$$PATH" cargo deny --log-level error check licenses sources

test: setup check ## All tests, those with other people's tools and mounts too; run it as root
	@[ "$$(id -u)" = 0 ] || { echo "the tests mount, chown and mknod: run make test as root" >&2; exit 1; }
	cargo test --workspace

demo: build ## Make an image, mount it, copy a real tree in, unmount, check
	scripts/demo

fresh: ## Both of these in a new clone, alone in a directory, with cargo's cache empty: make fresh [ONLY=demo]
	scripts/fresh $(ONLY)

torture: ## The random tests (named torture_*) at length: make torture [BUDGET=seconds] [CASES=n] [SPINDLE_SEED=n] [SPINDLE_CRASH=state]
ifndef SPINDLE_CRASH
	SPINDLE_CASES=$(CASES) SPINDLE_BUDGET=$(BUDGET) cargo test --profile torture --workspace --exclude spindle-torture -- torture_ --nocapture
	SPINDLE_BUDGET=$(BUDGET) cargo test --profile torture -p spindle-torture -- torture_ --nocapture --skip torture_crash
endif
	SPINDLE_BUDGET=$(BUDGET) cargo test --quiet --profile torture -p spindle-torture --test crash -- torture_crash --nocapture

torture-selftest: ## Planted bugs, each of which the crash explorer or the fault campaign must see: make torture-selftest [BUGS="name ..."]
	scripts/torture-selftest $(BUGS)

bench: setup build ## Ratios to kernel ext4 and fuse2fs, as in docs/PERFORMANCE.md: make bench [BENCH="--rounds 5"]
	cargo run --release --quiet -p spindle-bench -- $(BENCH)

bench-record: setup build ## What recording a trace costs, beside strace: make bench-record [BENCH="--rounds 5"]
	scripts/bench-record $(BENCH)

PREFIX ?= /usr/local
SBIN ?= /sbin

install: build ## The program and its manual below PREFIX (/usr/local), the helpers of mount, mkfs and fsck in SBIN (/sbin)
	install -D -m 755 target/release/spindle $(DESTDIR)$(PREFIX)/bin/spindle
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(SBIN)
	target/release/spindle man $(DESTDIR)$(PREFIX)/share/man/man1
	for helper in mount umount mkfs fsck; do ln -sf $(PREFIX)/bin/spindle $(DESTDIR)$(SBIN)/$$helper.spindle; done
	ln -sf $(PREFIX)/bin/spindle $(DESTDIR)$(SBIN)/umount.fuse.spindle
