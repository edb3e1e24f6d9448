// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxFluxTar is the size in bytes of a tar above which tofu-controller's runner refuses a module by
// default (4 MiB for the message with it).
const maxFluxTar = 3_670_016

// ErrNoModule means that a package contains no module.
var ErrNoModule = description.ErrNoModule

// ModuleOptions configures how a module is published.
type ModuleOptions struct {
	Dir         string // directory of the module inside the tree; "": the tree itself
	Limits      archive.Limits
	Ignore      []string          // ignore rules besides those in the tree
	Packed      bool              // the tree is the content of an archive and is published completely
	Hold        *archive.HoldBack // files of a publisher's own tree that are excluded by default; nil: none
	Foreign     bool              // the tree is somebody else's: calls of modules that it lacks are warnings
	Annotations map[string]string // added to the manifest: source, revision, created
	NoLatest    bool              // do not move the tag "latest"
	Policy      Policy            // "": PolicyImmutable
	Check       Check             // asked before the version becomes visible; nil: none
	Compare     bool              // [Depot.MirrorModule]: an existing version must have the content of the origin

	AllowInvalid bool // ship a configuration that clients cannot load

	Tree *archive.Tree // what ships, if it is listed already; nil: as Listing says

	// Listed is the repository as it was read before, nil: it is read. A version that it lacks is
	// looked for again right before it is written. More: the caller published another one since.
	Listed *Listing
	More   bool

	fromOrigin bool // the origin chose the number
}

// Listing returns how the files of the tree are listed.
func (o ModuleOptions) Listing() archive.Options {
	return archive.Options{Limits: o.Limits, Ignore: o.Ignore, All: o.Packed, Hold: o.Hold, Foreign: o.Foreign}
}

// ModulePlan is the content that publishing a tree would ship.
type ModulePlan struct {
	Tree     *archive.Tree
	Warnings []string

	description artifact.ModuleDescription
	outside     bool // a user of the module needs files above the tree
}

// PlanModule checks a tree without a registry.
func PlanModule(ctx context.Context, tree fs.FS, m addr.ModuleVersion, o ModuleOptions) (*ModulePlan, error) {
	listed, err := listTree(ctx, tree, m, o)
	if err != nil {
		return nil, err
	}
	return planTree(tree, listed, m, o)
}

// listTree lists what would ship, with the module itself.
func listTree(ctx context.Context, tree fs.FS, m addr.ModuleVersion, o ModuleOptions) (*archive.Tree, error) {
	listed := o.Tree
	var err error
	if listed == nil {
		listed, err = archive.List(ctx, tree, o.Listing())
	}
	if err == nil && !hasModule(listed, o.Dir) {
		err = fmt.Errorf("module %s: %w", m.Module, ErrNoModule)
		if slices.ContainsFunc(listed.Files, isOfStack) {
			err = fmt.Errorf("%w: it is a stack, which is not a module", err)
		}
	}
	return listed, err
}

func planTree(tree fs.FS, listed *archive.Tree, m addr.ModuleVersion, o ModuleOptions) (*ModulePlan, error) {
	v, err := description.NewModule(tree, listed)
	if err != nil {
		return nil, err
	}
	p := &ModulePlan{Tree: listed}
	if err := p.checkCalls(tree, v, o); err != nil {
		return nil, err
	}
	broken, failing := v.Check(o.Dir)
	if failing != nil && o.Foreign {
		p.Warnings = append(p.Warnings, text.Excerpt(text.Line(failing.Error())))
		failing = nil
	}
	if err := cmp.Or(broken, failing); err != nil && !o.AllowInvalid {
		return nil, fmt.Errorf("module %s: %w", m.Module, err)
	}
	p.description = v.Describe(m, o.Dir)
	p.description.Dir = o.Dir
	if kind, at := v.Backend(o.Dir); kind != "" {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%s: a %s block conflicts with generated ones when the module is used as a root module", at, kind))
	}
	if names := listed.Foreign(); len(names) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("Windows does not allow these file names, and cannot unpack the package: %s; rename them", text.Excerpt(strings.Join(names, ", "))))
	}
	for _, l := range listed.Links {
		p.Warnings = append(p.Warnings, text.Excerpt(l.Path+": "+l.Reason)+", skipped")
	}
	return p, nil
}

