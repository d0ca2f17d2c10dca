# make help lists what there is to do.

GO      ?= go
# A number of inputs, as in 100000x, or a time, as in 1m.
FUZZTIME ?= 10000x
LINT    = $(GO) tool -modfile=tools/go.mod staticcheck

.PHONY: help pictures python check quick test nightly modules vet lint redis postgres nginx workerd typescript contract cc prometheus systemd chromium unit fuzz mutants e2e faults delivery bench cross crossall cover vuln api behind fmt run busy delays

help: ## list the targets
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

test: modules vet lint cross unit ## what CI runs for each change: the whole product; docs/decisions/suite-time.md says how long it takes

# What takes longer, and runs each night and before a release: CONTRIBUTING.md says which changes need it.
nightly: modules vet lint crossall nightlyunit delays fuzz mutants ## everything there is; docs/decisions/suite-time.md says how long it takes
	@$(MAKE) --no-print-directory faults delivery DELIVERYFAULTS=500 REPORTS=$$(mktemp -d)

# The packages whose tests start no server and no other process; most of the code that is edited.
ALONE = ./errors ./ingress ./limit/... ./middleware/... ./pubsub/... ./adapters/memory ./router/... ./internal/envelope ./internal/house

check: vet ## vet, and of the packages that need nothing installed lint and the quick tests, for the time between two edits
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint quick LINTED="$(ALONE)"

quick:
	$(GO) test -short $(ALONE)

modules: ## load the modules that are needed
	@./tools/modules

vet: ## go vet and gofmt, in all modules
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "run make fmt; not formatted:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	cd bench && $(GO) vet ./...
	cd e2e && $(GO) vet ./...
	cd verify && $(GO) vet ./...
	cd observe/prometheus && $(GO) vet ./...
	cd observe/otel && $(GO) vet ./...
	cd adapters/postgres && $(GO) vet ./...

LINTED = ./...

lint: ## staticcheck, see staticcheck.conf
	$(LINT) $(LINTED)

redis: ## install the Redis server that tests start, where there is none
	@./tools/install redis-server redis-server

postgres: ## install the PostgreSQL server and the pooler that tests start, where there are none
	@./tools/install postgresql pg_ctlcluster initdb
	@./tools/install pgbouncer pgbouncer

python: ## install what the programs of docs/other-services.md need, where there is none
	@./tools/install python3 python3
	@./tools/install curl curl

nginx: ## install nginx, before which tests put a server, where there is none
	@./tools/install nginx-light nginx

workerd: ## install the Workers runtime that tests run
	@cd adapters/cfdo/worker && { [ node_modules/.package-lock.json -nt package-lock.json ] || ../../../tools/again npm ci --loglevel=error --no-audit --no-fund; }

typescript: ## install what builds and tests the TypeScript client
	@cd clients/typescript && { [ node_modules/.package-lock.json -nt package-lock.json ] || ../../tools/again npm ci --loglevel=error --no-audit --no-fund; }

contract: ## install what the documents of package contract are tested with
	@cd verify/contract/node && { [ node_modules/.package-lock.json -nt package-lock.json ] || ../../../tools/again npm ci --loglevel=error --no-audit --no-fund; }

cc: ## install the C compiler that builds a clock for tests to step, where there is none
	@./tools/install build-essential cc

prometheus: ## install Prometheus, which runs the queries of the dashboard and the alerts, where there is none
	@./tools/install prometheus prometheus

pictures: chromium ## make the pictures of the docs again, from the pages as they are
	cd e2e && $(GO) test -run Picture -picture -v .

chromium: ## install Chromium, in which pages are tested, where there is none
	@./tools/install chromium chromium chromium-browser google-chrome

systemd: ## install systemd, which checks the unit of examples/deploy, where there is none
	@./tools/install systemd systemd-analyze

INSTALLED = redis postgres python nginx workerd typescript cc prometheus systemd chromium

