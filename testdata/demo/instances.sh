#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instances from launch to end: three users, and two servers of which the leading one is
# killed. Needs what `make demo-instances` builds, and bubblewrap; leaves nothing behind.
# It takes twelve minutes: no lifetime is shorter than ten.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
PATH=$root/bin:$root/.cache/tofu/1.12.6:$root/.cache/jq/0.12.17:$PATH
work=$(mktemp -d "${TMPDIR:-/tmp}/okara-demo.XXXXXX")
cd "$work"

# end sends a signal to a process that start has started, and waits until it has ended.
end() {
	[ -s "$2.pid" ] || return 0
	read -r pid <"$2.pid"
	rm "$2.pid"
	kill "$1" "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
}

# end_runs interrupts what still applies or destroys: runs outlive their server. A file names
# the process of each, by its number and the time of its start. After Ctrl-C, which ends the
# registry as well, a run has nowhere to store its state, and is not waited for.
end_runs() {
	for file in */runs/*/*/process.json; do
		pid=$(jq .pid "$file" 2>/dev/null) && from=$(jq .start "$file") || continue
		runs() { cut -d ' ' -f 3,22 "/proc/$pid/stat" 2>/dev/null | grep -q "^[^Z] $from$"; }
		runs && kill -TERM "$pid"
		for _ in $(seq 20); do runs && sleep 0.25; done
		runs && kill -KILL "$pid"
	done
}

finish() {
	code=$?
	set +e
	trap - EXIT
	trap '' INT TERM
	cd "$work"
	for name in claim-* a b; do end -TERM "${name%.pid}"; done
	end_runs
	end -TERM registry
	[ "$code" = 0 ] || for name in a b; do
		printf '\nthe demo stopped with code %s; the end of the log of server %s:\n' "$code" "$name"
		tail -n 20 "$name.log"
	done >&2
	cd /
	rm -rf "$work"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

# A home of its own: no configuration of the user takes part, none is changed.
HOME=$work/home XDG_DATA_HOME=$work/data XDG_CONFIG_HOME=$work/config TMPDIR=$work/tmp CHECKPOINT_DISABLE=1
unset DOCKER_CONFIG REGISTRY_AUTH_FILE AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3
export PATH HOME XDG_DATA_HOME XDG_CONFIG_HOME TMPDIR CHECKPOINT_DISABLE
mkdir "$HOME" "$TMPDIR"

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() {
	printf '$ %s\n' "$*"
	"$@"
}
fail() {
	printf 'the demo stopped: %s\n' "$*" >&2
	exit 1
}
# until_true waits for a command to succeed, three minutes at most.
until_true() {
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ "$n" -lt 600 ] || fail "gave up waiting for: $*"
		sleep 0.3
	done
}
# start starts okara serve with a name, and leaves its URL in the variable url.
start() {
	name=$1
	shift
	: >"$name.log"
	okara serve "$@" >"$name.log" 2>&1 &
	echo $! >"$name.pid"
	until_true grep -q 'listening on' "$name.log"
	url=$(sed -n 's|^listening on ||p' "$name.log")
}
# as runs okara as a user, at the server that the variable server names.
as() {
	token=$(cat "$1.token")
	shift
	OKARA_SERVER=$server OKARA_TOKEN=$token okara "$@"
}
# expect shows a command of a user, which has to end with a code and to say something.
expect() {
	user=$1 want=$2 pattern=$3 got=0
	shift 3
	printf '%s$ okara %s\n' "$user" "$*"
	as "$user" "$@" >out 2>&1 || got=$?
	cat out
	[ "$got" = "$want" ] || fail "code $got, not $want"
	grep -q -e "$pattern" out || fail "that does not say: $pattern"
}
# launch is expect for a launch, and leaves the id in the variable id.
launch() {
	who=$1
	shift
	expect "$who" 0 '^[a-z2-9]\{10\} ' instance create "$@"
	id=$(tail -n 1 out | cut -c 1-10)
}
says() { as "$1" instance show "$2" | grep -q -e "$3"; }
logs() { as "$1" instance logs "$2" | grep -q -e "$3"; }

