#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module). Terraform 1.16.4 differs: its apply takes the value from the
#   plan.
# Guess: a saved plan contains the values of all variables, as it says of itself in JSON: apply
#   of it needs none, and a variable that gets `const = true` changes nothing there.
# Happens: for a variable with `const = true`, apply of the plan fails with "Unable to compute
#   static value", though the plan has its value, unless -var or -var-file gives it again.
# Matters: pipelines plan in one job and apply the file in another, without variables: a module that
#   marks an input as const, which changes nothing for its caller, ends them at the apply.
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
try() { # NAME ARGUMENT [FLAG]: how apply of a saved plan ends
	mkdir "$1" && cd "$1"
	printf 'variable "size" {\n  type = string\n%s}\noutput "size" {\n  value = var.size\n}\n' "$2" >main.tf
	timeout 120 "$TOFU" init -input=false -no-color -var size=large >log 2>&1 || { cat log; return 1; }
	timeout 120 "$TOFU" plan -input=false -no-color -var size=large -out=plan >log 2>&1 || { cat log; return 1; }
	code=0 && timeout 120 "$TOFU" apply -input=false -no-color ${3:-} plan >log 2>&1 || code=$?
	cd .. && ended="${ended:-} $code"
	echo "$1: apply ${3:-} of the plan ends with $code"
}
try plain ""
try const "  const = true
"
try const-again "  const = true
" -var=size=large
[ "$ended" = " 0 1 0" ]
