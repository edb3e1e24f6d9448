#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module), backend "http"; Terraform 1.11.4 does the same.
# Guess: with lock_address alone, init asks for unlock_address, or the tool unlocks where it
#   locked: both requests differ in their method.
# Happens: init says nothing. Each command locks, works, ends with 0, and never unlocks. The
#   next command fails: the state is locked, by the command before it.
# Matters: the mistake shows on the second run and looks like a colleague or a crashed job.
#   force-unlock does not help: OpenTofu says that locking is disabled, Terraform that it has
#   unlocked the state, and neither sends a request.
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
import http.server, threading
held = {}
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        status, out = 200, b''
        if self.command == 'GET':
            status, out = (200, held['state']) if 'state' in held else (404, b'')
        elif self.command == 'POST':
            held['state'] = body
        elif self.command == 'LOCK':
            status, out = (423, held['lock']) if 'lock' in held else (200, b'')
            held.setdefault('lock', body)
        elif self.command == 'UNLOCK':
            held.pop('lock', None)
        print(self.command, flush=True)
        self.send_response(status)
        self.send_header('Content-Length', str(len(out)))
        self.end_headers()
        self.wfile.write(out)
    do_GET = do_POST = do_LOCK = do_UNLOCK = answer
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
open('port', 'w').write(str(server.server_port))
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Event().wait(300)
END
python3 server.py >requests & pids=$!
for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
mkdir w && cd w
cat >main.tf <<END
terraform {
  backend "http" {
    address      = "http://127.0.0.1:$(cat ../port)/state"
    lock_address = "http://127.0.0.1:$(cat ../port)/state"
  }
}
resource "terraform_data" "it" {}
END
run() { code=0; timeout 120 "$TOFU" "$@" -input=false -no-color >"../$1.log" 2>&1 || code=$?; echo $code; }
codes="$(run init) $(run apply -auto-approve) $(run plan)"
echo "init, apply, plan: $codes"
echo "requests:          $(xargs <../requests)"
grep -o 'Error message: .*' ../plan.log
[ "$codes" = "0 0 1" ] && grep -q 'already locked' ../plan.log && ! grep -q UNLOCK ../requests
