// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/oci"
)

// NetworkMirror is a provider network mirror. Base ends with a slash.
type NetworkMirror struct {
	Client *Client
	Base   *url.URL
}

// Versions lists the keys of index.json that are complete versions, highest
// first. The tools leave out 1.0 there.
func (m *NetworkMirror) Versions(ctx context.Context, p addr.Provider) ([]addr.Version, error) {
	var doc struct{ Versions map[string]struct{} }
	if _, err := m.Client.getJSON(ctx, m.url(p, "index.json"), &doc); err != nil {
		return nil, fmt.Errorf("listing the versions of %s: %w", p, err)
	}
	var out []addr.Version
	for s := range doc.Versions { // its file is named as it is listed
		if v, ok := takeVersion(ctx, s, addr.ParseVersion); ok {
			out = append(out, v)
		}
	}
	return sortVersions(out), nil
}

func (m *NetworkMirror) url(p addr.Provider, file string) *url.URL {
	return m.Base.JoinPath(p.Hostname, p.Namespace, p.Type, file)
}

type archivesDoc struct {
	Archives map[string]struct {
		URL    string
		Hashes []string
	}
}

func (m *NetworkMirror) archives(ctx context.Context, p addr.Provider, v addr.Version) (archivesDoc, *url.URL, error) {
	var doc archivesDoc
	from, err := m.Client.getJSON(ctx, m.url(p, v.String()+".json"), &doc)
	if err != nil {
		return archivesDoc{}, nil, fmt.Errorf("requesting %s %s: %w", p, v, err)
	}
	return doc, from, nil
}

// Platforms lists the platforms of <version>.json.
func (m *NetworkMirror) Platforms(ctx context.Context, p addr.Provider, v addr.Version) ([]addr.Platform, error) {
	doc, _, err := m.archives(ctx, p, v)
	if err != nil {
		return nil, err
	}
	var out []addr.Platform
	for s := range doc.Archives {
		if t, err := addr.ParsePlatform(s); err == nil {
			out = append(out, t)
		}
	}
	return sortPlatforms(out), nil
}

// Package returns the archive of one platform; a mirror has no signatures.
func (m *NetworkMirror) Package(ctx context.Context, p addr.Provider, v addr.Version, t addr.Platform) (Package, error) {
	doc, from, err := m.archives(ctx, p, v)
	if err != nil {
		return Package{}, err
	}
	a, ok := doc.Archives[t.String()]
	if !ok {
		return Package{}, fmt.Errorf("%s %s has no package for %s: %w", p, v, t, oci.ErrNotFound)
	}
	u, err := from.Parse(a.URL)
	if err != nil || a.URL == "" {
		return Package{}, fmt.Errorf("%s %s: the mirror has no archive for %s: %w", p, v, t, oci.ErrCorrupt)
	}
	pkg := Package{Platform: t, Filename: signing.PackageName(p, v, t)}
	for _, h := range a.Hashes {
		if zh, ok := strings.CutPrefix(h, "zh:"); ok {
			pkg.Zh = strings.ToLower(zh)
		} else if strings.HasPrefix(h, "h1:") {
			pkg.H1 = h
		}
	}
	pkg.Open = func(ctx context.Context) (io.ReadCloser, error) { return m.Client.openDownload(ctx, u) }
	return pkg, nil
}

// FilesystemMirror is a directory written by `providers mirror`, in the packed layout
// HOSTNAME/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip. Packages of the unpacked
// layout are ignored: zipping them again would change their hash in lock files.
type FilesystemMirror struct {
	FS fs.FS
}

func (m *FilesystemMirror) providerDir(p addr.Provider) string {
	return path.Join(p.Hostname, p.Namespace, p.Type)
}

func (m *FilesystemMirror) eachPacked(p addr.Provider, f func(v addr.Version, t addr.Platform)) error {
	entries, err := fs.ReadDir(m.FS, m.providerDir(p))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the mirror has no provider %s: %w", p, oci.ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("reading the mirror of %s: %w", p, err)
	}
	for _, e := range entries {
		if v, t, ok := signing.ParsePackageName(p, e.Name()); ok && e.Type().IsRegular() {
			f(v, t)
		}
	}
	return nil
}

// Versions lists the versions that have a packed zip, highest first.
func (m *FilesystemMirror) Versions(_ context.Context, p addr.Provider) ([]addr.Version, error) {
	var out []addr.Version
	err := m.eachPacked(p, func(v addr.Version, _ addr.Platform) { out = append(out, v) })
	return sortVersions(out), err
}

// Platforms lists the platforms of v that have a packed zip.
func (m *FilesystemMirror) Platforms(_ context.Context, p addr.Provider, want addr.Version) ([]addr.Platform, error) {
	var out []addr.Platform
	err := m.eachPacked(p, func(v addr.Version, t addr.Platform) {
		if v == want {
			out = append(out, t)
		}
	})
	return sortPlatforms(out), err
}

// Package returns the zip of one platform, without hashes or signatures.
func (m *FilesystemMirror) Package(_ context.Context, p addr.Provider, v addr.Version, t addr.Platform) (Package, error) {
	name := path.Join(m.providerDir(p), signing.PackageName(p, v, t))
	if _, err := fs.Stat(m.FS, name); err != nil {
		return Package{}, fmt.Errorf("the mirror has no package of %s %s for %s: %w", p, v, t, oci.ErrNotFound)
	}
	return Package{
		Platform: t, Filename: path.Base(name),
		Open: func(context.Context) (io.ReadCloser, error) { return m.FS.Open(name) },
	}, nil
}