// checkCalls refuses calls of local modules that are not in the package, or warns of those that
// users do not reach, or cannot change. What tools install from git with submodules is refused.
func (p *ModulePlan) checkCalls(tree fs.FS, v *description.Module, o ModuleOptions) error {
	var refused []error
	var empty []string
	if o.Foreign {
		empty = emptyFolders(tree)
	}
	for _, c := range v.BrokenCalls(o.Dir) {
		outside := errors.Is(c.Err, description.ErrOutside)
		p.outside = p.outside || outside && c.Reached
		at := slices.IndexFunc(empty, func(dir string) bool { return strings.HasPrefix(c.Target+"/", dir+"/") })
		switch {
		case c.Reached && at >= 0:
			refused = append(refused, fmt.Errorf("%w: %s is empty, as the folder of a git submodule, and okara does not fetch submodules; publish the module from a checkout that has them", c.Err, empty[at]))
		case o.Foreign, !outside && (!c.Reached || o.AllowInvalid):
			p.Warnings = append(p.Warnings, c.Err.Error())
		default:
			refused = append(refused, c.Err)
		}
	}
	if len(empty) > 0 {
		p.Warnings = append(p.Warnings, "these folders are empty, as those of git submodules, which okara does not fetch, so what the module reads there is missing: "+text.Excerpt(strings.Join(empty, ", ")))
	}
	return errors.Join(refused...)
}

// emptyFolders returns folders without files, in git those of submodules.
func emptyFolders(tree fs.FS) (found []string) {
	_ = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // what cannot be read is refused when it is packed
		}
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		if entries, err := fs.ReadDir(tree, name); err == nil && len(entries) == 0 {
			found = append(found, name)
		}
		return nil
	})
	return found
}

// Description returns the description of the module that would be published.
func (p *ModulePlan) Description() artifact.ModuleDescription { return p.description }

// isOfStack reports whether a file belongs to a stack of Terraform.
func isOfStack(f archive.File) bool {
	return slices.ContainsFunc([]string{".tfcomponent.hcl", ".tfdeploy.hcl", ".tfstack.hcl"}, func(end string) bool { return strings.HasSuffix(f.Path, end) })
}

// hasModule reports whether dir, or a folder of dir/modules, has configuration.
func hasModule(t *archive.Tree, dir string) bool {
	dir = path.Clean(dir)
	return slices.ContainsFunc(t.Files, func(f archive.File) bool {
		in := path.Dir(f.Path)
		return description.IsConfiguration(f.Path) && (in == dir || path.Dir(in) == path.Join(dir, "modules"))
	})
}

// PublishModule stores a tree as a version. The same content again succeeds without a push or
// parsing; other content is a *ConflictError.
func (d *Depot) PublishModule(ctx context.Context, tree fs.FS, m addr.ModuleVersion, o ModuleOptions) (Published, error) {
	o.Policy = o.Policy.policyFor(m.Version)
	listed, err := listTree(ctx, tree, m, o)
	if err != nil {
		return Published{}, err
	}
	s, err := standingOf(ctx, d, m, listed, o)
	if err != nil {
		return Published{}, err
	}
	if s.there.Existing && len(s.lost) == 0 {
		out := s.there
		if !o.NoLatest {
			_, warnings := moveByList(ctx, s.listing, out)
			out.Warnings = append(out.Warnings, warnings...)
		}
		out.Warnings = append(out.Warnings, s.listing.completeTime(ctx, m.Version)...)
		out.Warnings = append(out.Warnings, listInCatalog(ctx, d, m.Module.Item(), o.Annotations[artifact.AnnTitle])...)
		return out, nil
	}
	plan, err := planTree(tree, listed, m, o)
	if err != nil {
		return Published{}, err
	}
	return publishPlan(ctx, d, m, plan, s, o)
}

// standing is what a registry has of a version that is to be published.
type standing struct {
	listing *Listing
	there   Published
	lost    []oci.Descriptor // parts of an existing version that are missing
}

// standingOf compares a tree with the registry; its error is the conflict of publishing.
func standingOf(ctx context.Context, d *Depot, m addr.ModuleVersion, tree *archive.Tree, o ModuleOptions) (standing, error) {
	contentDigest, err := tree.ContentDigest(ctx)
	if err != nil {
		return standing{}, err
	}
	s, err := readStanding(ctx, d, m, contentDigest, o)
	if err == nil && s.there.Existing {
		s.lost, err = findMissing(ctx, s.listing.Repository, nil, s.there.layers)
	}
	if err != nil {
		if o.fromOrigin {
			err = WithoutNext(err)
		}
		return standing{}, fmt.Errorf("publish %s %s: %w", m.Module, m.Version, err)
	}
	return s, nil
}

func readStanding(ctx context.Context, d *Depot, m addr.ModuleVersion, contentDigest string, o ModuleOptions) (s standing, err error) {
	r, err := d.Repo(d.o.Layout.Module(m.Module))
	if err != nil {
		return standing{}, err
	}
	if s.listing = o.Listed; !o.isUnlisted(m.Version) {
		if s.listing, err = ReadListing(ctx, r, addr.KindModule, nil); err != nil {
			return standing{}, err
		}
	}
	s.there, err = s.listing.completeExisting(ctx, m.Version, Published{Repository: r.String(), Tag: m.Version.Tag(), ContentDigest: contentDigest}, o)
	return s, err
}

func publishPlan(ctx context.Context, d *Depot, m addr.ModuleVersion, plan *ModulePlan, s standing, o ModuleOptions) (Published, error) {
	plan.Tree.Read = d.o.Progress.Of(m.Module.String()+" "+m.Version.String()+" (packing)", plan.Tree.Bytes)
	packed, err := plan.Tree.Pack(ctx, d.o.TempDir)
	if err != nil {
		return Published{}, err
	}
	defer packed.Close()
	if packed.ContentDigest != s.there.ContentDigest {
		return Published{}, fmt.Errorf("publish %s %s: the files changed while they were read; publish again when they no longer change", m.Module, m.Version)
	}
	if packed.Tar.Size > maxFluxTar {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("the package has %d bytes; tofu-controller accepts less than 4 MiB by default", packed.Tar.Size))
	}
	defer d.lock(s.listing.Repository.String())()
	out, err := pushModule(ctx, d, m, plan, packed, s, o)
	if o.fromOrigin {
		err = WithoutNext(err)
	}
	if err != nil {
		return Published{}, fmt.Errorf("publish %s %s: %w", m.Module, m.Version, err)
	}
	out.Warnings = append(out.Warnings, listInCatalog(ctx, d, m.Module.Item(), o.Annotations[artifact.AnnTitle])...)
	return out, nil
}

// pushModule pushes what is missing, the version's tag last.
func pushModule(ctx context.Context, d *Depot, m addr.ModuleVersion, plan *ModulePlan, packed *archive.Packed, s standing, o ModuleOptions) (Published, error) {
	l, r, out := s.listing, s.listing.Repository, s.there
	out.Warnings = append(slices.Clone(plan.Warnings), out.Warnings...)
	artifact, err := moduleArtifact(m, plan, packed, o)
	if err != nil {
		return Published{}, err
	}
	if out.Existing {
		warnings, err := restoreParts(ctx, r, out.Tag, s.lost, artifact)
		out.Warnings = append(out.Warnings, warnings...)
		out.Restored = err == nil && len(s.lost) > 0
		return out.withLatest(ctx, l, o), err
	}
	for i, b := range artifact.Blobs {
		artifact.Blobs[i] = d.o.Progress.watchUpload(b, m.Module.String()+" "+m.Version.String())
	}
	if o.isPlain() {
		var root oci.Manifest
		root, out.Warnings, err = pushNew(ctx, l, m.Version, artifact, o)
		out.Digest = root.Digest.String()
		if root.Digest == artifact.Root.Digest {
			out.Size = packed.Zip.Size
		}
		out.Warnings = append(plan.Warnings, out.Warnings...)
	} else {
		out.Digest = artifact.Root.Digest.String()
		out, err = pushChecked(ctx, l, m.Version, out, artifact, packed, o)
	}
	if !errors.Is(err, ErrTaken) {
		return out, err
	}
	stored, err := storedModule(ctx, r, s.there.Tag)
	if err == nil && stored != nil {
		there, err := completeModule(l, m.Version, out, *stored, o)
		if err != nil {
			return Published{}, err
		}
		return there.withLatest(ctx, l, o), nil
	}
	return Published{}, errors.Join(oci.ErrExists, err)
}

