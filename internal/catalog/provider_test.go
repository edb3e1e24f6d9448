// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/catalog"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
)

// TestProviderVersion reads an index, its small blobs and sizes once.
func TestProviderVersion(t *testing.T) {
	s := newStore(t, nil)
	s.provider(t, dns, "1.0.0", depot.ProviderOptions{}, "linux_amd64", "darwin_arm64")
	p, v := must.Fixed(addr.ParseProvider(dns)), must.Fixed(addr.ParseVersion("1.0.0"))
	l := must.Fixed(s.Versions(t.Context(), p.Item()))
	if _, known := s.KnownProvider(p, v, l); known {
		t.Error("a version is known before anybody asked")
	}
	before := l.Revision()
	pv := must.Fixed(s.providerVersion(t.Context(), dns, "1.0.0"))
	if pv.Installable(p) != nil || len(pv.Platforms) != 2 || pv.Repository != dnsRepo || l.Revision() == before {
		t.Errorf("%+v, revision %d of %d", pv.ProviderIndex, l.Revision(), before)
	}
	n := s.requests(func() {
		known, ok := s.KnownProvider(p, v, l)
		if !ok || known != pv {
			t.Error("the version is not known after it was read")
		}
		zip := pv.Platforms[0]
		if d := must.Fixed(s.Blobs.Blob(t.Context(), dnsRepo, zip.Zh)); d.Size != zip.Size {
			t.Errorf("%s has %d bytes, the index says %d", zip.Filename, d.Size, zip.Size)
		}
		if sums, ok := s.Blobs.KnownBytes(pv.Repository, pv.Meta.Shasums.Digest.Encoded()); !ok || !bytes.Equal(sums, pv.Meta.ShasumsBytes) {
			t.Errorf("SHA256SUMS: %q, %v", sums, ok)
		}
	})
	if len(n) != 0 {
		t.Errorf("requests for what the index said: %v", n)
	}
}

// TestProviderMoved: the first content of a moved tag is served, and Watch.Moved called.
func TestProviderMoved(t *testing.T) {
	moved := make(chan struct{}, 10)
	s := newStore(t, func(o *catalog.Options) { o.Watch.Moved = func() { moved <- struct{}{} } })
	s.provider(t, dns, "1.0.0", depot.ProviderOptions{}, "linux_amd64")
	s.provider(t, dns, "1.1.0", depot.ProviderOptions{}, "linux_amd64")
	first := must.Fixed(s.providerVersion(t.Context(), dns, "1.0.0"))
	r := s.repo(dnsRepo)
	must.Succeed(t, r.PutTag(t.Context(), "1.0.0", must.Fixed(r.Fetch(t.Context(), "1.1.0"))))
	s.pass(time.Hour)
	if again := must.Fixed(s.providerVersion(t.Context(), dns, "1.0.0")); again != first {
		t.Error("the version is another one")
	}
	<-moved // in the background
	if again := must.Fixed(s.providerVersion(t.Context(), dns, "1.0.0")); again != first {
		t.Error("the version is another one once it is known to have moved")
	}
}

// TestCorrupt: manifests that are neither module nor provider are 404, and hide no others.
func TestCorrupt(t *testing.T) {
	s := newStore(t, nil)
	s.module(t, vpc, "1.0.0")
	s.provider(t, dns, "1.0.0", depot.ProviderOptions{}, "linux_amd64")
	for _, repository := range []string{vpcRepo, dnsRepo} {
		s.foreign(t, repository, "2.0.0")
	}
	for i := range 2 {
		if _, err := s.providerVersion(t.Context(), dns, "2.0.0"); i == 0 && !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("provider: %v", err) // no list has it from now on
		}
		l := must.Get(s.Versions(t.Context(), must.Fixed(addr.ParseProvider(dns)).Item()))(t)
		if modules, providers := s.listed(t, vpc), texts(l.Listed); len(modules) != 1 || len(providers) != 1 {
			t.Errorf("listed: %q and %q", modules, providers)
		}
		s.pass(time.Minute)
	}
	for _, it := range []addr.Item{must.Fixed(addr.ParseProvider(dns)).Item(), must.Fixed(addr.ParseModule(vpc)).Item()} {
		if all := must.Get(s.Versions(t.Context(), it))(t).All(); len(all) != 1 {
			t.Errorf("all of %s: %v", it, all)
		}
	}
	_, merr := s.version(t.Context(), vpc, "2.0.0")
	_, perr := s.providerVersion(t.Context(), dns, "2.0.0")
	if !errors.Is(merr, oci.ErrNotFound) || !errors.Is(perr, oci.ErrNotFound) {
		t.Errorf("module: %v\nprovider: %v", merr, perr)
	}
	if _, err := s.version(t.Context(), vpc, "1.0.0"); err != nil {
		t.Error(err)
	}
	n := s.requests(func() {
		if _, err := s.providerVersion(t.Context(), dns, "2.0.0"); !errors.Is(err, oci.ErrNotFound) {
			t.Error(err)
		}
	})
	if len(n) != 0 {
		t.Errorf("another artifact is read again: %v", n)
	}
}
