#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two replicas of okara over a registry: installs them, upgrades them while a state is locked and instances live,
# loses one, fills the disk, changes keys and certificates, and restores a backup. After each step it
# compares what there was with what there is. Loopback only; it ends what it started and leaves nothing.
# OKARA_OLD is the program to upgrade from; without it okara is "upgraded" to itself.
set -eu
# As root in a mount namespace of its own, so that the registry can have a small disk.
if [ -z "${RUN_SH_DISK:-}" ]; then
	RUN_SH_DISK=none
	[ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null || RUN_SH_DISK=own
	export RUN_SH_DISK
	[ $RUN_SH_DISK = none ] || exec unshare -m sh "$0"
fi
here=$(cd "$(dirname "$0")" && pwd)
new=$(command -v okara)
old=${OKARA_OLD:-$new}
for program in registry tofu jq openssl curl python3 perl; do
	command -v "$program" >/dev/null || { echo "run.sh: $program is not on PATH" >&2; exit 1; }
done
work=$(mktemp -d)
cd "$work"
HOME=$work XDG_DATA_HOME=$work XDG_CONFIG_HOME=$work DOCKER_CONFIG=$work/docker SSL_CERT_FILE=$work/tls/ca.pem
TF_CLI_CONFIG_FILE=$work/cli.tfrc CHECKPOINT_DISABLE=1 PYTHONDONTWRITEBYTECODE=1
export HOME XDG_DATA_HOME XDG_CONFIG_HOME DOCKER_CONFIG SSL_CERT_FILE TF_CLI_CONFIG_FILE CHECKPOINT_DISABLE PYTHONDONTWRITEBYTECODE
unset OKARA_REGISTRY OKARA_SERVER OKARA_TOKEN

fail() {
	echo "run.sh: $*" >&2
	tail -n 5 ./*.log >&2
	exit 1
}
# begin NAME COMMAND...: in the background, with the process in NAME.pid
begin() {
	name=$1
	shift
	"$@" >>"$name.log" 2>&1 &
	echo $! >"$name.pid"
}
# finish NAME [SIGNAL]
finish() {
	[ -s "$1.pid" ] || return 0
	pid=$(cat "$1.pid")
	rm "$1.pid"
	kill "-${2:-TERM}" "$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
}
clean() {
	code=$?
	trap - EXIT INT TERM
	rm -f hold data/filler
	for name in apply writes a b full registry front issuer; do finish "$name"; done
	for file in */runs/*/*/process.json; do # runs of instances outlive their server
		pid=$(jq .pid "$file" 2>/dev/null) && [ "$(cut -d ' ' -f 22 "/proc/$pid/stat" 2>/dev/null)" = "$(jq .start "$file")" ] && kill "$pid"
	done
	cd /
	[ $RUN_SH_DISK = none ] || umount "$work/data" 2>/dev/null || true
	rm -rf "$work"
	exit "$code"
}
trap clean EXIT
trap 'exit 130' INT TERM
# wait_for COMMAND...: two minutes at most
wait_for() {
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ "$n" -lt 600 ] || fail "gave up waiting for: $*"
		sleep 0.2
	done
}
began=$(date +%s.%N)
# step TEXT: prints how long the step before took
step() {
	now=$(date +%s.%N)
	[ -z "${doing:-}" ] || printf '   %.1f s\n' "$(echo "$now $began" | awk '{ print $1 - $2 }')"
	began=$now doing=$1
	printf '== %s\n' "$1"
}
ports() { python3 -c 'import socket
s = [socket.socket() for _ in range(7)]
for x in s: x.bind(("127.0.0.1", 0))
print(*[x.getsockname()[1] for x in s])'; }

# certificate NAME: of the CA in tls, for loopback, under another name first, so that nobody reads half of it
certificate() {
	openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "tls/$1.key.new" -out "tls/$1.csr" 2>/dev/null
	printf 'subjectAltName = IP:127.0.0.1\n' >tls/ext
	openssl x509 -req -in "tls/$1.csr" -CA tls/ca.pem -CAkey tls/ca.key -CAcreateserial -days 30 -extfile tls/ext -out "tls/$1.pem.new" 2>/dev/null
	mv "tls/$1.key.new" "tls/$1.key"
	mv "tls/$1.pem.new" "tls/$1.pem"
}
serial() { openssl s_client -connect "127.0.0.1:$1" </dev/null 2>/dev/null | openssl x509 -noout -serial; }

# signing_key ID: what the issuer signs with from now on, beside what it signed with before
signing_key() {
	kid=$1
	openssl genrsa -out "issuer/$kid.key" 2048 2>/dev/null
	modulus=$(openssl rsa -in "issuer/$kid.key" -noout -modulus 2>/dev/null | cut -d = -f 2)
	n=$(python3 -c 'import base64, sys; print(base64.urlsafe_b64encode(bytes.fromhex(sys.argv[1])).decode().rstrip("="))' "$modulus")
	jq -cn --arg n "$n" --arg kid "$kid" '{kty: "RSA", alg: "RS256", use: "sig", kid: $kid, e: "AQAB", n: $n}' >"issuer/$kid.jwk"
	jq -cs '{keys: .}' issuer/*.jwk >issuer/keys.new
	mv issuer/keys.new issuer/keys
}
base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
# identity: a token of the issuer for Anna of the platform team
identity() {
	now=$(date +%s)
	part=$(printf '{"alg":"RS256","kid":"%s"}' "$kid" | base64url).$(printf '{"iss":"http://127.0.0.1:%s","aud":"okara","sub":"anna","groups":["platform"],"iat":%s,"exp":%s}' "$issuer" "$now" $((now + 3600)) | base64url)
	printf '%s.%s' "$part" "$(printf %s "$part" | openssl dgst -sha256 -sign "issuer/$kid.key" -binary | base64url)"
}
anna() { OKARA_TOKEN=$(identity) OKARA_SERVER=$url "$new" "$@"; }
ci() { OKARA_TOKEN=$(cat ci.token) OKARA_SERVER=$url "$new" "$@"; }
api() { curl -sS --fail --cacert tls/ca.pem -H "Authorization: Bearer $(cat ci.token)" -H 'Content-Type: application/vnd.api+json' "$@"; }
registry_api() { curl -sS --fail --cacert tls/ca.pem -u okara:secret "$@"; }
lead() { curl -sS "http://127.0.0.1:$1/metrics" | grep -q '^okara_leader 1'; }
one_leads() { lead "$metrics_a" || lead "$metrics_b"; }

start_registry() {
	begin registry registry serve registry.yml
	wait_for registry_api "https://127.0.0.1:$registry/v2/"
}
# replica NAME [PROGRAM]
replica() {
	port=$a metrics=$metrics_a
	[ "$1" = a ] || port=$b metrics=$metrics_b
	sed "s/LISTEN/$port/; s/METRICS/$metrics/; s/FRONT/$front/; s/REGISTRY/$registry/; s/ISSUER/$issuer/; s/NAME/$1/; s/\"keys.archive.key\"/$archive_keys/" "$here/okara.hcl" >"$1.hcl"
	mkdir -p "$1"
	begin "$1" "${2:-$new}" serve --config "$1.hcl"
	wait_for curl -sS --fail "--cacert" tls/ca.pem "https://127.0.0.1:$port/readyz"
}
# replace NAME [PROGRAM]: the other one serves meanwhile
replace() {
	finish "$1"
	replica "$@"
}

# inventory FILE: what must not be lost. The registry says which bytes there are, okara what they mean.
inventory() {
	{
		for repo in $(registry_api "https://127.0.0.1:$registry/v2/_catalog?n=1000" | jq -r '.repositories[]'); do
			for tag in $(registry_api "https://127.0.0.1:$registry/v2/$repo/tags/list" | jq -r '.tags[]?'); do
				case $repo:$tag in
				*/modules/*:[0-9]* | */state/*:state-*-[0-9]* | */templates/*) ;;
				*) continue ;;
				esac
				echo "$repo:$tag $(registry_api -I -H 'Accept: application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json' \
					"https://127.0.0.1:$registry/v2/$repo/manifests/$tag" | tr -d '\r' | sed -n 's/^[Dd]ocker-[Cc]ontent-[Dd]igest: //p')"
			done
		done
		for module in acme/greeting/any acme/spare/any; do
			ci list "$module" --json | jq -c --arg m "$module" '.[] | {$m, version, published_at, yanked, message}'
		done
		for state in acme/shop mail/prod; do
			OKARA_STATE_KEYS=$(cat keys/list) "$new" state history "127.0.0.1:$registry/platform/state/${state%/*}" -w "${state#*/}" --json | jq -c --arg s "$state" '.versions[] | {$s, version, serial, digest}'
			"$new" state locks "127.0.0.1:$registry/platform/state/${state%/*}" --json | jq -r '.. | objects | .id // empty | "lock " + .'
		done
		anna instance list --json | jq -c '.instances[] | {id, template, owner, created}'
	} >unsorted
	LC_ALL=C sort unsorted >"$1"
	[ "$(wc -l <"$1")" -gt "${2:-5}" ] || fail "$(cat "$1")"
}
# nothing_lost BEFORE: everything that was there is there
nothing_lost() {
	inventory now
	lost=$(LC_ALL=C comm -23 "$1" now)
	[ -z "$lost" ] || fail "lost since $1: $lost"
	printf '   nothing lost: %s entries, now %s; %s locks, %s instances\n' "$(wc -l <"$1")" "$(wc -l <now)" "$(grep -c '^lock ' now)" "$(grep -c '"template"' now)"
}

