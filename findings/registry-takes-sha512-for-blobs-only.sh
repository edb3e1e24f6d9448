#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: distribution 2.8.2 (Debian's docker-registry); 3.1.2 does the same.
# Guess: a registry either knows sha512 digests, which the OCI specifications register
#   beside sha256, or refuses them with a message that says so.
# Happens: a blob pushed under its sha512 digest is accepted and can be read under it, but
#   the answer names another digest, its sha256. A manifest pushed under its sha512 digest is
#   refused with "provided digest did not match uploaded content", though it does match.
# Matters: a client that compares Docker-Content-Digest with what it sent takes a good upload
#   for a damaged one, and whoever reads the refusal of the manifest searches the fault in
#   his own bytes or in a proxy.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

apt-get download -qq docker-registry=2.8.2+ds1-1 2>/dev/null
dpkg -x docker-registry_*.deb root
printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$tmp/data" "$port" >registry.yml
timeout 60 root/usr/bin/docker-registry serve registry.yml >log 2>&1 & pids=$!
base=http://127.0.0.1:$port/v2/team/app
for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$port/v2/" && break; sleep 0.1; done

echo content >blob
digest=sha512:$(sha512sum blob | cut -d' ' -f1)
location=$(curl -s -o answer -w '%header{location}' -X POST "$base/blobs/uploads/")
pushed=$(curl -s -o answer -w '%{http_code} %header{docker-content-digest}' -X PUT -H 'Content-Type: application/octet-stream' --data-binary @blob "$location&digest=$digest")
read=$(curl -s -o answer -w '%{http_code}' "$base/blobs/$digest")
type=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[]}' $type >index.json
manifest=$(curl -s -o refused -w '%{http_code}' -X PUT -H "Content-Type: $type" --data-binary @index.json "$base/manifests/sha512:$(sha512sum index.json | cut -d' ' -f1)")
echo "blob sent as    $digest"
echo "the answer      $pushed"
echo "read as sent    $read"
echo "manifest        $manifest $(cat refused)"
[ "${pushed%%:*}" = "201 sha256" ] && [ "$read" = 200 ] && [ "$manifest" = 400 ] && grep -q 'did not match uploaded content' refused