step "An OCI registry, and a module and a provider in it"
start a --listen 127.0.0.1:0 --storage free-a # to learn a free address for each server
a=$url
start b --listen 127.0.0.1:0 --storage free-b
b=$url
end -TERM a
end -TERM b
start registry --listen 127.0.0.1:0 --storage registry
export OKARA_REGISTRY="${url#http://}/demo"
echo "listening on $url"
cp -R "$root/testdata/demo/instances/." .
show okara publish module app acme/app/time 1.0.0
key=$(okara keys new --name "okara demo" --dir keys --quiet | cut -f 2)
printf '$ okara publish provider DIST acme/time 0.14.2 --sign-key KEY\n'
okara publish provider "$root/.cache/provider/time/0.14.2" acme/time 0.14.2 --sign-key "$key"

step "Templates, and users with their rights"
show okara instance template validate templates
umask 077
for name in state archive; do od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$name.key"; done
export OKARA_STATE_KEYS="$work/state.key"
show okara admin token new anna 'use:instance:demo/*' 'approve:instance:demo/guarded' --token-file tokens --write anna.token
show okara admin token new ben 'use:instance:demo/*' --token-file tokens --write ben.token
show okara admin token new carla 'approve:instance:demo/*' 'admin:instance:**' --token-file tokens --write carla.token
for n in $(seq 20); do okara admin token new "u$n" use:instance:demo/pooled --token-file tokens --write "u$n.token"; done
echo "and u1 to u20, who may use demo/pooled"

step "Two servers, of which one leads"
for name in a b; do
	url=$a
	[ "$name" = a ] || url=$b
	sed "s|REGISTRY|$OKARA_REGISTRY|; s|SERVER|$name|; s|ADDRESS|${url#http://}|" server.hcl >"$name.hcl"
	printf '$ okara serve --config %s.hcl &\n' "$name"
	start "$name" --config "$name.hcl"
	until_true grep -q 'is the leader' a.log
done
grep -h 'is the leader' a.log b.log | sed 's/.*msg=/a: /'
[ "$(cat a.log b.log | grep -c 'is the leader')" = 1 ] || fail "both lead"

step "Anna launches, at the server that does not lead; she may have one"
server=$b
expect anna 0 '^demo/app ' instance template list
launch anna demo/app -p size=small
annas=$id
printf 'anna$ okara instance logs %s --follow\n' "$annas"
as anna instance logs "$annas" --follow | tee out
grep -q 'Apply complete! Resources: 1 added' out || fail "the log has no end"
expect anna 0 " ready$" instance wait "$annas"
expect anna 0 "^url  https://$annas.sandbox.example.com/small" instance outputs "$annas"
launch anna demo/app -p size=small
[ "$id" = "$annas" ] || fail "she has $annas and $id"
expect anna 0 '^phase *ready' instance show "$annas"

step "She extends it as often as the template allows, and not once more"
expect anna 0 'it ends at' instance extend "$annas"
expect anna 4 'extended 1 of 1 times' instance extend "$annas"

step "Ben protects his, which nobody else sees"
server=$a
launch ben demo/app -p size=large --wait
bens=$id
expect ben 0 . instance protect "$bens"
expect ben 4 'is protected by its owner' instance destroy "$bens"
expect anna 3 "there is no instance $bens that you may see" instance show "$bens"

step "A plan is applied once somebody else has approved exactly it"
launch anna demo/guarded -p size=small
guarded=$id
for size in small large; do
	until_true says anna "$guarded" '^phase *planned'
	expect anna 0 'waits for approval' instance show "$guarded"
	expect anna 5 'by someone other than the requester' instance approve "$guarded" --plan "$(sed -n 's/^plan *//p' out)"
	expect carla 4 'the plan changed since you looked at it' instance approve "$guarded" --plan sha256:0000
	expect carla 0 'You approve sha256:' instance approve "$guarded" --yes
	expect anna 0 " ready$" instance wait "$guarded"
	expect anna 0 "/$size$" instance outputs "$guarded"
	[ "$size" = large ] || expect anna 0 "$guarded" instance update "$guarded" -p size=large
done

step "Twenty claims at one moment, on a pool of two that may have four"
pool() { as anna instance template show demo/pooled | grep -q '^pool *2 of 2 ready'; }
until_true pool
expect anna 0 '^pool *2 of 2 ready' instance template show demo/pooled
for n in $(seq 20); do
	[ "$server" = "$a" ] && server=$b || server=$a
	OKARA_SERVER=$server OKARA_TOKEN=$(cat "u$n.token") okara instance create demo/pooled >"claim-$n" 2>&1 &
	echo $! >"claim-$n.pid"
