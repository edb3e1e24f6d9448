# SPDX-License-Identifier: Apache-2.0
# What the demos have in common: a folder of their own, processes that end with them, and
# checks of what commands say. The caller sets root and logs, and has functions stop and as.
work=$(mktemp -d "${TMPDIR:-/tmp}/okara-demo.XXXXXX")
cd "$work"

# A home of its own: no configuration of the user takes part, none is changed.
HOME=$work/home XDG_DATA_HOME=$work/data XDG_CONFIG_HOME=$work/config TMPDIR=$work/tmp CHECKPOINT_DISABLE=1
unset DOCKER_CONFIG REGISTRY_AUTH_FILE AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3
PATH=$root/bin:$root/.cache/tofu/1.12.6:$root/.cache/jq/0.12.17:$PATH
export PATH HOME XDG_DATA_HOME XDG_CONFIG_HOME TMPDIR CHECKPOINT_DISABLE
mkdir "$HOME" "$TMPDIR"

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() {
	printf '$ %s\n' "$*"
	"$@"
}
fail() {
	printf 'the demo stopped: %s\n' "$*" >&2
	exit 1
}
# until_true waits for a command to succeed, three minutes at most.
until_true() {
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ "$tries" -lt 600 ] || fail "gave up waiting for: $*"
		sleep 0.3
	done
}
# expect shows a command of a user, which has to end with a code and to say something. as
# runs it.
expect() {
	user=$1 want=$2 pattern=$3 got=0
	shift 3
	printf '%s$ %s\n' "$user" "$*"
	as "$user" "$@" >out 2>&1 || got=$?
	cat out
	[ "$got" = "$want" ] || fail "code $got, not $want"
	grep -q -e "$pattern" out || fail "that does not say: $pattern"
}

# start starts a program with a name.
start() {
	program=$1
	shift
	: >"$program.log"
	"$@" >"$program.log" 2>&1 &
	echo $! >"$program.pid"
}
# end sends a signal to what start has started, and waits until it has ended.
end() {
	[ -s "$2.pid" ] || return 0
	read -r pid <"$2.pid"
	rm "$2.pid"
	kill "$1" "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
}
# serve starts okara serve with a name, and leaves its URL in the variable url.
serve() {
	called=$1
	shift
	start "$called" okara serve "$@"
	until_true grep -q 'listening on' "$called.log"
	url=$(sed -n 's|^listening on ||p' "$called.log")
}
# address leaves an address that was free just now in the variable free.
address() {
	serve free --listen 127.0.0.1:0 --storage "$(mktemp -d)"
	end -TERM free
	free=${url#http://}
}

# finish ends everything with stop, whatever happened; after a failure it shows the logs
# that the variable logs names.
finish() {
	code=$?
	set +e
	trap - EXIT
	trap '' INT TERM
	cd "$work"
	stop
	[ "$code" = 0 ] || for name in $logs; do
		printf '\nthe demo stopped with code %s; the end of the log of %s:\n' "$code" "$name"
		tail -n 20 "$name.log" 2>/dev/null
	done >&2
	cd /
	rm -rf "$work"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM
