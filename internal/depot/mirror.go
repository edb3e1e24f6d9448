// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
)

// mirrorParallel is how many packages of one version are downloaded at a time.
const mirrorParallel = 4

// MirrorOptions say how a version is mirrored.
type MirrorOptions struct {
	Platforms     []addr.Platform // empty: all that the origin has
	AllowUnsigned bool            // the origin publishes no key or no SHA256SUMS
	AllowExpired  bool            // the key has expired since it signed
	Gate          Gate            // asked before the version becomes visible; nil: it does
}

// MirrorProvider stores one version of a provider as the origin publishes it:
// SHA256SUMS, signature, keys and zips are verified first and stored unchanged.
// A version that is there with all wanted platforms is success without a
// download. Platforms that the version lacks are an error that wraps
// oci.ErrExists, since a version never changes.
//
// Zips go to a temporary directory first. One that the registry has already, from
// an interrupted run, is read from there instead of the origin.
func (d *Depot) MirrorProvider(ctx context.Context, src Source, p addr.Provider, v addr.Version, o MirrorOptions) (Published, error) {
	r, err := d.repo(d.providerRepo(p))
	if err != nil {
		return Published{}, err
	}
	wanted, err := wantedPlatforms(ctx, src, p, v, o.Platforms)
	if err != nil {
		return Published{}, err
	}
	stored, err := storedProvider(ctx, r, v.Tag())
	if err != nil {
		return Published{}, err
	}
	if stored != nil {
		return mirrored(r, v, *stored, wanted)
	}
	packages, err := packagesOf(ctx, src, p, v, wanted)
	if err != nil {
		return Published{}, err
	}
	po, err := mirrorOptions(packages, o)
	if err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", p, v, err)
	}
	dir, err := os.MkdirTemp(d.o.TempDir, "okara-mirror-*")
	if err != nil {
		return Published{}, err
	}
	defer os.RemoveAll(dir)
	if po.known, err = d.download(ctx, r, packages, dir); err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", p, v, err)
	}
	return d.PublishProvider(ctx, os.DirFS(dir), p, v, po)
}

// wantedPlatforms are those of the origin that the caller asked for.
func wantedPlatforms(ctx context.Context, src Source, p addr.Provider, v addr.Version, asked []addr.Platform) ([]addr.Platform, error) {
	have, err := src.Platforms(ctx, p, v)
	if err != nil {
		return nil, err
	}
	if len(asked) == 0 {
		asked = have
	}
	var missing []addr.Platform
	for _, t := range asked {
		if !slices.Contains(have, t) && len(have) > 0 {
			missing = append(missing, t)
		}
	}
	if len(missing) > 0 || len(asked) == 0 {
		return nil, fmt.Errorf("%s %s: the origin has no package for %v, it has %v: %w", p, v, missing, have, oci.ErrNotFound)
	}
	return asked, nil
}

// mirrored answers for a version that is in the registry.
func mirrored(r *oci.Repo, v addr.Version, stored oci.ProviderIndex, wanted []addr.Platform) (Published, error) {
	out := Published{Repository: r.String(), Tag: v.Tag(), Digest: stored.Index.Digest.String(), Existing: true}
	for _, t := range wanted {
		if !slices.ContainsFunc(stored.Platforms, func(have oci.ProviderPlatform) bool { return have.Platform == t }) {
			return out, fmt.Errorf("%s:%s is mirrored without %s, and a version never changes: %w", r, v.Tag(), t, oci.ErrExists)
		}
	}
	return out, nil
}

