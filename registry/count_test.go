// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestDownloads checks the download counts in lists and details: with two
// replicas, and after both have been replaced.
//
// Shows: opendepot 17
func TestDownloads(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	a, b := newFrontAt(t, host, nil, nil), newFrontAt(t, host, nil, nil)
	_, link := a.moduleLink(t, 1000)
	entry := artifact.CatalogEntry{Kind: addr.KindModule, Address: "net/vpc/aws", Repository: "acme/modules/net/vpc/aws"}
	must.Succeed(t, artifact.AddCatalogEntry(t.Context(), a.repo(t, a.layout.CatalogRepo()), entry))
	downloads := func(f *front) int {
		t.Helper()
		type doc struct{ Downloads int }
		_, detail := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws/1.0.0"))
		_, list := ask(t, http.MethodGet, f.url(t, "/v1/modules"))
		one, all := decode[doc](t, detail), decode[struct{ Modules []doc }](t, list)
		if len(all.Modules) != 1 || all.Modules[0].Downloads < one.Downloads {
			t.Errorf("the list has %v, the detail %d downloads", all.Modules, one.Downloads)
		}
		return one.Downloads
	}
	for _, f := range []*front{a, a, b} {
		ask(t, http.MethodHead, f.url(t, link.Path)) // as both clients do first
		ask(t, http.MethodGet, f.url(t, link.Path))
		ask(t, http.MethodGet, f.url(t, link.Path), "Range", "bytes=500-") // a resumed download
	}
	if a, b := downloads(a), downloads(b); a != 2 || b != 1 {
		t.Errorf("%d and %d downloads before anything was written, want 2 and 1", a, b)
	}
	for _, f := range []*front{a, b} {
		ended, end := context.WithCancel(t.Context())
		end()
		f.handler.Run(ended)
		f.handler.Finish(ended)
	}
	c := newFrontAt(t, host, nil, nil)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.handler.Run(ctx) })
	for downloads(c) == 0 { // until it has read the counts of the others
	}
	ask(t, http.MethodGet, c.url(t, link.Path))
	must.Equal(t, "downloads after a restart", downloads(c), 4)
	stop()
	running.Wait()
}
