// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// mirrorParallel packages of a version are transferred at once.
const mirrorParallel = 4

// MirrorOptions configures how a version is mirrored.
type MirrorOptions struct {
	Platforms     []addr.Platform     // empty: all platforms of the origin
	AllowUnsigned bool                // accept an origin without a key or SHA256SUMS
	AllowExpired  bool                // accept a key that has expired since it signed
	Trusted       []signing.PublicKey // one of them must have signed; empty: any key of the origin is accepted
	Check         Check               // asked before the version becomes visible; nil: none
	Compare       bool                // an existing version must have the zips of the origin
}

// MirrorProvider stores one version of a provider as the origin publishes it:
// SHA256SUMS and signature are verified before anything is pushed, each zip
// before it is pushed, and all are stored unchanged. If the version exists with
// all wanted platforms, MirrorProvider succeeds without a download, unless
// o.Compare is set. Wanted platforms that an existing version lacks are added
// ([Published.Added]) if its signed SHA256SUMS lists them. The content of an
// existing version never changes: other content is a [*ConflictError].
//
// Each zip is downloaded to a temporary file, where it is checked and hashed,
// and then pushed to the registry. A zip that the registry already has, from an
// interrupted run, is read from there instead of the origin and not sent.
func (d *Depot) MirrorProvider(ctx context.Context, src Source, p addr.Provider, v addr.Version, o MirrorOptions) (Published, error) {
	r, err := d.Repo(p.Item().Repository(d.o.Layout))
	if err != nil {
		return Published{}, err
	}
	return retryWhileExtended(func() (Published, error) {
		return d.mirrorProvider(ctx, src, providerPush{repo: r, provider: p, version: v, o: ProviderOptions{Check: o.Check}, progress: d.o.Progress}, o)
	})
}

func (d *Depot) mirrorProvider(ctx context.Context, src Source, x providerPush, o MirrorOptions) (Published, error) {
	p := x.provider
	v := x.version
	stored, err := storedProvider(ctx, x.repo, v.Tag())
	if err != nil {
		return Published{}, err
	}
	if stored != nil {
		warnings, err := x.restoreMirror(ctx, d, src, *stored, o)
		if err != nil {
			return Published{}, err
		}
		out, err := mirrorAgain(ctx, d, x, src, *stored, o)
		out.Warnings = append(warnings, out.Warnings...)
		return out, err
	}
	wanted, err := wantedPlatforms(ctx, src, p, v, o.Platforms)
	if err != nil {
		return Published{}, err
	}
	packages, err := packagesOf(ctx, src, p, v, wanted)
	var lacking Lacking
	if errors.Is(err, oci.ErrNotFound) && len(o.Platforms) > 0 {
		lacking, err = lackingOf(ctx, artifact.ProviderIndex{Platforms: []artifact.ProviderPlatform{}}, src, p, v, wanted)
		if err == nil && len(lacking.Offered) == 0 {
			err = fmt.Errorf("%s %s: %s: %w", p, v, strings.Join(lacking.warnings(), ", "), oci.ErrNotFound)
		}
		if err == nil {
			packages, err = packagesOf(ctx, src, p, v, lacking.Offered)
		}
	}
	if err != nil {
		return Published{}, err
	}
	x.plan, err = planMirror(p, v, packages, o)
	if err == nil {
		err = x.plan.mirrorDocs(ctx, p, v, packages[0])
	}
	if err == nil {
		err = x.transferZips(ctx, packages, d.o.TempDir)
	}
	if err != nil {
		return Published{}, fmt.Errorf("%s %s: %w", p, v, err)
	}
	out, err := pushPlan(ctx, d, x)
	out.Absent = lacking.Absent
	out.Warnings = append(out.Warnings, lacking.warnings()...)
	return out, err
}

// mirrorDocs adds an origin's documentation, unsigned; what cannot be read is a warning.
func (p *ProviderPlan) mirrorDocs(ctx context.Context, provider addr.Provider, v addr.Version, pkg upstream.Package) error {
	if pkg.Docs == nil {
		return nil
	}
	packed, err := pkg.Docs(ctx)
	if err != nil {
		return err
	}
	if err := p.takeDocs(signing.PackageStem(provider, v)+DocsFile, packed); err != nil {
		p.Warnings = append(p.Warnings, "documentation skipped: "+err.Error())
	}
	return nil
}

