#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: skopeo 1.9.3 (Debian 12) with docker-registry 2.8.2 and with the registry of
#   crane 0.22.1 (Go module); `oras manifest delete` 1.3.6 does the same, `crane delete` and
#   `regctl tag rm` do not.
# Guess: "skopeo delete docker://host/app:v1" removes the tag v1.
# Happens: it looks up the tag's digest and deletes that. Where a second tag names the same
#   manifest, one registry drops both tags; the other drops neither, both can still be
#   pulled. skopeo ends with 0 in both cases.
# Matters: removing a candidate that was promoted without a change (1.0.0-rc1 and 1.0.0
#   being one manifest) removes the release, or nothing, as the registry pleases.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

GOBIN=$tmp CGO_ENABLED=0 GOFLAGS=-trimpath go install github.com/google/go-containerregistry/cmd/crane@v0.22.1 2>install.log
apt-get download -qq skopeo=1.9.3+ds1-1+b10 docker-registry=2.8.2+ds1-1 libgpgme11 libassuan0 libdevmapper1.02.1 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
debian=$(port)
printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}, delete: {enabled: true}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$tmp/data" "$debian" >registry.yml
timeout 60 root/usr/bin/docker-registry serve registry.yml >log 2>&1 & pids=$!
crane=$(port)
timeout 60 ./crane registry serve --address "127.0.0.1:$crane" >log2 2>&1 & pids="$pids $!"

type=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[]}' $type >index.json
left() { # PORT: which tags can be pulled after v1 was deleted
	for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$1/v2/" && break; sleep 0.1; done
	for tag in v1 v2; do curl -s -X PUT -H "Content-Type: $type" --data-binary @index.json "http://127.0.0.1:$1/v2/team/app/manifests/$tag"; done
	HOME=$tmp XDG_RUNTIME_DIR=$tmp LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu timeout 30 root/usr/bin/skopeo delete --tls-verify=false "docker://127.0.0.1:$1/team/app:v1"
	for tag in v1 v2; do curl -s -o answer -w "$tag %{http_code} " -H "Accept: $type" "http://127.0.0.1:$1/v2/team/app/manifests/$tag"; done
}
one=$(left "$debian"); other=$(left "$crane")
echo "docker-registry: $one"
echo "crane:           $other"
[ "$one" = "v1 404 v2 404 " ] && [ "$other" = "v1 200 v2 200 " ]
