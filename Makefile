# SPDX-License-Identifier: Apache-2.0
# Needs Go, git and make. Everything else is a pinned Go module, built once into .cache.
export GOFLAGS := -buildvcs=false
export GOWORK  := off
CACHE   := .cache
CHAOS   ?= 30m
TOFU    := $(CACHE)/tofu/1.12.6/tofu
TIME    := $(CACHE)/provider/time/0.14.2/terraform-provider-time_0.14.2_SHA256SUMS
OTHERS  := $(CACHE)/tofu/1.10.10/tofu $(CACHE)/tofu/1.11.6/tofu
TRIVY   := $(CACHE)/trivy/0.72.0/trivy
COSIGN  := $(CACHE)/cosign/2.6.5/cosign
REG     := $(CACHE)/registry/3.1.2/registry
JQ      := $(CACHE)/jq/0.12.17/jq
KO      := $(CACHE)/ko/0.19.1/ko
PROM    := $(CACHE)/promtool/0.313.0/promtool
PACKING := $(CACHE)/goreleaser/2.16.0/goreleaser $(CACHE)/cyclonedx/1.10.0/cyclonedx-gomod $(COSIGN)
STATES  := $(CACHE)/terraform/1.16.0/terraform
VERSION := 0.0.1
PLATFORMS := darwin_amd64 darwin_arm64 freebsd_amd64 linux_amd64 linux_arm linux_arm64 windows_amd64 windows_arm64
RELEASE := bin/provider/terraform-provider-okara_0.0.1_SHA256SUMS
OUT      = bin/release/$(VERSION)
TAG     := devel
VCS      = $(shell git status --porcelain >/dev/null 2>&1 && echo true || echo false)
OPERATOR = go build -buildvcs=$(VCS) -o ../bin/okara-operator ./cmd/okara-operator
NESTED  := internal/e2e internal/conformance operator provider
BENCHES  = $(shell grep -rl --include='*_test.go' '^func Benchmark' cmd instances internal oci registry statebackend | grep -v internal/e2e/ | xargs -n1 dirname | sort -u | sed 's|^|./|')
TESTS   := test-internal/e2e test-. test-operator test-provider test-internal/conformance

# Compilers and linters collect garbage less often: a sixth less work, and more memory.
lint tools: export GOGC := 400
lint tools: export GOMEMLIMIT := 3GiB

.PHONY: build image release release-check tools generate test $(TESTS) lint race cover bench bench-once bench-long fuzz demo recording demo-instances demo-kube scale-kube chaos-kube interop interop-kube models mutants docs screenshots vuln year
demo: build $(TOFU) $(TIME)
	sh testdata/demo/demo.sh
recording: build $(TOFU) $(TIME) # the demo as the moving picture of the README
	cd internal/e2e && go run ./record ../../testdata/demo/demo.sh ../../docs/demo.svg
demo-instances: build $(TOFU) $(TIME) $(REG) # a quarter of an hour: no lifetime is shorter than ten minutes
	cd internal/e2e && go run ./instances
demo-kube: build $(TOFU)
	$(MAKE) -C operator etcd kube-apiserver
	cd operator && $(OPERATOR) && go run ./internal/demo
scale-kube: build # one operator with many objects: what it keeps, and what an idle hour asks of whom
	$(MAKE) -C operator etcd kube-apiserver crds
	cd operator && $(OPERATOR) && OKARA_SCALE=5000,1000,1000 go run ./internal/demo
chaos-kube: build # one operator with objects, in which everything is killed at random; CHAOS is for how long
	$(MAKE) -C operator etcd kube-apiserver kube-controller-manager crds
	cd operator && $(OPERATOR) && OKARA_CHAOS=$(CHAOS) go run ./internal/demo
# Modules beside each other, since internal/e2e waits more than it works; without vet,
# which lint runs, with all of its checks.
test: tools
	$(MAKE) -C operator etcd kube-apiserver crds
	$(MAKE) -j2 $(TESTS)
$(TESTS): test-%:
	cd $* && MAKEFLAGS= OKARA_TEST_BUILT=1 go test -vet=off -timeout 30m ./...
# With its version, where git tells: the tag, or a time and a commit.
build:
	go build -buildvcs=$(VCS) -trimpath -ldflags '-s -w' -o bin/okara ./cmd/okara
image: $(KO) # container images for linux/amd64 and arm64 in one file, for okara bundle load --images
	go run ./internal/images "$(CURDIR)/$(KO)" bin/images.tar $(TAG)
release: # okara's own provider as GoReleaser leaves one, for okara publish provider
	cd internal/e2e && go run ./dist ../../provider github.com/seed-141914ff/okara/provider/cmd/terraform-provider-okara $(VERSION) "$(CURDIR)/$(OUT)" $(PLATFORMS)
release-check: tools $(PACKING) # what a release is made of, built twice and compared; half an hour at first
	.ci/release-check $(PACKING)
tools: build $(TOFU) $(TIME) $(REG) $(JQ) $(RELEASE)
generate: # what is made from the API types of operator
	$(MAKE) -C operator generate
