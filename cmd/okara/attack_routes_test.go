// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

// attackedToken has all rights.
const attackedToken = "oks_all_everything0123456789abcdef"

// attackedConfig enables everything that a server can serve, without anonymous access.
const attackedConfig = `
anonymous = []
hostname  = "okara.example"
mcp       = true
instances {
  templates = %q
  rate      = 100000
}
executor "local" {
  program   = %q
  isolation = "wrap"
  wrap      = ["env"]
}
tfe {
  runs = "local"
}
organization "acme" {}
github "acme" {
  secret_files = [%q]
  token_file   = %q
}
`

// proofs are routes whose body proves identity, bounded.
var proofs = []string{"POST /hooks/github", "POST /login/token", "POST /ui/login", "POST /ui/logout", "POST /ui/theme"}

type attacked struct {
	url    string
	routes []string
}

func newAttacked(t *testing.T) *attacked {
	t.Helper()
	secret := newFile(t, "secret", "0123456789abcdef0123456789abcdef")
	config := newFile(t, "okara.hcl", fmt.Sprintf(attackedConfig, filepath.Dir(newFile(t, "lab.hcl", plantedTemplate)), tofutest.Tofu(t), secret, secret))
	tokens := newFile(t, "tokens", attackedToken+" admin:*:** publish:*:** read:*:** write:state:** run:state:** use:instance:** approve:instance:** admin:instance:** admin:template:**\n")
	depot := newFile(t, "depot.hcl", "interval = \"24h\"\n")
	var log lockedBuffer
	cmd := exec.CommandContext(t.Context(), "okara", "serve", "--json", "--listen", "127.0.0.1:0", "--storage", t.TempDir(),
		"--config", config, "--token-file", tokens, "--depot", depot)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "CLOUD_TOKEN=x"}
	cmd.Stderr = &log
	out := must.Get(cmd.StdoutPipe())(t)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // may have ended already
		_ = cmd.Wait()
	})
	var ready struct {
		URL    string
		Routes []string
		Error  cli.Failure
	}
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	if ready.URL == "" {
		t.Fatalf("the server ended: %+v", ready.Error)
	}
	a := &attacked{url: ready.URL, routes: ready.Routes}
	a.lead(t)
	return a
}

// lead waits for the server to lead: before that every request for instances gets 503.
func (a *attacked) lead(t *testing.T) {
	t.Helper()
	waitFor(t, "a server leads", func() bool {
		answer, _ := a.ask(t, &http.Request{Method: "GET", URL: &url.URL{Path: "/api/v1/instances"}, Header: http.Header{}})
		return answer.StatusCode == http.StatusOK
	})
}

// wildcard matches a variable part of a route.
var wildcard = regexp.MustCompile(`\{[^}]*\}`)

// requests returns one for each method of a route.
func requests(route, word string) []*http.Request {
	method, path, named := strings.Cut(route, " ")
	methods := []string{method}
	if !named {
		path, methods = route, []string{"GET", "POST", "PUT", "PATCH", "DELETE"}
	}
	path = wildcard.ReplaceAllString(strings.TrimSuffix(path, "{$}"), word)
	if path == "/v2/" {
		path += word + "/blobs/uploads/"
	}
	var all []*http.Request
	for _, m := range methods {
		all = append(all, &http.Request{Method: m, URL: &url.URL{Path: path}, Header: http.Header{}})
	}
	return all
}

// sender sends a request to a route, and returns the answer and what was wrong with it.
type sender func(t *testing.T, a *attacked, route string, r *http.Request) (answer, wrong string)

type attack struct {
	name string
	word string
	send sender
}

func attacks(t *testing.T) []attack {
	t.Helper()
	var zeros bytes.Buffer
	z := gzip.NewWriter(&zeros)
	must.Get(z.Write(make([]byte, 64<<20)))(t)
	must.Succeed(t, z.Close())
	return []attack{
		{"body", "a", bodyBeforeRight},
		{"stranger", "a", stranger},
		{"foreign", "a", foreignHost},
		{"long", strings.Repeat("a", 4000), overLong},
		{"bomb", "a", bomb(zeros.Bytes())},
		{"nested", "a", nested},
	}
}

// TestAttackRoutes runs known attacks against every route: bodies before rights, probes, foreign
// Host and proxy headers, long ids, 64 MiB in 64 KiB, deep nesting. The server lists its routes.
func TestAttackRoutes(t *testing.T) {
	a := newAttacked(t)
	if len(a.routes) < 150 {
		t.Fatalf("%d routes", len(a.routes))
	}
	if _, b := a.ask(t, &http.Request{Method: "GET", URL: &url.URL{Path: "/ui/"}, Header: http.Header{}}); !namesMachine(t, b) {
		t.Error("the page of who may see it does not name the machine, so a stranger's proves nothing")
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "ROUTE")
	all := attacks(t)
	for _, at := range all {
		fmt.Fprint(w, "\t", at.name)
	}
	fmt.Fprintln(w)
	for _, route := range a.routes {
		fmt.Fprint(w, route)
		for _, at := range all {
			var answers []string
			for _, r := range requests(route, at.word) {
				answer, wrong := at.send(t, a, route, r)
				if wrong == "" && answer == "0" {
					wrong = "no answer"
				}
				if wrong != "" {
					t.Errorf("%s, %s: %s: %s", route, r.Method, at.name, wrong)
				}
				if !slices.Contains(answers, answer) {
					answers = append(answers, answer)
				}
			}
			fmt.Fprint(w, "\t", strings.Join(answers, ","))
		}
		fmt.Fprintln(w)
	}
	must.Succeed(t, w.Flush())
	t.Logf("route × attack → answer\n%s", &table)
	if answer, _ := a.ask(t, &http.Request{Method: "GET", URL: &url.URL{Path: "/healthz"}, Header: http.Header{}}); answer.StatusCode != http.StatusOK {
		t.Errorf("the server is not well: %s", answer.Status)
	}
}