// isPlain reports whether a version is visible without a check, and never changes.
func (o ModuleOptions) isPlain() bool { return o.Check == nil && o.Policy != PolicyEditions }

// isUnlisted reports whether nothing of a version has to be read before it is pushed.
func (o ModuleOptions) isUnlisted(v addr.Version) bool {
	return o.isPlain() && o.Listed != nil && !slices.Contains(o.Listed.Tags, v.Tag())
}

// pushNew publishes without a check: blobs, then the manifest with its tag. A registry refuses one
// whose blobs are missing, so small ones go without HEAD, the empty config not at all if a version
// has it; if one is missing after all, each gets a HEAD.
func pushNew(ctx context.Context, l *Listing, v addr.Version, a oci.Artifact, o ModuleOptions) (root oci.Manifest, warnings []string, err error) {
	r := l.Repository
	blobs := oci.Artifact{Blobs: a.Blobs, New: true}
	if o.More || len(l.Times) > 0 { // okara published an existing version
		empty := oci.EmptyBlob().Digest
		blobs.Blobs = slices.DeleteFunc(slices.Clone(a.Blobs), func(b oci.Blob) bool { return b.Digest == empty })
	}
	if _, err := r.Push(ctx, blobs); err != nil {
		return a.Root, nil, err
	}
	put := o.putWithLatest(ctx, v, true)
	root, warnings, err = putContent(ctx, l, v, a.Root, put)
	if !oci.MissesBlob(err) {
		return root, warnings, err
	}
	if _, err := r.Push(ctx, oci.Artifact{Blobs: a.Blobs}); err != nil {
		return a.Root, nil, err
	}
	return putContent(ctx, l, v, root, put)
}

// pushChecked publishes a version once its check approved it, or as an edition.
func pushChecked(ctx context.Context, l *Listing, v addr.Version, out Published, a oci.Artifact, packed *archive.Packed, o ModuleOptions) (Published, error) {
	r := l.Repository
	a.New = !slices.Contains(l.Tags, v.Tag())
	if _, err := r.Push(ctx, a); err != nil {
		return Published{}, err
	}
	if err := o.Check.run(ctx, Candidate{Repo: r, Root: a.Root, Module: packed}); err != nil {
		return out, err
	}
	var root oci.Manifest
	var warnings []string
	var err error
	if o.Policy == PolicyEditions {
		root, warnings, err = pushEdition(ctx, l, v, a.Root)
	} else {
		root, warnings, err = putContent(ctx, l, v, a.Root, o.putWithLatest(ctx, v, false))
	}
	out.Digest = root.Digest.String()
	out.Warnings = append(out.Warnings, warnings...)
	if err != nil || o.Policy != PolicyEditions {
		return out, err
	}
	return out.withLatest(ctx, l, o), nil
}

// ModuleThere reports whether the content exists; its error is publishing's *ConflictError.
func (d *Depot) ModuleThere(ctx context.Context, m addr.ModuleVersion, plan *ModulePlan, o ModuleOptions) (existing bool, err error) {
	contentDigest, err := plan.Tree.ContentDigest(ctx)
	if err != nil {
		return false, err
	}
	o.Policy = o.Policy.policyFor(m.Version)
	s, err := readStanding(ctx, d, m, contentDigest, o)
	return s.there.Existing, err
}

// completeExisting completes out if the module exists with its content. The error is publishing's
// conflict: other content, but for editions, or a withdrawn number. A plain publication trusts a
// list without the version: it checks again before the write.
func (l *Listing) completeExisting(ctx context.Context, v addr.Version, out Published, o ModuleOptions) (Published, error) {
	if o.isPlain() && !slices.Contains(l.Tags, out.Tag) {
		return out, l.Taken(v)
	}
	stored, err := storedModule(ctx, l.Repository, out.Tag)
	if err != nil {
		return Published{}, err
	}
	withdrawn := l.Status(v).Yanked != nil
	if stored != nil && (o.Policy != PolicyEditions || withdrawn || stored.ContentDigest == out.ContentDigest && o.isDirOf(*stored)) {
		return completeModule(l, v, out, *stored, o)
	}
	return out, l.Taken(v)
}

