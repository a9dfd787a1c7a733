# What can be done here. `make` alone prints it; the texts behind ## are what it prints.

GO          ?= go
BIN         := $(CURDIR)/bin
PKG         ?= ./...
VERSION     ?=
BENCH       ?= .
SEEDS       ?= 1000
FROM        ?= 1
PROVIDERS   ?= builtin
KILLS       ?= 300
SEED        ?= 1
MOMENTS     ?= 40
OBJECTS     ?= 20000
PERIOD      ?= 10m
BEHIND      ?= 100
PLATFORMS   ?= linux/amd64,linux/arm64
BASE        ?=
FAULTS      ?= 3
SERVERS     ?=
FUZZTIME    ?= 1m
FUZZ        ?= .
SYSTEMS     ?= linux, darwin, windows
GORELEASER  ?= github.com/goreleaser/goreleaser/v2@v2.16.0
GOLANGCI    ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# What a simulation plays: many seeds, or the one that is named.
PLAY = $(if $(filter file,$(origin SEED)),-seeds=$(SEEDS) -from=$(FROM),-seed=$(SEED)) -without=$(WITHOUT)

# The version of a release. Without it, programs have the one that follows from their revision (cmd/internal/build).
LINK = $(if $(VERSION),-ldflags '-X github.com/millipede-iac/millipede/cmd/internal/build.released=$(VERSION)')

# Modules of their own: what users do not have to download. Helm takes minutes to build, so make helm alone does.
MODULES := $(filter-out test/helm,$(patsubst %/go.mod,%,$(wildcard test/*/go.mod deploy/*/go.mod)))

.DEFAULT_GOAL := help
.PHONY: help build test race lint vet generate bench pages backends servers servers-kubernetes servers-consul \
	contend pipelines destroys fuzz sim sim-service fault fault-large fault-service regions teams people watching \
	interrupts hostile drivers conformance tools images images-test containers helm release-dry-run clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PKG=./graph/... narrows test, race, vet, lint and bench to some packages; BENCH=NAME narrows bench further."

build: ## build bin/coordinator and bin/worker; VERSION=X.Y.Z is the version of a release
	@echo '$(VERSION)' | grep -Eq '^(v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?)?$$' || \
		{ echo "VERSION=$(VERSION) is not a semantic version, such as 0.2.0 or 0.2.0-rc1"; exit 1; }
	$(GO) build -trimpath $(LINK) -o $(BIN)/coordinator ./cmd/coordinator
	$(GO) build -trimpath $(LINK) -o $(BIN)/worker ./cmd/worker

test: ## run all tests
	$(GO) test $(PKG)

race: ## run all tests under the race detector
	$(GO) test -race $(PKG)

vet: ## run go vet, over the modules of the test tooling too
	$(GO) vet $(PKG)
	@set -e; for m in $(MODULES); do echo "$(GO) -C $$m vet ./..."; $(GO) -C $$m vet ./...; done

lint: vet ## run gofmt, go vet and the linters of .golangci.yml (their first build takes minutes)
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
		test -z "$$unformatted" || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) run $(GOLANGCI) run $(PKG)

generate: tools ## remake what is generated: the stubs of the plugin protocols
	$(GO) generate $(PKG)

bench: ## run the benchmarks; TOFU=PATH compares with an OpenTofu binary
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $(PKG)

pages: ## measure the pages of large runs in Chromium, against their budgets: on a machine that does nothing else
	$(GO) test ./test/browser -count=1 -v -timed -run 'Times|Large|Hundred|FromTheDisk|Frame'

fault: ## kill, pause and cut off real processes: at every point, then KILLS times by chance (SEED)
	$(GO) test ./test/fault -count=1 -timeout=4h -v -kills=$(KILLS) -seed=$(SEED)

fault-service: ## kill a service, its workers and NATS, and fill disks: 200 times over 50 runs (SEED)
	$(GO) test ./test/fault -count=1 -timeout=4h -v -run ServiceUnderFaults -strikes=200 -spaces=5 -runs=10 -seed=$(SEED)

