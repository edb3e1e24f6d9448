// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/rights"
	"github.com/seed-141914ff/okara/internal/server"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/tofutest"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func (f *front) sign(t testing.TB, repository, version string, key *ecdsa.PrivateKey) {
	t.Helper()
	d := depot.New(depot.Options{Client: f.client, Layout: f.layout})
	it, _ := f.layout.Parse(repository)
	must.Fixed(trust.SignCosign(t.Context(), must.Fixed(d.Subject(t.Context(), it, must.Fixed(addr.ParseVersion(version)))), key))
}

func (f *front) report(t testing.TB, repository, version string, at time.Time, critical int) {
	t.Helper()
	r := f.repo(t, repository)
	subject := must.Fixed(r.Resolve(t.Context(), version))
	must.Fixed(evidence.AttachReport(t.Context(), r, subject, "application/sarif+json", []byte(version+at.String()), &evidence.ScanSummary{Tool: "test", Time: at, Critical: critical}))
}

func newCosign() *ecdsa.PrivateKey {
	return must.Fixed(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

// TestRequire checks that versions which do not fulfil the policy are neither
// listed nor served by any route, and counts the cost of the policy.
//
// Shows: opendepot-defects 2
func TestRequire(t *testing.T) {
	const modules, mirror = "acme/modules/net/vpc/aws", "acme/mirror/registry.opentofu.org/hashicorp/time"
	clock := newClock()
	key, stranger := newCosign(), newCosign()
	other := must.Fixed(signing.NewKey(signing.KeyOptions{Name: "other", ECC: true}))
	f := newFront(t, func(o *server.Options) {
		o.Now = clock.now
		o.Hostname = "okara.test"
		o.Require = map[string]trust.Policy{
			"module":   {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}},
			"provider": {Require: []string{trust.RequireOpenPGP}, OpenPGP: []signing.PublicKey{must.Fixed(testSigner().Public())}},
			"mirror":   {Require: []string{trust.RequireScan}, Block: "high"},
		}
	})
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		f.module(t, "net/vpc/aws", v, map[string]string{"main.tf": "# " + v})
		f.provider(t, release{address: "registry.opentofu.org/hashicorp/time", version: v, platforms: []string{"linux_amd64", "darwin_arm64"}})
	}
	f.sign(t, modules, "1.0.0", key)
	f.sign(t, modules, "1.2.0", stranger)
	f.report(t, mirror, "1.0.0", clock.now(), 0)
	f.report(t, mirror, "1.1.0", clock.now(), 1)
	f.provider(t, release{address: "acme/dns", version: "1.0.0"})
	f.provider(t, release{
		address: "acme/dns", version: "1.1.0", keys: []artifact.SigningKey{servedKey(must.Fixed(other.Public()))},
		sign: func(sums []byte) []byte { return must.Fixed(other.Sign(sums, time.Now())) },
	})
	f.provider(t, release{address: "acme/dns", version: "1.2.0", unsigned: true})

	clock.add(time.Minute) // the signatures are in the past

	c := &tofutest.Client{Tool: tofutest.OpenTofu()}
	s := f.services(t, c)
	f.count.Take()
	listed := func() map[string][]string {
		own := must.Fixed(c.ProviderVersions(t.Context(), s.Providers, "acme/dns"))
		origin := must.Fixed(c.ProviderVersions(t.Context(), f.url(t, "/origin/registry.opentofu.org/v1/providers/"), "hashicorp/time"))
		return map[string][]string{
			"modules": must.Fixed(c.ModuleVersions(t.Context(), s.Modules, "net/vpc/aws")), "providers": own.List(), "origin": origin.List(),
			"own in the mirror": must.Fixed(c.MirrorVersions(t.Context(), f.url(t, "/mirror/"), "okara.test/acme/dns")),
			"mirror":            must.Fixed(c.MirrorVersions(t.Context(), f.url(t, "/mirror/"), "registry.opentofu.org/hashicorp/time")),
		}
	}
	first := []string{"1.0.0"}
	want := map[string][]string{"modules": first, "providers": first, "origin": first, "own in the mirror": first, "mirror": first}
	must.Match(t, "listed", listed(), want)
	if total := f.count.Total(); total > 4*9 {
		t.Errorf("%d requests for nine versions: %v", total, f.count.Take())
	}

	doors := map[string]string{
		"/v1/modules/net/vpc/aws/VERSION/download": "cosign", "/v1/modules/net/vpc/aws/VERSION": "cosign",
		"/v1/providers/acme/dns/VERSION/download/linux/amd64": "openpgp", "/mirror/okara.test/acme/dns/VERSION.json": "openpgp",
		"/mirror/registry.opentofu.org/hashicorp/time/VERSION.json":                              "scan",
		"/origin/registry.opentofu.org/v1/providers/hashicorp/time/VERSION/download/linux/amd64": "scan",
	}
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		for path, reason := range doors {
			path = strings.Replace(path, "VERSION", version, 1)
			resp, body := ask(t, http.MethodGet, f.url(t, path))
			if served := resp.StatusCode/100 == 2; served != (version == "1.0.0") || !served && (resp.StatusCode != 404 || !strings.Contains(string(body), reason)) {
				t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			}
		}
	}
	_, body := ask(t, http.MethodGet, f.url(t, "/v1/modules/net/vpc/aws"))
	if doc := decode[struct {
		Version  string
		Verified bool
	}](t, body); doc.Version != "1.0.0" || !doc.Verified {
		t.Errorf("latest: %s", body)
	}
	f.count.Take()
	listed()
	for path := range doors {
		ask(t, http.MethodGet, f.url(t, strings.Replace(path, "VERSION", "1.0.0", 1)))
	}
	if got := f.count.Take(); len(got) > 0 {
		t.Errorf("warm: %v", got)
	}

	// A signature is added; a report finds something.
	f.sign(t, modules, "1.1.0", key)
	f.report(t, mirror, "1.0.0", clock.now(), 2)
	clock.add(11 * time.Minute)
	if resp, body := ask(t, http.MethodGet, f.url(t, "/mirror/registry.opentofu.org/hashicorp/time/1.0.0.json")); resp.StatusCode != 404 {
		t.Errorf("after a new report: %d %s", resp.StatusCode, body)
	}
	clock.add(11 * time.Minute)
	want["modules"], want["mirror"], want["origin"] = []string{"1.1.0", "1.0.0"}, []string{}, []string{}
	must.Match(t, "listed later", listed(), want)
}

