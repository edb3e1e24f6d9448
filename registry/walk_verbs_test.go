// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/bundle"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// verb is an action on a version, with a content.
type verb func(w *walk, d *depot.Depot, v addr.Version, text string) error

func verbs(kind string) map[string]verb {
	announce := func(action string, all, untag bool) verb {
		return func(w *walk, d *depot.Depot, v addr.Version, _ string) error {
			an := depot.Announcement{Action: action, Version: v.String(), DeleteTag: untag}
			if all {
				an.Version = evidence.AllVersions
			}
			_, _, err := d.Announce(w.t.Context(), w.item, an)
			return err
		}
	}
	all := map[string]verb{
		"yank": announce(evidence.ActionYank, false, false), "remove": announce(evidence.ActionYank, false, true), "undo": announce(evidence.ActionUnyank, false, false),
		"yank all": announce(evidence.ActionYank, true, false), "undo all": announce(evidence.ActionUnyank, true, false),
		"copy": (*walk).copyTag, "prune": (*walk).prune, "gc": (*walk).collect, "load": (*walk).load,
		"retention": (*walk).untag, "forge": (*walk).forgeEvent,
		"wait": func(w *walk, _ *depot.Depot, _ addr.Version, _ string) error {
			if w.isReal {
				return errors.ErrUnsupported
			}
			waitForBids()
			return nil
		},
	}
	switch kind {
	case addr.KindModule:
		all["publish"] = func(w *walk, d *depot.Depot, v addr.Version, text string) error { return w.publishModule(d, v, text) }
		all["edition"] = (*walk).edition
		all["edition again"] = func(w *walk, d *depot.Depot, _ addr.Version, text string) error {
			if w.list == nil || !slices.ContainsFunc(w.list.Versions, addr.Version.Edition) {
				return errors.ErrUnsupported
			}
			return w.edition(d, w.list.Versions[slices.IndexFunc(w.list.Versions, addr.Version.Edition)], text)
		}
		all["hold"] = (*walk).hold
		all["approve"] = func(w *walk, d *depot.Depot, v addr.Version, _ string) error {
			_, err := d.Approve(w.t.Context(), w.repo, v, "")
			return err
		}
		all["publish --server"] = func(w *walk, _ *depot.Depot, v addr.Version, text string) error {
			_, err := w.server.PublishModule(w.t.Context(), walkModule(text), addr.ModuleVersion{Module: w.item.Module, Version: v}, depot.ModuleOptions{})
			return err
		}
		all["mirror"] = func(w *walk, d *depot.Depot, v addr.Version, text string) error {
			fetch := func(_ context.Context, dir string, _ bool) (depot.Fetched, error) {
				return depot.Fetched{Package: dir}, os.CopyFS(dir, walkModule(text))
			}
			_, err := d.MirrorModule(w.t.Context(), addr.ModuleVersion{Module: w.item.Module, Version: v}, fetch, depot.ModuleOptions{Compare: w.rnd.IntN(2) == 0})
			return err
		}
	case addr.KindProvider:
		all["publish"] = func(w *walk, d *depot.Depot, v addr.Version, text string) error { return w.publishProvider(d, v, text) }
		all["publish --server"] = func(w *walk, _ *depot.Depot, v addr.Version, text string) error {
			dist, o := w.dist(v, text)
			_, err := w.server.PublishProvider(w.t.Context(), dist, w.item.Provider, v, o)
			return err
		}
	case addr.KindMirror:
		all["mirror"] = func(w *walk, d *depot.Depot, v addr.Version, text string) error { return w.mirror(d, v, text) }
	}
	if kind != addr.KindProvider {
		all["depot apply"] = (*walk).apply
	}
	if kind != addr.KindMirror {
		all["yank --server"] = func(w *walk, _ *depot.Depot, v addr.Version, text string) error {
			action := map[string]string{"a": evidence.ActionYank, "b": evidence.ActionUnyank}[text]
			_, err := w.server.Announce(w.t.Context(), "v1/"+w.item.Kind+"s/"+w.item.String(), depot.Announcement{Action: action, Version: v.String()})
			return err
		}
	}
	return all
}

func walkModule(text string) fstest.MapFS {
	return depottest.NewModule("locals { x = \"" + text + "\" }\n")
}

func (w *walk) publishModule(d *depot.Depot, v addr.Version, text string) error {
	_, err := d.PublishModule(w.t.Context(), walkModule(text), addr.ModuleVersion{Module: w.item.Module, Version: v}, depot.ModuleOptions{})
	return err
}

func (w *walk) edition(d *depot.Depot, v addr.Version, text string) error {
	_, err := d.PublishModule(w.t.Context(), walkModule(text), addr.ModuleVersion{Module: w.item.Module, Version: v}, depot.ModuleOptions{Policy: depot.PolicyEditions})
	return err
}

var errHeld = errors.New("held")

