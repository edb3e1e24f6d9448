// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// newServerAs runs okara serve over a registry with an account that the registry knows.
func newServerAs(t *testing.T, registry string) (url string, notes func() string) {
	t.Helper()
	docker := t.TempDir()
	host, _, _ := strings.Cut(registry, "/")
	login := fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, base64.StdEncoding.EncodeToString([]byte("robot:secret")))
	must.Succeed(t, os.WriteFile(filepath.Join(docker, "config.json"), []byte(login), 0o600))
	url, notes, _ = newServerIn(t, map[string]string{"DOCKER_CONFIG": docker}, "--storage", t.TempDir(), "--registry", registry)
	return url, notes
}

// TestServeOnRefusingRegistry: a server whose account lacks a project or a right reports that
// with the registry's text, on its pages and to requests for a module; in the log once for
// each reason, however often a load balancer checks.
//
// Shows: rules 7 | a server reports which registry refuses its requests, and why, in answers and
// once in the log
func TestServeOnRefusingRegistry(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{Projects: map[string][]string{"other": {"pull"}}})
	url, notes := newServerAs(t, g.Host+"/infra")
	says := func(path string, want int, texts ...string) {
		t.Helper()
		for range 5 {
			body, code := send(t, http.MethodGet, url+path, "", "")
			for _, text := range texts {
				if code != want || !strings.Contains(body, text) || strings.Contains(body, "secret") {
					t.Errorf("%s: %d, want %d with %q: %s", path, code, want, text, body)
				}
			}
		}
	}
	denied := "the registry denied access to the account of this server: " + g.Host + ": "
	says("/readyz", http.StatusServiceUnavailable, denied, "project infra not found")
	says("/v1/modules/net/vpc/aws/versions", http.StatusBadGateway, denied, "project infra not found")
	g.Refuse(ocitest.Refusals{Projects: map[string][]string{"infra": {"push"}}})
	says("/readyz", http.StatusServiceUnavailable, denied, "action: pull")
	says("/v1/modules/net/vpc/gcp/versions", http.StatusBadGateway, denied, "action: pull")
	if n := strings.Count(notes(), "registry unreachable"); n != 2 {
		t.Errorf("logged %d times, want once for each reason:\n%s", n, notes())
	}
	g.Refuse(ocitest.Refusals{Projects: map[string][]string{"infra": {"push", "pull"}}})
	says("/readyz", http.StatusOK, "ready")
	says("/v1/modules/net/vpc/azure/versions", http.StatusNotFound, "not found")
}

// TestServeStatesOnRefusingRegistry: a server whose registry has immutable tags, or deletes
// nothing, reports that once and not with each write, and again when the reason changes.
// States are correct all the time.
//
// Shows: rules 7
func TestServeStatesOnRefusingRegistry(t *testing.T) {
	g := ocitest.NewRefusing(t, ocitest.Refusals{})
	url, notes := newServerAs(t, g.Host)
	const lock = `{"ID":"0d4c5b0e-55d0-4a9c-b6cf-3c7b3b8b5d%d","Operation":"OperationTypeApply","Who":"ada@example","Version":"1.12.6","Created":"2026-01-01T00:00:00Z"}`
	serial := 0
	write := func() {
		t.Helper()
		at := url + "/state/shop/default"
		serial++
		id := fmt.Sprintf(lock, 10+serial)
		for _, step := range [][3]string{
			{"LOCK", at, id},
			{http.MethodPost, at + "?ID=" + id[len(`{"ID":"`):][:36], stateText("a", serial)},
			{"UNLOCK", at, id},
		} {
			if body, code := send(t, step[0], step[1], "", step[2]); code != http.StatusOK {
				t.Fatalf("%s %d: %d: %s", step[0], serial, code, body)
			}
		}
		if got, _ := send(t, http.MethodGet, at, "", ""); got != stateText("a", serial) {
			t.Errorf("after write %d: %s", serial, got)
		}
	}
	warned := func() int { return strings.Count(notes(), "level=WARN") + strings.Count(notes(), "level=ERROR") }
	write()
	if warned() != 0 {
		t.Errorf("warned without a reason:\n%s", notes())
	}
	for _, rules := range []ocitest.Refusals{
		{NoDelete: true}, // harmless
		{NoDelete: true, Immutable: []string{"state-*"}}, // from now on reads list tags
	} {
		g.Refuse(rules)
		for range 4 {
			write()
		}
	}
	if text := notes(); warned() != 1 || !strings.Contains(text, "does not allow moving state-default") {
		t.Errorf("warned %d times, want once for the tags:\n%s", warned(), text)
	}
}
