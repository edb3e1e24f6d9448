// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
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

// ghostTag is what is wrong with a tag that was written by half.
const ghostTag = "the registry lists the tag, and answers 404 for it"

// ExamineAll examines repositories, without any those that the catalogue lists,
// and returns how many they are. An entry of the catalogue for something without a
// version is a finding.
func (d *Depot) ExamineAll(ctx context.Context, repositories []string, deep bool) (findings []Finding, examined int, err error) {
	listed := len(repositories) == 0
	if listed {
		c, err := d.catalog(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, tag := range c.Ghosts {
			findings = append(findings, Finding{d.o.Client.Host() + "/" + d.o.Layout.CatalogRepo(), tag, ghostTag, "delete the tag, then okara doctor artifacts --rebuild-catalog"})
		}
		for _, e := range c.Entries {
			repositories = append(repositories, e.Repository)
		}
	}
	for _, repository := range repositories {
		some, err := d.Examine(ctx, repository, deep)
		if errors.Is(err, oci.ErrNotFound) && listed {
			some, err = []Finding{{
				Repository: d.o.Client.Host() + "/" + d.o.Layout.CatalogRepo(), Tag: artifact.CatalogTag(repository),
				Problem: "the entry is for " + repository + ", which has no version", Remedy: "publish one, or delete the tag",
			}}, nil
		}
		if err != nil {
			return nil, 0, err
		}
		findings = append(findings, some...)
	}
	return findings, len(repositories), nil
}

// Examine looks for what makes clients fail: tags that OpenTofu takes for
// versions, tags with artifacts of another kind, packages that are not the ones
// that were signed, and platforms that newer versions lack. With deep every blob
// is read and what the manifests say of it computed again.
func (d *Depot) Examine(ctx context.Context, repository string, deep bool) ([]Finding, error) {
	item, ok := d.o.Layout.Parse(repository)
	if !ok {
		return nil, fmt.Errorf("%s holds neither a module nor a provider: %w", repository, oci.ErrNotFound)
	}
	l, err := d.Versions(ctx, repository)
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
	for _, tag := range l.Ghosts {
		add(tag, ghostTag, "delete the tag, and do again what it would have said")
	}
	for _, v := range l.Versions {
		if _, err := l.Repository.Resolve(ctx, v.Tag()); errors.Is(err, oci.ErrNotFound) {
			add(v.Tag(), ghostTag, "publish the version again, or delete the tag")
			continue
		}
		checks, err := d.Verify(ctx, repository, v, VerifyOptions{AllowYanked: true, AllowExpired: true, Deep: deep})
		if err != nil && !errors.Is(err, ErrUntrusted) {
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
		newest, platforms = append(newest, v), append(platforms, have)
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
