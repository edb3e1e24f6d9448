#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the tool of the demo: the OpenTofu that make built, else tofu or terraform
# on PATH of a version that okara is tested with. Exits with 1 if there is none.
set -eu
built=$(cd "$(dirname "$0")/../.." && pwd)/.cache/tofu/1.12.6/tofu
[ ! -x "$built" ] || { echo "$built"; exit; }
export CHECKPOINT_DISABLE=1
for tool in tofu:10 terraform:11; do
	path=$(command -v "${tool%:*}") || continue
	minor=$("$path" version 2>/dev/null | sed -n '1s/.* v1\.\([0-9]*\)\..*/\1/p')
	[ "${minor:-0}" -lt "${tool#*:}" ] || { echo "$path"; exit; }
done
exit 1
