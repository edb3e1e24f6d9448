// SPDX-License-Identifier: Apache-2.0

package trust_test

import (
	"crypto/ecdsa"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

func TestVerifyProvider(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, _ := depottest.NewDepot(t, host, oci.Options{})
		key, v := depottest.NewKey(t, signing.KeyOptions{Name: "Test"}), depottest.MustVersion(t, "1.2.3")
		must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64", "windows_amd64"), depottest.DNS(), v, depot.ProviderOptions{SignKey: key}))(t)
		trusted := []signing.PublicKey{depottest.MustPublic(t, key)}
		foreign := []signing.PublicKey{depottest.MustPublic(t, depottest.NewKey(t, signing.KeyOptions{}))}
		_, cosignKey := depottest.NewCosignKey(t)
		tests := []struct {
			name        string
			o           trust.Policy
			check, want string
		}{
			{"without trust", trust.Policy{Deep: true}, "openpgp", "consistent"},
			{"trusted", trust.Policy{OpenPGP: trusted, Require: []string{"openpgp"}}, "openpgp", "trusted"},
			{"unknown key", trust.Policy{OpenPGP: foreign}, "openpgp", "failed"},
			{"demanded without a key", trust.Policy{Require: []string{"openpgp"}}, "openpgp", "failed"},
			{"expired key", trust.Policy{Now: time.Now().Add(5 * 365 * 24 * time.Hour)}, "openpgp", "failed"},
			{"expired key, allowed", trust.Policy{Now: time.Now().Add(5 * 365 * 24 * time.Hour), OpenPGP: trusted, AllowExpired: true}, "openpgp", "trusted"},
			{"no cosign signature", trust.Policy{Cosign: []*ecdsa.PublicKey{cosignKey}}, "cosign", "failed"},
			{"no scan", trust.Policy{Require: []string{"scan"}}, "scan", "failed"},
			{"other digest", trust.Policy{Digest: digest.FromString("x")}, "digest", "failed"},
			{"protocols", trust.Policy{}, "protocols", "ok"},
		}
		for _, tt := range tests {
			checks, err := d.Verify(t.Context(), depottest.DNS().Item(), v, tt.o)
			if got := depottest.Result(checks, tt.check); got != tt.want || errors.Is(err, trust.ErrUntrusted) != (tt.want == "failed") {
				t.Errorf("%s: %s is %s, %v, want %s", tt.name, tt.check, got, err, tt.want)
			}
		}
	})
}

func TestVerifyModule(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		d, client := depottest.NewDepot(t, host, oci.Options{})
		m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
		must.Get(d.PublishModule(t.Context(), depottest.NewModule("locals {}\n"), m, depot.ModuleOptions{}))(t)
		verify := func(o trust.Policy, check, want string) {
			t.Helper()
			checks, err := d.Verify(t.Context(), depottest.VPC().Item(), m.Version, o)
			if got := depottest.Result(checks, check); got != want || errors.Is(err, trust.ErrUntrusted) != (want == "failed") {
				t.Errorf("%s is %s, %v, want %s", check, got, err, want)
			}
		}
		one, onePub := depottest.NewCosignKey(t)
		two, twoPub := depottest.NewCosignKey(t)
		by := func(keys ...*ecdsa.PublicKey) trust.Policy {
			return trust.Policy{Cosign: keys, Require: []string{"cosign"}}
		}
		verify(trust.Policy{Deep: true}, "content of archive/zip", "ok")
		verify(trust.Policy{}, "cosign", "absent")
		repo := depottest.MustRepo(t, client, depottest.ModuleRepo)
		payload := must.Get(evidence.CosignPayload(repo.String(), digest.FromString("another")))(t)
		must.Get(evidence.AddCosignSignature(t.Context(), repo, depottest.MustFetch(t, repo, "1.0.0").Descriptor, evidence.CosignSignature{Payload: payload, Signature: []byte("x")}))(t)
		verify(trust.Policy{}, "cosign", "failed")
		must.Get(trust.SignCosign(t.Context(), depottest.MustSubject(t, d, depottest.VPC().Item(), m.Version), one))(t)
		verify(by(onePub), "cosign", "trusted")
		verify(by(twoPub), "cosign", "failed")
		verify(trust.Policy{}, "cosign", "consistent")
		if checks, err := d.Verify(t.Context(), depottest.VPC().Item(), m.Version, trust.Policy{}); err != nil || !slices.ContainsFunc(checks, func(c trust.Check) bool { return c.Detail == "1 signature, no trusted key given" }) {
			t.Errorf("%v: %+v", err, checks)
		}
		verify(trust.Policy{Require: []string{"cosign"}}, "cosign", "failed")
		must.Get(trust.SignCosign(t.Context(), depottest.MustSubject(t, d, depottest.VPC().Item(), m.Version), two))(t)
		verify(by(onePub), "cosign", "trusted") // the first signature stays
		verify(by(twoPub), "cosign", "trusted")

		// The signature can also be found as a referrer.
		r := depottest.MustRepo(t, client, depottest.ModuleRepo)
		found, err := r.Referrers(t.Context(), depottest.MustFetch(t, r, "1.0.0").Descriptor, "application/vnd.dev.cosign.artifact.sig.v1+json")
		if err != nil || len(found) == 0 {
			t.Errorf("referrers %v, %v", found, err)
		}
		if _, _, err := d.Announce(t.Context(), depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: "1.0.0", Message: "leaks"}); err != nil {
			t.Fatal(err)
		}
		verify(trust.Policy{}, "status", "failed")
		verify(trust.Policy{AllowYanked: true}, "status", "ok")
	})
}