// TestRequireClosed: not served while the registry does not answer.
func TestRequireClosed(t *testing.T) {
	key := newCosign()
	for _, part := range []string{".sig", "/manifests/sha256:"} { // of a signature, and of the version
		for status, want := range map[int]int{503: 502, 429: 429, 403: 502, 401: 502, 507: 507} {
			clock := newClock()
			var silent atomic.Bool
			f := newFrontAt(t, ocitest.New(t, ocitest.Quirks{}), roundTripper(func(r *http.Request) (*http.Response, error) {
				if silent.Load() && strings.Contains(r.URL.Path, part) {
					return ocitest.Status(status, 0)(r, nil)
				}
				return http.DefaultTransport.RoundTrip(r)
			}), func(o *server.Options) {
				o.Now = clock.now
				o.Require = map[string]trust.Policy{"module": {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}}}
			})
			f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
			f.sign(t, "acme/modules/net/vpc/aws", "1.0.0", key)
			silent.Store(true)
			paths := []string{"/v1/modules/net/vpc/aws/versions", "/v1/modules/net/vpc/aws/1.0.0/download"}
			for _, path := range paths {
				if resp, body := ask(t, http.MethodGet, f.url(t, path)); resp.StatusCode != want {
					t.Errorf("the registry says %d to %s, %s: %d %s, want %d", status, part, path, resp.StatusCode, body, want)
				}
			}
			silent.Store(false)
			for _, path := range paths {
				if resp, body := ask(t, http.MethodGet, f.url(t, path)); resp.StatusCode/100 != 2 || strings.Contains(string(body), "[]") {
					t.Errorf("after %d to %s, %s: %d %s", status, part, path, resp.StatusCode, body)
				}
			}
		}
	}
}

