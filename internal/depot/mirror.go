// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/signing"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/internal/trust"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// mirrorParallel is how many packages of one version move at a time.
const mirrorParallel = 4

// MirrorOptions say how a version is mirrored.
type MirrorOptions struct {
	Platforms     []addr.Platform     // empty: all that the origin has
	AllowUnsigned bool                // the origin publishes no key or no SHA256SUMS
	AllowExpired  bool                // the key has expired since it signed
	Trusted       []signing.PublicKey // one of them must have signed; empty: any key of the origin will do
	Gate          Gate                // asked before the version becomes visible; nil: it does
	Compare       bool                // a version that is there has to have the zips of the origin
}

// MirrorProvider stores one version of a provider as the origin publishes it:
// SHA256SUMS and signature are verified before anything is pushed, each zip before
// it is pushed, and all are stored unchanged.
// A version that is there with all wanted platforms is success without a
// download, unless it is to be compared. Platforms that the version lacks are an error that wraps
// oci.ErrExists, since a version never changes.
//
// Each zip goes through a temporary file, where it is checked and hashed, into the
// registry. One that the registry has already, from an interrupted run, is read
// from there instead of the origin and not sent.
func (d *Depot) MirrorProvider(ctx context.Context, src Source, p addr.Provider, v addr.Version, o MirrorOptions) (Published, error) {
	r, err := d.Repo(p.Item().Repository(d.o.Layout))
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
		out, err := mirrored(r, v, *stored, wanted)
		if err == nil && o.Compare {
			err = sameProvider(ctx, r, *stored, src, p, v, wanted)
		}
		return out, err
	}
	packages, err := packagesOf(ctx, src, p, v, wanted)
	if err != nil {
		return Published{}, err
	}
	plan, err := planMirror(p, v, packages, o)
	if err == nil {
		err = plan.mirrorDocs(ctx, p, v, packages[0])
	}
	x := providerPush{r, p, v, plan, ProviderOptions{Gate: o.Gate}, d.o.Progress}
	if err == nil {
		err = x.transfer(ctx, packages, d.o.TempDir)
	}
	if err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", p, v, err)
	}
	return d.pushPlan(ctx, x)
}

// mirrorDocs takes over the documentation that an origin has. Nothing signs it, so
// what cannot be read is left out with a warning.
func (p *ProviderPlan) mirrorDocs(ctx context.Context, provider addr.Provider, v addr.Version, pkg upstream.Package) error {
	if pkg.Docs == nil {
		return nil
	}
	packed, err := pkg.Docs(ctx)
	if err != nil {
		return err
	}
	if err := p.takeDocs(signing.PackageStem(provider, v)+DocsFile, packed); err != nil {
		p.Warnings = append(p.Warnings, "the documentation is left out: "+err.Error())
	}
	return nil
}

// Refused recognizes content that is not accepted, because of what it is or who signed
// it, from content that could not be read or stored.
func Refused(err error) bool {
	for _, reason := range []error{
		trust.ErrUnsigned, trust.ErrUntrusted, signing.ErrBadSignature, signing.ErrUnknownKey, signing.ErrExpiredKey, signing.ErrEarlyKey, signing.ErrRevokedKey, signing.ErrSums,
		oci.ErrCorrupt, oci.ErrExists, oci.ErrTooLarge, signing.ErrNoProvider,
		ErrNoModule, description.ErrOutside, description.ErrInvalid, archive.ErrUnsafe, archive.ErrTooLarge, syntax.ErrTooComplex,
	} {
		if errors.Is(err, reason) {
			return true
		}
	}
	_, held := errors.AsType[*HeldError](err)
	return held
}

// wantedPlatforms are those that the caller asked for, or all of the origin.
func wantedPlatforms(ctx context.Context, src Source, p addr.Provider, v addr.Version, asked []addr.Platform) ([]addr.Platform, error) {
	if len(asked) > 0 {
		return asked, nil
	}
	have, err := src.Platforms(ctx, p, v)
	if err == nil && len(have) == 0 {
		err = fmt.Errorf("%s %s: the origin has no package: %w", p, v, oci.ErrNotFound)
	}
	return have, err
}

// mirrored answers for a version that is in the registry.
func mirrored(r *oci.Repo, v addr.Version, stored artifact.ProviderIndex, wanted []addr.Platform) (Published, error) {
	out := Published{Repository: r.String(), Tag: v.Tag(), Digest: stored.Index.Digest.String(), Existing: true}
	for _, t := range wanted {
		if !slices.ContainsFunc(stored.Platforms, func(have artifact.ProviderPlatform) bool { return have.Platform == t }) {
			return out, fmt.Errorf("%s:%s is mirrored without %s, and a version never changes: %w", r, v.Tag(), t, oci.ErrExists)
		}
	}
	return out, nil
}

