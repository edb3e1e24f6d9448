#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: @sigstore/oci 0.7.2 (npm), the library by which build attestations are attached
#   to images; docker-registry 2.8.2 (Debian 12) without logins.
# Guess: a registry that anybody on the network may write to is the easy case, and credentials
#   that it does not ask for are ignored.
# Happens: the library finds out how to log in by beginning an upload, and takes 200 alone
#   for "no login needed"; a registry answers the beginning of an upload with 202. So
#   attaching always fails there, with "Invalid challenge". Each try leaves an upload open.
# Matters: the registry of a test or of a closed network takes pushes from every other
#   program, and attestations from none that uses this one; the message says nothing about
#   logins, and the abandoned uploads must be cleaned up.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

npm install --silent --no-fund --no-audit --prefix "$tmp" @sigstore/oci@0.7.2 >npm.log 2>&1
apt-get download -qq docker-registry=2.8.2+ds1-1 2>/dev/null
dpkg -x docker-registry_*.deb root
printf 'version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$tmp/data" "$port" >registry.yml
timeout 90 root/usr/bin/docker-registry serve registry.yml >log 2>&1 & pids=$!
for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$port/v2/" && break; sleep 0.1; done
type=application/vnd.oci.image.index.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","manifests":[]}' $type >index.json
curl -s -X PUT -H "Content-Type: $type" --data-binary @index.json "http://127.0.0.1:$port/v2/team/app/manifests/v1"

cat >attach.js <<'END'
const { attachArtifactToImage } = require('@sigstore/oci')
attachArtifactToImage({
  imageName: process.argv[2], imageDigest: process.argv[3], credentials: { username: 'user', password: 'unused' },
  artifact: Buffer.from('{}'), mediaType: 'application/vnd.dev.sigstore.bundle.v0.3+json', annotations: {},
}).then(() => console.log('attached')).catch(e => console.log(`${e.message}: ${e.cause.message}`))
END
said=$(timeout 60 node attach.js "127.0.0.1:$port/team/app" "sha256:$(sha256sum index.json | cut -d' ' -f1)")
open=$(find data -path '*_uploads/*' -name startedat | wc -l)
echo "attaching:    $said"
echo "open uploads: $open"
grep -q 'Invalid challenge' <<<"$said" && [ "$open" = 1 ]
