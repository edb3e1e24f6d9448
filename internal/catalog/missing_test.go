// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestDanglingVersion: a tag whose GET is 404 is listed until it is requested, then again once it
// is back.
func TestDanglingVersion(t *testing.T) {
	s := newStore(t, nil)
	s.module(t, vpc, "1.0.0")
	s.dangling.Add(vpcRepo, "1.1.0")
	s.dangling.Add(vpcRepo, "1.2.0")
	must.Match(t, "before anybody asks", s.listed(t, vpc), []string{"1.2.0", "1.1.0", "1.0.0"})
	_, v, _, err := s.LatestModule(t.Context(), must.Fixed(addr.ParseModule(vpc)))
	if err != nil || v.String() != "1.0.0" {
		t.Errorf("the latest: %s, %v", v, err)
	}
	must.Match(t, "once they are known", s.listed(t, vpc), []string{"1.0.0"})
	_, err = s.version(t.Context(), vpc, "1.1.0")
	if _, refused := errors.AsType[*catalog.RefusedError](err); refused || !errors.Is(err, oci.ErrNotFound) {
		t.Errorf("a missing version: %v", err) // an origin may have the version
	}
	if n := strings.Count(s.log.String(), "the tag is skipped"); n != 2 {
		t.Errorf("%d lines in the log, want one for each missing version:\n%s", n, s.log)
	}
	s.module(t, vpc, "1.1.0")
	s.pass(time.Hour)
	must.Match(t, "when one is there", s.listed(t, vpc), []string{"1.1.0", "1.0.0"})
}

// TestDanglingReported marks a version that another component found to be dangling.
func TestDanglingReported(t *testing.T) {
	s := newStore(t, nil)
	s.module(t, vpc, "1.0.0")
	s.dangling.Add(vpcRepo, "1.1.0")
	it, v := must.Fixed(addr.ParseItem(vpc)), must.Fixed(addr.ParseVersion("1.1.0"))
	if !s.MarkDangling(t.Context(), it, v) || s.MarkDangling(t.Context(), it, v) {
		t.Error("a ghost is one once")
	}
	if s.MarkDangling(t.Context(), it, must.Fixed(addr.ParseVersion("3.0.0"))) {
		t.Error("what is not listed is no ghost")
	}
	if got := s.listed(t, vpc); len(got) != 1 {
		t.Errorf("listed: %v", got)
	}
}

// TestIndex reads the catalog: entries of other tools and dangling tags are skipped, and
// only new entries are read again.
//
// Shows: mistakes 32
func TestIndex(t *testing.T) {
	s := newStore(t, nil)
	if x := must.Fixed(s.Published(t.Context())); len(x.Entries) != 0 {
		t.Errorf("without a catalog: %v", x.Entries)
	}
	s.module(t, vpc, "1.0.0")
	s.module(t, "net/dns/aws", "1.0.0")
	s.foreign(t, s.layout.CatalogRepo(), artifact.CatalogTag("acme/modules/a/b/c"))
	s.dangling.Add(s.layout.CatalogRepo(), artifact.CatalogTag("acme/modules/net/gone/aws"))
	s.pass(time.Hour)
	names := func() (list []string) {
		for _, m := range must.Fixed(s.Published(t.Context())).Search(catalog.Filter{}) {
			list = append(list, m.String())
		}
		return list
	}
	must.Match(t, "value", names(), []string{"net/dns/aws", vpc})
	s.module(t, "net/zone/aws", "1.0.0")
	s.pass(time.Hour)
	n := s.requests(func() {
		must.Match(t, "one more", names(), []string{"net/dns/aws", vpc, "net/zone/aws"})
	})
	if n["GET manifest"] > 2 { // the new one, and the dangling one
		t.Errorf("requests for one new entry: %v", n)
	}
}

// TestSearch searches published items by each part of an address.
func TestSearch(t *testing.T) {
	s := newStore(t, nil)
	for _, m := range []string{vpc, "net/dns/aws", "data/vpc/azure"} {
		s.module(t, m, "1.0.0")
	}
	s.provider(t, dns, "1.0.0", depot.ProviderOptions{}, "linux_amd64")
	x := must.Fixed(s.Published(t.Context()))
	tests := []struct {
		name string
		q    catalog.Filter
		want []string
	}{
		{"all", catalog.Filter{}, []string{"data/vpc/azure", "net/dns/aws", vpc, dns}},
		{"a kind", catalog.Filter{Kind: addr.KindProvider}, []string{dns}},
		{"a namespace", catalog.Filter{Namespace: "net"}, []string{"net/dns/aws", vpc}},
		{"a name", catalog.Filter{Name: "vpc"}, []string{"data/vpc/azure", vpc}},
		{"a system", catalog.Filter{System: "azure"}, []string{"data/vpc/azure"}},
		{"a word of any part", catalog.Filter{Terms: []string{"dns"}}, []string{"net/dns/aws", dns}},
		{"two words", catalog.Filter{Terms: []string{"dns", "net"}}, []string{"net/dns/aws"}},
		{"nothing fits", catalog.Filter{Namespace: "net", System: "azure"}, nil},
	}
	for _, tt := range tests {
		var got []string
		for _, it := range x.Search(tt.q) {
			got = append(got, it.String())
		}
		must.Match(t, tt.name, got, tt.want)
	}
}