// packagesOf asks for each platform and checks that all answers carry the same
// SHA256SUMS.
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
		if want := signing.PackageName(p, v, packages[i].Platform); packages[i].Filename != want {
			return nil, fmt.Errorf("%s %s: the origin calls the package %q, it must be %s: %w", p, v, packages[i].Filename, want, signing.ErrNoProvider)
		}
		if string(packages[i].Shasums) != string(packages[0].Shasums) {
			return nil, fmt.Errorf("%s %s: the origin has another SHA256SUMS for %s: %w", p, v, packages[i].Platform, oci.ErrCorrupt)
		}
	}
	return packages, nil
}

// planMirror takes the proof over from the origin: a signed SHA256SUMS that
// agrees with what the origin says of each package. Without one there is a plan
// only where the options allow it.
func planMirror(p addr.Provider, v addr.Version, packages []upstream.Package, o MirrorOptions) (*ProviderPlan, error) {
	first := packages[0]
	plan := &ProviderPlan{Protocols: first.Protocols}
	if len(plan.Protocols) == 0 {
		plan.Protocols = []string{artifact.DefaultProtocol}
	}
	name := signing.PackageStem(p, v) + "SHA256SUMS"
	if len(first.Shasums) > 0 {
		if err := plan.takeSums(name, first.Shasums); err != nil {
			return nil, err
		}
		for _, pkg := range packages {
			if err := plan.listed(pkg.Filename, pkg.Zh); pkg.Zh != "" && err != nil {
				return nil, err
			}
		}
	}
	if len(first.Shasums) == 0 || len(first.Signature) == 0 || len(first.Keys) == 0 {
		if !o.AllowUnsigned || len(o.Trusted) > 0 {
			return nil, fmt.Errorf("the origin publishes no signed SHA256SUMS: %w", trust.ErrUnsigned)
		}
		plan.Warnings = append(plan.Warnings, name+" is not signed")
		return plan, nil
	}
	keys, err := trust.PublicKeys(first.Keys)
	if err != nil {
		return nil, err
	}
	vo := signing.VerifyOptions{Now: time.Now(), AllowExpired: o.AllowExpired}
	if err := o.trust(first, vo); err != nil {
		return nil, err
	}
	return plan, plan.takeSignature(first.Signature, keys, vo)
}

// trust checks that one of the trusted keys signed, if there are any.
func (o MirrorOptions) trust(pkg upstream.Package, vo signing.VerifyOptions) error {
	if len(o.Trusted) == 0 {
		return nil
	}
	if _, err := signing.Verify(pkg.Shasums, pkg.Signature, o.Trusted, vo); err != nil {
		return fmt.Errorf("SHA256SUMS, trusted keys: %w", err)
	}
	return nil
}

// listed compares with SHA256SUMS, if the origin has one.
func (p *ProviderPlan) listed(name, sha256 string) error {
	if p.sums == nil {
		return nil
	}
	return p.sums.Check(name, sha256)
}