// Refused reports whether content was rejected for itself or its signer, not by failing storage.
func Refused(err error) bool {
	reasons := []error{
		trust.ErrUnsigned, trust.ErrUntrusted, signing.ErrBadSignature, signing.ErrUnknownKey, signing.ErrExpiredKey, signing.ErrEarlyKey, signing.ErrRevokedKey, signing.ErrSums,
		oci.ErrCorrupt, oci.ErrExists, oci.ErrTooLarge, signing.ErrNoProvider,
		ErrNoModule, description.ErrOutside, description.ErrAbsent, description.ErrInvalid, archive.ErrUnsafe, archive.ErrTooLarge, syntax.ErrTooComplex,
	}
	_, held := errors.AsType[*HeldError](err)
	return held || slices.ContainsFunc(reasons, func(reason error) bool { return errors.Is(err, reason) })
}

// wantedPlatforms returns what was asked for, or all of the origin.
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

// packagesOf asks for each platform; all answers must have the same SHA256SUMS.
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
			return nil, fmt.Errorf("%s %s: the origin names the package %q, expected %s: %w", p, v, packages[i].Filename, want, signing.ErrNoProvider)
		}
		if string(packages[i].Shasums) != string(packages[0].Shasums) {
			return nil, fmt.Errorf("%s %s: the origin has another SHA256SUMS for %s: %w", p, v, packages[i].Platform, oci.ErrCorrupt)
		}
	}
	return packages, nil
}