lint:
	@out=$$(gofmt -l .) && test -z "$$out" || { echo "gofmt: $$out"; exit 1; }
	for m in . $(NESTED); do (cd $$m && go vet ./... && go fix -diff ./...) || exit 1; done
	$(MAKE) -C operator generated
	@for m in . operator provider; do cd "$(CURDIR)/$$m" && go tool -modfile="$(CURDIR)/go.mod" staticcheck -checks inherit,-ST1005 ./... || exit 1; done # ST1005: repotest holds error texts to the stricter rule
	@for m in . operator provider; do cd "$(CURDIR)/$$m" && { out=$$(go tool -modfile="$(CURDIR)/go.mod" errcheck -ignoretests -exclude "$(CURDIR)/.ci/errcheck" ./...) || test $$? = 1; } && \
		! echo "$$out" | grep -v -e '^$$' -e 'defer .*Close()' || exit 1; done # a deferred Close is for what was only read
	@w=$$(mktemp -d) && trap 'rm -rf "$$w"' EXIT && export GOWORK=$$w/go.work && go work init . operator provider && \
		out=$$(go tool deadcode -filter ^github.com/seed-141914ff/okara/ ./cmd/okara ./operator/cmd/okara-operator ./operator/internal/reference ./provider/cmd/terraform-provider-okara) && \
		test -z "$$out" || { echo "no command reaches: $$out"; exit 1; }
race:
	CGO_ENABLED=1 go test -race ./...
cover:
	go test -coverpkg=./... -coverprofile=$(CACHE)/cover.out ./... && go tool cover -func=$(CACHE)/cover.out | tail -1
bench: tools # a table in docs/performance.md; with BASE=COMMIT beside the program of that commit, in the same run
	.ci/bench "$(BASE)"
	$(MAKE) bench-once
bench-once: # each benchmark once, the largest smaller or not at all, so that few rot
	go test -short -timeout 10m -vet=off -run '^$$' -bench . -benchtime 1x $(BENCHES)
bench-long: tools $(STATES)
	go test -timeout 30m -run '^$$' -bench . -benchmem $(BENCHES)
	cd internal/e2e && OKARA_TEST_STATES="$(CURDIR)/$(STATES)" go test -run '^$$' -bench . -benchtime 20x .
fuzz:
	@for f in $$(grep -rEo --include='*_test.go' '^func Fuzz\w+' . | sed 's|/[^/]*:func |:|'); do \
		(cd "$${f%:*}" && go test -run '^$$' -fuzz "^$${f#*:}$$" -fuzztime 10s -fuzzminimizetime 10x .) || exit 1; done
interop: tools $(OTHERS) $(STATES) $(TRIVY) $(COSIGN) $(KO) $(PROM)
	cd internal/e2e && OKARA_TEST_PROMTOOL="$(CURDIR)/$(PROM)" go test -count=1 -run 'TestPromtool' .
	for v in $(OTHERS); do export OKARA_TEST_TOFU="$(CURDIR)/$$v"; \
		go test -count=1 -run 'TestTofu' ./registry ./cmd/okara ./instances/commands && (cd internal/e2e && OKARA_TEST_RIVALS=1 go test -count=1 -timeout 30m -run 'TestTofu|TestCloud|TestCrash$$' .) || exit 1; done
	OKARA_TEST_FAULTS=1 go test -count=1 -run 'TestTofuFaultMatrix' -v ./cmd/okara
	cd internal/e2e && OKARA_TEST_SERVERS=200 go test -count=1 -timeout 6h -run 'TestServers' -v .
	cd internal/e2e && OKARA_TEST_CRASH=1 go test -count=1 -run 'TestCrashTerraform' .
	cd internal/e2e && OKARA_TEST_STATES="$(CURDIR)/$(STATES)" go test -count=1 -timeout 2h -run 'TestStateStore' .
	cd internal/e2e && OKARA_TEST_TRIVY="$(CURDIR)/$(TRIVY)" go test -count=1 -run 'TestTrivy' .
	cd internal/e2e && OKARA_TEST_COSIGN="$(CURDIR)/$(COSIGN)" go test -count=1 -run 'TestCosign' .
	cd internal/e2e && OKARA_TEST_INSTANCES=1 go test -count=1 -timeout 30m -run 'TestLeader' .
	OKARA_TEST_KO="$(CURDIR)/$(KO)" go test -count=1 -timeout 30m -run TestImages ./internal/images
	cd internal/conformance && go test -count=1 ./...
include .ci/matrix.mk
interop-kube: build $(TOFU) # ten minutes of builds at first
	$(MAKE) -C operator etcd kube-apiserver controllers
	cd operator && $(OPERATOR) && \
		OKARA_TEST_TOFU="$(CURDIR)/$(TOFU)" go test -count=1 -p 1 -timeout 30m ./internal/rig
