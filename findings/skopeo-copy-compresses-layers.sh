#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: skopeo 1.9.3 (Debian 12); docker-registry 2.8.2.
# Guess: a copy from one registry to another moves bytes; the digest stays unless a flag
#   asks for another format.
# Happens: layers of an image that are not compressed are, on their way, with exit code 0 and
#   no word about it; the layer's media type and the digest of the image change. The same
#   layer in a manifest whose config is not that of an image is copied as it is.
# Matters: what is pinned by digest cannot be found in the copy, and signatures of it are
#   for something else. Whether that happens depends on who built the image.
#   (--preserve-digests makes it an error.)
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

apt-get download -qq skopeo=1.9.3+ds1-1+b10 docker-registry=2.8.2+ds1-1 libgpgme11 libassuan0 libdevmapper1.02.1 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$tmp/data" "$port" >registry.yml
timeout 60 root/usr/bin/docker-registry serve registry.yml >log 2>&1 & pids=$!
for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$port/v2/" && break; sleep 0.1; done

echo '{"policy":1}' >file && tar -cf layer.tar file
digest() { echo "sha256:$(sha256sum "$1" | cut -d' ' -f1)"; }
printf '{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["%s"]}}' "$(digest layer.tar)" >image.json
printf '{}' >other.json
push() { # REPOSITORY CONFIG TYPE
	for file in layer.tar "$2"; do
		location=$(curl -s -o answer -w '%header{location}' -X POST "http://127.0.0.1:$port/v2/$1/blobs/uploads/")
		curl -s -X PUT -H 'Content-Type: application/octet-stream' --data-binary "@$file" "$location&digest=$(digest $file)"
	done
	printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"%s","digest":"%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"%s","size":%s}]}' \
		"$3" "$(digest "$2")" "$(stat -c %s "$2")" "$(digest layer.tar)" "$(stat -c %s layer.tar)" >manifest.json
	curl -s -X PUT -H 'Content-Type: application/vnd.oci.image.manifest.v1+json' --data-binary @manifest.json "http://127.0.0.1:$port/v2/$1/manifests/v1"
}
skopeo() { HOME=$tmp XDG_RUNTIME_DIR=$tmp LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu timeout 30 root/usr/bin/skopeo "$@"; }
copied() { # REPOSITORY: digests before and after, media type of the layer afterwards
	skopeo --insecure-policy copy -q --src-tls-verify=false --dest-tls-verify=false "docker://127.0.0.1:$port/$1:v1" "docker://127.0.0.1:$port/copy/$1:v1"
	for name in "$1" "copy/$1"; do skopeo inspect --tls-verify=false --raw "docker://127.0.0.1:$port/$name:v1" >raw; digest raw; done
	grep -o 'vnd.oci.image.layer[^"]*' raw
}
push image image.json application/vnd.oci.image.config.v1+json
push artifact other.json application/vnd.oci.empty.v1+json
image=$(copied image); artifact=$(copied artifact)
echo "image:"; echo "$image"; echo "other artifact:"; echo "$artifact"
[ "$(sed -n 1p <<<"$image")" != "$(sed -n 2p <<<"$image")" ] && grep -q 'tar+gzip$' <<<"$image" &&
	[ "$(sed -n 1p <<<"$artifact")" = "$(sed -n 2p <<<"$artifact")" ]
