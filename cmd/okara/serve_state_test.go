// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/ocitest"
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

// TestServerIsNoRegistry: on another registry it refuses to act as one.
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
		if o := okara(t, command...); o.code == cli.ExitOK || !strings.Contains(o.err, "keeps its content in another registry") {
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
