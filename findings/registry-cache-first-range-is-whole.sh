#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: distribution 2.8.2 (Debian's docker-registry) as a pull-through cache; 3.1.2 does
#   the same.
# Guess: a request with a Range gets 206 from the cache, as it does from the registry behind it.
# Happens: as long as the cache does not hold the blob, it answers 200 with all of it.
#   From then on the same request gets 206.
# Matters: a client that resumes a download and appends what it gets without looking at
#   the status builds a broken file, on the first try only; one that reads a few bytes out
#   of an archive of gigabytes receives all of it.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

apt-get download -qq docker-registry=2.8.2+ds1-1 2>/dev/null
dpkg -x docker-registry_*.deb root
start() { # NAME PORT MORE: a registry of its own folder
	printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n%s\n' \
		"$tmp/$1" "$2" "$3" >"$1.yml"
	timeout 60 root/usr/bin/docker-registry serve "$1.yml" >"$1.log" 2>&1 &
	pids="$pids $!"
	for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$2/v2/" && return; sleep 0.1; done
	return 1
}
up=$(port); start upstream "$up" ''
mirror=$(port); start mirror "$mirror" "proxy: {remoteurl: \"http://127.0.0.1:$up\"}"

seq 20000 >blob
digest=sha256:$(sha256sum blob | cut -d' ' -f1)
location=$(curl -s -o answer -w '%header{location}' -X POST "http://127.0.0.1:$up/v2/team/app/blobs/uploads/")
curl -s -X PUT -H 'Content-Type: application/octet-stream' --data-binary @blob "$location&digest=$digest"
ask() { curl -s -o answer -w '%{http_code} with %{size_download} bytes' -H 'Range: bytes=10-19' "http://127.0.0.1:$1/v2/team/app/blobs/$digest"; }
behind=$(ask "$up"); first=$(ask "$mirror")
for _ in $(seq 50); do later=$(ask "$mirror"); case $later in 206*) break ;; esac; sleep 0.1; done # it stores the blob after it has answered
echo "the registry itself: $behind"
echo "the cache, first:    $first"
echo "the cache, later:    $later"
[ "$behind" = "206 with 10 bytes" ] && [ "$first" = "200 with $(stat -c %s blob) bytes" ] && [ "$later" = "206 with 10 bytes" ]
