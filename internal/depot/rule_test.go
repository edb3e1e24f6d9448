// SPDX-License-Identifier: Apache-2.0

package depot_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/embedded"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// TestVersionRule: what okara writes is accepted, and no client gives a version other content.
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
	put := putter(t, h)
	modules := must.Get(client.Repo(depottest.ModuleRepo))(t)
	other := must.Get(d.PublishModule(ctx, depottest.NewModule("# b\n"), depottest.MustModule(t, "net/vpc/aws", "2.0.0"), depot.ModuleOptions{}))(t)
	second := depottest.MustFetch(t, modules, other.Digest)
	first := publish("# a\n", depot.ModuleOptions{})
	put(depottest.ModuleRepo, "1.0.0", first, "")
	put(depottest.ModuleRepo, "1.0.0", second, "1.0.0 is already published with other content: stored "+first.Digest.String())
	put(depottest.ModuleRepo, "1.0.0", second, "the next free version is 1.0.1")
	put(depottest.ModuleRepo, "1.0.0_2", second, "they ignore what follows")
	put(depottest.ModuleRepo, "latest", first, "")
	below := depot.New(depot.Options{Client: client, Layout: addr.Layout{Prefix: "team/a"}})
	must.Get(below.PublishModule(ctx, depottest.NewModule("# a\n"), depottest.MustModule(t, "net/vpc/aws", "1.0.0"), depot.ModuleOptions{}))(t)
	must.Get(below.PublishModule(ctx, depottest.NewModule("# b\n"), depottest.MustModule(t, "net/vpc/aws", "2.0.0"), depot.ModuleOptions{}))(t)
	teams := must.Get(client.Repo("team/a/modules/net/vpc/aws"))(t)
	put(teams.Name(), "1.0.0", depottest.MustFetch(t, teams, "2.0.0"), "is already published")
	put(depottest.ModuleRepo, "3.0.0", second, "")

	edited := publish("# c\n", depot.ModuleOptions{Policy: depot.PolicyEditions})
	edition := must.Get(depottest.MustVersion(t, "1.0.0").WithEdition(edited.Digest.Encoded()))(t)
	put(depottest.ModuleRepo, "1.0.0", first, "") // the edition before
	put(depottest.ModuleRepo, "1.0.0", second, "is already published")
	put(depottest.ModuleRepo, edition.Tag(), second, "is already published")
	future := must.Get(depottest.MustVersion(t, "1.0.0").WithEdition(second.Digest.Encoded()))(t)
	put(depottest.ModuleRepo, future.Tag(), first, "this is a different one")
	put(depottest.ModuleRepo, future.Tag(), second, "")
	for _, m := range []oci.Manifest{first, second} { // editions of an edition
		put(depottest.ModuleRepo, must.Get(future.WithEdition(m.Digest.Encoded()))(t).Tag(), m, "")
	}
	put(depottest.ModuleRepo, future.Tag(), first, "is already published")

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
	put(depottest.ProviderRepo, "1.2.4", indexes[1], "declares version 1.2.3")
	put(depottest.ProviderRepo, "1.2.4", oci.Manifest{Descriptor: oci.Descriptor{MediaType: indexes[0].MediaType}, Bytes: []byte("{")}, "is already published")
}

// putter writes a manifest as any client can. want is in the refusal; "": none.
func putter(t *testing.T, h http.Handler) func(repository, tag string, m oci.Manifest, want string) {
	return func(repository, tag string, m oci.Manifest, want string) {
		t.Helper()
		req := httptest.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, strings.NewReader(string(m.Bytes)))
		req.Header.Set("Content-Type", m.MediaType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if want == "" && w.Code != http.StatusCreated || want != "" && (w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `"DENIED"`) || !strings.Contains(w.Body.String(), want)) {
			t.Errorf("%s:%s: %d %s, want %q", repository, tag, w.Code, w.Body, want)
		}
	}
}