// TestRequireOnWords asks, by words, for archives that are refused, withdrawn, or no version's.
//
// Shows: mistakes 16 | `/archives/public/…` served content that the policy refuses | it serves only
// content to which the server would sign a link at that time
func TestRequireOnWords(t *testing.T) {
	const modules, providers = "acme/modules/net/vpc/aws/", "acme/providers/acme/dns/"
	key := newCosign()
	f := newFront(t, func(o *server.Options) {
		o.Access = access.Policy{Anonymous: rights.AnonymousRead(), Tokens: []statictoken.Token{newToken(t, readerToken, "read:*:**")}}
		o.Require = map[string]trust.Policy{
			"module":   {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}},
			"provider": {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}},
		}
	})
	sums := map[string]string{}
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		sums["module "+v] = hexSum(f.module(t, "net/vpc/aws", v, map[string]string{"main.tf": "# " + v}))
		sums["provider "+v] = hexSum(f.provider(t, release{address: "acme/dns", version: v}).zips["linux_amd64"])
	}
	for _, v := range []string{"1.0.0", "1.2.0"} {
		f.sign(t, strings.TrimSuffix(modules, "/"), v, key)
		f.sign(t, strings.TrimSuffix(providers, "/"), v, key)
	}
	for _, repository := range []string{modules, providers} {
		r := f.repo(t, strings.TrimSuffix(repository, "/"))
		must.Fixed(evidence.PutStatusEvent(t.Context(), r, evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.2.0", Time: time.Now()}))
	}
	other := oci.BytesBlob("text/plain", []byte("not of a version"))
	for _, repository := range []string{"acme/modules/net/vpc/aws", "acme/catalog", "acme/queue", "acme/state/shop", "acme/state/a/b", "else/where"} {
		must.Succeed(t, f.repo(t, repository).PushBlob(t.Context(), other))
	}
	loose := other.Digest.Encoded()
	links := map[string]int{
		modules + sums["module 1.0.0"] + "/net-vpc-aws-1.0.0.zip":                            200,
		modules + sums["module 1.1.0"] + "/net-vpc-aws-1.1.0.zip":                            404, // unsigned
		modules + sums["module 1.1.0"] + "/net-vpc-aws-1.0.0.zip":                            404, // under the name of another
		modules + sums["module 1.2.0"] + "/net-vpc-aws-1.2.0.zip":                            404, // withdrawn
		modules + sums["module 1.0.0"] + "/x.zip":                                            404,
		modules + sums["module 1.0.0"] + "/net-vpc-aws-9.9.9.zip":                            404,
		modules + loose + "/net-vpc-aws-1.0.0.zip":                                           404,
		providers + sums["provider 1.0.0"] + "/terraform-provider-dns_1.0.0_linux_amd64.zip": 200,
		providers + sums["provider 1.0.0"] + "/terraform-provider-dns_1.0.0_linux_arm64.zip": 404,
		providers + sums["provider 1.1.0"] + "/terraform-provider-dns_1.1.0_linux_amd64.zip": 404,
		providers + sums["provider 1.2.0"] + "/terraform-provider-dns_1.2.0_linux_amd64.zip": 404,
		providers + sums["provider 1.1.0"] + "/terraform-provider-dns_1.0.0_SHA256SUMS":      404,
		"acme/catalog/" + loose + "/x":                                                       404, "acme/queue/" + loose + "/x": 404, "acme/state/shop/" + loose + "/x": 404,
		"acme/state/a/b/" + loose + "/x": 404, "else/where/" + loose + "/x": 404,
	}
	for link, want := range links {
		for _, word := range []string{"public", "auth"} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				resp, body := ask(t, method, f.url(t, "/archives/"+word+"/"+link), "Authorization", "Bearer "+readerToken)
				if resp.StatusCode != want {
					t.Errorf("%s %s %s: %d %s, want %d", method, word, link, resp.StatusCode, body, want)
				}
			}
		}
	}
}

// TestRequireNotOnDistribution: /v2/ applies rights, no policy (SECURITY.md).
func TestRequireNotOnDistribution(t *testing.T) {
	key, h := newCosign(), ocitest.Handler(t, ocitest.Quirks{})
	inner := httptest.NewServer(h)
	t.Cleanup(inner.Close)
	f := newFrontAt(t, strings.TrimPrefix(inner.URL, "http://"), nil, func(o *server.Options) {
		private(t)(o)
		o.Embedded = h
		o.Require = map[string]trust.Policy{"module": {Require: []string{trust.RequireCosign}, Cosign: []*ecdsa.PublicKey{&key.PublicKey}}}
	})
	f.module(t, "net/vpc/aws", "1.0.0", map[string]string{"main.tf": ""})
	for path, want := range map[string]int{
		"/v1/modules/net/vpc/aws/1.0.0/download":       http.StatusNotFound,
		"/v2/acme/modules/net/vpc/aws/manifests/1.0.0": http.StatusOK,
	} {
		if resp, body := ask(t, http.MethodGet, f.url(t, path), "Authorization", "Bearer "+readerToken, "Accept", "application/vnd.oci.image.manifest.v1+json"); resp.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", path, resp.StatusCode, body, want)
		}
	}
}
