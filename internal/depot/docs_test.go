// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// docsOf reads a version's documentation as a browser shows it.
func docsOf(t *testing.T, r *oci.Repo, version string) *description.Docs {
	t.Helper()
	index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, r, version)))(t)
	md, err := artifact.ReadProviderMetadata(t.Context(), r, index)
	if err != nil || md.Docs == nil {
		t.Fatalf("%+v, %v", md.Docs, err)
	}
	b := must.Get(r.ReadBlob(t.Context(), *md.Docs, artifact.MaxProviderDocs))(t)
	return must.Get(description.ReadDocs(bytes.NewReader(b)))(t)
}

// TestProviderDocs: pages survive an extension without them, a mirror, and a pull.
func TestProviderDocs(t *testing.T) {
	d, client := depottest.NewDepot(t, ocitest.New(t, ocitest.Quirks{}), oci.Options{PlainHTTP: true})
	key := depottest.NewKey(t, signing.KeyOptions{Name: "okara test", Email: "test@example.com"})
	v := depottest.MustVersion(t, "1.2.3")
	dist := depottest.NewDist(t, "linux_amd64")
	dist["docs/index.md"] = &fstest.MapFile{Data: []byte("# dns\n")}
	dist["docs/cdktf/python/index.md"] = &fstest.MapFile{Data: []byte("# dns\n")}
	publish := func(o depot.ProviderOptions) {
		t.Helper()
		o.SignKey = key
		must.Get(d.PublishProvider(t.Context(), dist, depottest.DNS(), v, o))(t)
	}
	publish(depot.ProviderOptions{})
	repo := depottest.MustRepo(t, client, depottest.ProviderRepo)
	check := func(r *oci.Repo, when string) {
		t.Helper()
		if docs := docsOf(t, r, "1.2.3"); len(docs.Pages) != 1 || docs.Pages[0].Text != "# dns\n" {
			t.Errorf("%s: %+v", when, docs.Pages)
		}
	}
	check(repo, "published")

	delete(dist, "docs/index.md")
	delete(dist, "docs/cdktf/python/index.md")
	dist = depottest.NewDist(t, "linux_amd64", "darwin_arm64")
	publish(depot.ProviderOptions{Extend: true})
	check(repo, "extended")

	from := upstream.NewRepository(func(addr.Provider) (*oci.Repo, error) { return repo, nil })
	must.Get(d.MirrorProvider(t.Context(), from, depottest.UpstreamDNS(), v, depot.MirrorOptions{}))(t)
	check(depottest.MustRepo(t, client, "p/mirror/registry.example.com/acme/dns"), "mirrored")
}

// TestProviderDocsElsewhere takes documentation from the options, and refuses invalid ones.
func TestProviderDocsElsewhere(t *testing.T) {
	key := depottest.NewKey(t, signing.KeyOptions{Name: "okara test", Email: "test@example.com"})
	v := depottest.MustVersion(t, "1.2.3")
	dist := depottest.NewDist(t, "linux_amd64")
	o := depot.ProviderOptions{SignKey: key, Docs: fstest.MapFS{"index.md": {Data: []byte("# dns\n")}}}
	plan := must.Get(depot.PlanProvider(t.Context(), dist, depottest.DNS(), v, o))(t)
	name := depottest.Stem + "docs.tar.gz"
	packed := plan.Texts()[name]
	if packed == nil {
		t.Fatal("the documentation is not among the files of the release")
	}
	again, err := depot.PlanProvider(t.Context(), dist, depottest.DNS(), v, o)
	if err != nil || !bytes.Equal(again.Texts()[name], packed) {
		t.Errorf("the same files give other bytes: %v", err)
	}
	dist[name] = &fstest.MapFile{Data: packed}
	o.Docs = nil
	if plan, err = depot.PlanProvider(t.Context(), dist, depottest.DNS(), v, o); err != nil || !bytes.Equal(plan.Texts()[name], packed) {
		t.Errorf("packed documentation is not kept as it is: %v", err)
	}
	dist[name] = &fstest.MapFile{Data: []byte("no archive")}
	if _, err = depot.PlanProvider(t.Context(), dist, depottest.DNS(), v, o); !errors.Is(err, description.ErrDocs) || !strings.Contains(err.Error(), name) {
		t.Errorf("no archive: %v", err)
	}
}
