#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module); Terraform 1.11.4 and 1.16.4 do what one would guess.
# Guess: a resource that names its provider (provider = beta) needs that one alone, with an import
#   block for it or without.
# Happens: with an import block OpenTofu also installs and locks the provider that the type implies,
#   hashicorp/TYPE, although nothing uses it.
# Matters: init asks for a provider that a mirror or a private registry need not have, and fails; a
#   lock file of Terraform for the same configuration is incomplete for OpenTofu.
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
for source in example/leftbeta hashicorp/left; do
	at=mirror/registry.opentofu.org/$source/1.0.0/$(go env GOOS)_$(go env GOARCH)
	mkdir -p "$at" && echo text >"$at/terraform-provider-${source#*/}_v1.0.0" && chmod +x "$at"/*
done
printf 'provider_installation {\n  filesystem_mirror {\n    path = "%s"\n  }\n}\n' "$tmp/mirror" >rc
locked() { # NAME TEXT: providers that init locks, with TEXT beside the resource
	mkdir "$1"
	printf 'terraform {\n  required_providers {\n    beta = {\n      source = "example/leftbeta"\n    }\n  }\n}\nresource "left_thing" "a" {\n  provider = beta\n}\n%s\n' "$2" >"$1/main.tf"
	(cd "$1" && timeout 120 "$TOFU" init -backend=false -input=false -no-color) >log 2>&1 || { cat log; return 1; }
	sed -n 's/^provider "registry.opentofu.org\/\(.*\)" {/\1/p' "$1/.terraform.lock.hcl" | sort | tr '\n' ' '
}
alone=$(locked alone '')
import=$(locked import "import {
  to = left_thing.a
  id = \"1\"
}")
echo "the resource:                 locked: $alone"
echo "the resource with its import: locked: $import"
[ "$alone" = "example/leftbeta " ] && [ "$import" = "example/leftbeta hashicorp/left " ]
