#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: crane 0.22.1, oras 1.3.6, regctl 0.11.7 (Go modules), skopeo 1.9.3 (Debian 12).
# Guess: org.opencontainers.image.ref.name in an OCI layout is the tag, so what one program
#   writes with it the others find by that tag.
# Happens: crane pull --annotate-ref writes the whole reference, registry and all. regctl
#   finds it by the tag; skopeo by the whole reference only; oras by neither, since it takes
#   the text behind the last colon for the name. oras lists the name all the same.
# Matters: a layout carried over an air gap is "not found" on the other side, depending on the
#   program there; the specification allows both forms.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

export GOBIN=$tmp CGO_ENABLED=0 GOFLAGS=-trimpath
for program in github.com/google/go-containerregistry/cmd/crane@v0.22.1 oras.land/oras/cmd/oras@v1.3.6 github.com/regclient/regclient/cmd/regctl@v0.11.7; do
	go install "$program" 2>>install.log
done
apt-get download -qq skopeo=1.9.3+ds1-1+b10 libgpgme11 libassuan0 libdevmapper1.02.1 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
export HOME=$tmp
timeout 90 ./crane registry serve --address "127.0.0.1:$port" >log 2>&1 & pids=$!
for _ in $(seq 100); do curl -s -o answer "http://127.0.0.1:$port/v2/" && break; sleep 0.1; done
./crane append --insecure --oci-empty-base -f <(tar -c install.log) -t "127.0.0.1:$port/team/app:v1" >append.log 2>&1
./crane pull --insecure --format oci --annotate-ref "127.0.0.1:$port/team/app:v1" layout

skopeo() { XDG_RUNTIME_DIR=$tmp LD_LIBRARY_PATH=root/usr/lib/x86_64-linux-gnu timeout 30 root/usr/bin/skopeo "$@"; }
whole="127.0.0.1:$port/team/app:v1"
finds() { if "$@" >answer 2>&1; then echo yes; else echo no; fi; }
{
	echo "regctl by tag:     $(finds ./regctl manifest head ocidir://layout:v1)"
	echo "skopeo by tag:     $(finds skopeo inspect --raw oci:layout:v1)"
	echo "skopeo by all:     $(finds skopeo inspect --raw "oci:layout:$whole")"
	echo "oras by tag:       $(finds ./oras manifest fetch --oci-layout layout:v1)"
	echo "oras by all:       $(finds ./oras manifest fetch --oci-layout "layout:$whole")"
	echo "oras lists it:     $(./oras repo tags --oci-layout layout | grep -qx "$whole" && echo yes)"
} | tee seen
[ "$(sed 's/.* //' seen | xargs)" = "yes no yes no no yes" ]
