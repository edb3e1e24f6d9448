// SPDX-License-Identifier: Apache-2.0

package stateview_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/stateview"
)

func shop(output string) string {
	return `{"version":4,"serial":1,"lineage":"a","outputs":{"o":{"value":"` + output + `"}},"resources":[]}`
}

// TestDocumentFollowsDigest drops what is kept of a version when another one has its
// number, as after a restore of the registry.
func TestDocumentFollowsDigest(t *testing.T) {
	var now, which atomic.Int64
	registries := []http.Handler{ocitest.Handler(t, ocitest.Quirks{}), ocitest.Handler(t, ocitest.Quirks{})}
	for i, output := range []string{"old", "new"} {
		put(t, mustClient(t, ocitest.Direct{Handler: registries[i]}), "shop", shop(output))
	}
	count := &ocitest.Count{Base: ocitest.Direct{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { registries[which.Load()].ServeHTTP(w, r) })}}
	s := mustStates(t, stateview.Options{Client: mustClient(t, count), Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	check := func(want string) {
		t.Helper()
		d, err := s.Document(t.Context(), "shop", "default", 1)
		if err != nil {
			t.Fatal(err)
		}
		if value, ok := d.Reveal("output.o", "value"); !ok || string(value) != `"`+want+`"` {
			t.Errorf("the document has %s, want %s", value, want)
		}
	}
	check("old")
	count.Take()
	check("old")
	if n := count.Total(); n != 0 {
		t.Errorf("%d requests for what is kept, want none", n)
	}
	now.Add(int64(25 * time.Hour / time.Second))
	check("old")
	if n := count.Take(); n["GET manifest"] != 1 || n["GET blob"] != 0 {
		t.Errorf("after a day: %v, want the manifest and no blob", n)
	}
	which.Store(1)
	now.Add(int64(25 * time.Hour / time.Second))
	check("new")
}

// TestDocumentWhy says why a version is not shown, and shows what its manifest says.
func TestDocumentWhy(t *testing.T) {
	c := mustClient(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	s := mustStates(t, stateview.Options{Client: c})
	for name, tt := range map[string]struct{ state, want string }{
		"deep":      {`{"version":4,"serial":1,"lineage":"a","resources":` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `}`, "more than 64 MiB or 100 levels"},
		"encrypted": {`{"serial":1,"lineage":"a","meta":{},"encrypted_data":"eA==","encryption_version":"v0"}`, "OpenTofu encrypted"},
		"foreign":   {`{"version":4,"serial":1,"lineage":"a","resources":7}`, "This cannot be shown: "},
		"shown":     {shop("x"), ""},
	} {
		put(t, c, name, tt.state)
		d, err := s.Document(t.Context(), name, "default", 1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (tt.want == "") != (d.Why == "") || !strings.Contains(d.Why, tt.want) || (d.Document == nil) != (tt.want != "") || d.Version.N != 1 {
			t.Errorf("%s: version %d, %q, want %q", name, d.Version.N, d.Why, tt.want)
		}
		if !s.Has(name, "default", 1) {
			t.Errorf("%s is read anew each time", name)
		}
	}
}