done
echo "u1 to u20: okara instance create demo/pooled"
refused=0
for n in $(seq 20); do
	wait "$(cat "claim-$n.pid")" || { refused=$((refused + 1)) && grep -q 'the pool of demo/pooled is empty' "claim-$n" || fail "$(cat "claim-$n")"; }
	rm "claim-$n.pid"
done
claimed=$(cat claim-* | sed -n 's/^\([a-z2-9]\{10\}\) ready$/\1/p' | sort -u | wc -l)
echo "$((claimed)) have one each: two at once, two when it was filled again; $refused were told that the pool is empty"
[ "$((claimed))" = 4 ] && [ "$refused" = 16 ] || fail "not 4 and 16"

step "The leader is killed while tofu applies, and the other server goes on"
server=$a
launch ben demo/slow
slow=$id
until_true logs ben "$slow" 'made: Creating'
printf '$ kill -KILL %s # server a\n' "$(cat a.pid)"
end -KILL a
server=$b
expect anna 0 '^phase *ready' instance show "$annas" # from a copy: nobody leads
until_true grep -q 'is the leader' b.log
grep -h 'is the leader' b.log | sed 's/.*msg=/b: /'
expect ben 0 " ready$" instance wait "$slow"
expect ben 0 'ready *run 1, .*1 added' instance show "$slow"
[ "$(as ben instance logs "$slow" | grep -c 'made: Creation complete')" = 1 ] || fail "it was not made once"
expect ben 0 'it ends at' instance extend "$bens" --key again
expect ben 0 'it ends at' instance extend "$bens" --key again # repeated, as after a lost answer
expect ben 0 '^extended *1 of 1 times' instance show "$bens"
printf '$ okara serve --config a.hcl &\n'
start a --config a.hcl
server=$a

step "He destroys it; the rest ends by itself, although the templates are gone"
expect ben 0 ' destroyed$' instance destroy "$slow" --wait
show rm templates/demo.hcl
list() { as carla instance list --all --json >list && jq -e "$1" list; }
last='' n=0
until list 'all(.instances[]; .phase == "destroyed")' >/dev/null; do
	n=$((n + 1))
	[ "$n" -lt 500 ] || fail "something has not ended"
	now=$(jq -r '[.instances[].phase] | group_by(.) | map("\(length) \(.[0])") | join(", ")' list)
	[ "$now" = "$last" ] || echo "$(date +%T) $now"
	last=$now
	if [ -n "$bens" ] && list ".instances[] | select(.id == \"$bens\") | .conditions[]? | select(.type == \"ExpiredProtected\")" >/dev/null; then
		expect ben 0 '^phase *ready' instance show "$bens"
		expect ben 0 . instance unprotect "$bens"
		bens=
	fi
	sleep 3
done
[ -z "$bens" ] || fail "the protected one has ended"
expect carla 0 "$slow" instance list --all

step "What is left: no resource in any state, and who did what"
jq -r '.instances[] | .template + "/" + .id' list >ended
[ "$(wc -l <ended)" -eq 8 ] || fail "there were not two apps, a guarded, a slow and four pooled ones"
while read -r name; do
	left=$(okara state pull "$OKARA_REGISTRY/instances/$name" | jq '.resources | length')
	echo "$name has $left resources"
	[ "$left" = 0 ] || fail "they are left behind"
done <ended
show okara admin audit --kind instance --actor anna
jq -r 'select(.kind == "instance" and .outcome == "done") | "\(.action) by \(if .subject > "" then .subject else "the server" end)"' a.audit b.audit | sort | uniq -c | tee actions
for action in 'create by ben' 'extend by anna' 'protect by ben' 'unprotect by ben' 'approve by carla' 'update by anna' 'destroy by ben'; do
	grep -q " $action$" actions || fail "the audit logs have no $action"
done
! grep -q 'approve by anna' actions || fail "anna approved her own"

step "Stop"
end -TERM a
end -TERM b
end -TERM registry
printf '%s\n' 'the demo is complete: instances were launched, kept, approved, claimed and ended'
