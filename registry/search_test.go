// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// TestSearchAPI reveals nothing that a caller may not read.
func TestSearchAPI(t *testing.T) {
	f := newFront(t, func(o *server.Options) {
		o.Access = access.Policy{
			Anonymous: []rights.Scope{must.Fixed(rights.ParseScope("read:module:net/**"))},
			Tokens:    []statictoken.Token{newToken(t, readerToken, "read:*:**")},
		}
	})
	for _, address := range []string{"net/vpc/aws", "net/dns/aws", "shut/vault/aws"} {
		f.module(t, address, "1.2.0", map[string]string{"main.tf": ""})
		entry := artifact.CatalogEntry{Kind: addr.KindModule, Address: address, Repository: "acme/modules/" + address}
		must.Succeed(t, artifact.AddCatalogEntry(t.Context(), f.repo(t, f.layout.CatalogRepo()), entry))
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.handler.Run(ctx) })
	defer func() { stop(); running.Wait() }()
	type item struct{ Kind, Address, Version string }
	type doc struct {
		Total, Page int
		Complete    bool
		Results     []item
		Near        []item
	}
	found := func(query string, header ...string) (doc, string) {
		t.Helper()
		resp, body := ask(t, http.MethodGet, f.url(t, "/api/v1/search?"+query), header...)
		if resp.StatusCode != http.StatusOK || !strings.Contains(resp.Header.Get("Vary"), "Authorization") || !strings.HasPrefix(resp.Header.Get("Cache-Control"), "private") {
			t.Fatalf("%s: %s %v %s", query, resp.Status, resp.Header, body)
		}
		var list []string
		d := decode[doc](t, body)
		for _, it := range d.Results {
			list = append(list, it.Address)
		}
		return d, strings.Join(list, " ")
	}
	for query, want := range map[string]string{"": "net/dns/aws net/vpc/aws", "q=vpc": "net/vpc/aws", "q=vault": "", "namespace=shut": "", "sort=downloads&kind=module": "net/dns/aws net/vpc/aws", "page=2": ""} {
		d, got := found(query)
		if got != want || !d.Complete {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if slices.ContainsFunc(d.Near, func(it item) bool { return strings.HasPrefix(it.Address, "shut/") }) {
			t.Errorf("%s: near is %v", query, d.Near)
		}
	}
	if d, _ := found("q=vpx"); len(d.Near) != 1 || d.Near[0].Address != "net/vpc/aws" {
		t.Errorf("near vpx: %v", d.Near)
	}
	if d, got := found("q=vault", "Authorization", "Bearer "+readerToken); got != "shut/vault/aws" || d.Total != 1 {
		t.Errorf("a reader of all finds %q", got)
	}
	waitFor(t, func() bool { // until the catalog has read the version
		d, _ := found("q=net/vpc/aws")
		return len(d.Results) == 1 && d.Results[0].Version == "1.2.0"
	})
	for _, bad := range []string{"kind=x", "page=0", "q=" + strings.Repeat("a", 201)} {
		if resp, body := ask(t, http.MethodGet, f.url(t, "/api/v1/search?"+bad)); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "errors") {
			t.Errorf("%s: %s %s", bad, resp.Status, body)
		}
	}
	if resp, _ := ask(t, http.MethodGet, f.url(t, "/api/v1/search"), "Authorization", "Bearer oks_nobody_x"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a bad token: %s", resp.Status)
	}
}
