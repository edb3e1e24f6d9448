#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs okara from a release: fetches the archive of this platform, the list of
# checksums and its signature, and installs nothing that they do not vouch for.
#
#   curl -fsSL https://raw.githubusercontent.com/seed-141914ff/okara/main/install.sh | sh
#
# OKARA_VERSION      which release, such as 1.2.3; without it the newest
# OKARA_BIN          folder of the program; without it /usr/local/bin, or ~/.local/bin
#                    where that may not be written
# OKARA_RELEASES     where releases are, for a mirror
# OKARA_RELEASE_KEY  file with the public key, PEM; without it the key below
# OKARA_KEEP         folder that keeps what is fetched, for the next time; what it has is
#                    verified like what is fetched
# OKARA_SHA256SUMS   SHA-256 that the list of checksums has to have, for who pins a release
set -eu

releases=${OKARA_RELEASES:-https://github.com/seed-141914ff/okara/releases}
# The key that signs releases. Nothing was released yet, so there is none.
key=

fail() {
	echo "install.sh: $1" >&2
	[ -z "${2-}" ] || echo "hint: $2" >&2
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# fetch URL FILE
fetch() {
	if have curl; then
		curl -fsSL --retry 3 -o "$2" "$1"
	elif have wget; then
		wget -q -O "$2" "$1"
	else
		fail "neither curl nor wget is here" "install one of them, or fetch the archive from $releases yourself"
	fi || fail "$1 cannot be fetched" "does that release exist? OKARA_VERSION names another one"
}

newest() {
	if have curl; then
		curl -fsSLI -o /dev/null -w '%{url_effective}' "$releases/latest"
	else
		wget -q -S --spider "$releases/latest" 2>&1 | sed -n 's/^ *Location: *//p' | tail -n 1
	fi | sed 's|.*/v||; s/[[:space:]].*//'
}

platform() {
	os=$(uname -s | tr '[:upper:]' '[:lower:]')
	case $os in linux | darwin) ;; *) fail "there is no release for $os" "build it: go install github.com/seed-141914ff/okara/cmd/okara@latest" ;; esac
	case $(uname -m) in
	x86_64 | amd64) echo "${os}_amd64" ;;
	aarch64 | arm64) echo "${os}_arm64" ;;
	*) fail "there is no release for $(uname -m)" "build it: go install github.com/seed-141914ff/okara/cmd/okara@latest" ;;
	esac
}

# verify FILE SIGNATURE: ECDSA over SHA-256, base64.
verify() {
	if have openssl; then
		openssl base64 -d -A -in "$2" -out "$2.der" && openssl dgst -sha256 -verify key.pem -signature "$2.der" "$1" >/dev/null 2>&1
	elif have cosign; then
		cosign verify-blob --key key.pem --signature "$2" --insecure-ignore-tlog=true "$1" >/dev/null 2>&1
	else
		fail "neither openssl nor cosign is here to verify the signature" "install one of them"
	fi || fail "the signature of $1 is not by the key of okara's releases" "nothing was installed; report it if the release is not your own"
}

# sums reads lines "SHA256  FILE", and is false where a file is another one.
sums() {
	if have sha256sum; then sha256sum -c -; else shasum -a 256 -c -; fi >/dev/null 2>&1
}

[ -n "${OKARA_RELEASE_KEY:-}$key" ] || fail "nothing was released yet, so there is no key to verify a release with" "build it: go install github.com/seed-141914ff/okara/cmd/okara@main"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${OKARA_RELEASE_KEY:-}" ]; then cat "$OKARA_RELEASE_KEY"; else echo "$key"; fi >"$work/key.pem"
where=$(platform)
version=${OKARA_VERSION:-$(newest)}
version=${version#v}
[ -n "$version" ] || fail "$releases/latest names no release" "OKARA_VERSION=1.2.3 names one"
bin=${OKARA_BIN:-/usr/local/bin}
[ -n "${OKARA_BIN:-}" ] || [ -w "$bin" ] || bin=$HOME/.local/bin

echo "install.sh: okara $version for $where from $releases into $bin, if its signature is right" >&2

cd "$work"
archive=okara_${version}_$where.tar.gz
list=okara_${version}_SHA256SUMS
for file in "$list" "$list.sig" "$archive"; do
	if [ -f "${OKARA_KEEP:-/nowhere}/$file" ]; then
		cp "$OKARA_KEEP/$file" "$file"
	else
		fetch "$releases/download/v$version/$file" "$file"
	fi
done
verify "$list" "$list.sig"
[ -z "${OKARA_SHA256SUMS:-}" ] || echo "$OKARA_SHA256SUMS  $list" | sums || fail "$list is not the one that OKARA_SHA256SUMS names" "nothing was installed; was the release made again?"
grep -F "  $archive" "$list" | sums || fail "$archive is not what $list says" "nothing was installed; fetch it again"
if [ -n "${OKARA_KEEP:-}" ]; then
	mkdir -p "$OKARA_KEEP"
	cp "$list" "$list.sig" "$archive" "$OKARA_KEEP"
fi
tar -xzf "$archive" okara
mkdir -p "$bin"
# Beside its place and then moved, so that a running okara is not written over.
cp okara "$bin/.okara.new"
chmod 755 "$bin/.okara.new"
mv -f "$bin/.okara.new" "$bin/okara"
"$bin/okara" version
case :$PATH: in *":$bin:"*) ;; *) echo "note: $bin is not on PATH" >&2 ;; esac