hostile: ## plan hostile configurations on the command line and in a service: each within 10 s and 500 MiB
	$(GO) test ./test/hostile -count=1 -timeout=1h -v -all

teams: ## eight teams change a state of 20,000 objects at once, and the service is killed three times
	$(GO) test ./test/system -count=1 -timeout=2h -v -run TeamsChange \
		-teams=8 -objects=20000 -changes=250 -lasts=200ms -rounds=3

people: ## twenty people use one service for ten minutes, over 40 workspaces; a backup is made meanwhile
	$(GO) test ./test/system -count=1 -timeout=1h -v -run ManyPeople -people=20 -workspaces=40 -lasting=10m

watching: ## 20,000 objects are read every 10 minutes beside applies; OBJECTS=N, PERIOD=DURATION, BEHIND=N
	$(GO) test ./test/system -count=1 -timeout=3h -v -run WatchingDoesNotSlow \
		-watched=$(OBJECTS) -period=$(PERIOD) -behind=$(BEHIND) -applied=250 -applies=5 -slower=5

regions: ## three regions in network namespaces: far away, cut off for 60 s, captured; needs root
	$(GO) test ./test/regions -count=1 -timeout=1h -v -namespaces

fault-large: ## apply 2,000 resources while coordinator and workers are killed
	$(GO) test ./test/fault -count=1 -timeout=1h -v -run Large -large

interrupts: ## send signals to real commands at MOMENTS moments of each
	$(GO) test ./test/system/interrupts -count=1 -timeout=4h -v -moments=$(MOMENTS)

backends: ## each backend: the steps of a user's state, 15 faults, wrong configurations; TOFU=PATH takes turns with it
	TOFU=$(TOFU) $(GO) test ./test/backends -count=1 -timeout=2h -v -all

servers: ## the steps over servers of others: azurite, dynalite (by npm), versitygw, fake-gcs-server; TOFU=PATH takes turns
	npm ci --prefix test/stage/servers --ignore-scripts --no-audit --no-fund
	$(GO) -C test/stage/servers/programs build -o ../bin/ tool
	TOFU=$(TOFU) $(GO) test ./test/backends -count=1 -timeout=1h -v -run ServersOfOthers -servers=$(CURDIR)/test/stage/servers

servers-kubernetes: ## the steps over a kube-apiserver with etcd, which it builds in six minutes; TOFU=PATH takes turns
	$(GO) -C test/stage/servers/kubernetes build -o ../bin/etcd go.etcd.io/etcd/server/v3
	$(GO) -C test/stage/servers/kubernetes build -o ../bin/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	TOFU=$(TOFU) $(GO) test ./test/backends -count=1 -timeout=1h -v -run ServersOfOthers/kubernetes \
		-servers=$(CURDIR)/test/stage/servers

servers-consul: ## all of these tests over a real Consul: that of CONSUL=PATH, or the one on PATH; TOFU=PATH takes turns
	@consul="$${CONSUL:-$$(command -v consul)}"; \
	if [ -z "$$consul" ]; then \
		echo "skipped: CONSUL names no consul, and there is none on PATH"; \
	else \
		CONSUL="$$(realpath "$$consul")" TOFU=$(TOFU) $(GO) test ./test/backends -count=1 -timeout=1h -v -all -run '/^consul$$'; \
	fi

contend: ## three programs contend for the state of each backend, a minute each; TOFU=PATH is one of them
	TOFU=$(TOFU) $(GO) test ./test/backends -count=1 -timeout=1h -v -run ManyPrograms -contend=1m

sim: ## play seeds of the simulation: SEEDS=N, or SEED=X with its trace; WITHOUT=GUARD leaves a guard out
	$(GO) test ./test/sim -count=1 -timeout=24h -v -run 'TestNothingIsLost' $(PLAY)

