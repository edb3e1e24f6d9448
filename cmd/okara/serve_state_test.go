// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestServeOpensNoOtherState shows that a server with keys opens for nobody what
// was sealed for another state: who may write one and has a stolen backup would
// else read it through the server.
func TestServeOpensNoOtherState(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	client, err := oci.New(host, oci.Options{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	key := newFile(t, "key", strings.Repeat("07", 32))
	a := &app{getenv: func(name string) string { return map[string]string{"OKARA_STATE_KEYS": key}[name] }}
	mustOkara(t, "state", "push", host+"/state/victim", newFile(t, "s", stateText("a", 1)), "--key", key)
	mustOkara(t, "state", "replicate", host+"/state/victim", host+"/state/mine")
	mustOkara(t, "state", "replicate", host+"/state/victim", host+"/dr/victim")
	for _, tc := range []struct {
		path   string
		layout addr.Layout
		want   int
	}{
		{"/state/victim/default", addr.Layout{}, http.StatusOK},
		{"/state/mine/default", addr.Layout{}, http.StatusConflict},
		{"/state/victim/default", addr.Layout{State: "dr/{name}"}, http.StatusConflict},
		{"/state/victim/default", addr.Layout{State: "dr/{name}", StatePrimary: "state/{name}"}, http.StatusOK},
	} {
		h, err := a.stateServer(backend{client: client, layout: tc.layout}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
		if w.Code != tc.want || tc.want != http.StatusOK && strings.Contains(w.Body.String(), "resources") {
			t.Errorf("GET %s with %+v: %d, want %d: %s", tc.path, tc.layout, w.Code, tc.want, w.Body)
		}
	}
}

// TestServeSealsStates shows that a server with keys stores no state in clear,
// and that its pointer being behind does not hide the newest version.
func TestServeSealsStates(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	client, err := oci.New(host, oci.Options{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	key := newFile(t, "key", strings.Repeat("07", 32))
	a := &app{getenv: func(name string) string {
		if name == "OKARA_STATE_KEYS" {
			return key
		}
		return ""
	}}
	h, err := a.stateServer(backend{client: client, layout: addr.Layout{}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	send := func(method, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/state/app/prod", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v: %s", method, resp.StatusCode, err, b)
		}
		return string(b)
	}
	send(http.MethodPost, stateText("a", 1))
	send(http.MethodPost, stateText("a", 2))
	reference := host + "/state/app"
	if show := mustOkara(t, "state", "show", reference, "-w", "prod", "--json"); !strings.Contains(show, `"encrypted": true`) {
		t.Errorf("stored in clear: %s", show)
	}
	if o := okara(t, "state", "pull", reference, "-w", "prod"); o.code != exitFailure || o.out != "" {
		t.Errorf("pull without a key: exit %d", o.code)
	}
	r, err := oci.OpenRepo(reference, oci.Options{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	old, err := r.Fetch(t.Context(), "state-prod-v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.PutTag(t.Context(), "state-prod", old); err != nil {
		t.Fatal(err)
	}
	if got := send(http.MethodGet, ""); got != stateText("a", 2) {
		t.Error("GET gave another state than the newest version")
	}
}
