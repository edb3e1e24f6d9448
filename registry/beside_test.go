// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/ecdsa"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestBesideAtOnce changes the built-in registry by /v2/: the next request shows it, whatever is
// cached.
func TestBesideAtOnce(t *testing.T) {
	h, key := ocitest.Handler(t, ocitest.Quirks{}), newCosign()
	inner := httptest.NewServer(h)
	t.Cleanup(inner.Close)
	clock := newClock()
	clock.add(time.Minute) // keys that are created meanwhile become valid before it
	f := newFrontAt(t, strings.TrimPrefix(inner.URL, "http://"), nil, func(o *server.Options) {
		o.Embedded, o.Now = h, clock.now // it stands still
		o.Require = map[string]trust.Policy{"provider": {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}}}
	})
	f.client = newClient(t, strings.TrimPrefix(f.URL, "http://"), oci.Options{PlainHTTP: true})
	const modules, providers = "acme/modules/net/vpc/aws", "acme/providers/acme/dns"
	d := depot.New(depot.Options{Client: f.client, Layout: f.layout})
	publish := func(address, version string) {
		t.Helper()
		m := addr.ModuleVersion{Module: must.Fixed(addr.ParseModule(address)), Version: must.Fixed(addr.ParseVersion(version))}
		must.Fixed(d.PublishModule(t.Context(), fstest.MapFS{"main.tf": {Data: []byte("# " + version)}}, m, depot.ModuleOptions{}))
	}
	event := func(repository, action string) {
		t.Helper()
		clock.add(time.Millisecond) // events have an order
		e := evidence.StatusEvent{Action: action, Version: "1.1.0", Time: clock.now()}
		must.Fixed(evidence.PutStatusEvent(t.Context(), f.repo(t, repository), e))
	}
	const (
		versions, latest, one = "/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws", "/v1/modules/net/vpc/aws/1.1.0/download"
		provider              = "/v1/providers/acme/dns/1.1.0/download/linux/amd64"
	)
	has := func(when, path, text string, want bool) {
		t.Helper()
		resp, body := ask(t, http.MethodGet, f.url(t, path))
		if got := resp.StatusCode/100 == 2 && strings.Contains(string(body), text); got != want {
			t.Errorf("%s: %s: %d %s", when, path, resp.StatusCode, body)
		}
	}
	publish("net/vpc/aws", "1.0.0")
	f.provider(t, release{address: "acme/dns", version: "1.1.0"})
	for _, path := range []string{"/v1/modules", versions, latest, one, provider} {
		ask(t, http.MethodGet, f.url(t, path)) // everything is cached now
	}
	publish("net/vpc/aws", "1.1.0")
	publish("net/dns/aws", "1.1.0")
	has("published", versions, `"1.1.0"`, true)
	has("published", latest, `"net/vpc/aws/1.1.0"`, true)
	has("published", one, "", true)
	has("published", "/v1/modules", "net/dns/aws/1.1.0", true)
	f.count.Take()
	has("again", versions, `"1.1.0"`, true)
	if n := f.count.Take(); len(n) != 0 {
		t.Errorf("requests for what is known: %v", n)
	}

	event(modules, evidence.ActionYank)
	has("withdrawn", versions, `"1.1.0"`, false)
	has("withdrawn", latest, `"net/vpc/aws/1.0.0"`, true)
	has("withdrawn", one, "", false)
	event(modules, evidence.ActionUnyank)
	has("taken back", one, "", true)

	has("unsigned", provider, "linux", false)
	f.sign(t, providers, "1.1.0", key)
	has("signed", provider, "linux", true)

	r := f.repo(t, modules)
	must.Succeed(t, r.Untag(t.Context(), "1.1.0"))
	has("deleted", versions, `"1.1.0"`, false)
	has("deleted", one, "", false)
	must.Succeed(t, r.Delete(t.Context(), must.Fixed(r.Resolve(t.Context(), "1.0.0"))))
	has("deleted by digest", versions, `"1.0.0"`, false)
}
