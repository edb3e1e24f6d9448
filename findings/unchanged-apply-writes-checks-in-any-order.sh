#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module); Terraform 1.11.4 and 1.16.4 do the same.
# Guess: an apply that changes nothing leaves the state as it is: the same serial, no new version in a
#   backend that keeps versions.
# Happens: as soon as two objects have checks (here: one validation in a module that is called twice)
#   their results are written in the order of a map. If the order differs from that of the state before,
#   the state counts as changed and is written with the next serial, in about half of all runs.
# Matters: a bucket or a registry with versions fills up with states in which nothing differs, a serial
#   says nothing about changes, and a test that counts versions passes or fails by chance.
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
export CHECKPOINT_DISABLE=1 TF_CLI_CONFIG_FILE=/dev/null HOME=$tmp TF_IN_AUTOMATION=1
serials() { # NAME CALLS: how many serials 24 applies of the same configuration leave
	mkdir -p "$1/m" && cd "$1"
	printf 'variable "days" {\n  type = number\n  validation {\n    condition     = var.days > 0\n    error_message = "Must be positive."\n  }\n}\n' >m/main.tf
	for i in $(seq "$2"); do printf 'module "m%s" {\n  source = "./m"\n  days   = 1\n}\n' "$i"; done >main.tf
	printf 'output "one" {\n  value = 1\n}\n' >>main.tf
	timeout 120 "$TOFU" init -input=false >/dev/null
	for i in $(seq 24); do
		timeout 120 "$TOFU" apply -input=false -auto-approve >/dev/null
		sed -n 's/.*"serial": *\([0-9]*\).*/\1/p' terraform.tfstate
	done | sort -u | wc -l
	cd ..
}
one=$(serials one 1)
two=$(serials two 2)
echo "one object with checks:  24 applies of the same configuration, serials: $one"
echo "two objects with checks: 24 applies of the same configuration, serials: $two"
[ "$one" = 1 ] && [ "$two" -gt 1 ]