// TestVersionRuleKeepsRecords attacks records, to free a number after its tag is removed.
func TestVersionRuleKeepsRecords(t *testing.T) {
	var rule depot.VersionRule
	h := must.Get(embedded.New("", embedded.Options{Rule: &rule}))(t)
	d, client := depottest.NewDepot(t, "registry.test", oci.Options{PlainHTTP: true, Transport: ocitest.Direct{Handler: h}, Retry: oci.Retry{MaxAttempts: 1}})
	rule.Depot = d
	ctx := t.Context()
	r := depottest.MustRepo(t, client, depottest.ModuleRepo)
	put := putter(t, h)
	remove := func(reference string, isRefused bool) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/v2/"+depottest.ModuleRepo+"/manifests/"+reference, nil))
		if isRefused != (w.Code == http.StatusConflict && strings.Contains(w.Body.String(), "records what a version is")) || !isRefused && w.Code != http.StatusAccepted {
			t.Errorf("DELETE %s: %d %s", reference, w.Code, w.Body)
		}
	}
	publish := func(version, text string) oci.Manifest {
		t.Helper()
		out := must.Get(d.PublishModule(ctx, depottest.NewModule(text), depottest.MustModule(t, "net/vpc/aws", version), depot.ModuleOptions{}))(t)
		if len(out.Warnings) > 0 {
			t.Errorf("%s: %q", version, out.Warnings)
		}
		return depottest.MustFetch(t, r, out.Digest)
	}
	first, other := publish("1.0.0", "# a\n"), publish("2.0.0", "# b\n")
	must.Succeed(t, r.PutTag(ctx, "3.0.0", first)) // without a time
	module, second := must.Get(artifact.ParseModule(first))(t), must.Get(artifact.ParseModule(other))(t)
	tagged := func(prefix string) (found []string) {
		for _, tag := range must.Get(r.Snapshot(ctx))(t).Tags {
			if strings.HasPrefix(tag, prefix) {
				found = append(found, tag)
			}
		}
		slices.Sort(found)
		return found
	}
	mark := func(m oci.Manifest, content string) oci.Manifest {
		return must.Get(artifact.NewBare("application/vnd.okara.time.v1", map[string]string{"vnd.okara.time.manifest": m.Digest.String(), "vnd.okara.time.content": content}))(t)
	}
	event := func(version string, m oci.Manifest, content string) error {
		_, err := evidence.PutStatusEvent(ctx, r, evidence.StatusEvent{Action: evidence.ActionYank, Version: version, Subject: m.Digest, Content: []string{content}, Time: time.Now()})
		return err
	}

	recorded := tagged("okara-time-")[0]
	for _, reference := range []string{"1.0.0", "3.0.0", first.Digest.String(), recorded, depottest.MustFetch(t, r, recorded).Digest.String()} {
		remove(reference, true)
	}
	put(depottest.ModuleRepo, "okara-time-1700000000000-1.0.0", mark(other, second.ContentDigest), "does not say what 1.0.0 points or pointed to")
	put(depottest.ModuleRepo, "okara-time-1700000000000-1.0.0", mark(first, second.ContentDigest), "does not say what 1.0.0 points or pointed to")
	put(depottest.ModuleRepo, "okara-time-1700000000000-1.0.0", other, "does not say what 1.0.0 points or pointed to")
	put(depottest.ModuleRepo, "okara-time-1700000000000-1.0.0", mark(first, module.ContentDigest), "")
	put(depottest.ModuleRepo, recorded, mark(other, second.ContentDigest), "is a record")
	if err := errors.Join(event("1.0.0", other, second.ContentDigest), event("1.0.0", first, second.ContentDigest), event("1.0.0", first, module.ContentDigest+" //modules")); strings.Count(err.Error(), "does not say what 1.0.0 points or pointed to") != 3 {
		t.Errorf("events that are not true: %v", err)
	}
	for content, isTrue := range map[string]bool{module.ContentDigest: true, module.ContentDigest + " //": true, module.ContentDigest + " //modules": false, second.ContentDigest: false} { // from a bundle
		e := evidence.StatusEvent{Action: evidence.ActionYank, Version: "1.0.0", Subject: first.Digest, Content: strings.Fields(content)}
		if err := depot.CheckRemoval(ctx, mustVersions(t, d, depottest.VPC().Item()), e); (err == nil) != isTrue {
			t.Errorf("%s: %v", content, err)
		}
	}

	for _, version := range []string{"1.0.0", "3.0.0"} {
		_, warnings := must.GetBoth(d.Announce(ctx, depottest.VPC().Item(), depot.Announcement{Action: evidence.ActionYank, Version: version, DeleteTag: true}))(t)
		if len(warnings) > 0 {
			t.Errorf("yank %s: %q", version, warnings)
		}
	}
	removal := tagged("okara-status-")[0]
	remove(removal, true)
	remove(depottest.MustFetch(t, r, removal).Digest.String(), true)
	put(depottest.ModuleRepo, removal, other, "is a record")
	for _, tag := range []string{"okara-status-9999999999999-0123456789abcdef", "okara-time-9999999999999-4.0.0"} {
		put(depottest.ModuleRepo, tag, other, "is in the future")
	}
	for _, version := range []string{"1.0.0", "3.0.0"} {
		if err := event(version, other, second.ContentDigest); err == nil || !strings.Contains(err.Error(), "does not say what "+version+" points or pointed to") {
			t.Errorf("a later event for %s: %v", version, err)
		}
	}
	put(depottest.ModuleRepo, "okara-time-1700000000001-1.0.0", mark(other, second.ContentDigest), "does not say what 1.0.0 points or pointed to")
	remove(recorded, false)
	forged := module
	forged.Tar = second.Tar
	forged.Zip = second.Zip
	put(depottest.ModuleRepo, "1.0.0", must.Get(artifact.NewModule(forged))(t), "cannot be verified to be its content")
	forged.Tar = module.Tar
	put(depottest.ModuleRepo, "1.0.0", must.Get(artifact.NewModule(forged))(t), "cannot be verified to be its content")
	module.Annotations = map[string]string{artifact.AnnRevision: "2"}
	put(depottest.ModuleRepo, "1.0.0", must.Get(artifact.NewModule(module))(t), "")
	l := mustVersions(t, d, depottest.VPC().Item())
	must.Succeed(t, depot.PruneVersions(ctx, l, l.Versions))
	if left := append(tagged("okara-time-"), tagged("1")...); len(left) > 0 {
		t.Errorf("a prune left %v", left)
	}

	// A platform whose zip is not the one that the index names.
	providers := depottest.MustRepo(t, client, depottest.ProviderRepo)
	out := must.Get(d.PublishProvider(ctx, depottest.NewDist(t, "linux_amd64"), depottest.DNS(), depottest.MustVersion(t, "1.2.3"), depot.ProviderOptions{SignKey: mustKey(t)}))(t)
	index := must.Get(artifact.ParseProviderIndex(depottest.MustFetch(t, providers, out.Digest)))(t)
	more := index.Platforms[0]
	more.Platform = must.Get(addr.ParsePlatform("darwin_arm64"))(t)
	more.Manifest.Platform = nil
	more.Zh = strings.Repeat("0", 64)
	index.Platforms = append(index.Platforms, more)
	metadata := depottest.MustFetch(t, providers, index.Metadata.Digest.String())
	stored := must.Get(depottest.MustFetch(t, providers, out.Digest).Index())(t)
	metadataImage := must.Get(metadata.Image())(t)

	// A version keeps its parts, until its tag is gone.
	parts := []string{"manifests/" + metadata.Digest.String(), "manifests/" + stored.Manifests[0].Digest.String(), "blobs/sha256:" + index.Platforms[0].Zh, "blobs/" + oci.EmptyBlob().Digest.String()}
	for _, layer := range metadataImage.Layers {
		parts = append(parts, "blobs/"+layer.Digest.String())
	}
	deletePart := func(part string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/v2/"+depottest.ProviderRepo+"/"+part, nil))
		return w.Code
	}
	for _, part := range parts {
		if code := deletePart(part); code != http.StatusConflict {
			t.Errorf("DELETE %s: %d", part, code)
		}
	}
	lacking := stored
	lacking.Manifests = slices.DeleteFunc(slices.Clone(stored.Manifests), func(d oci.Descriptor) bool { return d.Digest == metadata.Digest })
	put(depottest.ProviderRepo, "1.2.3", must.Get(oci.NewIndex(lacking))(t), "is already published")
	lying := stored
	lying.Manifests = slices.Clone(stored.Manifests)
	lying.Manifests[0].Annotations = maps.Clone(lying.Manifests[0].Annotations)
	for key, value := range lying.Manifests[0].Annotations {
		if strings.HasPrefix(value, "h1:") {
			lying.Manifests[0].Annotations[key] = "h1:" + strings.Repeat("A", 43) + "="
		}
	}
	put(depottest.ProviderRepo, "1.2.3", must.Get(oci.NewIndex(lying))(t), "is already published")
	put(depottest.ProviderRepo, "1.2.3", must.Get(artifact.NewProviderIndex(addr.KindProvider, depottest.DNS(), index, metadata))(t), "cannot be verified to be its content")
	announce := func(action string) {
		must.GetBoth(d.Announce(ctx, depottest.DNS().Item(), depot.Announcement{Action: action, Version: "1.2.3", DeleteTag: true}))(t)
	}
	announce(evidence.ActionYank)
	announce(evidence.ActionUnyank) // it is served again
	for _, reference := range append(parts, "manifests/1.2.3", "manifests/"+out.Digest) {
		if code := deletePart(reference); code != http.StatusConflict {
			t.Errorf("DELETE %s after the withdrawal was undone: %d", reference, code)
		}
	}
	announce(evidence.ActionYank)
	if code := deletePart(parts[0]); code != http.StatusAccepted {
		t.Errorf("DELETE of what no tag leads to: %d", code)
	}
}
