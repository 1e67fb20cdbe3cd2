# The verbs of this house. `make run` and `make test` need nothing but Go; a
# preset GOFLAGS is respected.

GO       ?= go
LISTEN   ?= 127.0.0.1:8080
ADMIN    ?= 127.0.0.1:9090
SAMPLE   ?= ./sample
FUZZTIME ?= 30s

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT  := $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)

.PHONY: help build run test race faults lint check long fuzz mutants docs test-giouring test-nobody torture bench-nginx bench-cold bench-attack bench-noisy bench-shed bench-flood bench-excess bench-gubernator bench-peers cluster cluster-faults clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-16s %s\n", $$1, $$2}'

build: ## bin/talon
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/talon ./cmd/talon

run: build ## serve a sample tree and print what to try
	$(GO) run ./cmd/mksample $(SAMPLE)
	@echo
	@echo 'Try, from another terminal (Ctrl-C here drains and stops):'
	@echo '  curl -i http://$(LISTEN)/list.txt'
	@echo '  curl -r 0-99 http://$(LISTEN)/64MiB.bin | od -A d -t x1 | head'
	@echo '  curl -s -o /dev/null -w "%{http_code} %{size_download} bytes, %{speed_download} bytes/s\n" http://$(LISTEN)/64MiB.bin'
	@echo '  curl "http://$(ADMIN)/readyz?verbose"'
	@echo '  curl -s http://$(ADMIN)/metrics | grep ^talon_http'
	@echo 'or open http://$(LISTEN)/index.html in a browser.'
	@echo
	@exec bin/talon serve --origin $(SAMPLE) --listen $(LISTEN) --admin $(ADMIN)

cluster: build ## three workers that share a limit (COORDINATOR=etcd://host:port/prefix: under etcd)
	$(GO) run ./cmd/mksample $(SAMPLE)
	@exec examples/three-workers

test: ## everything that needs only Go
	$(GO) vet ./...
	$(GO) test ./...

# A simulated world is a value of one goroutine: under the detector the simulators take ten minutes to show that, so they run a few seeds, each beside others.
race: ## the same under the race detector (needs a C compiler)
	$(GO) test -race $$($(GO) list ./... | grep -vE '/(qos|sched)/sim$$')
	$(GO) test -race ./qos/sim ./sched/sim -run '^TestSeeds$$' -args -seeds=20

faults: ## break the machine under a worker (root, Linux, strace; it mounts, traces, sets sysctls, and gives all back)
	TALON_FAULTS=1 $(GO) test -count=1 -v ./e2e/faults

cluster-faults: ## break workers that share a limit, under a policy file and under etcd, while their clients count; some minutes
	TALON_CLUSTER=1 $(GO) test -count=1 -timeout 15m -v ./e2e/cluster

lint: ## gofmt, vet, staticcheck; golangci-lint where it is installed
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; fi

check: ## what CI runs
	.ci/run

long: ## what takes too long for CI; appends to bench/results
	.ci/long

fuzz: ## every fuzz target for FUZZTIME (30s)
	.ci/fuzz $(FUZZTIME)

mutants: ## break the limiter and the scheduler on purpose, one fault at a time: a named test must notice each
	$(GO) run ./qos/mutants

docs: ## write the generated pages again
	$(GO) test ./cmd/talon -run TestReference -args -rewrite
	$(GO) test ./policy -run "TestReference|TestExplain" -args -rewrite
	$(GO) test ./server -run TestHTTPPage -args -rewrite

test-giouring: ## the ring's tests on giouring, and our entries against its
	$(GO) test -tags giouring -ldflags=-checklinkname=0 ./uring/...

test-nobody: ## the data plane's tests as uid 65534 with 8 MiB of locked memory (root; else as you are)
	.ci/unprivileged

torture: ## a million connections on the seeded kernel, 100,000 on real rings with GOGC=1, guards around what the kernel writes
	$(GO) test -tags invariants ./server -count=1 -run '^TestTorture' -v -timeout 30m -args -cycles=1000000

bench-nginx: ## talon beside nginx, net/http and a bare sendfile loop; root, nginx and a C compiler
	$(GO) run ./bench/cmd/bench-nginx $(BENCHFLAGS)

bench-cold: ## hot readers beside cold streams, with and without the residency probe; root
	$(GO) run ./bench/cmd/bench-cold $(BENCHFLAGS)

bench-noisy: ## an aggressor's 512 connections beside tenants with weights; root
	$(GO) run ./bench/cmd/bench-noisy $(BENCHFLAGS)

bench-shed: ## three ways to turn away a tenant over its limit; root
	$(GO) run ./bench/cmd/bench-shed $(BENCHFLAGS)

bench-flood: ## a tenant that reads beside one whose 100,000 requests a second are refused; root
	$(GO) run ./bench/cmd/bench-shed --flood 100000 $(BENCHFLAGS)

bench-excess: ## how well several workers keep one limit; --faults breaks them meanwhile
	$(GO) run ./bench/cmd/bench-excess $(BENCHFLAGS)

bench-gubernator: ## six workers and six peers of gubernator under one offered load; downloads and compiles gubernator first
	$(GO) run ./bench/cmd/bench-gubernator $(BENCHFLAGS)

bench-peers: ## one worker beside peers that are dead, stopped, slow or flooding; root
	$(GO) run ./bench/cmd/bench-peers $(BENCHFLAGS)

bench-attack: ## well-behaved readers while 5,000, 1,000, 20,000 others attack; root
	$(GO) run ./bench/cmd/bench-attack $(BENCHFLAGS)

clean: ## remove what make has made
	rm -rf bin sample
