# Thin: each target is a line or two over cargo, cargo xtask or a script. Logic belongs there.
# `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

.PHONY: help setup build run test compose-test package package-test fuzz bench fmt lint clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## Install what a build needs; quick when nothing is missing
	@scripts/setup

# Cargo itself says which programs it built, wherever the target folder is. The test kit has none, and would have all of them built with
# a clock that can be held; the examples use it, too, and are for reading.
not_programs := --exclude setpoint-testkit --exclude setpoint-sdk-bench --exclude greeter --exclude config-distributor \
  --exclude directory-reconciler --exclude dns-records
build: setup ## Build every program, optimised, into ./bin
	@mkdir -p bin
	cargo build --release --workspace $(not_programs) --message-format=json-render-diagnostics \
	  | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' \
	  | while read -r program; do [[ $$program == */xtask ]] || install -m 755 "$$program" bin/; done
	@ls bin

run: build ## Run a whole cluster on this machine, with its data in ./.setpoint (ARGS="--nodes 3" for three nodes)
	./bin/setpoint dev $(ARGS)

# The programs are built first, for the tests that start them; with the tests, so that dependencies are built once.
test: lint ## Check format, lints and laws, then run every test
	cargo build --workspace --bins --tests
	scripts/test-rust-client
	scripts/test-python
	scripts/test-production
	scripts/test-console
	@if cargo nextest --version >/dev/null 2>&1; then \
	  cargo test --workspace --doc --quiet && scripts/with-engine --if-possible cargo nextest run --workspace; \
	else \
	  scripts/with-engine --if-possible cargo test --workspace; \
	fi
	SETPOINT_BIN_DIR=$${CARGO_TARGET_DIR:-target}/debug scripts/compose-test --if-possible
	scripts/package-test --if-possible $${CARGO_TARGET_DIR:-target}/debug
	scripts/fuzz 3

compose-test: ## Run the cluster of docker-compose.yml, kill each of its services, and take it down again
	scripts/compose-test

package: build ## Make a Debian package and a tarball of the programs, in ./dist
	scripts/package

package-test: build ## Install the package on a clean Debian that is booted for it, and use, upgrade, reboot and purge it
	scripts/package-test

fuzz: setup ## Run every fuzz target (ARGS="60 cel" for a minute of one of them)
	scripts/fuzz $(ARGS)

bench: build ## Measure against etcd on this machine (ARGS="..." is passed on), then workloads at scale, then the SDK against kube-rs
	./bin/setpoint-bench $(ARGS)
	./bin/setpoint-bench scale
	./bin/setpoint-bench scale --servers 3 --only binds
	cargo run --release --quiet --package setpoint-scheduler --example place_speed
	cargo run --release --quiet --package setpoint-sdk-bench --features kube

fmt: ## Format the code
	cargo fmt --all

lint: setup ## Check format, clippy, the laws of the code and the dependencies
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo xtask tidy
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check bans licenses sources; \
	else echo "lint: dependencies are not checked: cargo-deny is not installed (cargo install cargo-deny --locked)"; fi

clean: ## Remove what was built; data in ./.setpoint stays
	cargo clean
	rm -rf bin
