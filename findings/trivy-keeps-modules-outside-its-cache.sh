#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Software: Trivy 0.72.0 (Go module), `trivy config` on a folder that calls a module of a registry.
# Guess: the module is in the folder of --cache-dir, so that another folder, or `trivy clean
#   --all`, makes it ask the registry again; and `>= 1.0.0` is resolved in each run.
# Happens: modules are kept in .aqua/cache of the folder for temporary files, by address and
#   constraint, without an end. With another --cache-dir, and after `clean --all`, the registry is
#   not asked at all: the version of the first run stays, whatever was published since.
# Matters: a runner that lives on and a fresh container report on different versions of one module,
#   and what the documentation offers against old data changes nothing. TMPDIR of its own for each
#   run ends it.
set -euo pipefail
tmp=$(mktemp -d); pids=
trap 'kill $pids 2>/dev/null || true; rm -rf "$tmp"' EXIT
cd "$tmp"
# It takes many minutes the first time; TRIVY names a program of that version built before.
if [ -z "${TRIVY:-}" ]; then
	GOBIN=$tmp GOEXPERIMENT=jsonv2 CGO_ENABLED=0 GOFLAGS=-trimpath timeout 3600 go install github.com/aquasecurity/trivy/cmd/trivy@v0.72.0 2>install.log
	TRIVY=$tmp/trivy
fi
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=registry -days 1 -addext subjectAltName=IP:127.0.0.1 2>log
cat >registry.py <<'END'
import http.server, io, json, ssl, tarfile
class Registry(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self): self.do_GET()
    def do_GET(self):
        open("requests", "a").write(self.path.rsplit("/aws/")[-1] + " ")
        body, status = b"", 200
        if self.path.endswith("/versions"):
            body = json.dumps({"modules": [{"versions": [{"version": v} for v in open("versions").read().split()]}]}).encode()
        elif self.path.endswith("/download"):
            status = 204
        else:
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w:gz") as t:
                f = tarfile.TarInfo("main.tf"); f.size = 18
                t.addfile(f, io.BytesIO(b'variable "cidr" {}'))
            body = out.getvalue()
        self.send_response(status)
        if status == 204:
            self.send_header("X-Terraform-Get", "https://127.0.0.1:%d/aws/%s.tar.gz" % (self.server.server_port, self.path.split("/")[-2]))
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET": self.wfile.write(body)
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain("cert.pem", "key.pem")
s.socket = c.wrap_socket(s.socket, server_side=True)
open("port", "w").write("%d\n" % s.server_port)
s.serve_forever()
END
timeout 300 python3 registry.py 2>log & pids=$!
for _ in $(seq 100); do [ -s port ] && break; sleep 0.1; done
mkdir root temporary
printf 'module "vpc" {\n  source  = "127.0.0.1:%s/net/vpc/aws"\n  version = ">= 1.0.0"\n}\n' "$(cat port)" >root/main.tf
export HOME=$tmp SSL_CERT_FILE=$tmp/cert.pem TMPDIR=$tmp/temporary
scan() { # CACHE: what it asks the registry for
	: >requests
	timeout 120 "$TRIVY" config --quiet --skip-check-update --skip-version-check --cache-dir "$1" root >out 2>&1 || { cat out; return 1; }
	cat requests; echo
}
echo 1.0.0 >versions
first=$(scan one)
echo 1.0.0 1.1.0 >versions
second=$(scan two)
timeout 60 "$TRIVY" clean --all --cache-dir one >out 2>&1
third=$(scan one)
mkdir other && export TMPDIR=$tmp/other
fourth=$(scan one)
echo "with 1.0.0 published:           ${first:-nothing}"
echo "1.1.0 too, another --cache-dir: ${second:-nothing}"
echo "after clean --all:              ${third:-nothing}"
echo "with another TMPDIR:            ${fourth:-nothing}"
case $first in *1.0.0/download*) ;; *) exit 1 ;; esac
case $fourth in *1.1.0/download*) ;; *) exit 1 ;; esac
[ -z "$second$third" ]
