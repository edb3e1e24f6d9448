# SPDX-License-Identifier: Apache-2.0
# Needs Go, git and make. Everything else is a pinned Go module, built once into .cache.
# As what is released, so that each package is compiled once.
export GOFLAGS := -buildvcs=false -trimpath
export GOWORK  := off
# As what is released: the same program, whether there is a C compiler or not.
export CGO_ENABLED := 0
.DEFAULT_GOAL := demo
include .ci/tools.mk
VERSION := $(shell cat internal/buildinfo/VERSION)
PLATFORMS := darwin_amd64 darwin_arm64 freebsd_amd64 linux_amd64 linux_arm linux_arm64 windows_amd64 windows_arm64
OUT      = bin/release/$(VERSION)
TAG     := $(VERSION)
VCS      = $(shell git status --porcelain >/dev/null 2>&1 && echo true || echo false)
# What is built is a release if its commit has the tag of the version.
LINK     = -s -w -X github.com/seed-141914ff/okara/internal/buildinfo.release=$(shell git describe --tags --exact-match 2>/dev/null)
OPERATOR = go build -buildvcs=$(VCS) -ldflags '$(LINK)' -o ../bin/okara-operator ./cmd/okara-operator
NESTED  := internal/e2e internal/conformance operator provider
TESTS   := test-internal/e2e test-operator test-. test-browser test-provider test-internal/conformance

# Compilers and linters collect garbage less often: a sixth less work, and more memory. So do
# the tests of the root; what others test does not, and what is measured sets its own value.
lint tools $(TESTS): export GOGC := 400
lint tools $(TESTS): export GOMEMLIMIT := 3GiB
AS_SHIPPED = -exec 'env -u GOGC -u GOMEMLIMIT'
test-.: AS_SHIPPED :=
GOTEST = MAKEFLAGS= OKARA_TEST_BUILT=1 go test $(AS_SHIPPED) -vet=off -timeout 30m

.PHONY: build image release tools generate test kube $(TESTS) lint race cover demo docs
demo: build $(TIME) # by a tofu or terraform that is there, or by one that this builds
	@sh testdata/demo/tool.sh >/dev/null || $(MAKE) $(TOFU)
	sh testdata/demo/demo.sh
# Modules beside each other, since operator and internal/e2e wait more than they work, the longest
# first; without vet, which lint runs, with all of its checks.
test: tools
	$(MAKE) -j2 $(TESTS) BESIDE=1
kube: # what the tests of operator start
	$(MAKE) -C operator etcd kube-apiserver crds
test-operator: kube
# Tests with a real browser, beside their pages.
test-browser:
	$(GOTEST) -tags browser -run '^TestBrowser' ./internal/web ./instances/pages ./cmd/okara
test-operator: AT_ONCE := -p 4# packages: they wait for an API server of their own more than they work
test-.: AT_ONCE := $(if $(BESIDE),,-p 4)# likewise for servers and programs, where no others are tested beside
$(filter-out test-browser,$(TESTS)): test-%:
	cd $* && $(GOTEST) $(AT_ONCE) ./...
# With its commit, where git tells.
build:
	go build -buildvcs=$(VCS) -trimpath -ldflags '$(LINK)' -o bin/okara ./cmd/okara
image: $(KO) # container images for linux/amd64 and arm64 in one file, for okara bundle load --images
	go run ./internal/images "$(CURDIR)/$(KO)" bin/images.tar $(TAG)
release: # okara's own provider as GoReleaser leaves one, for okara publish provider
	cd internal/e2e && go run ./dist ../../provider github.com/seed-141914ff/okara/provider/cmd/terraform-provider-okara $(VERSION) "$(CURDIR)/$(OUT)" $(PLATFORMS)
tools: build $(TOFU) $(TIME) $(REG) $(REG2) $(JQ) $(RELEASE)
generate: # what is made from the API types of operator
	$(MAKE) -C operator generate
lint:
	@out=$$(gofmt -l .) && test -z "$$out" || { echo "gofmt: $$out"; exit 1; }
	for m in . $(NESTED); do (cd $$m && go mod tidy -diff && go vet -tags browser ./... && go fix -diff -tags browser ./...) || { echo "in module $$m"; exit 1; }; done
	GOOS=darwin go vet ./instances/internal/localexec # whose tests have parts for each system
	$(MAKE) -C operator generated
	@for m in . operator provider; do cd "$(CURDIR)/$$m" && go tool -modfile="$(CURDIR)/go.mod" staticcheck -tags browser -checks inherit,-ST1005 ./... || exit 1; done # ST1005: repotest holds error texts to the stricter rule
	@for m in . operator provider; do cd "$(CURDIR)/$$m" && { out=$$(go tool -modfile="$(CURDIR)/go.mod" errcheck -ignoretests -exclude "$(CURDIR)/.ci/errcheck" ./...) || test $$? = 1; } && \
		! echo "$$out" | grep -v -e '^$$' -e 'defer .*Close()' || exit 1; done # a deferred Close is for what was only read
	@w=$$(mktemp -d) && trap 'rm -rf "$$w"' EXIT && export GOWORK=$$w/go.work && go work init . operator provider && \
		out=$$(go tool deadcode -filter ^github.com/seed-141914ff/okara/ ./cmd/okara ./operator/cmd/okara-operator ./operator/internal/reference ./provider/cmd/terraform-provider-okara) && \
		test -z "$$out" || { echo "no command reaches: $$out"; exit 1; }
	OKARA_COUNTS=1 go test -count=1 -run 'TestCounts$$' ./internal/repotest
race:
	CGO_ENABLED=1 go test -race ./...
cover:
	go test -coverpkg=./... -coverprofile=$(CACHE)/cover.out ./... && go tool cover -func=$(CACHE)/cover.out | tail -1
docs:
	OKARA_UPDATE=1 go test -count=1 -run 'TestCommandPages' ./cmd/okara
	OKARA_UPDATE=1 go test -count=1 -run TestPage ./internal/backendblock
	OKARA_UPDATE=1 go test -count=1 -run TestShowsPage ./internal/repotest
include .ci/slow.mk .ci/matrix.mk