pipelines: ## play pipelines that switch backends, with the seeds from FROM on: SEEDS=N
	$(GO) test ./cmd/coordinator -count=1 -timeout=24h -run 'TestPipelines' -pipelines=$(SEEDS) -pipelines-from=$(FROM)

destroys: ## compare random changes of random graphs with an oracle of what may be destroyed: SEEDS=N, FROM=X
	$(GO) test ./coordinator/operation -count=1 -timeout=24h -run 'TestNothingIsDestroyed' -destroys=$(SEEDS) \
		-destroys-from=$(FROM)

fuzz: ## fuzz the readers of what strangers write: each for FUZZTIME; FUZZ=PATTERN selects, as in FUZZ=lang/ or FUZZ=YAML
	@set -e; grep -roE '^func Fuzz[A-Za-z0-9]+' --include='*_test.go' --exclude-dir=bin . | grep -E -- '$(FUZZ)' | \
	while IFS=: read -r file name; do \
		echo "$(GO) test $$(dirname "$$file") -run '^$$' -fuzz '^$${name#func }\$$' -fuzztime $(FUZZTIME)"; \
		$(GO) test "$$(dirname "$$file")" -run '^$$' -fuzz "^$${name#func }\$$" -fuzztime $(FUZZTIME) < /dev/null; \
	done

sim-service: ## play seeds of the simulation of the service's runs: SEEDS=N, or SEED=X with its trace; WITHOUT=GUARD
	$(GO) test ./test/simservice -count=1 -timeout=24h -v -run 'TestEveryRunEnds' $(PLAY)

drivers: ## the suites of programs that drive the command line, as terraform-exec; SNAPSHOTS=DIR has more, SUITE=NAME is one
	$(GO) test ./test/drivers -count=1 -timeout=6h -v -run Suites -all -snapshots=$(SNAPSHOTS) -suite=$(SUITE)

conformance: build ## compare with the recorded answers of OpenTofu; PROVIDERS=all with providers of the registry too
	$(GO) run ./test/conformance -bin $(BIN)/coordinator functions
	$(GO) run ./test/conformance -bin $(BIN)/coordinator -providers=$(PROVIDERS) scenarios

tools: ## build the test tooling into bin/tools: nats-server, generators
	@$(GO) -C test/tools build -o $(BIN)/tools/ tool ./...

images: ## make the images in bin/images, and the -tools ones in Docker with BASE=IMAGE; VERSION=X.Y.Z is that of a release
	@mkdir -p $(BIN)
	$(GO) -C deploy/images run . -out $(BIN)/images -version=$(VERSION) -platforms=$(PLATFORMS)
	@if [ -z '$(BASE)' ]; then echo "no -tools images: name their base with BASE=IMAGE (deploy/images/base makes one)"; else \
		deploy/images/tools $(BIN)/images '$(BASE)'; fi

images-test: ## make the images twice, compare them, and run them in Docker without privileges
	$(GO) -C deploy/images test . -count=1 -timeout=30m -v -docker

containers: ## start deploy/compose, apply, and inject FAULTS faults of each kind into its containers (SEED)
	$(GO) test ./test/containers -count=1 -timeout=12h -v -docker -faults=$(FAULTS) -seed=$(SEED)

helm: ## lint and render the chart, and try its network policies; SERVERS=DIR has etcd and kube-apiserver, for a dry run
	$(GO) -C test/helm vet .
	$(GO) -C test/helm test . -count=1 -v -servers=$(SERVERS)

release-dry-run: ## make all of a release in bin/release, and publish nothing; SYSTEMS="linux" leaves the others out
	@mkdir -p $(BIN)
	sed 's/^\( *goos:\).*/\1 [$(SYSTEMS)]/' .goreleaser.yaml > $(BIN)/goreleaser.yaml
	$(GO) run $(GORELEASER) release --config $(BIN)/goreleaser.yaml --snapshot --clean --skip=sign

clean: ## remove what was built
	rm -rf bin
