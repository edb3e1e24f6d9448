#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: distribution 2.8.2 (Debian's docker-registry) as a pull-through cache; 3.1.2 does
#   the same.
# Guess: the cache asks its upstream about every tag, so a tag that was deleted there is
#   answered with 404.
# Happens: any error of the upstream counts as "cannot be reached", 404 as well. The cache
#   goes on serving the deleted tag, with 200, from its own copy. Its list of tags, which
#   it takes from upstream, no longer names it.
# Matters: what was withdrawn (a broken or leaked release) is still installed by everybody
#   behind the cache, and whoever looks at the list believes that it is gone.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

apt-get download -qq docker-registry=2.8.2+ds1-1 2>/dev/null
dpkg -x docker-registry_*.deb root
start() { # NAME PORT MORE: a registry of its own folder
	printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}\nhttp: {addr: "127.0.0.1:%s"}\n%s\n' \
		"$tmp/$1" "$2" "$3" >"$1.yml"
	timeout 60 root/usr/bin/docker-registry serve "$1.yml" >"$1.log" 2>&1 &
	pids="$pids $!"
	for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$2/v2/" && return; sleep 0.1; done
	return 1
}
up=$(port); start upstream "$up" ''
mirror=$(port); start mirror "$mirror" "proxy: {remoteurl: \"http://127.0.0.1:$up\"}"

type=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[]}' $type >index.json
digest=sha256:$(sha256sum index.json | cut -d' ' -f1)
ask() { curl -s -o answer -w '%{http_code}' -H "Accept: $type" "$@"; }
ask -X PUT -H "Content-Type: $type" --data-binary @index.json "http://127.0.0.1:$up/v2/team/app/manifests/v1" >pushed
echo "the cache before:        $(ask "http://127.0.0.1:$mirror/v2/team/app/manifests/v1")"
echo "deleted upstream:        $(ask -X DELETE "http://127.0.0.1:$up/v2/team/app/manifests/$digest")"
echo "the upstream afterwards: $(ask "http://127.0.0.1:$up/v2/team/app/manifests/v1")"
after=$(ask "http://127.0.0.1:$mirror/v2/team/app/manifests/v1")
tags=$(curl -s "http://127.0.0.1:$mirror/v2/team/app/tags/list")
echo "the cache afterwards:    $after"
echo "its list of tags:        $tags"
[ "$(cat pushed)" = 201 ] && [ "$after" = 200 ] && ! grep -q '"v1"' <<<"$tags"
