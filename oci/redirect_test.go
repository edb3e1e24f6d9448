// SPDX-License-Identifier: Apache-2.0

package oci_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestCredentialsStayWithTheRegistry has a registry redirect reads to another
// port of its own host name, as for a blob.
//
// Shows: mistakes 9
func TestCredentialsStayWithTheRegistry(t *testing.T) {
	var mu sync.Mutex // guards heard
	var heard []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if h := r.Header.Get("Authorization"); h != "" {
			heard = append(heard, h)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(other.Close)
	sent := 0
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mu.Lock()
		sent++
		mu.Unlock()
		http.Redirect(w, r, other.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	t.Cleanup(registry.Close)
	r := must.Get(oci.OpenRepo(strings.TrimPrefix(registry.URL, "http://")+"/m", oci.Options{
		Credential: func(context.Context, string, string) (oci.Credential, error) {
			return oci.Credential{Username: "u", Password: "secret"}, nil
		},
	}))(t)
	if _, err := r.Fetch(t.Context(), "1.0.0"); err == nil {
		t.Error("no error")
	}
	if _, err := r.HasBlob(t.Context(), oci.EmptyBlob().Descriptor); err != nil {
		t.Error(err)
	}
	if _, err := r.Open(t.Context(), oci.EmptyBlob().Descriptor); err == nil {
		t.Error("no error")
	}
	if sent == 0 || len(heard) > 0 {
		t.Errorf("%d requests with a password, and another port heard %q", sent, heard)
	}
}
