// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-141914ff/okara/internal/cli"
)

// echo refuses, and repeats the request's headers.
func echo(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		if !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="echo"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"errors": [{"code": "DENIED", "message": "refused user %s with password %s and Authorization: %s", "detail": %q}]}`,
			user, password, r.Header.Get("Authorization"), fmt.Sprint(r.Header))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// TestNoSecretInAnyOutput: every command, with debug logging.
func TestNoSecretInAnyOutput(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	host := echo(t)
	secrets := []string{testSecret, base64.StdEncoding.EncodeToString([]byte(testUser + ":" + testSecret))}
	u := newPerson(t)
	if r := u.okara(testSecret, "login", host, "-u", testUser, "--password-stdin", "--no-check"); r.code != 0 {
		t.Fatalf("login: %+v", r)
	}
	u.env["OKARA_REGISTRY"] = host + "/acme"
	u.env["TF_BACKEND_OCI_REPOSITORY"] = host + "/acme/state"
	u.file("m/main.tf", `terraform {
  backend "oci" {}
}
`)
	dir := filepath.Join(u.home, "m")
	state := u.file("state.json", `{"version": 4, "serial": 1, "lineage": "x", "resources": [], "outputs": {}}`)
	repo := host + "/acme/state"
	args := map[string][]string{
		"publish module":   {dir, "acme/net/any", "1.0.0"},
		"publish provider": {dir, "acme/time", "1.0.0"},
		"login":            {host, "-u", testUser, "--password-stdin"},
		"auth explain":     {host + "/acme/net"},
		"exec":             {"--chdir", dir, "--", "true"},
		"tofu":             {"-chdir=" + dir, "init"},
		"terraform":        {"-chdir=" + dir, "init"},
		"man":              {filepath.Join(u.home, "man")},
		"state push":       {repo, state},
	}
	wanted := map[string]bool{"auth emit": true, "auth token": true} // print the secret on purpose
	elsewhere := map[string]bool{"serve": true}                      // runs until it is stopped
	denied := 0
	for _, c := range commandTree(newRoot(&cli.App{Version: "test"})) {
		path := strings.TrimPrefix(c.CommandPath(), "okara ")
		if c.HasSubCommands() || wanted[path] || elsewhere[path] || strings.HasPrefix(path, "completion") || path == "help" || path == "logout" {
			continue
		}
		rest, ok := args[path]
		if !ok {
			rest = strings.Fields(cmp.Or(map[bool]string{true: repo}[strings.HasPrefix(path, "state ")], host+"/acme/net"))
		}
		full := append(strings.Fields(path), rest...)
		for _, global := range [][]string{{"--debug"}, {"--debug", "--json"}} {
			r := u.okara(testSecret, append(append([]string{}, global...), full...)...)
			if r.code == cli.ExitDenied {
				denied++
			}
			for _, s := range secrets {
				if strings.Contains(r.out, s) || strings.Contains(r.err, s) {
					t.Errorf("okara %q shows the secret:\n%s\n%s", full, r.out, r.err)
				}
			}
		}
	}
	if len(spans.Ended()) < denied {
		t.Errorf("%d spans for %d refused calls, tracing is off", len(spans.Ended()), denied)
	}
	for _, span := range spans.Ended() {
		text := fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Status())
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("a span has the secret: %s", text)
			}
		}
	}
	if denied < 10 {
		t.Errorf("only %d calls reached the registry and were denied, the test looks at too little", denied)
	}
}
