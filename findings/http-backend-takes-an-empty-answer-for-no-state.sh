#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: OpenTofu 1.12.6 (Go module), backend "http"; Terraform 1.11.4 does the same.
# Guess: "there is no state" is 404 or 204; a 200 must have a state in it, and an empty one
#   is an error, as a broken one is.
# Happens: 200 with an empty body means "no state", without a warning: the plan creates all
#   resources again. One space as the body is an error.
# Matters: a proxy's health page, a file that was emptied by a full disk, an answer to a login
#   that ran out: each can be an empty 200, and an automatic apply doubles what exists.
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
state = b''
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        global state
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        out = state if self.command == 'GET' else b''
        if self.command == 'POST':
            state = body
        self.send_response(200)
        self.send_header('Content-Length', str(len(out)))
        self.end_headers()
        self.wfile.write(out)
    do_GET = do_POST = answer
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
open('port', 'w').write(str(server.server_port))
threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Event().wait(300)
END
python3 server.py & pids=$!
for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
address=http://127.0.0.1:$(cat port)/state
mkdir w && cd w
printf 'terraform {\n  backend "http" {\n    address = "%s"\n  }\n}\nresource "terraform_data" "it" {}\n' "$address" >main.tf
run() { timeout 120 "$TOFU" "$@" -input=false -no-color >"../log" 2>&1 || true; grep -oE 'No changes|Plan: .*|Error: .*|Apply complete|successfully init' ../log | head -1; }
echo "init:        $(run init)"
echo "apply:       $(run apply -auto-approve | cut -d, -f1)"
same=$(run plan); echo "its state:   $same"
curl -s -X POST --data-binary '' "$address"; empty=$(run plan); echo "empty body:  $empty"
curl -s -X POST --data-binary ' ' "$address"; space=$(run plan); echo "one space:   $space"
[ "$same" = "No changes" ] && [ "$empty" = "Plan: 1 to add, 0 to change, 0 to destroy." ] && grep -q '^Error' <<<"$space"