func (a *attacked) ask(t *testing.T, r *http.Request) (*http.Response, []byte) {
	t.Helper()
	r.Header.Set("Authorization", "Bearer "+attackedToken)
	return a.send(t, r)
}

func (a *attacked) send(t *testing.T, r *http.Request) (*http.Response, []byte) {
	t.Helper()
	base := must.Get(url.Parse(a.url))(t)
	r.URL.Scheme, r.URL.Host = base.Scheme, base.Host
	r.Header.Set("Origin", a.url)
	r = r.WithContext(t.Context())
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return &http.Response{Status: "none: " + err.Error()}, nil
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") == "text/event-stream" { // it does not end
		return resp, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return &http.Response{Status: "cut: " + err.Error()}, nil
	}
	return resp, b
}

// bodyBeforeRight waits for a request to send its body.
func bodyBeforeRight(t *testing.T, a *attacked, route string, r *http.Request) (answer, wrong string) {
	if r.Method == "GET" {
		return "-", ""
	}
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(a.url, "http://")))(t)
	defer conn.Close()
	must.Succeed(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nContent-Type: application/json\r\nContent-Length: 1048576\r\nExpect: 100-continue\r\n\r\n",
		r.Method, r.URL.EscapedPath(), strings.TrimPrefix(a.url, "http://"), a.url)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "none", err.Error()
	}
	_, status, _ := strings.Cut(strings.TrimSpace(line), " ")
	status, _, _ = strings.Cut(status, " ")
	switch {
	case slices.Contains(proofs, route):
		return status, ""
	case status == "100":
		return status, "the body is read before the caller is known"
	case status != "303" && status[0] != '4': // pages lead to the login
		return status, "a stranger is not refused"
	}
	return status, ""
}

// stranger checks what is shown without a token.
func stranger(t *testing.T, a *attacked, _ string, r *http.Request) (answer, wrong string) {
	if r.Method != "GET" {
		return "-", ""
	}
	resp, b := a.send(t, r)
	if namesMachine(t, b) {
		wrong = "it names the machine"
	}
	return fmt.Sprint(resp.StatusCode), wrong
}

func namesMachine(t *testing.T, page []byte) bool {
	t.Helper()
	machine := must.Get(os.Hostname())(t)
	return bytes.Contains(page, []byte(" on "+machine+"<"))
}

// foreignHost names another host in every possible way. No answer may link there.
func foreignHost(t *testing.T, a *attacked, _ string, r *http.Request) (answer, wrong string) {
	if r.Method == "DELETE" || strings.HasPrefix(r.URL.Path, "/ui/log") {
		return "-", ""
	}
	r.Host = "evil.example"
	for _, name := range []string{"X-Forwarded-Host", "X-Original-Host", "X-Host", "Forwarded"} {
		r.Header.Set(name, map[bool]string{true: "host=evil.example;proto=https", false: "evil.example"}[name == "Forwarded"])
	}
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Forwarded-Prefix", "//evil.example")
	resp, b := a.ask(t, r)
	var all bytes.Buffer
	_ = resp.Header.Write(&all) // into memory, cannot fail
	all.Write(b)
	if bytes.Contains(all.Bytes(), []byte("//evil.example")) {
		wrong = fmt.Sprintf("it leads to the foreign host: %.300s", all.Bytes())
	}
	return fmt.Sprint(resp.StatusCode), wrong
}

// overLong sends ids of 4,000 characters.
func overLong(t *testing.T, a *attacked, route string, r *http.Request) (answer, wrong string) {
	if !strings.Contains(route, "{") || strings.HasSuffix(route, "{$}") {
		return "-", ""
	}
	resp, b := a.ask(t, r)
	switch {
	case resp.StatusCode < 400 && resp.StatusCode != http.StatusOK:
		wrong = "a redirect"
	case resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable || resp.StatusCode == 0:
		wrong = resp.Status
	case len(b) > 64<<10:
		wrong = fmt.Sprintf("%d bytes of answer", len(b))
	}
	return fmt.Sprint(resp.StatusCode), wrong
}

// bomb sends a body that decompresses to a much larger one.
func bomb(packed []byte) sender {
	return func(t *testing.T, a *attacked, _ string, r *http.Request) (answer, wrong string) {
		r.Header.Set("Content-Encoding", "gzip")
		r.Header.Set("Content-Type", "application/json")
		return a.bounded(t, r, packed)
	}
}

// nested sends 120,000 nested documents.
func nested(t *testing.T, a *attacked, _ string, r *http.Request) (answer, wrong string) {
	r.Header.Set("Content-Type", "application/vnd.api+json")
	return a.bounded(t, r, bytes.Repeat([]byte(`{"data":[`), 120_000))
}

// bounded sends a body that is too large or of a wrong type.
func (a *attacked) bounded(t *testing.T, r *http.Request, body []byte) (answer, wrong string) {
	if r.Method == "GET" || r.Method == "DELETE" {
		return "-", ""
	}
	r.ContentLength, r.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	resp, _ := a.ask(t, r)
	if resp.StatusCode == 0 || resp.StatusCode >= 500 && resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusNotImplemented {
		wrong = resp.Status
	}
	return fmt.Sprint(resp.StatusCode), wrong
}
