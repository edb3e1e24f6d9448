# SPDX-License-Identifier: Apache-2.0
# The versions of all programs that tests, the matrix and releases are made with. Where a folder of that
# version has a go.mod, below internal/e2e or operator/internal/rig, it says what it is built from.
CACHE   := .cache
TOFU    := $(CACHE)/tofu/1.12.6/tofu
TIME    := $(CACHE)/provider/time/0.14.2/terraform-provider-time_0.14.2_SHA256SUMS
OTHERS  := $(CACHE)/tofu/1.10.10/tofu $(CACHE)/tofu/1.11.6/tofu
TRIVY   := $(CACHE)/trivy/0.72.0/trivy
COSIGN  := $(CACHE)/cosign/2.6.5/cosign
REG     := $(CACHE)/registry/3.1.2/registry
REG2    := $(CACHE)/registry/2.8.3/registry
JQ      := $(CACHE)/jq/0.12.17/jq
KO      := $(CACHE)/ko/0.19.1/ko
PROM    := $(CACHE)/promtool/0.313.0/promtool
INSPECT := $(CACHE)/inspector/2.12.0/node_modules/.bin/mcp-inspector
PACKING := $(CACHE)/goreleaser/2.16.0/goreleaser $(CACHE)/cyclonedx/1.10.0/cyclonedx-gomod $(COSIGN)
STATES  := $(CACHE)/terraform/1.16.4/terraform
RELEASE := bin/provider/terraform-provider-okara_0.0.1_SHA256SUMS
OLD    := $(CACHE)/terraform/1.11.4/terraform
CLIENTS := oras=oras.land/oras/cmd/oras@v1.3.6 crane=github.com/google/go-containerregistry/cmd/crane@v0.22.1 \
	regctl=github.com/regclient/regclient/cmd/regctl@v0.11.7 cosign3=github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3 \
	terragrunt=github.com/gruntwork-io/terragrunt@v1.1.4-0.20260821191953-286a33cb8f79
