// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/keyring"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/service"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/registry"
	"github.com/seed-141914ff/okara/statebackend"
)

// tfeFront returns a front over an empty registry, with options that change may adjust.
func tfeFront(t *testing.T, change func(*Options)) *Front {
	t.Helper()
	layout := addr.Layout{Split: []string{"acme"}}
	client := must.Get(oci.New("registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: ocitest.Handler(t, ocitest.Quirks{})}, Retry: oci.Retry{MaxAttempts: 1}}))(t)
	states := must.Get(states.New(states.Options{Client: client, Layout: layout}))(t)
	o := Options{
		Options: registry.Options{Client: client, Layout: layout}, Keys: []keyring.Key{{Secret: bytes.Repeat([]byte("s"), 32)}},
		States: states, Stores: newStateStores(backend{client: client, layout: layout}, statebackend.Options{}, slog.New(slog.DiscardHandler)).storeNamed,
		TFE: &TFEOptions{Organizations: []string{"acme", "quiet"}, Fresh: []string{"acme"}, Memory: 1 << 30},
	}
	change(&o)
	return must.Get(New(o))(t)
}

// get requests a path of a front and returns the response.
func get(t *testing.T, f *Front, path string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
	change(r)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

func same(*http.Request) {}

// TestTFEDiscovery announces tfe.v2 if it is on, below the base path.
func TestTFEDiscovery(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   string // "": no service
	}{
		{"on", func(*Options) {}, "/api/v2/"},
		{"below a path", func(o *Options) { o.BasePath = "/tf/" }, "/tf/api/v2/"},
		{"off", func(o *Options) { o.TFE = nil }, ""},
		{"a portal", func(o *Options) { o.Alone = true }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tfeFront(t, tt.change)
			var doc map[string]any
			w := get(t, f, "/.well-known/terraform.json", same)
			if w.Code == http.StatusOK {
				must.Succeed(t, json.Unmarshal(w.Body.Bytes(), &doc))
			}
			for _, service := range []string{"tfe.v2", "tfe.v2.1", "tfe.v2.2", "state.v2"} {
				if got, _ := doc[service].(string); got != tt.want {
					t.Errorf("%s is %q, want %q", service, got, tt.want)
				}
			}
			w = get(t, f, "/api/v2/ping", same)
			if got := w.Code == http.StatusNoContent; got != (tt.want != "") {
				t.Errorf("ping is %d", w.Code)
			}
			if h := w.Header(); tt.want != "" && (h.Get("TFP-API-Version") == "" || h.Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("the header of ping is %v", h)
			}
		})
	}
}

// TestPublicURL takes the setting, else the URL that the client must have used, and "" if
// that would send a state unencrypted over a network.
//
// Shows: cloud 17
func TestPublicURL(t *testing.T) {
	for _, tt := range []struct {
		name       string
		change     func(*Options)
		host, from string
		proto      string // and a space and the host
		tls        bool
		want       string
	}{
		{"set", func(o *Options) { o.PublicURL = "https://okara.example/tf/" }, "other.example", "192.0.2.1:9", "", false, "https://okara.example/tf"},
		{"TLS", func(*Options) {}, "okara.example:8443", "192.0.2.1:9", "", true, "https://okara.example:8443"},
		{"this machine", func(o *Options) { o.Local = true }, "127.0.0.1:8080", "127.0.0.1:9", "", false, "http://127.0.0.1:8080"},
		{"a network", func(*Options) {}, "okara.example", "192.0.2.1:9", "", false, ""},
		{"a stranger who says https", func(*Options) {}, "okara.example", "192.0.2.1:9", "https", false, ""},
		{"a proxy", func(o *Options) { o.BasePath = "/tf" }, "okara.example", "10.0.0.1:9", "https", false, "https://okara.example/tf"},
		{"a proxy that does not say", func(*Options) {}, "okara.example", "10.0.0.1:9", "", false, ""},
		{"this machine, by a proxy's name", func(o *Options) { o.Local = true }, "okara.example", "127.0.0.1:9", "", false, ""},
		{"this machine, behind a proxy", func(o *Options) { o.Local = true }, "127.0.0.1:8080", "127.0.0.1:9", "https", false, ""},
		{"TLS behind a proxy", func(*Options) {}, "inside.example", "192.0.2.1:9", "https", true, ""},
		{"a proxy that changes the name", func(*Options) {}, "127.0.0.1:8084", "10.0.0.1:9", "https okara.example", false, "https://okara.example"},
		{"a proxy that omits the port", func(*Options) {}, "okara.example:8443", "10.0.0.1:9", "https okara.example", false, "https://okara.example:8443"},
		{"a proxy behind a proxy", func(*Options) {}, "127.0.0.1:8084", "10.0.0.1:9", "https evil.example,okara.example", false, ""},
		{"this machine, behind a listed proxy", func(o *Options) { o.Local = true }, "127.0.0.1:8080", "10.0.0.1:9", "", false, ""},
		{"a stranger who says a name", func(*Options) {}, "okara.example", "192.0.2.1:9", "https evil.example", true, ""},
		{"no host", func(*Options) {}, "", "192.0.2.1:9", "", true, ""},
		{"a host that is more", func(*Options) {}, "okara.example/x?", "192.0.2.1:9", "", true, ""},
		{"a user", func(*Options) {}, "a:b@okara.example", "192.0.2.1:9", "", true, ""},
		{"another replica", func(*Options) {}, "okara.example", "192.0.2.1:9", "hop https://okara.example/tf", true, "https://okara.example/tf"},
		{"another replica that does not know", func(*Options) {}, "okara.example", "192.0.2.1:9", "hop 1", true, ""},
		{"a client as another replica", func(*Options) {}, "okara.example", "192.0.2.1:9", "forged https://okara.example", true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := tfeFront(t, func(o *Options) {
				o.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
				tt.change(o)
			})
			r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
			r.Host, r.RemoteAddr = tt.host, tt.from
			proto, said, _ := strings.Cut(tt.proto, " ")
			if proto == "hop" || proto == "forged" {
				if id, signature := f.o.Options.Keys.Sign(hopPurpose, said); proto == "hop" && said != "1" {
					said += " " + id + " " + signature
				}
				r.Header.Set(service.HopHeader, said)
				proto, said = "", "192.0.2.7"
			}
			r.Header.Set("X-Forwarded-Proto", proto)
			r.Header.Set("X-Forwarded-Host", said)
			if tt.tls {
				r.TLS = &tls.ConnectionState{}
			}
			if got := f.o.publicURL(r); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestOrganizationList: each caller sees organizations with something to read, once.
func TestOrganizationList(t *testing.T) {
	f := tfeFront(t, func(*Options) {})
	for _, path := range []string{"/state/shop/prod", "/state/acme.eu/default", "/state/hidden/prod"} {
		policy := access.Policy{Anonymous: rights.AnonymousAll()}
		must.Succeed(t, f.kit.Guard.Replace(policy))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, strings.NewReader(`{"version":4,"serial":1,"lineage":"a"}`))
		w := httptest.NewRecorder()
		if f.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	id, hash := must.GetBoth(statictoken.Hash(rightsToken))(t)
	for glob, want := range map[string][]string{
		"**":            {"acme", "hidden", "quiet", "shop"},
		"shop":          {"shop"},
		"shop/prod":     {"shop"},
		"shop/none":     nil,
		"*/prod":        {"acme", "hidden", "quiet", "shop"}, // organizations of the configuration can be used even without a state
		"acme":          {"acme"},
		"acme/eu":       {"acme"},
		"quiet/dev":     {"quiet"},
		"acme.eu":       nil,
		"hidden/dev-**": nil,
	} {
		token := statictoken.Token{ID: id, Hash: hash, Scopes: []rights.Scope{{Action: rights.Read, Kind: addr.KindState, Glob: glob}}}
		must.Succeed(t, f.kit.Guard.Replace(access.Policy{Tokens: []statictoken.Token{token}}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/v2/organizations", nil)
		r.Header.Set("Authorization", "Bearer "+rightsToken)
		c := &clouds{&f.o, f.kit.Guard}
		g := must.Get(c.allowWorkspace(r, rights.Read, "", ""))(t)
		got := must.Get(c.organizations(t.Context(), g))(t)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("read:state:%s shows %q, want %q", glob, got, want)
		}
	}
}

// TestTokensPage redirects users to the page with tokens, whatever the query says, or
// answers with text if there are no pages.
//
// Shows: cloud 20
func TestTokensPage(t *testing.T) {
	const path = "/app/settings/tokens?source=https://evil.example/"
	w := get(t, tfeFront(t, func(o *Options) { o.Pages = true }), path, same)
	if to := w.Header().Get("Location"); w.Code != http.StatusSeeOther || to != "../../ui/me" || strings.Contains(w.Body.String(), "evil") {
		t.Errorf("%d to %q: %s", w.Code, to, w.Body)
	}
	w = get(t, tfeFront(t, func(*Options) {}), path, same)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "okara admin token new") || strings.Contains(w.Body.String(), "evil") {
		t.Errorf("without pages: %d: %s", w.Code, w.Body)
	}
}

// TestToRun leads from the address that the tools print to the page of the run.
func TestToRun(t *testing.T) {
	for run, want := range map[string]string{"run-1.abc.3": "../../../../ui/runs/acme/shop%2Fx/abc.3", "run-1": "", "x-1.abc.3": ""} {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), httptest.NewRecorder()
		for name, value := range map[string]string{"organization": "acme", "workspace": "shop/x", "run": run} {
			r.SetPathValue(name, value)
		}
		if err := toRun(w, r); (err != nil) != (want == "") || w.Header().Get("Location") != want {
			t.Errorf("%s: %v to %q, want %q", run, err, w.Header().Get("Location"), want)
		}
	}
}
