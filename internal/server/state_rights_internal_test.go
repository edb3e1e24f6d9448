// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
)

// rightsToken is the token of every request in [TestStateDoors]; its rights are replaced.
const rightsToken = "oks_ci_0123456789abcdefghij"

// doorsFront is a front over an empty registry, acme's workspaces in repositories of their own.
func doorsFront(t *testing.T) *Front {
	t.Helper()
	h := ocitest.Handler(t, ocitest.Quirks{})
	layout := addr.Layout{Split: []string{"acme"}}
	client := must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: h}, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	states := must.Get(states.New(states.Options{Client: client, Layout: layout}))(t)
	return must.Get(New(Options{
		Options: registry.Options{Client: client, Layout: layout}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}},
		States: states, Pages: true, Embedded: h, TFE: &TFEOptions{Memory: 1 << 30},
		Stores: newStateStores(backend{client: client, layout: layout}, statebackend.Options{}, slog.New(slog.DiscardHandler)).storeNamed,
	}))(t)
}

// door is one request that reads a state or a workspace of it.
type door struct{ of, method, path, body string }

// doors returns all routes to each of some states and workspaces, by their addresses.
func doors() (all []door) {
	for of, at := range map[string][]string{
		"shop/dev-1": {"shop/dev-1"}, "shop/prod": {"shop/prod"}, "acme/dev": {"acme/dev"},
		"acme/prod": {"acme.prod/default"}, "acme": {"acme.prod/other"},
	} {
		for _, path := range at {
			all = append(all,
				door{of, "GET", "/state/" + path, ""}, door{of, "GET", "/ui/states/" + path, ""}, door{of, "GET", "/ui/states/" + path + "/history", ""},
				door{of, "LOCK", "/state/" + path, `{"ID":"a"}`}, door{of, "POST", "/state/" + path + "?ID=none", `{"version":4,"serial":1,"lineage":"a"}`},
				door{of, "PUT", "/state/" + path + "?ID=none", `{"version":4,"serial":1,"lineage":"a"}`}, door{of, "PUT", "/state/" + path + "/lock", `{"ID":"a"}`},
				door{of, "UNLOCK", "/state/" + path, `{"ID":"a"}`}, door{of, "DELETE", "/state/" + path, ""},
				door{of, "POST", "/state/" + path + "/lock", `{"ID":"a"}`}, door{of, "DELETE", "/state/" + path + "/lock", `{"ID":"a"}`},
			)
		}
	}
	for of, at := range map[string]string{
		"shop/dev-1": "shop/workspaces/dev-1", "shop/prod": "shop/workspaces/prod", "acme/dev": "acme/workspaces/dev", "acme/prod": "acme/workspaces/prod",
	} {
		all = append(all,
			door{of, "GET", "/api/v2/organizations/" + at, ""}, door{of, "PATCH", "/api/v2/organizations/" + at, `{}`},
			door{of, "POST", "/api/v2/organizations/" + at + "/actions/safe-delete", ""}, door{of, "DELETE", "/api/v2/organizations/" + at, ""},
		)
	}
	for of, repository := range map[string]string{"shop": "state/shop", "acme": "state/acme", "acme/prod": "state/acme.prod"} {
		all = append(all,
			door{of, "GET", "/v2/" + repository + "/tags/list", ""}, door{of, "GET", "/v2/" + repository + "/manifests/state-default", ""},
			door{of, "POST", "/v2/" + repository + "/blobs/uploads/", ""}, door{of, "DELETE", "/v2/" + repository + "/manifests/state-default", ""},
		)
	}
	return all
}

// TestStateDoors: a workspace has one decision by any name, and its right opens no shared
// repository.
//
// Shows: cloud 26 | each right at each API, with both names of a workspace; a forged record
func TestStateDoors(t *testing.T) {
	front := doorsFront(t)
	shop, acme := []string{"shop", "shop/dev-1", "shop/prod"}, []string{"acme", "acme/dev", "acme/prod"}
	for glob, opens := range map[string][]string{
		"**":                slices.Concat(shop, acme),
		"*":                 slices.Concat(shop, acme),
		"shop":              shop,
		"shop/**":           shop, // any number of segments, including none
		"shop/*":            {"shop/dev-1", "shop/prod"},
		"shop/dev-*":        {"shop/dev-1"},
		"*/prod":            {"shop/prod", "acme/prod"},
		"*/default":         nil,
		"acme":              acme,
		"acme/prod":         {"acme/prod"},
		"acme/*":            {"acme/dev", "acme/prod"},
		"acme.prod":         nil,
		"acme.*":            nil,
		"acme.prod/default": nil,
		"acme.prod/**":      nil,
	} {
		for _, action := range []rights.Action{rights.Read, rights.Write, rights.Run} {
			id, hash := must.GetBoth(statictoken.Hash(rightsToken))(t)
			token := statictoken.Token{ID: id, Hash: hash, Scopes: []rights.Scope{{Action: action, Kind: addr.KindState, Glob: glob}}}
			must.Succeed(t, front.kit.Guard.Replace(access.Policy{Tokens: []statictoken.Token{token}}))
			for _, d := range doors() {
				r := httptest.NewRequestWithContext(t.Context(), d.method, "http://localhost"+d.path, strings.NewReader(d.body))
				r.Header.Set("Authorization", "Bearer "+rightsToken)
				r.Header.Set("Content-Type", "application/vnd.api+json")
				w := httptest.NewRecorder()
				front.ServeHTTP(w, r)
				want := slices.Contains(opens, d.of) && (action == rights.Write || d.method == http.MethodGet)
				if got := w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized; got != want {
					t.Errorf("%s:state:%s: %s %s is %d, let through: %v, want %v", action, glob, d.method, d.path, w.Code, got, want)
				}
			}
		}
	}
}

