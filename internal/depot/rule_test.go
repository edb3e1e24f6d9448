// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestVersionRule writes the tags of versions as any client of a registry can.
// What okara itself writes is accepted, and no version gets other content.
func TestVersionRule(t *testing.T) {
	var rule depot.VersionRule
	h := must.Get(embedded.New("", embedded.Options{Rule: &rule}))(t)
	d, client := depottest.NewDepot(t, "registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: h}, Retry: oci.Retry{MaxAttempts: 1}})
	rule.Depot = d
	ctx := t.Context()
	publish := func(text string, o depot.ModuleOptions) oci.Manifest {
		t.Helper()
		out := must.Get(d.PublishModule(ctx, depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), o))(t)
		return must.Get(must.Get(client.Repo(depottest.ModuleRepo))(t).Fetch(ctx, out.Digest))(t)
	}
	put := func(repository, tag string, m oci.Manifest, want string) {
		t.Helper()
		req := httptest.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, strings.NewReader(string(m.Bytes)))
		req.Header.Set("Content-Type", m.MediaType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if want == "" && w.Code != http.StatusCreated || want != "" && (w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `"DENIED"`) || !strings.Contains(w.Body.String(), want)) {
			t.Errorf("%s:%s: %d %s, want %q", repository, tag, w.Code, w.Body, want)
		}
	}
	modules := must.Get(client.Repo(depottest.ModuleRepo))(t)
	other := must.Get(d.PublishModule(ctx, depottest.NewModule("# b\n"), depottest.MustModule(t, "net/vpc/aws", "2.0.0"), depot.ModuleOptions{}))(t)
	second := depottest.MustFetch(t, modules, other.Digest)
	first := publish("# a\n", depot.ModuleOptions{})
	put(depottest.ModuleRepo, "1.0.0", first, "")
	put(depottest.ModuleRepo, "1.0.0", second, "1.0.0 is already published with other content: stored "+first.Digest.String())
	put(depottest.ModuleRepo, "1.0.0", second, "the next free version is 1.0.1")
	put(depottest.ModuleRepo, "1.0.0_2", second, "they ignore what follows")
	put(depottest.ModuleRepo, "latest", first, "")
	put(depottest.ModuleRepo, "3.0.0", second, "")

	edited := publish("# c\n", depot.ModuleOptions{Policy: depot.PolicyEditions})
	edition := must.Get(depottest.MustVersion(t, "1.0.0").WithEdition(edited.Digest.Encoded()))(t)
	put(depottest.ModuleRepo, "1.0.0", first, "") // the edition before
	put(depottest.ModuleRepo, "1.0.0", second, "is already published")
	put(depottest.ModuleRepo, edition.Tag(), second, "is already published")

	must.GetBoth(d.Announce(ctx, depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: "2.0.0", DeleteTag: true}))(t)
	put(depottest.ModuleRepo, "2.0.0", first, "withdrawn")
	put(depottest.ModuleRepo, "2.0.0", second, "")

	providers := must.Get(client.Repo(depottest.ProviderRepo))(t)
	o := depot.ProviderOptions{SignKey: mustKey(t), Extend: true}
	var indexes []oci.Manifest
	for _, platforms := range [][]string{{"linux_amd64"}, {"linux_amd64", "darwin_arm64"}} {
		out := must.Get(d.PublishProvider(ctx, depottest.NewDist(t, platforms...), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), o))(t)
		indexes = append(indexes, depottest.MustFetch(t, providers, out.Digest))
	}
	put(depottest.ProviderRepo, "1.2.3", indexes[1], "")
	put(depottest.ProviderRepo, "1.2.3", indexes[0], "is already published") // without a platform
	put(depottest.ProviderRepo, "1.2.4", indexes[0], "")
	put(depottest.ProviderRepo, "1.2.4", indexes[1], "")
	put(depottest.ProviderRepo, "1.2.4", oci.Manifest{Descriptor: oci.Descriptor{MediaType: indexes[0].MediaType}, Bytes: []byte("{")}, "is already published")
}
