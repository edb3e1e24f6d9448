#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instances from launch to end: three users, and two servers of which the leading one is
# killed. Needs what `make demo-instances` builds, and bubblewrap; leaves nothing behind.
# It takes twelve minutes: no lifetime is shorter than ten.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
logs='a b'
# stop interrupts what still applies or destroys, too: runs outlive their server. A file names
# the process of each, by its number and the time of its start. After Ctrl-C, which ends the
# registry as well, a run has nowhere to store its state, and is not waited for.
stop() {
	for name in claim-* a b; do end -TERM "${name%.pid}"; done
	for file in */runs/*/*/process.json; do
		pid=$(jq .pid "$file" 2>/dev/null) && from=$(jq .start "$file") || continue
		runs() { cut -d ' ' -f 3,22 "/proc/$pid/stat" 2>/dev/null | grep -q "^[^Z] $from$"; }
		runs && kill -TERM "$pid"
		for _ in $(seq 20); do runs && sleep 0.25; done
		runs && kill -KILL "$pid"
	done
	end -TERM registry
}
. "$root/testdata/demo/lib.sh"

# as runs a command as a user, at the server that the variable server names.
as() {
	token=$(cat "$1.token")
	shift
	OKARA_SERVER=$server OKARA_TOKEN=$token "$@"
}
# launch is expect for a launch, and leaves the id in the variable id.
launch() {
	who=$1
	shift
	expect "$who" 0 '^[a-z2-9]\{10\} ' okara instance create "$@"
	id=$(tail -n 1 out | cut -c 1-10)
}
says() { as "$1" okara instance show "$2" | grep -q -e "$3"; }
log_says() { as "$1" okara instance logs "$2" | grep -q -e "$3"; }

step "An OCI registry, and a module and a provider in it"
serve registry --listen 127.0.0.1:0 --storage registry
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
run() {
	printf '$ okara serve --config %s.hcl &\n' "$1"
	serve "$1" --config "$1.hcl"
}
for name in a b; do
	address
	sed "s|REGISTRY|$OKARA_REGISTRY|; s|SERVER|$name|; s|ADDRESS|$free|" server.hcl >"$name.hcl"
done
run a
a=$url
until_true grep -q 'is the leader' a.log
run b
b=$url
grep -h 'is the leader' a.log b.log | sed 's/.*msg=/a: /'
[ "$(cat a.log b.log | grep -c 'is the leader')" = 1 ] || fail "both lead"

step "Anna launches, at the server that does not lead; she may have one"
server=$b
expect anna 0 '^demo/app ' okara instance template list
launch anna demo/app -p size=small
annas=$id
printf 'anna$ okara instance logs %s --follow\n' "$annas"
as anna okara instance logs "$annas" --follow | tee out
grep -q 'Apply complete! Resources: 1 added' out || fail "the log has no end"
expect anna 0 " ready$" okara instance wait "$annas"
expect anna 0 "^url  https://$annas.sandbox.example.com/small" okara instance outputs "$annas"
launch anna demo/app -p size=small
[ "$id" = "$annas" ] || fail "she has $annas and $id"
expect anna 0 '^phase *ready' okara instance show "$annas"

step "She extends it as often as the template allows, and not once more"
expect anna 0 'it ends at' okara instance extend "$annas"
expect anna 4 'extended 1 of 1 times' okara instance extend "$annas"

step "Ben protects his, which nobody else sees"
server=$a
launch ben demo/app -p size=large --wait
bens=$id
expect ben 0 . okara instance protect "$bens"
expect ben 4 'is protected by its owner' okara instance destroy "$bens"
expect anna 3 "instance $bens not found or not visible to you" okara instance show "$bens"

step "A plan is applied once somebody else has approved exactly it"
launch anna demo/guarded -p size=small
guarded=$id
for size in small large; do
	until_true says anna "$guarded" '^phase *planned'
	expect anna 0 'waiting for approval' okara instance show "$guarded"
	expect anna 5 'by someone other than the requester' okara instance approve "$guarded" --plan "$(sed -n 's/^plan *//p' out)"
	expect carla 4 'the plan changed since you reviewed it' okara instance approve "$guarded" --plan sha256:0000
	expect carla 0 'About to approve sha256:' okara instance approve "$guarded" --yes
	expect anna 0 " ready$" okara instance wait "$guarded"
	expect anna 0 "/$size$" okara instance outputs "$guarded"
	[ "$size" = large ] || expect anna 0 "$guarded" okara instance update "$guarded" -p size=large
done

step "Twenty claims at one moment, on a pool of two that may have four"
pool() { as anna okara instance template show demo/pooled | grep -q '^pool *2 of 2 ready'; }
until_true pool
expect anna 0 '^pool *2 of 2 ready' okara instance template show demo/pooled
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
until_true log_says ben "$slow" 'made: Creating'
printf '$ kill -KILL %s # server a\n' "$(cat a.pid)"
end -KILL a
server=$b
expect anna 0 '^phase *ready' okara instance show "$annas" # from a copy: nobody leads
until_true grep -q 'is the leader' b.log
grep -h 'is the leader' b.log | sed 's/.*msg=/b: /'
expect ben 0 " ready$" okara instance wait "$slow"
expect ben 0 'ready *run 1, .*1 added' okara instance show "$slow"
[ "$(as ben okara instance logs "$slow" | grep -c 'made: Creation complete')" = 1 ] || fail "it was not made once"
expect ben 0 'it ends at' okara instance extend "$bens" --idempotency-key again
expect ben 0 'it ends at' okara instance extend "$bens" --idempotency-key again # repeated, as after a lost answer
expect ben 0 '^extended *1 of 1 times' okara instance show "$bens"
run a
server=$a

step "He destroys it; the rest ends by itself, although the templates are gone"
expect ben 0 ' destroyed$' okara instance destroy "$slow" --wait
show rm templates/demo.hcl
list() { as carla okara instance list --all --json >list && jq -e "$1" list; }
last='' n=0
until list 'all(.instances[]; .phase == "destroyed")' >/dev/null; do
	n=$((n + 1))
	[ "$n" -lt 500 ] || fail "something has not ended"
	now=$(jq -r '[.instances[].phase] | group_by(.) | map("\(length) \(.[0])") | join(", ")' list)
	[ "$now" = "$last" ] || echo "$(date +%T) $now"
	last=$now
	if [ -n "$bens" ] && list ".instances[] | select(.id == \"$bens\") | .conditions[]? | select(.type == \"ExpiredProtected\")" >/dev/null; then
		expect ben 0 '^phase *ready' okara instance show "$bens"
		expect ben 0 . okara instance unprotect "$bens"
		bens=
	fi
	sleep 3
done
[ -z "$bens" ] || fail "the protected one has ended"
expect carla 0 "$slow" okara instance list --all

step "What is left: no resource in any state, and who did what"
jq -r '.instances[] | .template + "/" + .id' list >ended
[ "$(wc -l <ended)" -eq 8 ] || fail "there were not two apps, a guarded, a slow and four pooled ones"
while read -r name; do
	left=$(okara state pull "$OKARA_REGISTRY/instances/$name" | jq '.resources | length')
	echo "$name has $left resources"
	[ "$left" = 0 ] || fail "they are left behind"
done <ended
printf '$ okara admin audit --kind instance --actor ben\n' # a leader that is killed loses its last minute here, and not in its file
okara admin audit --kind instance --actor ben | tee out
grep -q 'destroy instance .*done' out || fail "ben destroyed none"
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