// TestRepositoryList lists, in pages, only the repositories that the caller may read.
func TestRepositoryList(t *testing.T) {
	front := doorsFront(t)
	for _, name := range []string{"modules/net/vpc/aws", "modules/net/dns/aws", "modules/data/lake/aws", "state/shop", "catalog"} {
		r := must.Get(front.o.Client.Repo(name))(t)
		must.Succeed(t, artifact.AddCatalogEntry(t.Context(), r, artifact.CatalogEntry{Kind: addr.KindState, Address: "any", Repository: name}))
	}
	for _, tt := range []struct{ scope, query, want, next string }{
		{"net/**", "", `{"repositories":["modules/net/dns/aws","modules/net/vpc/aws"]}`, ""},
		{"net/**", "?n=1", `{"repositories":["modules/net/dns/aws"]}`, `</v2/_catalog?last=modules%2Fnet%2Fdns%2Faws&n=1>; rel="next"`},
		{"net/**", "?n=1&last=modules/net/dns/aws", `{"repositories":["modules/net/vpc/aws"]}`, ""},
		{"none/**", "", `{"repositories":[]}`, ""},
	} {
		id, hash := must.GetBoth(statictoken.Hash(rightsToken))(t)
		token := statictoken.Token{ID: id, Hash: hash, Scopes: []rights.Scope{{Action: rights.Read, Kind: addr.KindModule, Glob: tt.scope}}}
		must.Succeed(t, front.kit.Guard.Replace(access.Policy{Tokens: []statictoken.Token{token}}))
		w := get(t, front, "/v2/_catalog"+tt.query, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+rightsToken) })
		if got := strings.TrimSpace(w.Body.String()); got != tt.want || w.Header().Get("Link") != tt.next {
			t.Errorf("%s %s: %d %s, Link %q", tt.scope, tt.query, w.Code, got, w.Header().Get("Link"))
		}
	}
}

// TestLockAddress: GitLab's way to lock, mixed with the protocol's, is one lock.
func TestLockAddress(t *testing.T) {
	front := doorsFront(t)
	must.Succeed(t, front.kit.Guard.Replace(access.Policy{Anonymous: rights.AnonymousAll()}))
	for _, step := range []struct {
		method, path, id string
		want             int
	}{
		{"POST", "/lock", "a", 200}, {"POST", "/lock", "b", 423}, {"LOCK", "", "b", 423}, {"DELETE", "/lock", "b", 423}, {"DELETE", "/lock", "a", 200},
		{"LOCK", "", "c", 200}, {"POST", "/lock", "d", 423}, {"DELETE", "/lock", "c", 200},
		{"PUT", "/lock", "e", 200}, {"PUT", "/lock", "f", 423}, {"DELETE", "/lock", "e", 200}, {"GET", "/lock", "", 405}, {"GET", "", "", 204},
	} {
		r := httptest.NewRequestWithContext(t.Context(), step.method, "http://localhost/state/shop/prod"+step.path, strings.NewReader(`{"ID":"`+step.id+`"}`))
		w := httptest.NewRecorder()
		front.ServeHTTP(w, r)
		if w.Code != step.want {
			t.Errorf("%s %s of %q: %d %s, want %d", step.method, step.path, step.id, w.Code, w.Body, step.want)
		}
	}
}

// TestReservedOrganization checks that the name of a workspace's repository is not an
// organization for any caller: a state has one address.
//
// Shows: cloud 26
func TestReservedOrganization(t *testing.T) {
	front := doorsFront(t)
	must.Succeed(t, front.kit.Guard.Replace(access.Policy{Anonymous: rights.AnonymousAll()}))
	for _, path := range []string{"acme.prod", "acme.prod/entitlement-set", "acme.prod/workspaces", "acme.prod/workspaces/default"} {
		if w := get(t, front, "/api/v2/organizations/"+path, same); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, w.Code)
		}
	}
	if w := get(t, front, "/api/v2/organizations/acme/entitlement-set", same); w.Code != http.StatusOK {
		t.Errorf("acme: %d %s", w.Code, w.Body)
	}
}
