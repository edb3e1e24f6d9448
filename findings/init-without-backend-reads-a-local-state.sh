#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module); Terraform 1.11.4 does the same.
# Guess: init -backend=false, which pipelines run before validate, knows the configuration alone:
#   no state is opened, and the lock file names the providers that the configuration requires.
# Happens: a terraform.tfstate in the folder is read, although the configuration names another
#   backend. The providers of its resources are installed and written into the lock file.
# Matters: a file that was left behind by a move to another backend, and that no command uses
#   otherwise, chooses providers: they are fetched, locked, and counted as part of the module.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
# It takes minutes the first time; TOFU names a program of that version built before.
if [ -z "${TOFU:-}" ]; then
	mkdir src && cd src && export CGO_ENABLED=0 GOFLAGS=-trimpath
	go mod init example.com/tofu 2>>log && go mod edit -replace github.com/hashicorp/hcl/v2=github.com/opentofu/hcl/v2@v2.20.2-0.20251021132045-587d123c2828
	go get github.com/opentofu/opentofu/cmd/tofu@v1.12.6 2>>log && timeout 1800 go build -o ../tofu github.com/opentofu/opentofu/cmd/tofu 2>>log
	TOFU=$tmp/tofu && cd ..
fi
export CHECKPOINT_DISABLE=1 TF_CLI_CONFIG_FILE=$tmp/rc HOME=$tmp TF_IN_AUTOMATION=1
# init unpacks a provider and does not start it, so a text is program enough.
at=mirror/registry.opentofu.org/example/left/1.0.0/$(go env GOOS)_$(go env GOARCH)
mkdir -p "$at" && echo text >"$at/terraform-provider-left_v1.0.0" && chmod +x "$at"/*
printf 'provider_installation {\n  filesystem_mirror {\n    path = "%s"\n  }\n}\n' "$tmp/mirror" >rc
try() { # NAME FILE: where the state is
	mkdir "$1"
	printf 'terraform {\n  backend "local" {\n    path = "elsewhere.tfstate"\n  }\n}\noutput "one" {\n  value = 1\n}\n' >"$1/main.tf"
	printf '{"version":4,"serial":1,"lineage":"a","terraform_version":"1.11.0","outputs":{},"resources":[{"mode":"managed","type":"left_over","name":"a","provider":"provider[\\"registry.opentofu.org/example/left\\"]","instances":[{"schema_version":0,"attributes":{"id":"1"}}]}]}\n' >"$1/$2"
	(cd "$1" && timeout 120 "$TOFU" init -backend=false -input=false -no-color) >log 2>&1 || { cat log; return 1; }
	grep -c '^provider' "$1/.terraform.lock.hcl" 2>/dev/null || true
}
configured=$(try configured elsewhere.tfstate)
left=$(try left terraform.tfstate)
echo "the state of the backend:   providers locked by init -backend=false: ${configured:-0}"
echo "a terraform.tfstate beside: providers locked by init -backend=false: ${left:-0}"
[ "${configured:-0}" = 0 ] && [ "$left" = 1 ]
