// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

const (
	vpc     = "net/vpc/aws"
	vpcRepo = "acme/modules/net/vpc/aws"
	dns     = "acme/dns"
	dnsRepo = "acme/providers/acme/dns"
)

// TestListAges: a list is read once, after 30 seconds in the background, and stays one value if
// unchanged.
func TestListAges(t *testing.T) {
	s := newStore(t, nil)
	s.module(t, vpc, "1.0.0")
	m := must.Fixed(addr.ParseModule(vpc))
	first := must.Fixed(s.Versions(t.Context(), m.Item()))
	first.Derived.Store("form", "an answer")
	if n := s.requests(func() { must.Fixed(s.Versions(t.Context(), m.Item())) }); len(n) != 0 {
		t.Errorf("a list that is known was asked for: %v", n)
	}
	s.pass(6 * time.Minute) // too old for a refresh in the background
	again := must.Fixed(s.Versions(t.Context(), m.Item()))
	if kept, _ := again.Derived.Load("form"); again != first || kept != "an answer" {
		t.Errorf("a refresh without news is another value")
	}
	s.module(t, vpc, "1.1.0")
	if got := s.listed(t, vpc); len(got) != 1 {
		t.Errorf("a list is not as old as it may be: %v", got)
	}
	s.pass(6 * time.Minute)
	must.Match(t, "after a refresh", s.listed(t, vpc), []string{"1.1.0", "1.0.0"})
}

// TestTagTTL: a module's tag is served from the cache until the TTL, then asked for by digest.
func TestTagTTL(t *testing.T) {
	s := newStore(t, func(o *catalog.Options) { o.TagTTL = 10 * time.Second })
	first := s.module(t, vpc, "1.0.0")
	s.module(t, vpc, "1.1.0")
	known := must.Fixed(s.version(t.Context(), vpc, "1.0.0"))
	if known.Manifest.Digest.String() != first.Digest {
		t.Errorf("%s, published was %s", known.Manifest.Digest, first.Digest)
	}
	s.pass(11 * time.Second)
	n := s.requests(func() {
		if again := must.Fixed(s.version(t.Context(), vpc, "1.0.0")); again != known {
			t.Error("the same digest is another value")
		}
	})
	must.Match(t, "requests for a tag that did not move", n, map[string]int{"HEAD manifest": 1})
	r := s.repo(vpcRepo)
	must.Succeed(t, r.PutTag(t.Context(), "1.0.0", must.Fixed(r.Fetch(t.Context(), "1.1.0"))))
	if within := must.Fixed(s.version(t.Context(), vpc, "1.0.0")); within != known {
		t.Error("a tag was not trusted for its time")
	}
	s.pass(11 * time.Second)
	if moved := must.Fixed(s.version(t.Context(), vpc, "1.0.0")); moved == known {
		t.Error("a tag that moved is not seen after its time")
	}
}

// TestLatest checks which version is the latest.
func TestLatest(t *testing.T) {
	tests := []struct {
		name     string
		versions []string
		yanked   string
		want     string // "": none
	}{
		{"releases", []string{"1.0.0", "1.10.0", "1.9.0"}, "", "1.10.0"},
		{"a pre-release is no release", []string{"1.0.0", "2.0.0-rc.1"}, "", "1.0.0"},
		{"only pre-releases", []string{"1.0.0-rc.1", "1.0.0-rc.2"}, "", "1.0.0-rc.2"},
		{"a withdrawn one is not to be had", []string{"1.0.0", "1.1.0"}, "1.1.0", "1.0.0"},
		{"nothing is left", []string{"1.0.0"}, "1.0.0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t, nil)
			for _, v := range tt.versions {
				s.module(t, vpc, v)
			}
			if tt.yanked != "" {
				s.event(t, vpcRepo, evidence.ActionYank, tt.yanked)
			}
			_, v, mv, err := s.LatestModule(t.Context(), must.Fixed(addr.ParseModule(vpc)))
			if v.String() != tt.want || (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, oci.ErrNotFound) {
				t.Errorf("%q and %v, want %q", v, err, tt.want)
			}
			if err == nil && mv.Repository != vpcRepo {
				t.Errorf("the version is of %s", mv.Repository)
			}
		})
	}
}

// TestChanged publishes through this process: the catalog shows the change at once, with
// one request for the part that changed.
//
// Shows: mistakes 32 | a published version was listed late by the server that accepted it | its
// lists show it at once
func TestChanged(t *testing.T) {
	s := newStore(t, nil)
	s.module(t, vpc, "1.0.0")
	s.listed(t, vpc)
	must.Fixed(s.Published(t.Context()))
	s.module(t, vpc, "1.1.0")
	s.module(t, "net/dns/aws", "1.0.0")
	s.Changed(vpcRepo, "1.1.0")
	must.Match(t, "value", s.listed(t, vpc), []string{"1.1.0", "1.0.0"})
	if x := must.Fixed(s.Published(t.Context())); len(x.Search(catalog.Filter{})) != 1 {
		t.Errorf("the index is asked for without need: %v", x.Entries)
	}
	s.ChangedPublished()
	asked := s.requests(func() {
		if x := must.Fixed(s.Published(t.Context())); len(x.Search(catalog.Filter{})) != 2 {
			t.Errorf("the index after a change: %v", x.Entries)
		}
	})
	must.Match(t, "requests for one more entry", asked, map[string]int{"GET tags": 1, "GET manifest": 1})
}

// TestPing accepts every answer that a registry without such a repository may give.
func TestPing(t *testing.T) {
	for status, good := range map[int]bool{http.StatusNotFound: true, http.StatusForbidden: true, http.StatusUnauthorized: false, http.StatusBadGateway: false} {
		s := newStoreOver(t, &ocitest.Fault{Times: -1, Do: ocitest.Status(status, -1)}, nil)
		if err := s.Ping(t.Context()); (err == nil) != good {
			t.Errorf("%d: %v", status, err)
		}
	}
}
