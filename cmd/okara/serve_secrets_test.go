// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestServeSecrets requests every route of a server that has every kind of secret, with every
// method, with and without tokens. No answer contains a secret of the configuration,
// and neither the log, the audit log nor a span contains one, the token of a caller, or that
// of an archive link.
//
// Shows: registries 6
// Shows: registries 22
func TestServeSecrets(t *testing.T) {
	const password, linkKey, stateKey = "registry-s3cret", "link-key-s3cret-0123456789abcdef", "state-key-s3cret-0123456789abcde"
	secrets := []string{
		password, linkKey, stateKey, hex.EncodeToString([]byte(linkKey)), hex.EncodeToString([]byte(stateKey)), serveSum,
		"client-s3cret", "webhook-s3cret-0123456789", "github-s3cret",
	}
	guard := ocitest.NewHTPasswd(t, map[string]string{"ci": password})
	collector, spans := newCollector(t)
	audit := filepath.Join(t.TempDir(), "audit")
	config := newFile(t, "okara.hcl", fmt.Sprintf(`
registry   = %q
audit_log  = %q
access_log = true
pass_through = true
public_url = "https://okara.example.com"
archives {
  key_files = [%q]
}
token "ci" {
  sha256 = %q
  scopes = ["admin:*:**", "write:state:**"]
}
issuer "https://127.0.0.1:1" {
  audiences = ["okara"]
}
login {
  issuer             = "https://127.0.0.1:1"
  client_id          = "okara"
  client_secret_file = %q
}
github "net" {
  secret_files = [%q]
  token_file   = %q
}
`, guard.Host, audit, newFile(t, "link", hex.EncodeToString([]byte(linkKey))), serveSum, newFile(t, "client", "client-s3cret"),
		newFile(t, "webhook", "webhook-s3cret-0123456789"), newFile(t, "github", "github-s3cret")))
	p := newServeProcess(t, []string{
		"OKARA_USERNAME=ci", "OKARA_PASSWORD=" + password, "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector,
		"OKARA_STATE_KEYS=" + newFile(t, "state", hex.EncodeToString([]byte(stateKey))),
	}, "--config", config)
	link, _ := p.publish(t, &http.Client{Transport: traceparent("")}, 1000)

	own := "basic." + base64.RawURLEncoding.EncodeToString([]byte("ci:"+password)) // the credential of a caller
	login := base64.StdEncoding.EncodeToString([]byte("x:" + serveToken))
	codes := map[int]int{}
	for _, path := range append(routes(t), strings.TrimPrefix(link, p.url), strings.TrimPrefix(link, p.url)+"x") {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete, "LOCK", "UNLOCK"} {
			for _, authorization := range []string{"", "Bearer " + serveToken, "Basic " + login, "Bearer " + serveToken + "x", "Bearer " + own} {
				answer, status := dump(t, method, p.url+path, authorization)
				codes[status]++
				for _, secret := range append(secrets, serveToken, login, own) {
					if strings.Contains(answer, secret) {
						t.Errorf("%s %s with %q: %d, the answer has %s", method, path, authorization, status, secret)
					}
				}
			}
		}
	}
	for _, code := range []int{200, 204, 302, 400, 401, 403, 404, 405, 409, 422} {
		if codes[code] == 0 {
			t.Errorf("no answer was %d: %v", code, codes)
		}
	}
	p.signal(t, syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, p.log)
	}
	records := must.Get(os.ReadFile(audit))(t)
	token := strings.Split(link, "/")[4]
	secrets = append(secrets, serveToken, serveToken[7:], login, own, token, token[strings.LastIndexByte(token, '.')+1:])
	for name, text := range map[string]string{"log": p.log.String(), "audit log": string(records), "spans": spans()} {
		if strings.Count(text, "/v1/modules/")+strings.Count(text, `"action"`) < 50 {
			t.Errorf("the %s says little about the requests %v:\n%s", name, codes, text)
		}
		for _, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("the %s has %s: …%s", name, secret, text[max(0, i-100):i+len(secret)])
			}
		}
	}
}

// routes returns all routes of the server, taken from its source, with values.
func routes(t *testing.T) []string {
	t.Helper()
	var source []byte
	for _, file := range []string{"../../registry/routes.go", "../../internal/server/services.go"} {
		text := must.Get(os.ReadFile(file))(t)
		source = append(source, text...)
	}
	values := strings.NewReplacer(
		"{namespace}", "net", "{name}", "vpc", "{system}", "aws", "{version}", "1.0.0", "{type}", "dns", "{os}", "linux", "{arch}", "amd64",
		"{hostname}", "registry.example.com", "{file}", "1.0.0.json", "{filename}", "terraform-provider-dns_1.0.0_linux_amd64.zip",
		"{token}", "public", "{rest...}", "modules/net/vpc/aws/"+strings.Repeat("0", 64)+"/x.zip", "{workspace}", "default", "{organization}", "acme", "{run}", "run-x", "{address...}", "net/vpc/aws", "{$}", "",
	)
	var paths []string
	for _, m := range regexp.MustCompile(`(?:meta\(|large\(|\{)"(?:[A-Z]+ )?(/[^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		path := values.Replace(m[1])
		if strings.Contains(path, "{") {
			t.Fatalf("route %s: no value for a part of it", m[1])
		}
		paths = append(paths, path)
	}
	if len(paths) < 30 {
		t.Fatalf("only %d routes were found", len(paths))
	}
	return paths
}

func dump(t *testing.T, method, url, authorization string) (string, int) {
	t.Helper()
	body := `{"action":"yank","receipts":["x"],"payload":"e30=","signature":"eA=="}`
	r := must.Get(http.NewRequestWithContext(t.Context(), method, url+"?code=x&state=y", strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp := must.Get(http.DefaultTransport.RoundTrip(r))(t) // redirects are answers, too
	defer resp.Body.Close()
	b := must.Get(io.ReadAll(resp.Body))(t)
	return fmt.Sprintf("%v\n%s", resp.Header, b), resp.StatusCode
}