func (w *walk) hold(d *depot.Depot, v addr.Version, text string) error {
	check := func(context.Context, depot.Candidate) error { return errHeld }
	_, err := d.PublishModule(w.t.Context(), walkModule(text), addr.ModuleVersion{Module: w.item.Module, Version: v}, depot.ModuleOptions{Check: check})
	if errors.Is(err, errHeld) {
		return nil
	}
	return err
}

// copyTag puts one number's manifest under another, as oras does.
func (w *walk) copyTag(_ *depot.Depot, v addr.Version, _ string) error {
	if !w.ruled || w.list == nil || len(w.list.Versions) == 0 {
		return errors.ErrUnsupported
	}
	from := w.list.Versions[w.rnd.IntN(len(w.list.Versions))]
	m, err := w.repo.Fetch(w.t.Context(), from.Tag())
	if err == nil {
		err = w.repo.PutTag(w.t.Context(), v.Tag(), m)
	}
	isEdition := func(o addr.Version) bool { return o.Edition() && o.EditionOf() == v }
	if number := v.Number().String(); err == nil && slices.ContainsFunc(w.list.Versions, isEdition) {
		w.moved[number] = true
	}
	return err
}

// publishPair publishes two versions of a number, as programs did.
func (w *walk) publishPair() {
	l := must.Fixed(depot.ReadListing(w.t.Context(), w.repo, addr.KindProvider, nil))
	texts := []string{"a", "b"}
	w.rnd.Shuffle(2, func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	roots := map[string]oci.Manifest{}
	for i, number := range []string{"1.0.0", "1.0.0+1"} {
		check := func(_ context.Context, c depot.Candidate) error {
			roots[number] = c.Root
			return errHeld
		}
		m := addr.ModuleVersion{Module: w.item.Module, Version: depottest.MustVersion(w.t, number)}
		if _, err := w.depots[1].PublishModule(w.t.Context(), walkModule(texts[i]), m, depot.ModuleOptions{Check: check}); !errors.Is(err, errHeld) {
			w.t.Fatal(err)
		}
	}
	for number, root := range roots {
		must.Fixed(depot.PutVersion(w.t.Context(), l, depottest.MustVersion(w.t, number), root))
	}
	w.trail = append(w.trail, fmt.Sprint("an older program published ", texts))
}

// dist is a release with one or two platforms, which may extend a version.
func (w *walk) dist(v addr.Version, text string) (fstest.MapFS, depot.ProviderOptions) {
	dist := fstest.MapFS{"artifacts.json": {Data: []byte("[]")}}
	for _, platform := range []string{"linux_amd64", "darwin_arm64"}[:1+w.rnd.IntN(2)] {
		dist[signing.PackageStem(w.item.Provider, v)+platform+".zip"] = &fstest.MapFile{Data: walkZip(w.t, platform, text)}
	}
	return dist, depot.ProviderOptions{SignKey: w.key, Now: walkStart, Extend: w.rnd.IntN(2) == 0}
}

func (w *walk) publishProvider(d *depot.Depot, v addr.Version, text string) error {
	dist, o := w.dist(v, text)
	_, err := d.PublishProvider(w.t.Context(), dist, w.item.Provider, v, o)
	return err
}

func walkZip(t *testing.T, platform, text string) []byte {
	return depottest.ZipOf(t, map[string]string{"terraform-provider-dns": platform + text})
}

// walkOrigin serves unsigned releases, all with the same content.
type walkOrigin struct {
	w         *walk
	text      string
	platforms []addr.Platform
}

func (w *walk) origin(text string) walkOrigin {
	return walkOrigin{w, text, []addr.Platform{{OS: "linux", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}}[:1+w.rnd.IntN(2)]}
}

func (o walkOrigin) Versions(context.Context, addr.Provider) ([]addr.Version, error) {
	return []addr.Version{depottest.MustVersion(o.w.t, "1.0.0"), depottest.MustVersion(o.w.t, "1.1.0")}, nil
}

func (o walkOrigin) Platforms(context.Context, addr.Provider, addr.Version) ([]addr.Platform, error) {
	return o.platforms, nil
}

func (o walkOrigin) Package(_ context.Context, p addr.Provider, v addr.Version, t addr.Platform) (upstream.Package, error) {
	zip := walkZip(o.w.t, t.String(), o.text)
	return upstream.Package{
		Platform: t, Filename: signing.PackageName(p, v, t), Zh: digest.FromBytes(zip).Encoded(), Protocols: []string{"6.0"},
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(zip)), nil },
	}, nil
}

func (w *walk) mirror(d *depot.Depot, v addr.Version, text string) error {
	_, err := d.MirrorProvider(w.t.Context(), w.origin(text), w.item.Provider, v, depot.MirrorOptions{AllowUnsigned: true})
	return err
}

