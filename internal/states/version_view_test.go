// SPDX-License-Identifier: Apache-2.0

package states_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

func shop(output string) string {
	return `{"version":4,"serial":1,"lineage":"a","outputs":{"o":{"value":"` + output + `"}},"resources":[]}`
}

// TestDocumentFollowsDigest drops a version whose number has other content.
func TestDocumentFollowsDigest(t *testing.T) {
	var now, which atomic.Int64
	registries := []http.Handler{ocitest.Handler(t, ocitest.Quirks{}), ocitest.Handler(t, ocitest.Quirks{})}
	for i, output := range []string{"old", "new"} {
		put(t, mustClient(t, ocitest.Direct{Handler: registries[i]}), "shop", shop(output))
	}
	count := &ocitest.Count{Base: ocitest.Direct{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { registries[which.Load()].ServeHTTP(w, r) })}}
	s := mustStates(t, states.Options{Client: mustClient(t, count), Now: func() time.Time { return time.Unix(now.Load(), 0) }})
	check := func(want string) {
		t.Helper()
		d := must.Get(s.Document(t.Context(), "shop", "default", 1))(t)
		if value, ok := d.ShowSensitive("output.o", "value"); !ok || string(value) != `"`+want+`"` {
			t.Errorf("the document has %s, want %s", value, want)
		}
	}
	check("old")
	count.Take()
	check("old")
	must.Equal(t, "requests for what is kept", count.Total(), 0)
	now.Add(int64(25 * time.Hour / time.Second))
	check("old")
	if n := count.Take(); n["GET manifest"] != 1 || n["GET blob"] != 0 {
		t.Errorf("after a day: %v, want the manifest and no blob", n)
	}
	which.Store(1)
	now.Add(int64(25 * time.Hour / time.Second))
	check("new")
}

// TestDocumentWhy: a version that is not displayed has a reason, and its manifest data.
func TestDocumentWhy(t *testing.T) {
	c := mustClient(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	s := mustStates(t, states.Options{Client: c})
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

// TestDocumentSealed displays states sealed with these keys, others, none, or moved. What is not
// displayed has a reason, shows nothing, and is not cached.
func TestDocumentSealed(t *testing.T) {
	c := mustClient(t, ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})})
	ours, others := statebackend.Options{Sealer: mustSealer(t, "k")}, statebackend.Options{Sealer: mustSealer(t, "x")}
	putWith(t, c, "ours", ours, shop("secret-of-ours"))
	putWith(t, c, "others", others, shop("secret-of-others"))
	put(t, c, "clear", shop("secret-in-clear"))
	from, to := depottest.MustRepo(t, c, "acme/state/ours"), depottest.MustRepo(t, c, "acme/state/moved")
	m := must.Get(from.Fetch(t.Context(), "state-default-v1"))(t)
	copied(t, from, to, m)
	with, without := mustStates(t, states.Options{Client: c, State: ours}), mustStates(t, states.Options{Client: c})
	for _, tt := range []struct {
		states *states.States
		name   string
		want   string
	}{
		{with, "ours", ""}, {with, "others", "encrypted with keys that this server does not have"}, {with, "clear", "not encrypted with this server's keys"},
		{with, "moved", "not encrypted with this server's keys"},
		{without, "ours", "encrypted with keys that this server does not have"}, {without, "others", "encrypted with keys that this server does not have"}, {without, "clear", ""},
	} {
		d, err := tt.states.Document(t.Context(), tt.name, "default", 1)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if (tt.want == "") != (d.Why == "") || !strings.Contains(d.Why, tt.want) || (d.Document == nil) != (tt.want != "") || d.Version.N != 1 {
			t.Errorf("%s: version %d, shown %t, %q, want %q", tt.name, d.Version.N, d.Document != nil, d.Why, tt.want)
		}
		if strings.Contains(d.Why, "secret") {
			t.Errorf("%s: the reason is %q", tt.name, d.Why)
		}
	}
}

// copied pushes a manifest with its blobs to another repository.
func copied(t *testing.T, from, to *oci.Repo, m oci.Manifest) {
	t.Helper()
	var image ocispec.Manifest
	must.Succeed(t, json.Unmarshal(m.Bytes, &image))
	for _, d := range append(image.Layers, image.Config) {
		b := must.Get(from.ReadBlob(t.Context(), d, 1<<20))(t)
		must.Succeed(t, to.PushBlob(t.Context(), oci.BytesBlob(d.MediaType, b)))
	}
	must.Succeed(t, to.PutTag(t.Context(), "state-default-v1", m))
}

func mustSealer(t *testing.T, letter string) statebackend.Sealer {
	t.Helper()
	return must.Get(envelope.New(envelope.Options{Keys: []string{"base64key://" + base64.URLEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))}}))(t)
}
