# SPDX-License-Identifier: Apache-2.0
# Writes docs/reference/matrix.md: what clients do on registries. What does not build, or is not on
# PATH (skopeo, docker-registry 2.8, gpg, terraform; Renovate: `npm install renovate@39` in
# the folder that OKARA_MATRIX_RENOVATE names), is in the page with the reason.
# The Terraform that is built here lacks its s3 backend, and so a state; a whole one is taken
# as .cache/bin/terraform-1.11 or terraform-1.16.
# OKARA_MATRIX_REGISTRY=HOST adds a registry, with the credentials of DOCKER_CONFIG.
MATRIX := $(CACHE)/bin
OLD    := $(CACHE)/terraform/1.11.4/terraform
CLIENTS := oras=oras.land/oras/cmd/oras@v1.3.6 crane=github.com/google/go-containerregistry/cmd/crane@v0.22.1 \
	regctl=github.com/regclient/regclient/cmd/regctl@v0.11.7 cosign3=github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3 \
	terragrunt=github.com/gruntwork-io/terragrunt@v1.1.4-0.20260821191953-286a33cb8f79
.PHONY: matrix
matrix: tools
	-$(MAKE) -k $(OTHERS) $(OLD) $(STATES) $(COSIGN)
	@mkdir -p $(MATRIX) && for c in $(CLIENTS); do test -x $(MATRIX)/$${c%%=*} || { w=$$(mktemp -d) && \
		GOBIN=$$w go install -p 1 $${c#*=} && mv $$w/* $(MATRIX)/$${c%%=*}; rm -rf $$w; }; done
	OKARA_MATRIX="$(CURDIR)/docs/reference/matrix.md" go test -count=1 -timeout 1h -run 'TestMatrix$$' ./internal/ocitest