// packagesOf asks for each platform and checks that all answers carry the same
// SHA256SUMS, which must list each package.
func packagesOf(ctx context.Context, src Source, p addr.Provider, v addr.Version, platforms []addr.Platform) ([]upstream.Package, error) {
	packages := make([]upstream.Package, len(platforms))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(mirrorParallel)
	for i, t := range platforms {
		g.Go(func() (err error) {
			packages[i], err = src.Package(gctx, p, v, t)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i := range packages {
		if want := upstream.PackageName(p, v, packages[i].Platform); packages[i].Filename != want {
			return nil, fmt.Errorf("%s %s: the origin calls the package %q, it must be %s: %w", p, v, packages[i].Filename, want, ErrNoProvider)
		}
		if string(packages[i].Shasums) != string(packages[0].Shasums) {
			return nil, fmt.Errorf("%s %s: the origin has another SHA256SUMS for %s: %w", p, v, packages[i].Platform, oci.ErrCorrupt)
		}
		if _, _, err := verifiedSums(packages[i]); err != nil && len(packages[i].Signature) > 0 {
			return nil, fmt.Errorf("%s %s: %w", p, v, err)
		}
	}
	return packages, nil
}

// mirrorOptions takes the proof over from the origin.
func mirrorOptions(packages []upstream.Package, o MirrorOptions) (ProviderOptions, error) {
	first := packages[0]
	po := ProviderOptions{
		Partial: true, AllowUnsigned: o.AllowUnsigned, AllowExpired: o.AllowExpired,
		Protocols: first.Protocols, Gate: o.Gate, H1: map[addr.Platform]string{},
	}
	for _, k := range packages {
		po.H1[k.Platform] = k.H1
	}
	if len(first.Signature) == 0 || len(first.Keys) == 0 {
		if !o.AllowUnsigned {
			return ProviderOptions{}, fmt.Errorf("the origin publishes no signed SHA256SUMS: %w", ErrUnsigned)
		}
		return po, nil
	}
	var err error
	po.Keys, err = publicKeys(first.Keys)
	return po, err
}

// download writes the packages and their proof into dir, in the shape of a
// release. It returns the SHA-256 of each package, by name.
func (d *Depot) download(ctx context.Context, r *oci.Repo, packages []upstream.Package, dir string) (map[string]string, error) {
	first := packages[0]
	stem := first.Filename[:len(first.Filename)-len(first.Platform.String()+".zip")]
	if len(first.Shasums) > 0 {
		if err := os.WriteFile(filepath.Join(dir, stem+"SHA256SUMS"), first.Shasums, 0o600); err != nil {
			return nil, err
		}
	}
	if len(first.Signature) > 0 && len(first.Keys) > 0 {
		if err := os.WriteFile(filepath.Join(dir, stem+"SHA256SUMS.sig"), first.Signature, 0o600); err != nil {
			return nil, err
		}
	}
	sums := make([]string, len(packages))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(mirrorParallel)
	for i, pkg := range packages {
		g.Go(func() (err error) {
			sums[i], err = d.downloadOne(gctx, r, pkg, dir)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	known := map[string]string{}
	for i, pkg := range packages {
		known[pkg.Filename] = sums[i]
	}
	return known, nil
}

func (d *Depot) downloadOne(ctx context.Context, r *oci.Repo, pkg upstream.Package, dir string) (string, error) {
	if pkg.Zh != "" {
		pkg.Open = preferStored(r, pkg)
	}
	f, err := os.OpenFile(filepath.Join(dir, pkg.Filename), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	sum, err := fetchPackage(ctx, pkg, f)
	return sum, errors.Join(err, f.Close())
}

// preferStored opens the blob in the registry if an earlier run pushed it.
func preferStored(r *oci.Repo, pkg upstream.Package) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		blob, err := r.Stat(ctx, digestOf(pkg.Zh))
		if err != nil {
			return pkg.Open(ctx)
		}
		return r.Open(ctx, blob)
	}
}

// MirrorModule stores one version of a module from its origin.
func (d *Depot) MirrorModule(ctx context.Context, m addr.ModuleVersion, fetch func(ctx context.Context, dir string) (fs.FS, map[string]string, error), o ModuleOptions) (Published, error) {
	r, err := d.repo(d.o.Layout.Module(m.Module))
	if err != nil {
		return Published{}, err
	}
	if have, err := r.Resolve(ctx, m.Version.Tag()); err == nil {
		return Published{Repository: r.String(), Tag: m.Version.Tag(), Digest: have.Digest.String(), Existing: true}, nil
	} else if !errors.Is(err, oci.ErrNotFound) {
		return Published{}, err
	}
	dir, err := os.MkdirTemp(d.o.TempDir, "okara-mirror-*")
	if err != nil {
		return Published{}, err
	}
	defer os.RemoveAll(dir)
	tree, annotations, err := fetch(ctx, dir)
	if err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", m.Module, m.Version, err)
	}
	o.Annotations = annotations
	return d.PublishModule(ctx, tree, m, o)
}
