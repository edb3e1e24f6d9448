# SPDX-License-Identifier: Apache-2.0
# Programs that tests and releases are made with, each a pinned Go module, built once.
include .ci/versions.mk

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
$(REG2): internal/e2e/registry/2.8.3/go.mod
	cd $(<D) && go build -ldflags '-s -w' -o "$(CURDIR)/$@" .
$(CACHE)/ko/%/ko: operator/internal/rig/ko/%/go.mod
	cd $(<D) && go build -p 1 -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/google/ko
# What the tests publish of it, for this platform and another one.
$(RELEASE): $(shell find provider oci statebackend credentials internal -name '*.go' ! -name '*_test.go' ! -path 'internal/e2e/*') provider/go.mod go.mod
	rm -rf $(@D)
	$(MAKE) release VERSION=0.0.1 OUT=$(@D) PLATFORMS="darwin_arm64 $$(go env GOOS)_$$(go env GOARCH)"
# Its remote-state backends are modules that the proxy lacks; no test needs one.
$(CACHE)/terraform/%/terraform: internal/e2e/terraform/%/go.mod
	rm -rf $(@D) && mkdir -p $(@D)/src && cp $(<D)/go.mod $(<D)/go.sum $(@D)/src/
	cd $(@D)/src && for b in azure consul cos gcs kubernetes oci oss pg s3; do mkdir $$b && \
		printf 'module github.com/hashicorp/terraform/internal/backend/remote-state/%s\n' $$b >$$b/go.mod && \
		printf 'package %s\n\nimport "github.com/hashicorp/terraform/internal/backend"\n\nfunc New() backend.Backend { panic("this backend is not in this build") }\n' $$b >$$b/backend.go || exit 1; done
	mkdir $(@D)/src/legacy && echo 'module github.com/hashicorp/terraform/internal/legacy' >$(@D)/src/legacy/go.mod
	cd $(@D)/src && go build -p 1 -trimpath -ldflags '-s -w -X main.experimentsAllowed=yes' -o "$(CURDIR)/$@" github.com/hashicorp/terraform
# The inspector of the Model Context Protocol, a program of npm.
$(CACHE)/inspector/%/node_modules/.bin/mcp-inspector:
	npm install --no-audit --no-fund --prefix $(CACHE)/inspector/$* @modelcontextprotocol/inspector@$*
$(CACHE)/jq/%/jq: internal/e2e/jq/%/go.mod
	cd $(<D) && go build -ldflags '-s -w' -o "$(CURDIR)/$@" github.com/itchyny/gojq/cmd/gojq
$(CACHE)/provider/time/%: internal/e2e/provider/time/go.mod
	cd internal/e2e && go run ./dist provider/time github.com/hashicorp/terraform-provider-time $(notdir $(@D)) "$(CURDIR)/$(@D)" darwin_arm64 linux_amd64 $$(go env GOOS)_$$(go env GOARCH)
