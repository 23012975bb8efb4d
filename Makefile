# Berth. `make` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# One build cache for the control plane, the scheduler and the tests: without the race detector, cgo is off.
export CGO_ENABLED := 0
# grpcnotrace: without it the linker keeps every method of every type, a third more of each program (hack/cluster.BuildTags).
# trimpath: all checkouts share the build cache.
export GOFLAGS := -mod=readonly -trimpath -tags=grpcnotrace
# A go.work file of the caller must not change what is built.
export GOWORK := off

KUBERNETES_VERSION := $(shell sed -n 's/^\tk8s.io\/kubernetes v//p' go.mod)
VERSION ?= $(shell git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo dev)
# Before the first line of the go command on a machine that has none of the sources.
FIRST = [ -d "$$(go env GOMODCACHE)/k8s.io/kubernetes@v$(KUBERNETES_VERSION)" ] || echo "First run on this machine: the go command \
	downloads the sources of Kubernetes and of the libraries, some 200 MB, and compiles them. Later runs use what it keeps."
# Without these the programs report v0.0.0-master, which clients cannot parse.
VERSION_PACKAGE := k8s.io/component-base/version
LDFLAGS := -X $(VERSION_PACKAGE).gitVersion=v$(KUBERNETES_VERSION) \
	-X $(VERSION_PACKAGE).gitMajor=$(word 1,$(subst ., ,$(KUBERNETES_VERSION))) \
	-X $(VERSION_PACKAGE).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES_VERSION))) \
	-X $(VERSION_PACKAGE).gitTreeState=clean

# Size of the cluster of `make cluster-up`.
SPOT ?= 6
ON_DEMAND ?= 4
CPU ?=
PODS ?= 0
# Its features beside the mix.
FEATURES ?= limits records environments
ACTS ?= mix limits records environments

FUZZTIME ?= 20s
BENCHTIME ?= 1s
# Properties draw the same cases in each run, so that a commit passes or fails for what is in it. test-properties draws new ones.
export RAPID_SEED ?= 1
# How many cases each property has in test-properties.
CASES ?= 2000

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*##/ {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Run the demo: mixes, limits, records and environments on a local control plane (ACTS=mix)
	@$(FIRST)
	@go run ./hack/demo --acts="$(ACTS)"

.PHONY: demo-recording
demo-recording: ## Record docs/images/demo.svg, the picture of README.md, from a run of the demo
	@$(FIRST)
	@go run ./hack/demo --acts=mix --record=docs/images/demo.svg

.PHONY: test
test: ## Run what a contributor needs: generated files, unit and property tests, and the core of the suites on a real control plane
	@$(FIRST)
	@$(MAKE) --no-print-directory compile
	@$(MAKE) --no-print-directory -k -j2 test-core test-local COMPILED=1 NICE='nice -n 10'

.PHONY: test-more
test-more: lint ## Run all the other tests: the rest of the suites on a control plane, the race detector, the linter (an hour)
	@# One after the other: the suites take both processors, and what ran beside them waited for ten minutes.
	@status=0; for target in test-integration test-modules test-race; do \
		began=$$SECONDS; BERTH_TEST_AFTER_CORE=1 $(MAKE) --no-print-directory $$target || status=1; \
		echo "$$target took $$((SECONDS - began)) s"; done; exit $$status

##@ Local cluster

.PHONY: cluster-up
cluster-up: ## Start a local cluster with Berth that keeps running (SPOT=6 ON_DEMAND=4 CPU= PODS= FEATURES=none)
	@go run ./hack/cluster/cmd/berth-cluster up --spot=$(SPOT) --on-demand=$(ON_DEMAND) --cpu=$(CPU) --pods=$(PODS) --features="$(FEATURES)"

.PHONY: cluster-down
cluster-down: ## Stop the local cluster and remove .cluster/
	@go run ./hack/cluster/cmd/berth-cluster down

##@ Build

.PHONY: build
build: ## Build the programs into bin/
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: build-gangs
build-gangs: ## Build bin/berth-scheduler-gangs, which has Coscheduling and CapacityScheduling of scheduler-plugins as well
	mkdir -p bin
	cp "$$(go run ./hack/cluster/cmd/berth-cluster path berth-scheduler-gangs)" bin/

# The images' registry and, if any, the path in it; PUSH=1 pushes them there.
REGISTRY ?= localhost
PUSH ?=
GANGS ?=
PLATFORMS ?= linux/$(shell go env GOARCH)
# Where the sources are. The labels of the images have it, and the commit.
SOURCE ?=
ORIGIN = -source "$(SOURCE)" -revision "$$(git describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null)"