// planMirror takes the origin's proof: a signed SHA256SUMS that agrees with what it announces of
// each package, or none if the options allow it.
func planMirror(p addr.Provider, v addr.Version, packages []upstream.Package, o MirrorOptions) (*ProviderPlan, error) {
	first := packages[0]
	plan := &ProviderPlan{Protocols: first.Protocols}
	if len(plan.Protocols) == 0 {
		plan.Protocols = []string{artifact.DefaultProtocol}
	}
	for _, pkg := range packages {
		plan.warnUnasked(pkg.Platform)
	}
	name := signing.PackageStem(p, v) + "SHA256SUMS"
	if len(first.Shasums) > 0 {
		if err := plan.takeSums(name, first.Shasums); err != nil {
			return nil, err
		}
		for _, pkg := range packages {
			if err := plan.checkListed(pkg.Filename, pkg.Zh); pkg.Zh != "" && err != nil {
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
	if err := o.checkTrusted(first, vo); err != nil {
		return nil, err
	}
	return plan, plan.takeSignature(first.Signature, keys, vo)
}

// checkTrusted checks that one of the trusted keys signed, if any are configured.
func (o MirrorOptions) checkTrusted(pkg upstream.Package, vo signing.VerifyOptions) error {
	if len(o.Trusted) == 0 {
		return nil
	}
	if _, err := signing.Verify(pkg.Shasums, pkg.Signature, o.Trusted, vo); err != nil {
		return fmt.Errorf("SHA256SUMS, trusted keys: %w", err)
	}
	return nil
}

// checkListed compares a hash with SHA256SUMS, if the origin has one.
func (p *ProviderPlan) checkListed(name, sha256 string) error {
	if p.sums == nil {
		return nil
	}
	return p.sums.Check(name, sha256)
}

// transferZips copies the zips of all packages to the registry and adds them to the
// plan. Each zip is compared with its announced properties before it is sent.
//
// A worker writes all its zips over the same temporary file: the system then
// reuses the memory of the file, which costs far less than new memory for each
// zip.
func (x providerPush) transferZips(ctx context.Context, packages []upstream.Package, temp string) error {
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

// transferOne uses f for the zip; f may be longer than the zip.
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
	if err := plan.checkListed(k.Filename, k.SHA256); err != nil {
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
	_, err = r.EnsureBlob(ctx, x.progress.watchUpload(blob, k.Filename))
	return k, err
}

// Fetched is a module of an origin on disk.
type Fetched struct {
	Package     string // directory of the package
	Dir         string // slash path of the module in it; "": the package itself
	ModuleDir   string // instead, if users address the folder themselves, see [artifact.AnnModuleDir]
	Annotations map[string]string
}

// FetchModule writes a module into the empty dir; unless whole, it may leave out what is beside it.
type FetchModule func(ctx context.Context, dir string, whole bool) (Fetched, error)

// MirrorModule stores a version of somebody else's module; one that exists needs no fetch, unless
// o.Compare. Of a package only the module's directory is stored, or all if it calls others, or has
// links, beside it.
func (d *Depot) MirrorModule(ctx context.Context, m addr.ModuleVersion, fetch FetchModule, o ModuleOptions) (Published, error) {
	r, err := d.Repo(d.o.Layout.Module(m.Module))
	if err != nil {
		return Published{}, err
	}
	o.Foreign = true
	o.fromOrigin = true
	var out Published
	if o.isUnlisted(m.Version) {
		return d.PublishFetched(ctx, m, fetch, o)
	}
	have, err := r.Fetch(ctx, m.Version.Tag())
	var parts []oci.Descriptor
	if err == nil {
		parts, err = LostParts(ctx, r, have)
	}
	if errors.Is(err, oci.ErrNotFound) || len(parts) > 0 || err == nil && o.Compare && o.Policy == PolicyEditions {
		return d.PublishFetched(ctx, m, fetch, o)
	}
	out = Published{Repository: r.String(), Tag: m.Version.Tag(), Digest: have.Digest.String(), Existing: true}
	if err == nil && o.Compare {
		err = withFetched(ctx, d, m, fetch, o, func(plan *ModulePlan, o ModuleOptions) error {
			_, err := d.ModuleThere(ctx, m, plan, o)
			return WithoutNext(err)
		})
	}
	return out, err
}

// PublishFetched is PublishModule of a fetched module, stored as by MirrorModule.
func (d *Depot) PublishFetched(ctx context.Context, m addr.ModuleVersion, fetch FetchModule, o ModuleOptions) (out Published, err error) {
	err = withFetched(ctx, d, m, fetch, o, func(plan *ModulePlan, o ModuleOptions) error {
		s, err := standingOf(ctx, d, m, plan.Tree, o)
		if err == nil {
			out, err = publishPlan(ctx, d, m, plan, s, o)
		}
		return err
	})
	return out, err
}

// withFetched calls do with the plan of what an origin has.
func withFetched(ctx context.Context, d *Depot, m addr.ModuleVersion, fetch FetchModule, o ModuleOptions, do func(*ModulePlan, ModuleOptions) error) error {
	err := withTree(ctx, d, m, fetch, false, o, do)
	if errors.Is(err, errBeside) {
		err = withTree(ctx, d, m, fetch, true, o, do)
	}
	return err
}

// errBeside means that a module needs files beside its directory.
var errBeside = errors.New("the module needs more than its directory")

// withTree is withFetched for the module's directory or all; errBeside if the former is not enough.
func withTree(ctx context.Context, d *Depot, m addr.ModuleVersion, fetch FetchModule, whole bool, o ModuleOptions, do func(*ModulePlan, ModuleOptions) error) (err error) {
	dir, remove, err := files.TempDir(d.o.TempDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	got, err := fetch(ctx, dir, whole)
	if err != nil {
		return fmt.Errorf("%s %s: %w", m.Module, m.Version, err)
	}
	o.Annotations = got.Annotations
	o.Dir = cmp.Or(got.ModuleDir, o.Dir)
	if whole && got.Dir != "" {
		o.Dir = got.Dir
		o.Annotations = maps.Clone(o.Annotations)
		o.Annotations[artifact.AnnModulePath] = got.Dir
		got.Dir = ""
	}
	tree, err := os.OpenRoot(filepath.Join(got.Package, filepath.FromSlash(got.Dir)))
	if err != nil {
		return err
	}
	defer tree.Close()
	plan, err := PlanModule(ctx, tree.FS(), m, o)
	if got.Dir != "" && (errors.Is(err, archive.ErrOutside) || err == nil && plan.outside) {
		return errBeside
	}
	if err != nil {
		return err
	}
	return do(plan, o)
}

// sameProvider returns nil if an existing version has the origin's zips, of wanted platforms that
// both have, else a [*ConflictError] about the first that differs.
func sameProvider(ctx context.Context, r *oci.Repo, stored artifact.ProviderIndex, src Source, p addr.Provider, v addr.Version, wanted []addr.Platform) error {
	wanted, err := wantedPlatforms(ctx, src, p, v, wanted)
	if err != nil {
		return err
	}
	both := slices.DeleteFunc(platformsOf(stored), func(t addr.Platform) bool { return !slices.Contains(wanted, t) })
	packages, err := packagesOf(ctx, src, p, v, both)
	if err != nil {
		return err
	}
	for _, pkg := range packages {
		i := slices.IndexFunc(stored.Platforms, func(have artifact.ProviderPlatform) bool { return have.Platform == pkg.Platform })
		have, offered, err := compareZip(ctx, r, stored.Platforms[i], pkg)
		if err != nil {
			return err
		}
		if have != offered {
			return &ConflictError{Repository: r.String(), Tag: v.Tag(), Stored: have, Offered: offered}
		}
	}
	return nil
}

// compareZip returns a zip's digest here and at the origin, by download if that announces no hash.
func compareZip(ctx context.Context, r *oci.Repo, stored artifact.ProviderPlatform, pkg upstream.Package) (have, offered string, err error) {
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
