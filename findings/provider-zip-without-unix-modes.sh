#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 and the provider hashicorp/time 0.14.2 (Go modules); Terraform
#   1.11.4 does the same.
# Guess: a provider's archive that was packed on Windows, where files have no mode to record,
#   is either refused or made executable when it is unpacked: it can hold nothing else.
# Happens: init unpacks, locks and reports success; the program is left without the
#   permission to run. Each later command ends in "permission denied".
# Matters: the archive passes for good wherever only init, checksums and signatures are
#   looked at: in a mirror, in a lock file, in the pipeline that publishes it.
set -euo pipefail
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
home=$HOME
# It takes minutes the first time; TOFU names a program of that version built before.
if [ -z "${TOFU:-}" ]; then
	mkdir src && cd src && export CGO_ENABLED=0 GOFLAGS=-trimpath
	go mod init example.com/tofu 2>>log && go mod edit -replace github.com/hashicorp/hcl/v2=github.com/opentofu/hcl/v2@v2.20.2-0.20251021132045-587d123c2828
	go get github.com/opentofu/opentofu/cmd/tofu@v1.12.6 2>>log && timeout 1800 go build -o ../tofu github.com/opentofu/opentofu/cmd/tofu 2>>log
	TOFU=$tmp/tofu && cd ..
fi
export CHECKPOINT_DISABLE=1 TF_CLI_CONFIG_FILE=$tmp/rc HOME=$tmp TF_IN_AUTOMATION=1
GOBIN=$tmp CGO_ENABLED=0 GOFLAGS=-trimpath HOME=$home go install github.com/hashicorp/terraform-provider-time@v0.14.2 2>install.log
platform=$(go env GOOS)_$(go env GOARCH)

cat >pack.py <<'END'
import os, sys, zipfile
system, folder, platform = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for host in ('registry.opentofu.org', 'registry.terraform.io'):
    to = f'{folder}/{host}/hashicorp/time'
    os.makedirs(to)
    entry = zipfile.ZipInfo('terraform-provider-time_v0.14.2.exe' if platform.startswith('windows') else 'terraform-provider-time_v0.14.2')
    entry.create_system = system  # 0: FAT, what packers on Windows write; 3: Unix
    entry.external_attr = 0o100755 << 16 if system == 3 else 0x20
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(f'{to}/terraform-provider-time_0.14.2_{platform}.zip', 'w') as archive:
        archive.writestr(entry, open('terraform-provider-time', 'rb').read())
END
try() { # SYSTEM
	python3 pack.py "$1" "mirror$1" "$platform"
	printf 'provider_installation {\n  filesystem_mirror {\n    path = "%s"\n  }\n}\n' "$tmp/mirror$1" >rc
	mkdir "w$1"
	printf 'terraform {\n  required_providers {\n    time = {\n      source = "hashicorp/time"\n    }\n  }\n}\nresource "time_static" "it" {}\n' >"w$1/main.tf"
	init=0; plan=0
	(cd "w$1" && timeout 120 "$TOFU" init -input=false -no-color) >log 2>&1 || init=$?
	(cd "w$1" && timeout 120 "$TOFU" plan -input=false -no-color) >>log 2>&1 || plan=$?
	echo "init $init, plan $plan $(grep -o 'permission denied' log | head -1)"
}
unix=$(try 3); fat=$(try 0)
echo "packed with modes:    $unix"
echo "packed without modes: $fat"
[ "$unix" = "init 0, plan 0 " ] && [ "$fat" = "init 0, plan 1 permission denied" ]