.PHONY: images
images: ## Build the images into out/images, no container engine needed (REGISTRY=localhost VERSION= PLATFORMS= PUSH=1 GANGS=1)
	modfile=$(if $(GANGS),$$(go run ./hack/cluster/cmd/berth-cluster modfile cmd/berth-scheduler-gangs)); \
	cd hack/images && go run . -root $(CURDIR) -out $(CURDIR)/out/images -registry $(REGISTRY) -tag $(VERSION) $(ORIGIN) \
		-platform $(PLATFORMS) -ldflags '$(LDFLAGS)' $(if $(PUSH),-push) -gangs "$$modfile"

.PHONY: chart
chart: ## Package the Helm chart into out/
	$$(go run ./hack/cluster/cmd/berth-cluster path helm) package manifests/chart --destination out

RELEASE := out/release

.PHONY: release
release: ## Write a release to out/release: images, lists of modules, licences, chart, install.yaml, checksums (VERSION=v0.1.0 REGISTRY= SOURCE= PLATFORMS=)
	@[[ '$(VERSION)' =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]] || { echo "release: VERSION=$(VERSION): want a version such as v0.1.0" >&2; exit 1; }
	@git diff --quiet HEAD || { echo "release: commit the changes of the working tree first: the images name the commit" >&2; exit 1; }
	rm -rf $(RELEASE)
	modfile=$$(go run ./hack/cluster/cmd/berth-cluster modfile cmd/berth-scheduler-gangs); \
	cd hack/images && go run . -root $(CURDIR) -out $(CURDIR)/$(RELEASE)/images -layouts -programs $(CURDIR)/$(RELEASE)/programs \
		-registry $(REGISTRY) -tag $(VERSION) $(ORIGIN) \
		-platform $(PLATFORMS) -ldflags '$(LDFLAGS)' -gangs "$$modfile"
	platforms=$(PLATFORMS); for platform in $${platforms//,/ }; do \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -ldflags '-s -w $(LDFLAGS)' -o $(RELEASE)/programs/$${platform/\//_}/ ./cmd/kubectl-berth ./cmd/berth-sim; done
	go run ./hack/cluster/cmd/berth-cluster pack $(RELEASE)
	go run ./hack/release -out $(RELEASE) -version $(VERSION) -registry $(REGISTRY) \
		-revision "$$(git rev-parse HEAD)" -date "$$(git show --no-patch --format=%cI HEAD)" \
		-helm "$$(go run ./hack/cluster/cmd/berth-cluster path helm)" -kubectl "$$(go run ./hack/cluster/cmd/berth-cluster path kubectl)"

.PHONY: generate
generate: ## Generate code, CRDs and the chart's copies of manifests/
	hack/codegen/generate.sh

.PHONY: prices
prices: ## Make the tables of prices of internal/mix/prices of public lists, which it downloads (300 MB)
	go run ./hack/prices internal/mix/prices/tables

.PHONY: clean
clean: ## Remove bin/, out/ and the cached test results
	rm -rf bin out
	go clean -testcache

##@ Test

# Packages with concurrent code: make test-more runs their unit and property tests under the race detector as well. Each costs a
# link of the Kubernetes libraries, so those that start no goroutine and lock nothing are left out.
RACE = $(addprefix ./,$(sort $(dir $(shell grep -rlE --include='*.go' --exclude='*_test.go' \
	'\bsync\.|\batomic\.|errgroup|\bgo [a-zA-Z.]+\(.*\)|<-|\.Lock\(\)' internal plugins scheduler controllers))))
# All packages but the suites that start a control plane.
UNIT = $(shell go list ./... | grep -v -e /test/integration/ -e /test/scale -e /test/karpenter -e /test/evictions -e /test/upgrade -e /test/kind -e /test/perf -e /hack/cluster -e /hack/demo)
# The packages with properties.
PROPERTIES = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' pgregory.net/rapid internal plugins controllers services test/robustness))))
# The suites of make test. Of those that take minutes, -short leaves the tests that testenv.Options.Core names.
CORE := $(addprefix ./test/integration/,mix/moves environments/lifecycle records/lifecycle mix/rollouts policies/scheduling platform/console \
	policies/reservations mix/placement mix/scaling limits/scheduling)
# The tests without a control plane run beside the suites, which wait for much of their time, at a lower priority.
NICE ?=
# The suites on a control plane, the longest first. Each waits for much of its time, so more run at a time than there are
# processors, as long as these have free capacity (hack/cluster/admission.go). The vet of go test is left to the linter, which runs all of it.
SUITES := $(addprefix ./test/integration/,mix/kinds mix/moves environments/lifecycle mix/storms mix/controller records/lifecycle platform/hostile \
	robustness mix/rebalance platform/install platform/lifecycle mix/floor limits/defaulting platform/profiles mix/scaling) \
	./hack/cluster/... ./hack/demo/... ./test/integration/...
SUITES_AT_A_TIME ?= 3
# Lends control planes to the suites of a command, each to one suite at a time.
POOL := go run ./hack/cluster/cmd/berth-cluster pool

# The go.mod file of the measurements, which compare with a plugin of scheduler-plugins.
UPSTREAM := go run ./hack/cluster/cmd/berth-cluster modfile test/perf/upstream

.PHONY: compile
compile: ## Build the programs of the suites, and compile the tests of make test
	@# Compile everything first: suites that measure seconds starve beside the compiler, and two builds would compile the same.
	@go run ./hack/cluster/cmd/berth-cluster build
	@go list -export -test -deps $(CORE) $(UNIT) > /dev/null

.PHONY: test-core
test-core: $(if $(COMPILED),,compile) ## Run the core of the suites on a real control plane
	BERTH_INPUTS=$$(hack/inputs.sh) $(LESS_GARBAGE_COLLECTION) $(POOL) --size 4 -- go test -short -vet=off -p 4 -timeout 20m $(CORE)

.PHONY: test-unit
test-unit: ## Run the unit and property tests
	$(NICE) go test -vet=off -timeout 30m $(UNIT)

# The order of make test.
.PHONY: test-local
test-local:
	@status=0; $(NICE) hack/verify.sh || status=1; $(MAKE) --no-print-directory test-unit || status=1; exit $$status

.PHONY: test-modules
test-modules: ## Run the tests of the measurements and of the images, which are modules of their own or link much
	go test -vet=off -timeout 30m ./test/perf/...
	cd hack/images && go test .
	modfile=$$($(UPSTREAM)); cd test/perf/upstream && go test -modfile="$$modfile" -vet=off . # vet would check all of the API server

.PHONY: test-race
test-race: ## Run the unit and property tests of the concurrent packages under the race detector
	@# A fifth of the cases of each property: more of them find no more races, and beside the suites they took ten minutes.
	RAPID_CHECKS=20 CGO_ENABLED=1 go test -race -vet=off -timeout 30m $(RACE)

# Programs that live for a minute or two collect garbage for an eighth of their processor time: less of it then.
LESS_GARBAGE_COLLECTION := GOGC=1600 GOMEMLIMIT=2GiB

.PHONY: test-integration
test-integration: ## Run the suites on a real control plane, two to SUITES_AT_A_TIME=3 together
	@# Compile everything first: suites that measure seconds starve beside the compiler.
	go list -export -test -deps $(SUITES) > /dev/null
	BERTH_INPUTS=$$(hack/inputs.sh) $(LESS_GARBAGE_COLLECTION) $(POOL) --size $(SUITES_AT_A_TIME) -- \
		go test -vet=off -p $(SUITES_AT_A_TIME) -timeout 60m $(SUITES)

.PHONY: test-properties
test-properties: ## Run the properties with CASES=2000 new cases each, of a random seed (20 minutes; not in `make test`)
	RAPID_SEED=0 RAPID_CHECKS=$(CASES) go test -vet=off -count=1 -timeout 60m $(PROPERTIES)

.PHONY: test-race-integration
test-race-integration: ## Run the same suites with Berth built with the race detector (half an hour; not in `make test`)
	BERTH_TEST_RACE=1 $(LESS_GARBAGE_COLLECTION) $(POOL) --size 2 -- go test -vet=off -p 2 -timeout 60m -count=1 $(SUITES)

.PHONY: test-all
test-all: ## Run everything that needs no Docker, with a report of what ran (hours; not in `make test`)
	hack/test-all.sh

.PHONY: test-faults
test-faults: ## Run storms, flapping, kills and outages at their full length, and hostile objects within a time bound (an hour; not in `make test`)
	BERTH_TEST_LONG=1 go test -p 1 -timeout 60m -count=1 -v ./test/integration/mix/storms ./test/integration/platform/hostile ./test/integration/mix/controller ./test/integration/mix/rebalance ./test/integration/mix/failopen ./test/integration/mix/fallback ./test/integration/mix/floor ./test/integration/mix/surge ./test/integration/mix/kinds ./test/integration/platform/lifecycle ./test/integration/environments/lifecycle ./services/environments

.PHONY: test-scale
test-scale: ## Measure memory and time of the controller with 10,000 pods of 1,000 workloads, 1,000 records, 100 environments, and the services with 5,000 limits (minutes; not in `make test`); with BERTH_SCALE_PODS=100000, the controller with 100,000 pods
	go test -timeout 60m -count=1 -v ./test/scale/...
	BERTH_TEST_LIMITS=1 go test -timeout 20m -count=1 -v -run FiveThousandLimits ./test/integration/limits/wire

.PHONY: test-web
test-web: ## Call the services with generated gRPC-Web clients, in Node.js and Chromium (installs npm packages in out/web; a minute; not in `make test`)
	BERTH_TEST_WEB=1 $(POOL) --size 1 -- go test -vet=off -timeout 20m -count=1 -v -run TestGeneratedClients ./test/integration/limits/wire

# The seeds and steps of test-robustness and repro.
SEEDS ?= 1..20
SEED ?= 1
STEPS ?= 60

.PHONY: test-robustness
test-robustness: ## Take random steps of traffic and faults from many seeds, and judge the histories (SEEDS=1..9 STEPS=60; 70 minutes; not in `make test`)
	BERTH_TEST_ROBUSTNESS=1 BERTH_SEEDS=$(SEEDS) BERTH_STEPS=$(STEPS) $(POOL) --size 1 -- \
		go test -vet=off -timeout 180m -count=1 -v -skip Mutants ./test/integration/robustness

.PHONY: test-mutants
test-mutants: ## Break each promise in a build of its own, and require that its validator notices (20 minutes; not in `make test`)
	BERTH_TEST_ROBUSTNESS=1 $(POOL) --size 1 -- go test -vet=off -timeout 120m -count=1 -v -run Mutants ./test/integration/robustness

# How long the soak takes.
DURATION ?= 10m

.PHONY: soak
soak: ## Repeat traffic and faults, and require that memory, goroutines and writes do not grow (DURATION=10m; not in `make test`)
	BERTH_SOAK=$(DURATION) $(POOL) --size 1 -- go test -vet=off -timeout 1440m -count=1 -v -run TestSoak ./test/integration/robustness

.PHONY: repro
repro: ## Repeat the steps of a seed (SEED=1 STEPS=60), or of a run that failed (HISTORY=out/robustness/FILE)
	BERTH_SEEDS=$(SEED) BERTH_STEPS=$(STEPS) BERTH_HISTORY=$(abspath $(HISTORY)) $(POOL) --size 1 -- \
		go test -vet=off -timeout 60m -count=1 -v -run TestPromises ./test/integration/robustness

.PHONY: test-ui
test-ui: ## Use each page of the console in Chromium, with axe-core; screenshots in out/ui (installs npm packages there; needs Debian's chromium; 2 minutes; not in `make test`)
	BERTH_TEST_UI=1 $(POOL) --size 1 -- go test -vet=off -timeout 20m -count=1 -v -run TestTheConsoleInABrowser ./test/integration/platform/cli

.PHONY: test-karpenter
test-karpenter: ## Run beside Karpenter and its KWOK provider: the mix with the gate, the livelock without (minutes; not in `make test`)
	go test -timeout 60m -count=1 -v ./test/karpenter/...

.PHONY: test-evictions
test-evictions: ## Answer EvictionRequests beside the controllers of Kubernetes 1.38 (downloads Go 1.27; minutes; not in `make test`)
	go test -timeout 30m -count=1 -v ./test/evictions

.PHONY: test-upgrade
test-upgrade: ## Upgrade from the last version with the libraries of Kubernetes 1.34, and roll back (minutes; not in `make test`)
	go test -timeout 60m -count=1 -v ./test/upgrade/...

# Older API servers, and the suites that run against them.
SERVERS ?= 1.35 1.36
SERVER_SUITES ?= mix/{placement,scaling,rollouts,workloads,preemption,gates,fallback,controller,rebalance} limits/{scheduling,defaulting,wire} \
	records/lifecycle platform/{crd,inputs,lifecycle,profiles,install}

.PHONY: test-servers
test-servers: ## Run the suites against older API servers and controller managers (SERVERS="1.35 1.36"; half an hour each; not in `make test`)
	failed=; for version in $(SERVERS); do echo "API server $$version"; BERTH_SERVER=$$version $(POOL) --size 2 -- \
		go test -p 2 -timeout 60m -count=1 $(foreach s,$(SERVER_SUITES),./test/integration/$(s)) || failed="$$failed $$version"; done; \
		test -z "$$failed" || { echo "failed with API server$$failed"; exit 1; }

.PHONY: kind-up
kind-up: ## Create a kind cluster with spot and on-demand nodes and install Berth in it (KIND_NODE_IMAGE=, else one is built: docs/kind.md)
	hack/kind/up

.PHONY: test-kind
test-kind: ## Test on the kind cluster: containers, probes, drains, a lost node, replaced leaders (minutes; not in `make test`)
	go test -timeout 30m -count=1 -v ./test/kind

.PHONY: kind-down
kind-down: ## Delete the kind cluster
	hack/kind/down

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	hack/fuzz.sh $(FUZZTIME)

# Where the suites write their measurements, for bench-report.
BENCH_OUT ?= out/bench
BENCH := BERTH_BENCH_OUT=$(abspath $(BENCH_OUT))

.PHONY: bench
bench: ## Measure scheduling cycles against their peers, 3 minutes; exit code 2 only for a regression or an error (docs/performance.md)
	BERTH_BENCH=gate $(BENCH) go test -count=1 -timeout 20m -v -run 'TestCycles|TestQuality' ./test/perf/cycle
	go run ./test/perf/report -in $(BENCH_OUT) -gate

.PHONY: bench-full
bench-full: ## Measure the whole table: cycles, quality, schedulers as processes, scheduler_perf, gRPC, shards (about three hours)
	BERTH_BENCH=full $(BENCH) go test -count=1 -timeout 3h -p 1 -v ./test/perf/cycle ./test/perf/drain ./test/perf/services ./test/perf/sim
	$(MAKE) bench-upstream
	$(MAKE) bench-report

.PHONY: bench-drain
bench-drain: ## Measure schedulers as processes of their own against the API server's floor (about 40 minutes; BERTH_BENCH_CASES, BERTH_BENCH_ROUNDS)
	BERTH_BENCH=full $(BENCH) go test -count=1 -timeout 2h -v -run TestDrain ./test/perf/drain

.PHONY: bench-services
bench-services: ## Measure the gRPC services under load, beside a plain client (over an hour: each write must settle; BERTH_BENCH_CASES, BERTH_BENCH_ROUNDS)
	BERTH_BENCH=full $(BENCH) go test -count=1 -timeout 1h -v -run TestServices ./test/perf/services

.PHONY: bench-upstream
bench-upstream: ## Measure end to end on the Kubernetes scheduler's own benchmark (about 45 minutes; BERTH_BENCH_CASES, BERTH_BENCH_PEERS)
	modfile=$$($(UPSTREAM)); cd test/perf/upstream && BERTH_BENCH=$${BERTH_BENCH:-full} $(BENCH) go test -modfile="$$modfile" \
		-timeout 120m -count=1 -v -run TestMeasure .

.PHONY: bench-report
bench-report: ## Write docs/measurements from the last measurements
	go run ./test/perf/report -in $(BENCH_OUT) -out docs/measurements

.PHONY: bench-plugins
bench-plugins: ## Run the Go benchmarks of the hot path and of the controller
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./internal/mix/split ./internal/mix/capacity ./plugins/... ./test/perf/controller

.PHONY: simulation-pictures
simulation-pictures: ## Draw docs/images/simulation-*.svg from the example of docs/simulation.md
	go run ./cmd/berth-sim docs/simulation/storm.yaml --output json --quiet | go run ./hack/pictures docs/images

.PHONY: presets-picture
presets-picture: ## Draw docs/images/presets.svg: 200 pods on 20 nodes of a local control plane, by each preset (a minute)
	mkdir -p docs/images
	BERTH_PICTURE=$(CURDIR)/docs/images/presets.svg go test -count=1 -run TestPresetsFillNodesInTheirWay ./test/integration/policies/scheduling

.PHONY: bench-limits
bench-limits: ## Measure pods bound a second on a local control plane, with and without 5,000 ResourceLimits (minutes; not in `make bench`)
	BERTH_BENCH_LIMITS=1 go test -timeout 30m -count=1 -v ./test/perf/throughput

.PHONY: bench-webhook
bench-webhook: ## Measure the webhook at 100 admissions a second on a local control plane (minutes; not in `make bench`)
	BERTH_BENCH_WEBHOOK=1 go test -timeout 30m -count=1 -v -run AHundredAdmissions ./test/perf/webhook

##@ Verification

.PHONY: lint
lint: ## Run the pinned golangci-lint
	hack/lint/run.sh run ./...

.PHONY: lint-fix
lint-fix: ## Run golangci-lint with --fix
	hack/lint/run.sh run --fix ./...

.PHONY: fmt
fmt: ## Format the code
	hack/lint/run.sh fmt ./...

.PHONY: versions
versions: ## Print the pinned versions (hack/versions.sh v1.37.3 raises the patch version of Kubernetes)
	@hack/versions.sh

.PHONY: verify
verify: ## Check that generated files and go.mod are up to date, and the words of texts
	hack/verify.sh
