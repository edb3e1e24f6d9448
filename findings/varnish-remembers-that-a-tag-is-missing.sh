#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: Varnish 7.1.1 with its own rules (Debian 12), in front of docker-registry 2.8.2.
# Guess: a cache keeps good answers only, and a write through it to the same address makes
#   it ask again.
# Happens: the registry sends no lifetime, so Varnish keeps the 404 of a tag for its default
#   of two minutes as it keeps a 200. A PUT of that tag through Varnish itself changes
#   nothing: 201, and the next GET is still 404. A tag that is moved stays at the old
#   manifest in the same way.
# Matters: a pipeline that asks "is this version there?", publishes it, and pulls it fails at
#   the third step, though each part did what it should.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

apt-get download -qq varnish=7.1.1-2+deb12u1 libvarnishapi3 libjemalloc2 libunwind8 docker-registry=2.8.2+ds1-1 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
registry=$(port); cache=$(port)
printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$tmp/data" "$registry" >registry.yml
timeout 90 root/usr/bin/docker-registry serve registry.yml >log 2>&1 & pids=$!
printf 'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "%s"; }\n' "$registry" >rules.vcl
mkdir work
LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu:root/usr/lib/x86_64-linux-gnu/varnish timeout 90 root/usr/sbin/varnishd -F -a "127.0.0.1:$cache" \
	-f "$tmp/rules.vcl" -n "$tmp/work" -j none -s malloc,50m -T none -p cc_command="exec gcc -g -O2 -fpic -shared -Wl,-x -o %o %s" >log2 2>&1 &
pids="$pids $!" # its rules are compiled with gcc
for _ in $(seq 300); do [ "$(curl -s -o answer -w '%{http_code}' "http://127.0.0.1:$cache/v2/")" = 200 ] && break; sleep 0.1; done

type=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[]}' $type >index.json
ask() { curl -s -o answer -w '%{http_code}' -H "Accept: $type" "$@"; }
tag=http://127.0.0.1:$cache/v2/team/app/manifests/v1
before=$(ask "$tag")
pushed=$(ask -X PUT -H "Content-Type: $type" --data-binary @index.json "$tag")
after=$(ask "$tag")
direct=$(ask "http://127.0.0.1:$registry/v2/team/app/manifests/v1")
echo "asked before: $before, pushed through the cache: $pushed, asked again: $after, the registry itself: $direct"
[ "$before $pushed $after $direct" = "404 201 404 200" ]