step "install: a CA, certificates, keys, tokens, an issuer"
read -r registry a b metrics_a metrics_b front issuer <<P
$(ports)
P
url=https://127.0.0.1:$front
umask 077
mkdir tls keys issuer docker templates data
archive_keys='"keys\/archive.key"'
[ $RUN_SH_DISK = none ] || mount -t tmpfs -o size=64m tmpfs data
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=example-ca -keyout tls/ca.key -out tls/ca.pem 2>/dev/null
certificate registry
certificate okara
for key in archive session state; do openssl rand -hex 32 >keys/$key.key; done
echo "$work/keys/state.key" >keys/list
OKARA_STATE_KEYS=$work/keys/state.key
export OKARA_STATE_KEYS
"$old" admin token new ci 'publish:module:acme/**' 'write:state:**' 'admin:*:**' 'approve:instance:**' --token-file tokens --write ci.token
mkdir -p issuer/.well-known
printf '{"issuer":"http://127.0.0.1:%s","jwks_uri":"http://127.0.0.1:%s/keys"}' "$issuer" "$issuer" >issuer/.well-known/openid-configuration
signing_key one
cp "$here"/templates/* templates
for folder in greeting shop mail; do
	mkdir "$folder" && sed "s/FRONT/$front/" "$here/$folder/main.tf" >"$folder/main.tf"
done
credentials() { printf 'credentials "127.0.0.1:%s" {\n  token = "%s"\n}\n' "$front" "$(cat ci.token)" >cli.tfrc; }
credentials
printf 'okara:%s\n' "$(perl -e 'print crypt("secret", q($2y$05$) . "abcdefghijklmnopqrstuu")')" >htpasswd
sed "s/REGISTRY/$registry/; s|DATA|$work/data|" "$here/registry.yml" >registry.yml
begin issuer python3 -m http.server "$issuer" --bind 127.0.0.1 --directory issuer
begin front python3 "$here/front.py" "$front" "$a" "$b"
start_registry
echo secret | "$old" login "127.0.0.1:$registry" --username okara --password-stdin

step "two replicas of $("$old" version | cut -d ' ' -f 1-2)"
replica a "$old"
replica b "$old"
wait_for one_leads

step "modules, states, instances"
ci publish module greeting acme/greeting/any 1.0.0
ci publish module greeting acme/greeting/any 1.1.0
ci publish module greeting acme/spare/any 1.0.0
ci yank acme/spare/any@1.0.0 --message "not for use" --yes
TF_HTTP_PASSWORD=$(cat ci.token)
export TF_HTTP_PASSWORD
for folder in shop mail; do
	(cd "$folder" && tofu init -no-color && tofu apply -auto-approve -no-color && tofu apply -auto-approve -no-color) >"$folder.log" 2>&1 || fail "$folder"
done
wait_for sh -c "! OKARA_TOKEN=$(identity) OKARA_SERVER=$url $new instance template list | grep -q invalid"
alive=$(anna instance create sandbox/greeting -p name=world --wait --json | jq -r .id)
asked=$(anna instance create sandbox/asked -p name=later --reason "for the upgrade" --json | jq -r .id)
[ "$(anna instance outputs "$alive" --json | jq -r '.text.value // .text // .outputs.text')" != null ] || fail "no output"
"$old" bundle create before.tar acme/greeting/any --registry "127.0.0.1:$registry/platform"

step "locks: one of an apply that runs, one of a client of the http backend"
touch hold
(cd shop && exec tofu apply -auto-approve -no-color -var "hold=$work/hold") >apply.log 2>&1 &
echo $! >apply.pid
wait_for grep -q 'Creating\.\.\.\|Provisioning' apply.log
lock='{"ID":"5d0c0e0c-0000-4000-8000-000000000001","Operation":"OperationTypeApply","Info":"","Who":"ann@laptop","Version":"1.12.6","Created":"2026-11-30T12:00:00Z","Path":""}'
mail() { curl -sS -o mail.out -w '%{http_code}' --cacert tls/ca.pem -u "okara:$TF_HTTP_PASSWORD" -X "$1" -d "$2" "$url/state/mail/prod"; }
[ "$(mail LOCK "$lock")" = 200 ] || fail "LOCK: $(cat mail.out)"
(while :; do api -o /dev/null "$url/v1/modules/acme/greeting/any/versions" 2>/dev/null && echo answered || echo failed; sleep 0.1; done) >writes.log 2>&1 &
echo $! >writes.pid
inventory before

step "upgrade to $("$new" version | cut -d ' ' -f 1-2), one replica after the other"
replace b
replace a
wait_for one_leads
finish writes
printf '   %s requests answered meanwhile, %s failed\n' "$(grep -c answered writes.log)" "$(grep -c failed writes.log || true)"

step "after it: locks hold, their runs go on, nothing is lost"
[ "$(mail LOCK "$(echo "$lock" | sed 's/0001/0002/')")" = 423 ] || fail "a second LOCK: $(cat mail.out)"
nothing_lost before
[ "$(mail UNLOCK "$lock")" = 200 ] || fail "UNLOCK: $(cat mail.out)"
rm hold
wait "$(cat apply.pid)" || fail "the apply that ran: $(cat apply.log)"
rm apply.pid
for folder in shop mail; do (cd "$folder" && tofu apply -auto-approve -no-color) >"$folder.log" 2>&1 || fail "$folder"; done
anna instance update "$alive" -p name=upgraded --wait
OKARA_TOKEN=$(cat ci.token) OKARA_SERVER=$url "$new" instance list >/dev/null || fail "the token of CI"
ci instance approve "$asked" --yes
anna instance wait "$asked"
"$new" bundle load before.tar --registry "127.0.0.1:$registry/loaded"
inventory before

step "renew the certificate of the replicas, and that of the registry"
was=$(serial "$a")
certificate okara
replace a
replace b
[ "$(serial "$a")" != "$was" ] || fail "the old certificate"
certificate registry
finish registry
start_registry
nothing_lost before

step "the disk of the registry is full"
if [ $RUN_SH_DISK = none ]; then
	echo "   not done: only root can give the registry a small disk"
else
	cat /dev/zero >data/filler 2>/dev/null || df -k data | tail -n 1
	if (cd mail && tofu apply -auto-approve -no-color) >mail.log 2>&1; then fail "an apply on a full disk"; fi
	grep 'rror' mail.log | head -n 3
	rm data/filler
	(cd mail && tofu apply -auto-approve -no-color) >mail.log 2>&1 || fail "mail after the disk has room"
	nothing_lost before
fi

step "change keys: of states, of links, of the issuer, of the job"
openssl rand -hex 32 >keys/next.key
echo "$work/keys/next.key $work/keys/state.key" >keys/list
OKARA_STATE_KEYS=$(cat keys/list)
mv keys/archive.key keys/archive-1.key
openssl rand -hex 32 >keys/archive.key
archive_keys='"keys\/archive.key", "keys\/archive-1.key"'
replace a
replace b
for state in acme/shop mail/prod; do
	"$new" state rekey "127.0.0.1:$registry/platform/state/${state%/*}" -w "${state#*/}" --all-versions --new-key keys/next.key --key keys/state.key