unit: $(INSTALLED) ## all tests that make test runs, in random order; the race detector where goroutines meet
	cd tools && $(GO) run ./suite

nightlyunit: $(INSTALLED) contract
	cd tools && $(GO) run ./suite -nightly

busy: $(INSTALLED) ## the tests of make test, TIMES times beside endless loops; see tools/busy
	@./tools/busy

delays: $(INSTALLED) ## tests while the product pauses where goroutines meet: they may rely on no order that only a fast machine has
	cd tools && $(GO) run ./delays -p=2 ./router ./run ./client ./inspect ./api ./webhook ./collect ./examples/... ./docs
	LOOK_LATE=1 $(GO) test -count=1 ./clients/typescript

fuzz: ## every fuzz target for FUZZTIME
	@./tools/fuzz $(FUZZTIME)

mutants: ## one break of the product after the other, each of which the tests must find
	cd tools && $(GO) run ./mutants

e2e: chromium ## all tests in a real browser
	cd e2e && $(GO) test -count=1 -timeout 30m ./...

# Where make faults and make delivery write their reports.
REPORTS ?= $(CURDIR)/bench
# How long make faults inflicts faults.
FAULTTIME ?= 5m

faults: redis ## servers, Redis and networks fail under clients for FAULTTIME; writes bench/RESULTS-faults.md
	$(GO) test -count=1 -timeout 0 ./internal/faulttest -run TestFaults -args -faults.for=$(FAULTTIME) -faults.report=$(REPORTS)/RESULTS-faults.md
	$(GO) generate ./docs/plot

# How many faults make delivery inflicts.
DELIVERYFAULTS ?= 1000

delivery: redis ## clients resume topics with history under DELIVERYFAULTS faults; writes bench/RESULTS-delivery.md
	$(GO) test -count=1 -timeout 0 ./internal/faulttest -run TestDelivery -args -delivery.faults=$(DELIVERYFAULTS) -delivery.report=$(REPORTS)/RESULTS-delivery.md

bench: ## benchmarks, and wskit beside its rivals; writes bench/RESULTS.md
	$(GO) test -run '^$$' -bench . -benchmem ./...
	cd bench && $(GO) run ./cmd/compare
	cd bench && $(GO) run ./cmd/compare -tls -idle 15000 -only 'echo|idle|fan'
	cd bench && $(GO) run ./cmd/compare -compress -only 'echo|idle'
	cd bench && $(GO) run ./cmd/compare -history
	cd bench && $(GO) run ./cmd/limits
	cd bench && $(GO) run ./cmd/refuse
	cd bench && $(GO) run ./cmd/bun
	cd bench && $(GO) run ./cmd/visits
	cd bench && $(GO) run ./cmd/reconnect
	cd bench && $(GO) run ./cmd/latency
	cd bench && $(GO) run ./cmd/overload
	cd bench && $(GO) run ./cmd/resume
	cd bench && $(GO) run ./cmd/contention
	cd bench && $(GO) run ./cmd/redis
	cd bench && $(GO) run ./cmd/processes
	cd bench && $(GO) run ./cmd/services
	$(GO) generate ./docs/plot

behind: ## list the dependencies that have a newer version
	@./tools/behind

cross: ## vet the main module for Windows, the system that differs most
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 $(GO) vet ./...

crossall: ## vet all modules for macOS, Windows, 386 and arm64
	@./tools/cross darwin/arm64 windows/amd64 linux/386 linux/arm64

cover: ## the share of the statements that the tests of check run, by package; writes cover.out
	$(GO) test -coverprofile=cover.out $(ALONE)
	@$(GO) tool cover -func=cover.out | tail -1

vuln: ## known vulnerabilities in what the code calls; asks the Go vulnerability database
	$(GO) tool -modfile=tools/go.mod govulncheck ./...

api: ## what changed in the public API since the last tag
	@./tools/api

fmt: ## gofmt everything
	gofmt -w .

run: ## the chat on http://127.0.0.1:8080
	$(GO) run ./examples/chat
