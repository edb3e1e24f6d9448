#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# okara's whole job on one machine: an OCI registry, a module and a provider in
# it, stock tofu or terraform that installs both and keeps its state there. Needs
# what `make demo` builds; leaves nothing behind.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
dist=$root/.cache/provider/time/0.14.2
path=$(sh "$root/testdata/demo/tool.sh")
tool=$(basename "$path")
PATH=$root/bin:$(dirname "$path"):$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/okara-demo.XXXXXX")
server=
holder=

finish() {
	code=$?
	trap - EXIT INT TERM
	for pid in $holder $server; do
		kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
	done
	[ "$code" = 0 ] || { printf '\nthe demo stopped with code %s; the log of okara serve:\n' "$code" >&2; cat "$work/serve.log" >&2; }
	rm -rf "$work"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# A home of its own: no configuration of the user takes part, none is changed.
HOME=$work/home XDG_DATA_HOME=$work/data XDG_CONFIG_HOME=$work/config
TF_CLI_CONFIG_FILE=$work/cli.tfrc CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1 TF_CLI_ARGS=-no-color
unset DOCKER_CONFIG REGISTRY_AUTH_FILE AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3
export PATH HOME XDG_DATA_HOME XDG_CONFIG_HOME TF_CLI_CONFIG_FILE CHECKPOINT_DISABLE TF_IN_AUTOMATION TF_CLI_ARGS
mkdir -p "$HOME" "$work/app"

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() {
	printf '$ %s\n' "$*"
	"$@"
}
# until_true waits for a command to succeed, half a minute at most.
until_true() {
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ "$n" -lt 150 ] || { echo "gave up waiting for: $*" >&2; return 1; }
		sleep 0.2
	done
}

step "An OCI registry and the front-end, in one process"
printf '$ okara serve --listen 127.0.0.1:0 &\n'
okara serve --listen 127.0.0.1:0 --storage "$work/store" >"$work/serve.log" 2>&1 &
server=$!
until_true grep -q 'http://127.0.0.1:[0-9]' "$work/serve.log"
url=$(sed -n 's|.*\(http://127\.0\.0\.1:[0-9]*\).*|\1|p' "$work/serve.log" | head -n 1)
registry=${url#http://}
export OKARA_REGISTRY="$registry"
echo "listening on $url"

step "Publish a module and a real provider"
cd "$root"
show okara publish module testdata/modules/rotation acme/rotation/time 1.0.0
key=$(okara keys new --name "okara demo" --dir "$work/keys" --quiet | cut -f 2)
printf '$ okara publish provider DIST acme/time 0.14.2 --sign-key KEY\n'
okara publish provider "$dist" acme/time 0.14.2 --sign-key "$key"

step "A root module that uses both, its state in the same registry, by $("$tool" version | head -n 1)"
okara cli-config --hostname okara.test "$url" >"$TF_CLI_CONFIG_FILE"
cd "$work/app"
sed "s|REGISTRY|$registry|" "$root/testdata/demo/main.tf" >main.tf
sed -n 1,5p main.tf
show okara $tool init
show okara $tool plan -out=plan
show okara $tool apply plan
rm plan

step "A second apply holds the lock; a third waits for it"
state=$registry/state/demo
echo "\$ okara $tool apply -auto-approve -var hold=5s &"
okara $tool apply -auto-approve -var generation=2 -var hold=5s >"$work/holder.log" 2>&1 &
holder=$!
held() { okara state locks "$state" | grep -q default; }
until_true held
show okara state locks "$state"
echo "\$ okara $tool apply -auto-approve -lock-timeout=60s -var generation=3"
okara $tool apply -auto-approve -lock-timeout=60s -var generation=3 >"$work/waiter.log"
grep -e '^Acquiring' -e '^Apply complete' "$work/waiter.log"
wait "$holder"
holder=

step "What the registry holds now"
show okara list
show okara show acme/rotation/time
show okara show acme/time
show okara state history "$state"

step "Bring the first state back, as a new version"
show okara state restore "$state" 1
show okara state history "$state"

step "Destroy, and nothing is left in the folder but the tool's own files"
echo "\$ okara $tool destroy -auto-approve"
okara $tool destroy -auto-approve >"$work/destroy.log"
grep '^Destroy complete' "$work/destroy.log"
ls -A
left=$(ls -A | grep -v -e '^main\.tf$' -e '^\.terraform' || true)
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }

step "Stop"
kill -TERM "$server"
wait "$server"
server=
echo "the demo is complete: okara published, served, locked, kept and restored"
