#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Checks the models of the lock with spin: the protocol must pass, and each
# mutant, which leaves out one rule, must fail. The optional argument is the only
# model to check: sharedtag, claims or servers.
set -u
dir=$(cd "$(dirname "$0")" && pwd)
for tool in spin cc; do
	if ! command -v $tool >/dev/null; then
		echo "models: $tool is not installed, nothing was checked (Debian: apt-get install spin gcc)"
		exit 0
	fi
done
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0

only=${1:-}

# check EXPECTED FILE DEFINES: EXPECTED is pass, fail, or the name of the property
# that must be violated. For servers, memory and time are bounded.
check() {
	want=$1 file=$2
	shift 2
	if [ "${only:-$file}" != $file ]; then return; fi
	bound='' memory=''
	if [ $file = servers ]; then bound='timeout 600' memory=-DMEMLIM=4096; fi
	rm -f pan*
	if ! spin "$@" -a "$dir/$file.pml" >log 2>&1 || ! cc -O2 -w ${search:--DSAFETY} -DVECTORSZ=4096 $memory -o pan pan.c >>log 2>&1; then
		cat log
		exit 1
	fi
	$bound ./pan ${search:+-l} -m1000000 >log 2>&1
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' log)
	if grep -q 'errors: 0' log; then got=pass; else got=fail; fi
	if ! grep -q 'errors: ' log || grep -q 'max search depth too small\|out of memory\|VECTORSZ' log; then got=broken; fi
	why=$(sed -n 's/^pan:1: \(.*\) (at.*/\1/p' log | head -1)
	if [ $got = fail ] && [ "$want" != fail ]; then got=${why#assertion violated }; fi
	mark=ok
	if [ "$got" != "$want" ]; then
		mark=WRONG
		failed=1
		tail -20 log
	fi
	printf '%-5s %-9s %-70s must %s, %s states %s\n' $mark $file "$* ${search:-}" "$want" "${states:-?}" "$why"
}

for v in 0 1 2; do check fail sharedtag -DVERIFY=$v; done

for order in "" -DDESCENDING; do
	for release in "" -DTOMBSTONES; do
		check pass claims -DCYCLES=2 $order $release
		check pass claims -DCYCLES=2 -DPUTS=0 -DLOST=1 -DCRASHES=1 $order $release
		check pass claims -DPUTS=2 -DTAKEOVERS=1 -DCRASHES=1 $order $release
		check fail claims -DPUTS=2 -DTAKEOVERS=1 -DCRASHES=1 -DNO_SEAL $order $release
		check fail claims -DPUTS=2 -DTAKEOVERS=1 -DNO_JUMP $order $release
		check fail claims -DPUTS=2 -DTAKEOVERS=1 -DCHECK_FIRST $order $release
		check fail claims -DPUTS=2 -DTAKEOVERS=1 -DFORCE_DELETES $order $release
		check fail claims -DPUTS=2 -DTAKEOVERS=1 -DFORCE_ONLY $order $release
		check pass claims -DCYCLES=2 -DGHOSTS=1 $order $release
		check fail claims -DCYCLES=2 -DGHOSTS=1 -DGHOST_IGNORED $order $release
		check fail claims -DCYCLES=2 -DGHOSTS=1 -DGHOST_CLEAN $order $release
		check pass claims -DPUTS=2 -DTICKS=3 -DCRASHES=1 $order $release
		check fail claims -DPUTS=2 -DTICKS=3 -DLEASE_UNSEEN $order $release
	done
done
check fail claims -DNO_L3 -DDESCENDING
check fail claims -DNO_L3 -DTOMBSTONES

for release in "" -DTOMBSTONES; do
	check pass claims -DPREFIX -DCYCLES=2 $release
	check pass claims -DPREFIX -DPUTS=2 -DTAKEOVERS=1 -DCRASHES=1 $release
	check fail claims -DPREFIX -DPUTS=2 -DTAKEOVERS=1 -DCRASHES=1 -DNO_SEAL $release
	check fail claims -DPREFIX -DPUTS=2 -DTAKEOVERS=1 -DNO_JUMP $release
	check fail claims -DPREFIX -DPUTS=2 -DTAKEOVERS=1 -DCHECK_FIRST $release
	check fail claims -DPREFIX -DPUTS=2 -DTAKEOVERS=1 -DFORCE_DELETES $release
	check fail claims -DPREFIX -DPUTS=2 -DTAKEOVERS=1 -DFORCE_ONLY $release
	check fail claims -DPREFIX -DNO_OWN $release
	check pass claims -DPREFIX -DCYCLES=2 -DGHOSTS=1 $release
	check fail claims -DPREFIX -DCYCLES=2 -DGHOSTS=1 -DGHOST_IGNORED $release
	check fail claims -DPREFIX -DCYCLES=2 -DGHOSTS=1 -DGHOST_CLEAN $release
	check pass claims -DPREFIX -DPUTS=2 -DTICKS=3 -DCRASHES=1 $release
	check fail claims -DPREFIX -DPUTS=2 -DTICKS=3 -DLEASE_UNSEEN $release
done
# The guarantee to clients, through servers that stop.
for lists in "" -DDESCENDING -DWHOLE -DPREFIX; do
	check pass servers $lists
	check pass servers $lists -DPUTS=2 -DTOMBSTONES
done
search=-DNP check pass servers -DWHOLE # no cycles
check pass servers -DWHOLE -DREFUSED=2
check pass servers -DWHOLE -DFORCES=1
check pass servers -DWHOLE -DGIVEUPS=1 -DREADS -DPUTS=2
check pass servers -DDESCENDING -DGIVEUPS=1 -DALONE -DSERVERS=3
check pass servers -DWHOLE -DSTOPS=1 -DBRIEF
check pass servers -DWHOLE -DSTOPS=1 -DBRIEF -DTOMBSTONES
check holderRefused servers -DWHOLE -DOLD_CLAIM_FIRST
check versionAboveHolder servers -DWHOLE -DFORCES=1 -DNO_LOOK
check claimLeft servers -DWHOLE -DGIVEUPS=1 -DALONE -DSERVERS=3 -DONE_LIST
check claimLeft servers -DWHOLE -DGIVEUPS=1 -DALONE -DCOMMIT_FIRST
check versionAboveHolder servers -DWHOLE -DGIVEUPS=1 -DREADS -DPUTS=2 -DNO_SEAL
check versionWrittenTwice servers -DWHOLE -DGIVEUPS=1 -DALONE -DLOW_NUMBER
check versionWrittenTwice servers -DDESCENDING -DGIVEUPS=1 -DALONE -DSERVERS=3 -DUNCONFIRMED
check claimLeft servers -DWHOLE -DSTOPS=1 -DBRIEF -DSIBLINGS_STAY
if [ "${MODELS:-}" = full ]; then
	check pass claims -DCLIENTS=3 -DTAKEOVERS=1 -DCRASHES=1
	check pass claims -DCLIENTS=3 -DTAKEOVERS=1 -DCRASHES=1 -DDESCENDING -DTOMBSTONES
	check pass claims -DCLIENTS=3 -DTAKEOVERS=2 -DPREFIX
fi
exit $failed
