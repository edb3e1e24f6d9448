#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: skopeo 1.9.3 (Debian 12), with a mirror in registries.conf; docker-registry 2.8.2.
# Guess: what registries.conf says about a registry holds for every read: a mirror that has
#   the image answers for its tags, too.
# Happens: inspect and copy go to the mirror, and work with the registry itself out of reach.
#   list-tags asks the registry only and fails, mirror or not.
# Matters: behind an air gap a job that first lists the tags and then copies the newest one
#   stops at its first step, though each image is there; and with both within reach the tags
#   are those of one registry and the images those of another.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

apt-get download -qq skopeo=1.9.3+ds1-1+b10 docker-registry=2.8.2+ds1-1 libgpgme11 libassuan0 libdevmapper1.02.1 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
mirror=$(port); origin=$(port) # nobody listens there
printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$tmp/data" "$mirror" >registry.yml
timeout 60 root/usr/bin/docker-registry serve registry.yml >log 2>&1 & pids=$!
for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$mirror/v2/" && break; sleep 0.1; done
type=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[]}' $type >index.json
curl -s -X PUT -H "Content-Type: $type" --data-binary @index.json "http://127.0.0.1:$mirror/v2/team/app/manifests/v1"

cat >registries.conf <<END
[[registry]]
location = "127.0.0.1:$origin"
insecure = true
[[registry.mirror]]
location = "127.0.0.1:$mirror"
insecure = true
END
skopeo() { HOME=$tmp XDG_RUNTIME_DIR=$tmp LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu timeout 30 root/usr/bin/skopeo --registries-conf registries.conf "$@"; }
image=0; skopeo inspect --raw "docker://127.0.0.1:$origin/team/app:v1" >image.json || image=$?
tags=0; skopeo list-tags "docker://127.0.0.1:$origin/team/app" >tags.json 2>message || tags=$?
echo "inspect:   exit code $image, $(cat image.json)"
echo "list-tags: exit code $tags, $(cut -d= -f4- message)"
[ $image = 0 ] && cmp -s image.json index.json && [ $tags != 0 ] && grep -q "$origin.*connection refused" message