mutants: # one guard after another is taken from the lock, the sandbox of runs and the machine of instances; then a million random steps of it
	OKARA_TEST_MUTANTS=1 go test -count=1 -timeout 1h -run TestRules ./statebackend/internal/protocol
	OKARA_TEST_MUTANTS=1 go test -count=1 -timeout 1h -run TestMutants ./instances/internal/localexec
	OKARA_TEST_MUTANTS=1 go test -count=1 -timeout 1h -run TestMutants ./instances/lifecycle
	OKARA_TEST_STEPS=1000000 go test -count=1 -timeout 1h -run TestRandomSteps -v ./instances/lifecycle
year: # a year of hourly applies and daily publishes, with kill -9
	OKARA_TEST_DAYS=365 go test -count=1 -timeout 3h -run TestYear -v ./internal/embedded
vuln: # asks vuln.go.dev; not part of lint, which needs no network
	for m in . $(NESTED); do (cd $$m && go run golang.org/x/vuln/cmd/govulncheck@v1.8.0 -test ./...) || exit 1; done
models:
	sh statebackend/models/run.sh
screenshots: # of a fixture whose clock stands still; no test compares them
	OKARA_SCREENSHOTS="$(CURDIR)/bin/screenshots" go test -count=1 -timeout 30m -run TestPictures ./internal/web
docs:
	OKARA_UPDATE=1 go test -count=1 -run 'TestCommandPages' ./cmd/okara
	OKARA_UPDATE=1 go test -count=1 -run TestPage ./internal/backendblock

$(CACHE)/tofu/%/tofu: internal/e2e/tofu/%/go.mod
	cd $(<D) && go build -ldflags '-s -w -X github.com/opentofu/opentofu/version.dev=no' -o "$(CURDIR)/$@" github.com/opentofu/opentofu/cmd/tofu
$(CACHE)/trivy/%/trivy: internal/e2e/trivy/%/go.mod
	cd $(<D) && GOEXPERIMENT=jsonv2 go build -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/aquasecurity/trivy/cmd/trivy
$(CACHE)/cosign/%/cosign: internal/e2e/cosign/%/go.mod
	cd $(<D) && go build -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/sigstore/cosign/v2/cmd/cosign
$(CACHE)/goreleaser/%/goreleaser: internal/e2e/goreleaser/%/go.mod
	cd $(<D) && go build -p 1 -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/goreleaser/goreleaser/v2
$(CACHE)/promtool/%/promtool: internal/e2e/promtool/%/go.mod
	cd $(<D) && go build -p 1 -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/prometheus/prometheus/cmd/promtool
$(CACHE)/cyclonedx/%/cyclonedx-gomod: internal/e2e/cyclonedx/%/go.mod
	cd $(<D) && go build -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
$(CACHE)/registry/%/registry: internal/e2e/registry/%/go.mod
	cd $(<D) && go build -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/distribution/distribution/v3/cmd/registry
$(CACHE)/ko/%/ko: operator/internal/rig/ko/%/go.mod
	cd $(<D) && go build -p 1 -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/google/ko
# What the tests publish of it, for this platform and another one.
$(RELEASE): $(shell find provider oci statebackend credentials internal -name '*.go' ! -name '*_test.go' ! -path 'internal/e2e/*') provider/go.mod go.mod
	rm -rf $(@D)
	$(MAKE) release OUT=$(@D) PLATFORMS="darwin_arm64 $$(go env GOOS)_$$(go env GOARCH)"
# Its remote-state backends are modules that the proxy lacks; no test needs one.
$(CACHE)/terraform/%/terraform: internal/e2e/terraform/%/go.mod
	rm -rf $(@D) && mkdir -p $(@D)/src && cp $(<D)/go.mod $(<D)/go.sum $(@D)/src/
	cd $(@D)/src && for b in azure consul cos gcs kubernetes oci oss pg s3; do mkdir $$b && \
		printf 'module github.com/hashicorp/terraform/internal/backend/remote-state/%s\n' $$b >$$b/go.mod && \
		printf 'package %s\n\nimport "github.com/hashicorp/terraform/internal/backend"\n\nfunc New() backend.Backend { panic("this backend is not in this build") }\n' $$b >$$b/backend.go || exit 1; done
	mkdir $(@D)/src/legacy && echo 'module github.com/hashicorp/terraform/internal/legacy' >$(@D)/src/legacy/go.mod
	cd $(@D)/src && go build -p 1 -trimpath -ldflags '-s -w -X main.experimentsAllowed=yes' -o "$(CURDIR)/$@" github.com/hashicorp/terraform
$(CACHE)/jq/%/jq: internal/e2e/jq/%/go.mod
	cd $(<D) && go build -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/itchyny/gojq/cmd/gojq
$(CACHE)/provider/time/%: internal/e2e/provider/time/go.mod
	cd internal/e2e && go run ./dist provider/time github.com/hashicorp/terraform-provider-time $(notdir $(@D)) "$(CURDIR)/$(@D)" darwin_arm64 linux_amd64 $$(go env GOOS)_$$(go env GOARCH)
