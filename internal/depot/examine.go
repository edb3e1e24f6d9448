// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Finding is a problem in a repository of artifacts.
type Finding struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	Problem    string `json:"problem"`
	Remedy     string `json:"remedy"`
}

// danglingTag describes a tag that was written only partially.
const danglingTag = "the registry lists the tag but returns 404 for it"

// ExamineAll examines items, or the catalog's if there are none, and returns how many. An entry
// without a version is a finding.
func (d *Depot) ExamineAll(ctx context.Context, items []addr.Item, deep bool) (findings []Finding, examined int, err error) {
	listed := len(items) == 0
	if listed {
		if findings, items, err = examineCatalog(ctx, d); err != nil {
			return nil, 0, err
		}
	}
	for _, it := range items {
		some, err := d.Examine(ctx, it, deep)
		if errors.Is(err, oci.ErrNotFound) && listed {
			some = []Finding{unversionedEntry(d, it.Repository(d.o.Layout))}
			err = nil
		}
		if err != nil {
			return nil, 0, err
		}
		findings = append(findings, some...)
	}
	return findings, len(items), nil
}

// examineCatalog returns the catalog's items, and problems of other tags.
func examineCatalog(ctx context.Context, d *Depot) (findings []Finding, items []addr.Item, err error) {
	c, err := readCatalog(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	for _, tag := range c.Dangling {
		findings = append(findings, catalogFinding(d, tag, danglingTag, "delete the tag, then okara admin doctor artifacts --rebuild-catalog"))
	}
	for _, e := range c.Entries {
		it, ok := d.o.Layout.Parse(e.Repository)
		if ok && it.Kind == addr.KindTemplate {
			continue // the server defines what it may contain
		}
		if !ok || !it.Versioned() {
			findings = append(findings, unversionedEntry(d, e.Repository))
			continue
		}
		items = append(items, it)
	}
	return findings, items, nil
}

// unversionedEntry is the finding of an entry without a version.
func unversionedEntry(d *Depot, repository string) Finding {
	return catalogFinding(d, artifact.CatalogTag(repository), "the entry is for "+repository+", which has no versions", "publish one, or delete the tag")
}

func catalogFinding(d *Depot, tag, problem, remedy string) Finding {
	return Finding{d.o.Client.Host() + "/" + d.o.Layout.CatalogRepo(), tag, problem, remedy}
}

// Examine looks for what makes clients fail: tags that OpenTofu takes for versions, artifacts of
// another kind, packages unlike their signed hashes, platforms that newer versions lack. With deep
// every blob is read, and hashes and sizes are recomputed.
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
				add(tag, "OpenTofu reads the tag as version "+v+", which does not exist, and fails", "delete the tag")
			}
		}
	}
	for _, tag := range l.Dangling {
		add(tag, danglingTag, "delete the tag and repeat the action that wrote it")
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
			add(v.Tag(), checks[n-1].Name+": "+checks[n-1].Detail, "if content is lost, publish the same files again, or run okara depot apply --repair; else yank the version and publish a new one")
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
	var indexes []artifact.ProviderIndex
	for _, v := range l.Versions {
		if v.Prerelease() || l.Status(v).Yanked != nil || len(newest) == 2 {
			continue
		}
		index, err := storedProvider(ctx, l.Repository, v.Tag())
		if err != nil {
			return nil, err
		}
		if index != nil {
			newest = append(newest, v)
			indexes = append(indexes, *index)
		}
	}
	if len(newest) < 2 {
		return nil, nil
	}
	var findings []Finding
	for _, p := range withoutStored(platformsOf(indexes[1]), indexes[0]) {
		findings = append(findings, Finding{l.Repository.String(), newest[0].Tag(),
			fmt.Sprintf("no package for %s, which %s has", p, newest[1]), "publish a version with all platforms"})
	}
	return findings, nil
}
