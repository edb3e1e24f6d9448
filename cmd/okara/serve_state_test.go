// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestServeOpensNoOtherState shows that a server with keys never decrypts what was sealed for
// another state: otherwise a caller with the right to write one state and a stolen backup
// could read it through the server.
//
// Shows: mistakes 3
func TestServeOpensNoOtherState(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	key := newFile(t, "key", strings.Repeat("07", 32))
	mustOkara(t, "state", "push", host+"/state/victim", newFile(t, "s", stateText("a", 1)), "--key", key)
	mustOkara(t, "state", "replicate", host+"/state/victim", host+"/state/mine")
	mustOkara(t, "state", "replicate", host+"/state/victim", host+"/dr/victim")
	for _, tc := range []struct {
		path, layout string
		want         int
	}{
		{"/state/victim/default", "", http.StatusOK},
		{"/state/mine/default", "", http.StatusConflict},
		{"/state/victim/default", `state = "dr/{name}"`, http.StatusConflict},
		{"/state/victim/default", "state = \"dr/{name}\"\nstate_primary = \"state/{name}\"", http.StatusOK},
	} {
		url := newStateServer(t, host, key, "layout {\n"+tc.layout+"\n}\n")
		body, code := send(t, http.MethodGet, url+tc.path, "", "")
		if code != tc.want || tc.want != http.StatusOK && strings.Contains(body, "resources") {
			t.Errorf("GET %s with %s: %d, want %d: %s", tc.path, tc.layout, code, tc.want, body)
		}
	}
}

// TestServerIsNoRegistry shows that a server which stores in another registry refuses to act
// as that registry: a list without states or locks would be a wrong answer.
func TestServerIsNoRegistry(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	server := strings.TrimPrefix(newStateServer(t, host, newFile(t, "key", strings.Repeat("07", 32)), ""), "http://")
	for _, command := range [][]string{
		{"state", "list", server + "/state/app"},
		{"state", "list", server, "--all"},
		{"state", "locks", server + "/state/app"},
		{"state", "history", server + "/state/app"},
		{"state", "push", server + "/state/app", newFile(t, "s", stateText("a", 1))},
	} {
		if o := okara(t, command...); o.code == cli.ExitOK || !strings.Contains(o.err, "stores in another registry") {
			t.Errorf("%q: exit code %d, %q, %q; want the reason", command, o.code, o.out, o.err)
		}
	}
}

// newStateServer runs okara serve over a registry, with a key for its states.
func newStateServer(t *testing.T, host, key, config string) (url string) {
	t.Helper()
	env := map[string]string{"OKARA_STATE_KEYS": key}
	url, _, _ = newServerIn(t, env, "--storage", t.TempDir(), "--registry", host, "--config", newFile(t, "okara.hcl", config))
	return url
}

// TestServeSealsStates shows that a server with keys stores no unencrypted state, and that an
// outdated pointer does not hide the newest version.
func TestServeSealsStates(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	key := newFile(t, "key", strings.Repeat("07", 32))
	url := newStateServer(t, host, key, "") + "/state/app/prod"
	send := func(method, body string) string {
		t.Helper()
		answer, code := send(t, method, url, "", body)
		if code != http.StatusOK {
			t.Fatalf("%s: %d: %s", method, code, answer)
		}
		return answer
	}
	send(http.MethodPost, stateText("a", 1))
	send(http.MethodPost, stateText("a", 2))
	reference := host + "/state/app"
	if show := mustOkara(t, "state", "show", reference, "-w", "prod", "--json"); !strings.Contains(show, `"encrypted": true`) {
		t.Errorf("stored in clear: %s", show)
	}
	if o := okara(t, "state", "pull", reference, "-w", "prod"); o.code != cli.ExitFailure || o.out != "" {
		t.Errorf("pull without a key: exit %d", o.code)
	}
	r := must.Get(oci.OpenRepo(reference, oci.Options{PlainHTTP: true}))(t)
	old := must.Get(r.Fetch(t.Context(), "state-prod-v1"))(t)
	must.Succeed(t, r.PutTag(t.Context(), "state-prod", old))
	if got := send(http.MethodGet, ""); got != stateText("a", 2) {
		t.Error("GET gave another state than the newest version")
	}
}
