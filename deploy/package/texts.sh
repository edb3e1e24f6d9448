#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the completions and manual pages of okara into a folder, with the date of the
# commit.
set -eu
dir=$1
rm -rf "$dir"
mkdir -p "$dir/completions" "$dir/man1"
go build -buildvcs=true -trimpath -o "$dir/okara" ./cmd/okara
for shell in bash zsh fish powershell; do
	"$dir/okara" completion "$shell" >"$dir/completions/okara.$shell"
done
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) "$dir/okara" man "$dir/man1"
rm "$dir/okara"
