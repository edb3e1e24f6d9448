#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module); Terraform 1.11.4 does the same.
# Guess: two calls of one package, at one address and one version, install the same files.
# Happens: the package is fetched for the first call and copied for the second, without the names that
#   begin with a dot, in any folder. Which call is first follows from the names of the calls.
# Matters: a module that reads ${path.module}/.defaults.json works or fails by the name of its call,
#   and a hash over all installed files differs between two copies of the same package.
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
export CHECKPOINT_DISABLE=1 HOME=$tmp TF_IN_AUTOMATION=1
touch rc && export TF_CLI_CONFIG_FILE=$tmp/rc
mkdir module root && echo '{"size":1}' >module/.defaults.json
printf 'output "size" {\n  value = jsondecode(file("${path.module}/.defaults.json")).size\n}\n' >module/main.tf
git -C module init -q && git -C module add -A && git -C module -c user.name=a -c user.email=a@example.com commit -qm a
for call in one two; do printf 'module "%s" {\n  source = "git::file://%s/module"\n}\n' "$call" "$tmp"; done >root/main.tf
cd root
timeout 120 "$TOFU" init -input=false -no-color >log 2>&1 || { cat log; exit 1; }
for call in one two; do
	test -e .terraform/modules/$call/.defaults.json && has=yes || has=no
	echo "module \"$call\": .defaults.json is installed: $has"
done | tee seen
timeout 120 "$TOFU" plan -input=false -no-color >log 2>&1 && plan=succeeds || plan=fails
echo "plan of the two calls: $plan"
[ "$(grep -c yes seen)" = 1 ] && [ "$(grep -c no$ seen)" = 1 ] && [ "$plan" = fails ]
