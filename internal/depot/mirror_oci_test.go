// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

const mirrorRepo = "p/mirror/registry.example.com/acme/dns"

// newOCIOrigin mirrors acme/dns 1.2.3 into a registry and returns it as a source.
func newOCIOrigin(t *testing.T, key *signing.Key) (*depot.Depot, *oci.Repo, depot.Source) {
	t.Helper()
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	must.Get(d.MirrorProvider(t.Context(), depottest.NewRelease(t, key, "linux_amd64"), depottest.UpstreamDNS(), depottest.MustVersion(t, "1.2.3"), depot.MirrorOptions{}))(t)
	r := depottest.MustRepo(t, client, mirrorRepo)
	return d, r, upstream.NewRepository(func(addr.Provider) (*oci.Repo, error) { return r, nil })
}

// TestMirrorTakesTheNewestSignature: the copy of a resigned version has the current proof.
func TestMirrorTakesTheNewestSignature(t *testing.T) {
	old, next := mustKey(t), depottest.NewKey(t, signing.KeyOptions{})
	origin, _, src := newOCIOrigin(t, old)
	v := depottest.MustVersion(t, "1.2.3")
	must.Get(trust.SignProvider(t.Context(), depottest.MustSubject(t, origin, depottest.UpstreamDNS().Item(), v), next, true))(t)
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{}))(t)
	for _, tt := range []struct {
		name string
		key  *signing.Key
		want string
	}{{"new key", next, "trusted"}, {"old key", old, "failed"}} {
		checks, err := d.Verify(t.Context(), depottest.UpstreamDNS().Item(), v, trust.Policy{OpenPGP: []signing.PublicKey{depottest.MustPublic(t, tt.key)}})
		if got := depottest.Result(checks, "openpgp"); got != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

// TestMirrorFromAnIndexOfAnotherTool mirrors an index without okara's annotations.
func TestMirrorFromAnIndexOfAnotherTool(t *testing.T) {
	_, r, src := newOCIOrigin(t, mustKey(t))
	index := must.Get(depottest.MustFetch(t, r, "1.2.3").Index())(t)
	index.Annotations = nil
	index.Manifests = index.Manifests[:1]
	index.Manifests[0].Annotations = nil
	foreign := must.Get(oci.NewIndex(index))(t)
	must.Succeed(t, r.PutTag(t.Context(), "1.2.3", foreign))
	d, _ := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	v := depottest.MustVersion(t, "1.2.3")
	must.Get(d.MirrorProvider(t.Context(), src, depottest.UpstreamDNS(), v, depot.MirrorOptions{AllowUnsigned: true}))(t)
	if _, err := d.Verify(t.Context(), depottest.UpstreamDNS().Item(), v, trust.Policy{Deep: true}); err != nil {
		t.Error(err)
	}
}
