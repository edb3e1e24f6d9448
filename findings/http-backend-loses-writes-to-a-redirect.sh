#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module), backend "http"; Terraform 1.11.4 does the same.
# Guess: a server that answers everything with 301, as many proxies do for http:// addresses,
#   either gets the same request at the new address or makes the command fail.
# Happens: LOCK and POST arrive at the new address as GET without a body. Any 200 counts: the
#   GET of the existing state is taken for a lock that was granted and for a state that was
#   written. apply ends with 0 and nothing was stored. With 308 all works.
# Matters: whoever moves a state server to https and leaves a redirect behind loses the state
#   of each apply, two people may apply at once, and no command says anything. The next plan
#   wants to create again what exists.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
# It takes minutes the first time; TOFU names a program of that version built before.
if [ -z "${TOFU:-}" ]; then
	mkdir src && cd src && export CGO_ENABLED=0 GOFLAGS=-trimpath
	go mod init example.com/tofu 2>>log && go mod edit -replace github.com/hashicorp/hcl/v2=github.com/opentofu/hcl/v2@v2.20.2-0.20251021132045-587d123c2828
	go get github.com/opentofu/opentofu/cmd/tofu@v1.12.6 2>>log && timeout 1800 go build -o ../tofu github.com/opentofu/opentofu/cmd/tofu 2>>log
	TOFU=$tmp/tofu && cd ..
fi
export CHECKPOINT_DISABLE=1 TF_CLI_CONFIG_FILE=$tmp/rc HOME=$tmp TF_IN_AUTOMATION=1
touch rc

cat >server.py <<'END'
import http.server, sys, threading
state = b'{"version":4,"terraform_version":"1.5.0","serial":1,"lineage":"a5c1e6c5-7f1b-4d3a-9a6e-6f0f2d1c3b4a","outputs":{},"resources":[]}'
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        global state
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        if self.server is old:
            status, out = int(self.path[1:4]), b''
        else:
            print(self.command, flush=True)
            status, out = 200, state if self.command == 'GET' else b''
            if self.command == 'POST':
                state = body
        self.send_response(status)
        if self.server is old:
            self.send_header('Location', 'http://127.0.0.1:%d%s' % (new.server_port, self.path))
        self.send_header('Content-Length', str(len(out)))
        self.end_headers()
        self.wfile.write(out)
    do_GET = do_POST = do_LOCK = do_UNLOCK = answer
    def log_message(self, *args): pass
old, new = (http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler) for _ in range(2))
open('port', 'w').write(str(old.server_port))
threading.Thread(target=old.serve_forever, daemon=True).start()
threading.Thread(target=new.serve_forever, daemon=True).start()
threading.Event().wait(300)
END
try() { # STATUS: exit code of apply, and what reached the new address
	mkdir "$1" && rm -f port
	python3 server.py >"$1.log" & server=$!; pids="$pids $server"
	for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
	address=http://127.0.0.1:$(cat port)/$1
	cat >"$1/main.tf" <<END
terraform {
  backend "http" {
    address        = "$address"
    lock_address   = "$address"
    unlock_address = "$address"
  }
}
resource "terraform_data" "it" {}
END
	(cd "$1" && timeout 120 "$TOFU" init -input=false >init.log 2>&1 && timeout 120 "$TOFU" apply -auto-approve -input=false -no-color >apply.log 2>&1) && code=0 || code=$?
	kill $server
	echo "exit code $code; $(grep -o 'Resources: 1 added' "$1/apply.log"); arrived: $(sort "$1.log" | uniq -c | xargs)"
}
moved=$(try 301); kept=$(try 308)
echo "301: $moved"; echo "308: $kept"
grep -q '^exit code 0; Resources: 1 added; arrived: [0-9]* GET$' <<<"$moved" && grep -q '^exit code 0.*LOCK 1 POST 1 UNLOCK$' <<<"$kept"
