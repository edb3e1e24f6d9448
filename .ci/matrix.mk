# SPDX-License-Identifier: Apache-2.0
# Writes docs/reference/matrix.md: what clients do on registries. What does not build, or is not on
# PATH (skopeo, docker-registry 2.8, gpg, terraform; Renovate: `npm install renovate@39` in
# the folder that OKARA_MATRIX_RENOVATE names), is in the page with the reason.
# The Terraform that is built here lacks its s3 backend, and so a state; a whole one is taken
# as .cache/bin/terraform-1.11 or terraform-1.16.
# OKARA_MATRIX_REGISTRY=HOST adds a registry, with the credentials of DOCKER_CONFIG.
MATRIX := $(CACHE)/bin
.PHONY: matrix
matrix: tools
	-$(MAKE) -k $(OTHERS) $(OLD) $(STATES) $(COSIGN) $(TRIVY)
	@mkdir -p $(MATRIX) && for c in $(CLIENTS); do test -x $(MATRIX)/$${c%%=*} || { w=$$(mktemp -d) && \
		GOBIN=$$w go install -p 1 $${c#*=} && mv $$w/* $(MATRIX)/$${c%%=*}; rm -rf $$w; }; done
	OKARA_MATRIX="$(CURDIR)/docs/reference/matrix.md" go test -count=1 -timeout 1h -run 'TestMatrix$$' ./internal/ocitest
