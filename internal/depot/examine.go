// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Finding is something wrong in a repository of artifacts.
type Finding struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	Problem    string `json:"problem"`
	Remedy     string `json:"remedy"`
}

// danglingTag is what is wrong with a tag that was written by half.
const danglingTag = "the registry lists the tag, and answers 404 for it"

// ExamineAll examines modules and providers, without any those that the catalog
// lists, and returns how many they are. An entry of the catalog for something
// without a version is a finding.
func (d *Depot) ExamineAll(ctx context.Context, items []addr.Item, deep bool) (findings []Finding, examined int, err error) {
	listed := len(items) == 0
	if listed {
		if findings, items, err = d.examination().examineCatalog(ctx); err != nil {
			return nil, 0, err
		}
	}
	for _, it := range items {
		some, err := d.Examine(ctx, it, deep)
		if errors.Is(err, oci.ErrNotFound) && listed {
			some = []Finding{d.examination().noVersion(it.Repository(d.o.Layout))}
			err = nil
		}
		if err != nil {
			return nil, 0, err
		}
		findings = append(findings, some...)
	}
	return findings, len(items), nil
}

// examination looks at what the catalog lists.
type examination struct{ *Depot }

func (d *Depot) examination() examination { return examination{d} }

// examineCatalog returns what the catalog lists, and what is wrong with the rest
// of it.
func (d examination) examineCatalog(ctx context.Context) (findings []Finding, items []addr.Item, err error) {
	c, err := d.catalog(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, tag := range c.Dangling {
		findings = append(findings, d.inCatalog(tag, danglingTag, "delete the tag, then okara admin doctor artifacts --rebuild-catalog"))
	}
	for _, e := range c.Entries {
		it, ok := d.o.Layout.Parse(e.Repository)
		if ok && it.Kind == addr.KindTemplate {
			continue // what it may hold is the server's affair
		}
		if !ok || !it.Versioned() {
			findings = append(findings, d.noVersion(e.Repository))
			continue
		}
		items = append(items, it)
	}
	return findings, items, nil
}

// noVersion is the finding that the catalog lists a repository without a version.
func (d examination) noVersion(repository string) Finding {
	return d.inCatalog(artifact.CatalogTag(repository), "the entry is for "+repository+", which has no version", "publish one, or delete the tag")
}

func (d examination) inCatalog(tag, problem, remedy string) Finding {
	return Finding{d.o.Client.Host() + "/" + d.o.Layout.CatalogRepo(), tag, problem, remedy}
}

// Examine looks for what makes clients fail: tags that OpenTofu takes for
// versions, tags with artifacts of another kind, packages that are not the ones
// that were signed, and platforms that newer versions lack. With deep every blob
// is read and what the manifests say of it computed again.
func (d *Depot) Examine(ctx context.Context, item addr.Item, deep bool) ([]Finding, error) {
	l, err := d.Versions(ctx, item)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	add := func(tag, problem, remedy string) {
		findings = append(findings, Finding{l.Repository.String(), tag, problem, remedy})
	}
	if item.Kind != addr.KindModule {
		for _, tag := range l.Tags {
			if v, ok := addr.Phantom(tag); ok {
				add(tag, "OpenTofu takes the tag for version "+v+", which does not exist, and fails", "delete the tag")
			}
		}
	}
	for _, tag := range l.Dangling {
		add(tag, danglingTag, "delete the tag, and do again what it would have said")
	}
	for _, v := range l.Versions {
		if _, err := l.Repository.Resolve(ctx, v.Tag()); errors.Is(err, oci.ErrNotFound) {
			add(v.Tag(), danglingTag, "publish the version again, or delete the tag")
			continue
		}
		checks, err := d.Verify(ctx, item, v, trust.Policy{AllowYanked: true, AllowExpired: true, Deep: deep})
		if err != nil && !errors.Is(err, trust.ErrUntrusted) {
			return nil, err
		}
		if n := len(checks); err != nil && n > 0 {
			add(v.Tag(), checks[n-1].Name+": "+checks[n-1].Detail, "publish under a new version, and yank this one")
		}
	}
	missing, err := l.missingPlatforms(ctx, item.Kind)
	return append(findings, missing...), err
}

// missingPlatforms compares the highest release with the one before.
func (l *Listing) missingPlatforms(ctx context.Context, kind string) ([]Finding, error) {
	if kind == addr.KindModule {
		return nil, nil
	}
	var newest []addr.Version
	var platforms [][]addr.Platform
	for _, v := range l.Versions {
		if v.Prerelease() || l.Status(v).Yanked != nil || len(newest) == 2 {
			continue
		}
		index, err := storedProvider(ctx, l.Repository, v.Tag())
		if errors.Is(err, oci.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var have []addr.Platform
		for _, p := range index.Platforms {
			have = append(have, p.Platform)
		}
		newest = append(newest, v)
		platforms = append(platforms, have)
	}
	if len(newest) < 2 {
		return nil, nil
	}
	var findings []Finding
	for _, p := range platforms[1] {
		if !slices.Contains(platforms[0], p) {
			findings = append(findings, Finding{l.Repository.String(), newest[0].Tag(),
				fmt.Sprintf("no package for %s, which %s has", p, newest[1]), "publish a version with all platforms"})
		}
	}
	return findings, nil
}