// isDirOf reports whether the stored module's directory is the same, or, without an origin,
// unrecorded.
func (o ModuleOptions) isDirOf(stored artifact.ModuleManifest) bool {
	if o.fromOrigin {
		return path.Clean(stored.Dir()) == path.Clean(o.Dir)
	}
	return stored.Dir() == "" || stored.Dir() == path.Clean(o.Dir)
}

// completeModule completes out if the content is the same, else returns the conflict.
func completeModule(l *Listing, v addr.Version, out Published, stored artifact.ModuleManifest, o ModuleOptions) (Published, error) {
	if stored.ContentDigest == out.ContentDigest && !o.isDirOf(stored) {
		return Published{}, l.conflictWith(v, out.ContentDigest+"//"+stored.Dir(), out.ContentDigest+"//"+o.Dir)
	}
	if stored.ContentDigest == out.ContentDigest {
		out.Digest = stored.Manifest.Digest.String()
		out.Existing = true
		out.layers = layersOf(stored)
		out.Warnings = append(out.Warnings, l.WarnYanked(v)...)
		return out, nil
	}
	have := stored.ContentDigest
	if have == "" {
		have = stored.Manifest.Digest.String()
	}
	return Published{}, l.conflictWith(v, have, out.ContentDigest)
}

// layersOf returns the layers that a module has.
func layersOf(m artifact.ModuleManifest) (layers []oci.Descriptor) {
	for _, layer := range []*oci.Descriptor{m.Tar, m.Zip, m.Description} {
		if layer != nil {
			layers = append(layers, *layer)
		}
	}
	return layers
}

// storedModule returns the module under the tag, nil if there is no such tag.
func storedModule(ctx context.Context, r *oci.Repo, tag string) (*artifact.ModuleManifest, error) {
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return nil, oci.IgnoreNotFound(err)
	}
	parsed, err := artifact.ParseModule(m)
	if err != nil {
		return &artifact.ModuleManifest{Manifest: m.Descriptor}, nil // an artifact of another kind counts as other content
	}
	return &parsed, nil
}

func moduleArtifact(m addr.ModuleVersion, plan *ModulePlan, packed *archive.Packed, o ModuleOptions) (oci.Artifact, error) {
	text, err := description.EncodeDescription(plan.description)
	if err != nil {
		return oci.Artifact{}, err
	}
	tarball := packedBlob(artifact.MediaModuleTar, packed.Tar)
	zip := packedBlob(artifact.MediaZip, packed.Zip)
	description := oci.BytesBlob(artifact.MediaModuleDescription, text)
	zip.Annotations = map[string]string{
		artifact.AnnTitle: strings.ReplaceAll(m.Module.String(), "/", "-") + "-" + m.Version.Tag() + ".zip",
	}
	if dir := path.Clean(o.Dir); dir != "." && o.Annotations[artifact.AnnModulePath] == "" {
		all := map[string]string{artifact.AnnModuleDir: dir}
		maps.Copy(all, o.Annotations)
		o.Annotations = all
	}
	h1, err := archive.HashZip(packed.Zip.Open(), packed.Zip.Size)
	if err != nil {
		return oci.Artifact{}, err
	}
	root, err := artifact.NewModule(artifact.ModuleManifest{
		Address: m.Module, Version: m.Version, ContentDigest: packed.ContentDigest, H1: h1, Annotations: o.Annotations,
		Tar: &tarball.Descriptor, Zip: &zip.Descriptor, Description: &description.Descriptor,
	})
	if err != nil {
		return oci.Artifact{}, err
	}
	return oci.Artifact{Blobs: []oci.Blob{oci.EmptyBlob(), tarball, zip, description}, Root: root}, nil
}

func packedBlob(mediaType string, f archive.PackedFile) oci.Blob {
	return oci.Blob{
		Descriptor: oci.Descriptor{MediaType: mediaType, Digest: digest.Digest(f.Digest), Size: f.Size},
		Open:       func() (io.ReadCloser, error) { return io.NopCloser(f.Open()), nil },
	}
}