func (w *walk) apply(d *depot.Depot, _ addr.Version, text string) error {
	keep := fmt.Sprintf("  versions = \">= 1.0.0\"\n  keep = %d\n", 1+w.rnd.IntN(2))
	file := fmt.Sprintf("provider %q {\n%s  allow_unsigned = true\n}\n", w.item.Provider, keep)
	if w.item.Kind == addr.KindModule {
		file = fmt.Sprintf("module %q {\n  source = \"oci://registry.test/origin\"\n%s}\n", w.item.Module, keep)
	}
	set := must.Get(supply.ParseSet("depot.hcl", []byte(file)))(w.t)
	from := supply.Origins{
		Client: &upstream.Client{}, Provider: func(string, addr.Provider) (depot.Source, error) { return w.origin(text), nil },
		Open: func(string) (*oci.Repo, error) { return w.moduleOrigin(text) },
	}
	s := supply.NewSyncer(d, supply.SyncOptions{Set: set, Origins: func(string) (supply.Origins, error) { return from, nil }})
	p, err := s.Plan(w.t.Context())
	if err == nil {
		_, err = s.Apply(w.t.Context(), p, nil)
	}
	return err
}

// moduleOrigin is a repository of another registry with two versions of the module.
func (w *walk) moduleOrigin(text string) (*oci.Repo, error) {
	if w.origins[text] == nil {
		o := oci.Options{Transport: ocitest.Direct{Handler: ocitest.Memory()}, PlainHTTP: true}
		d := depot.New(depot.Options{Client: newClient(w.t, "registry.test", o), TempDir: w.dir})
		for _, v := range []string{"1.0.0", "1.1.0"} {
			must.Fixed(d.PublishModule(w.t.Context(), walkModule(text), addr.ModuleVersion{Module: w.item.Module, Version: depottest.MustVersion(w.t, v)}, depot.ModuleOptions{}))
		}
		w.origins[text] = d
	}
	return w.origins[text].Repo(w.item.Repository(addr.Layout{}))
}

func (w *walk) prune(d *depot.Depot, _ addr.Version, _ string) error {
	l, err := d.Versions(w.t.Context(), w.item)
	if err != nil {
		return err
	}
	gone := l.Prunable(depot.Retention{Keep: 1})
	if len(gone) == 0 {
		return oci.ErrNotFound
	}
	return depot.PruneVersions(w.t.Context(), l, gone)
}

// untag removes the tag of a version without okara, as a rule of the registry's own does.
func (w *walk) untag(_ *depot.Depot, v addr.Version, _ string) error {
	return w.repo.Untag(w.t.Context(), v.Tag())
}

// forgeEvent writes an event that nothing could take back if its time counted.
func (w *walk) forgeEvent(_ *depot.Depot, v addr.Version, _ string) error {
	e, err := evidence.PutStatusEvent(w.t.Context(), w.repo, evidence.StatusEvent{Action: evidence.ActionUnyank, Version: v.String(), Time: time.UnixMilli(9_999_999_999_999)})
	if err == nil && w.ruled {
		w.t.Errorf("%s was accepted", e.Tag)
	}
	return err
}

// collect deletes manifests without tag, as collections do.
func (w *walk) collect(_ *depot.Depot, _ addr.Version, _ string) error {
	l, err := depot.ReadListing(w.t.Context(), w.repo, w.item.Kind, w.list)
	if err != nil {
		return err
	}
	tagged := map[digest.Digest]bool{}
	for _, tag := range l.Tags {
		if d, err := w.repo.Resolve(w.t.Context(), tag); err == nil {
			tagged[d.Digest] = true
		}
	}
	freed := oci.ErrNotFound
	for _, e := range l.Events {
		if e.Subject != "" && !tagged[e.Subject] {
			if w.repo.Delete(w.t.Context(), oci.Descriptor{Digest: e.Subject}) == nil {
				freed = nil
			}
		}
	}
	return freed
}

// load loads another registry's bundle, an older one, or writes one.
func (w *walk) load(d *depot.Depot, _ addr.Version, text string) error {
	if text == "a" && w.rnd.IntN(2) == 0 {
		file := filepath.Join(w.dir, "own")
		err := w.save(file)
		if err == nil {
			w.stored = file
		}
		return err
	}
	b, err := bundle.Open(w.stored)
	if err != nil {
		return err
	}
	defer b.Close()
	report, err := bundle.Load(w.t.Context(), d, b, bundle.LoadOptions{Trusted: w.rnd.IntN(2) == 0})
	if err == nil && len(report.Refused)+len(report.Conflict) > 0 {
		err = oci.ErrExists
	}
	return err
}

func (w *walk) save(file string) error {
	d := w.depots[1]
	item, err := bundle.Select(w.t.Context(), d, must.Fixed(addr.ParseSelection(w.item.String()+"@>= 0.0.0")))
	if err != nil {
		return err
	}
	_, err = bundle.Create(w.t.Context(), d, file, []bundle.Item{item}, bundle.CreateOptions{})
	if l, listErr := d.Versions(w.t.Context(), w.item); listErr == nil {
		for _, tag := range item.Tags {
			v, _ := addr.VersionFromTag(tag)
			w.carried[v] = w.carried[v] || l.Status(v).Yanked != nil
		}
	}
	return err
}