done
signing_key two
"$new" admin token new ci2 'publish:module:acme/**' 'write:state:**' 'admin:*:**' 'approve:instance:**' --token-file tokens --write ci.new
"$new" admin token revoke ci --token-file tokens
mv ci.new ci.token
credentials
TF_HTTP_PASSWORD=$(cat ci.token)
wait_for api "$url/v1/modules/acme/greeting/any/versions"
wait_for anna instance list
(cd mail && tofu apply -auto-approve -no-color) >mail.log 2>&1 || fail mail

step "backup: the registry stops for as long as the copy takes; locks and rights are in it, keys are not"
inventory before
finish registry
tar -cf backup.tar data
start_registry
printf '   %s bytes\n' "$(wc -c <backup.tar)"

step "restore into an empty registry"
finish a
finish b
finish registry
find data -mindepth 1 -delete
tar -xf backup.tar
start_registry
replica a
replica b
nothing_lost before
wait_for one_leads
anna instance destroy "$alive" --wait --yes
(cd shop && tofu plan -no-color) >shop.log 2>&1 || fail shop

step "one replica lost: the leading one is killed while it launches"
leader=a
lead "$metrics_a" || leader=b
launched=$(anna instance create sandbox/greeting -p name=lost --json | jq -r .id)
finish "$leader" KILL
anna instance wait "$launched"
wait_for one_leads
anna instance outputs "$launched"
replica "$leader"

step "alerts"
curl -sS "http://127.0.0.1:$metrics_a/metrics" >metrics
grep -c '^# TYPE okara_' metrics
if command -v promtool >/dev/null && [ -e "${RULES:-$here/../../deploy/prometheus/rules.yaml}" ]; then
	promtool check metrics <metrics
	(cd "$(dirname "${RULES:-$here/../../deploy/prometheus/rules.yaml}")" && promtool check rules rules.yaml && promtool test rules rules.test.yaml)
else
	echo "   promtool is not on PATH: not checked"
fi
wc -l a/audit.jsonl b/audit.jsonl
step "end"