// transfer puts the zips of all packages into the registry and adds them to the
// plan. What a zip was said to be is checked before it is sent.
//
// A worker writes one zip after the other over the same temporary file: memory
// that the system holds for a file is used again, which costs far less than fresh
// memory for each zip.
func (x providerPush) transfer(ctx context.Context, packages []upstream.Package, temp string) error {
	plan := x.plan
	plan.Packages = make([]Package, len(packages))
	var next atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	for range min(mirrorParallel, len(packages)) {
		g.Go(func() error {
			f, done, err := files.TempFile(temp)
			if err != nil {
				return err
			}
			defer done()
			for i := next.Add(1) - 1; i < int64(len(packages)); i = next.Add(1) - 1 {
				if plan.Packages[i], err = x.transferOne(gctx, packages[i], f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	slices.SortFunc(plan.Packages, func(a, b Package) int { return a.Platform.Compare(b.Platform) })
	if plan.sums == nil {
		plan.makeSums(signing.PackageStem(x.provider, x.version) + "SHA256SUMS")
	}
	return nil
}

// transferOne uses f for the zip, whose end is not the file's.
func (x providerPush) transferOne(ctx context.Context, pkg upstream.Package, f *os.File) (Package, error) {
	r := x.repo
	plan := x.plan
	stored := false
	if pkg.Zh != "" {
		if blob, err := r.Stat(ctx, digestOf(pkg.Zh)); err == nil {
			stored = true
			pkg.Checked = true
			pkg.Open = func(ctx context.Context) (io.ReadCloser, error) { return r.Open(ctx, blob) }
		}
	}
	k := Package{Platform: pkg.Platform, Filename: pkg.Filename}
	var err error
	if k.SHA256, k.Size, err = FetchPackage(ctx, x.progress.download(pkg), io.NewOffsetWriter(f, 0)); err != nil {
		return Package{}, err
	}
	if err := plan.listed(k.Filename, k.SHA256); err != nil {
		return Package{}, err
	}
	if k.H1, err = signing.HashPackage(ctx, f, k.Size, x.provider.Type, k.Platform); err != nil {
		return Package{}, fmt.Errorf("%s: %w", k.Filename, err)
	}
	if pkg.H1 != "" && pkg.H1 != k.H1 {
		return Package{}, fmt.Errorf("%s: the origin announces %s, the package has %s: %w", k.Filename, pkg.H1, k.H1, oci.ErrCorrupt)
	}
	if stored {
		return k, nil
	}
	blob := oci.Blob{Descriptor: k.descriptor(), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(f, 0, k.Size)), nil
	}}
	_, err = r.EnsureBlob(ctx, x.progress.upload(blob, k.Filename))
	return k, err
}

// MirrorModule stores one version of a module as fetch writes it into an empty
// directory: the tree, and the annotations that say where it is from. A version
// that is there is success without a fetch, unless it is to be compared.
func (d *Depot) MirrorModule(ctx context.Context, m addr.ModuleVersion, fetch func(ctx context.Context, dir string) (fs.FS, map[string]string, error), o ModuleOptions) (_ Published, err error) {
	r, err := d.Repo(d.o.Layout.Module(m.Module))
	if err != nil {
		return Published{}, err
	}
	if have, err := r.Resolve(ctx, m.Version.Tag()); err == nil {
		out := Published{Repository: r.String(), Tag: m.Version.Tag(), Digest: have.Digest.String(), Existing: true}
		if o.Compare {
			err = sameModule(ctx, d, m, fetch, o)
		}
		return out, err
	} else if !errors.Is(err, oci.ErrNotFound) {
		return Published{}, err
	}
	dir, remove, err := files.TempDir(d.o.TempDir)
	if err != nil {
		return Published{}, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	tree, annotations, err := fetch(ctx, dir)
	if err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", m.Module, m.Version, err)
	}
	o.Annotations = annotations
	return d.PublishModule(ctx, tree, m, o)
}

// sameModule is nil if a version that is there has the content that fetch writes, and else a
// [*ConflictError].
func sameModule(ctx context.Context, d *Depot, m addr.ModuleVersion, fetch func(ctx context.Context, dir string) (fs.FS, map[string]string, error), o ModuleOptions) (err error) {
	dir, remove, err := files.TempDir(d.o.TempDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	tree, _, err := fetch(ctx, dir)
	if err != nil {
		return err
	}
	plan, err := PlanModule(ctx, tree, m, o)
	if err != nil {
		return err
	}
	_, err = d.ModuleThere(ctx, m, plan, o)
	if other, ok := errors.AsType[*ConflictError](err); ok {
		other.Next = addr.Version{} // the number is the origin's choice
	}
	return err
}

// sameProvider is nil if the zips of a version that is there are those of the origin, and
// else a [*ConflictError] about the first that is not. A platform that is there alone is
// not looked at.
func sameProvider(ctx context.Context, r *oci.Repo, stored artifact.ProviderIndex, src Source, p addr.Provider, v addr.Version, wanted []addr.Platform) error {
	packages, err := packagesOf(ctx, src, p, v, wanted)
	if err != nil {
		return err
	}
	for _, pkg := range packages {
		i := slices.IndexFunc(stored.Platforms, func(have artifact.ProviderPlatform) bool { return have.Platform == pkg.Platform })
		if i < 0 {
			continue // a missing platform is reported as such
		}
		have, offered, err := compared(ctx, r, stored.Platforms[i], pkg)
		if err != nil {
			return err
		}
		if have != offered {
			return &ConflictError{Repository: r.String(), Tag: v.Tag(), Stored: have, Offered: offered}
		}
	}
	return nil
}

// compared is one digest of a zip here and at the origin. One of which the origin tells no
// sum is read.
func compared(ctx context.Context, r *oci.Repo, stored artifact.ProviderPlatform, pkg upstream.Package) (have, offered string, err error) {
	if pkg.Zh == "" && pkg.H1 != "" && stored.H1 != "" {
		return stored.H1, pkg.H1, nil
	}
	zip, err := artifact.ResolveProviderZip(ctx, r, stored)
	if err != nil {
		return "", "", err
	}
	if pkg.Zh != "" {
		return zip.Digest.String(), digest.NewDigestFromEncoded(digest.SHA256, pkg.Zh).String(), nil
	}
	body, err := pkg.Open(ctx)
	if err != nil {
		return "", "", err
	}
	defer body.Close()
	read, err := digest.SHA256.FromReader(io.LimitReader(body, zip.Size+1))
	return zip.Digest.String(), read.String(), err
}