// TestVerifyModuleFindsOtherContent: a content digest unlike the archives.
func TestVerifyModuleFindsOtherContent(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{})
	m := depottest.MustModule(t, "net/vpc/aws", "1.0.0")
	must.Get(d.PublishModule(t.Context(), depottest.NewModule("locals {}\n"), m, depot.ModuleOptions{}))(t)
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	parsed := must.Get(artifact.ParseModule(depottest.MustFetch(t, r, "1.0.0")))(t)
	parsed.ContentDigest, parsed.Version = digest.FromString("x").String(), depottest.MustVersion(t, "1.0.1")
	parsed.Annotations = nil
	forged := must.Get(artifact.NewModule(parsed))(t)
	must.Succeed(t, r.PutTag(t.Context(), "1.0.1", forged))
	checks, err := d.Verify(t.Context(), depottest.VPC().Item(), parsed.Version, trust.Policy{Deep: true})
	if !errors.Is(err, trust.ErrUntrusted) || depottest.Result(checks, "content of "+artifact.MediaModuleTar) != "failed" {
		t.Errorf("got %v, %+v", err, checks)
	}
}

// TestSignProviderAgain signs by the own clock, and records it by that of the registry.
func TestSignProviderAgain(t *testing.T) {
	ahead := &ocitest.Fault{Times: -1, Do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			resp.Header.Set("Date", time.Now().Add(3*time.Hour).UTC().Format(http.TimeFormat))
		}
		return resp, err
	}}
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{Transport: ahead})
	key, v := depottest.NewKey(t, signing.KeyOptions{Name: "Test"}), depottest.MustVersion(t, "1.2.3")
	must.Get(d.PublishProvider(t.Context(), depottest.NewDist(t, "linux_amd64"), depottest.DNS(), v, depot.ProviderOptions{SignKey: key}))(t)
	before := depottest.MustFetch(t, depottest.MustRepo(t, client, depottest.ProviderRepo), "1.2.3").Digest
	next := depottest.NewKey(t, signing.KeyOptions{})
	check := func(name string, key *signing.Key, want string) {
		t.Helper()
		checks, err := d.Verify(t.Context(), depottest.DNS().Item(), v, trust.Policy{OpenPGP: []signing.PublicKey{depottest.MustPublic(t, key)}})
		if got := depottest.Result(checks, "openpgp"); got != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	check("not signed yet", next, "failed")
	e := must.Get(trust.SignProvider(t.Context(), depottest.MustSubject(t, d, depottest.DNS().Item(), v), next, false))(t)
	if time.Until(e.Time) < 2*time.Hour {
		t.Errorf("recorded at %s", e.Time)
	}
	check("new key", next, "trusted")
	check("old key beside it", key, "trusted")
	must.Get(trust.SignProvider(t.Context(), depottest.MustSubject(t, d, depottest.DNS().Item(), v), next, true))(t)
	check("new key alone", next, "trusted")
	check("old key replaced", key, "failed")
	if after := depottest.MustFetch(t, depottest.MustRepo(t, client, depottest.ProviderRepo), "1.2.3").Digest; after != before {
		t.Error("signing again changed the version")
	}
}
