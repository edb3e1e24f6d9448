// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// A rootKind is a kind of entry of index.json. Others are not loaded: a bundle could write states,
// locks and jobs, or name unchecked versions.
type rootKind int

const (
	rootReferrer  rootKind = iota // without a tag: a scan report, SBOM or provenance
	rootSignature                 // under the tag that cosign uses
	rootStatus                    // a yank, deprecation or new signature
	rootVersion                   // also an edition
	rootImage                     // a container image, if these are requested
)

// root is one entry of index.json and its destination.
type root struct {
	oci.Descriptor
	kind rootKind
	item addr.Item
	repo *oci.Repo // of the item
	tag  string    // "": a referrer
	have bool      // the registry already has it
	odd  bool      // the registry has other files under the tag of the version
}

func (x root) String() string {
	if x.tag == "" {
		return x.repo.String() + "@" + x.Digest.String()
	}
	return x.repo.String() + ":" + x.tag
}

// parseRoot finds an entry's destination; those of the catalog are skipped.
func (l *loader) parseRoot(desc oci.Descriptor) (x root, skip bool, err error) {
	ref, err := parseReference(desc)
	if err != nil {
		return root{}, false, err
	}
	item, name, ok := rebaseName(l.d, ref.repository)
	kind, known := kindOfTag(ref.tag)
	switch {
	case l.images && !ok && isImage(l.d.Options().Layout, ref.repository, name):
		kind, known = kindOfImageTag(ref.tag)
	case !l.images && !ok && isImage(l.d.Options().Layout, ref.repository, name):
		return root{}, false, fmt.Errorf("index.json: %q: %w: %w", ref.repository, ErrImage, oci.ErrCorrupt)
	case !ok, !item.Versioned() && item.Kind != addr.KindCatalog:
		return root{}, false, fmt.Errorf("index.json: %q is not a repository of a module or provider in this layout: %w", ref.repository, oci.ErrCorrupt)
	case item.Kind == addr.KindCatalog && artifact.IsCatalogTag(ref.tag):
		return root{}, true, nil
	case item.Kind == addr.KindCatalog:
		return root{}, false, fmt.Errorf("index.json: %q is not an entry of the catalog: %w", ref.tag, oci.ErrCorrupt)
	}
	if !known {
		return root{}, false, fmt.Errorf("index.json: tag %q of %s neither is a version nor belongs to one: %w", ref.tag, ref.repository, oci.ErrCorrupt)
	}
	r := l.repos[name]
	if r == nil {
		if r, err = l.d.Repo(name); err != nil {
			return root{}, false, err
		}
		l.repos[name] = r
	}
	return root{Descriptor: desc, kind: kind, item: item, repo: r, tag: ref.tag}, false, nil
}

func kindOfTag(tag string) (rootKind, bool) {
	switch {
	case tag == "", isFallbackTag(tag):
		return rootReferrer, true
	case evidence.IsCosignTag(tag):
		return rootSignature, true
	case evidence.IsStatusTag(tag):
		return rootStatus, true
	}
	return rootVersion, isVersion(tag)
}

// ErrImage means that a bundle contains a container image, and images are not requested.
var ErrImage = errors.New("container image, but images were not requested")

// images is the path of images below the prefix, as in images/okara.
const images = "images/"

// isImage reports whether an entry's repository has no other meaning in the layout.
func isImage(layout addr.Layout, entry, repository string) bool {
	name, ok := strings.CutPrefix(entry, images)
	return ok && name != "" && !strings.Contains(name, "/") && !layout.BelowState(repository)
}

// kindOfImageTag is kindOfTag for an image's repository, without status tags.
func kindOfImageTag(tag string) (rootKind, bool) {
	switch kind, ok := kindOfTag(tag); {
	case !ok, kind == rootVersion:
		return rootImage, true
	case kind == rootStatus:
		return kind, false
	default:
		return kind, true
	}
}

// isFallbackTag reports whether a tag is a list of referrers for registries without their API.
func isFallbackTag(tag string) bool {
	hex, ok := strings.CutPrefix(tag, "sha256-")
	return ok && digest.NewDigestFromEncoded(digest.SHA256, hex).Validate() == nil
}

func isVersion(tag string) bool {
	_, ok := addr.VersionFromTag(tag)
	return ok
}

// rebaseName returns a bundle's name below the depot's prefix, and its item.
func rebaseName(d *depot.Depot, name string) (item addr.Item, repository string, ok bool) {
	if p := d.Options().Layout.Prefix; p != "" {
		name = p + "/" + name
	}
	item, ok = d.Options().Layout.Parse(name)
	return item, name, ok
}

// roots returns the entries of index.json that the registry lacks.
func (l *loader) roots(ctx context.Context) ([]root, error) {
	var roots []root
	for _, desc := range l.b.Index.Manifests {
		x, skip, err := l.parseRoot(desc)
		switch {
		case err != nil:
			return nil, err
		case skip:
		case x.kind == rootReferrer && x.tag != "":
			list, err := l.listedReferrers(x)
			if err != nil {
				return nil, fmt.Errorf("loading %s: %w", x, err)
			}
			roots = append(roots, list...)
		default:
			roots = append(roots, x)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range roots {
		g.Go(func() (err error) {
			roots[i].have, err = l.hasEntry(gctx, &roots[i])
			return err
		})
	}
	return roots, g.Wait()
}

// listedReferrers returns a fallback index's referrers; storing them updates the list here.
func (l *loader) listedReferrers(x root) ([]root, error) {
	m, err := l.b.manifest(x.Descriptor)
	if err != nil {
		return nil, err
	}
	index, err := m.Index()
	if err != nil {
		return nil, err
	}
	var out []root
	for _, d := range index.Manifests {
		out = append(out, root{Descriptor: d, kind: rootReferrer, repo: x.repo})
	}
	return out, nil
}

// hasEntry reports whether the registry already has an entry.
func (l *loader) hasEntry(ctx context.Context, x *root) (bool, error) {
	if x.kind == rootReferrer {
		return false, nil // its manifest may exist but be missing in the list of referrers
	}
	stored, err := x.repo.Resolve(ctx, x.tag)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("loading %s: %w", x, err)
	case stored.Digest == x.Digest && x.kind == rootVersion:
		m, err := l.manifest(ctx, x.repo, x.Descriptor)
		if err != nil {
			return false, err
		}
		l.markFilled(*x)
		parts, err := depot.LostParts(ctx, x.repo, m)
		return len(parts) == 0, err // what the registry has lost is loaded again
	case stored.Digest == x.Digest:
		return true, nil
	case x.kind == rootVersion, x.kind == rootImage:
		l.noteReason(&l.report.Conflict, "%s is %s, the bundle has %s", x, stored.Digest, x.Digest)
		theirs, err := l.manifest(ctx, x.repo, x.Descriptor)
		ours, errOurs := x.repo.Fetch(ctx, x.tag)
		x.odd = !depot.ShareFiles(ours, theirs)
		return true, errors.Join(err, errOurs)
	}
	return x.kind == rootStatus, nil // an event never changes; signatures are merged
}

// wantedRoots returns the roots to load, and reports numbers used or withdrawn here, before
// anything is pushed, since an event in the bundle could revert that. A withdrawal beside the same
// manifest in the bundle is ignored: an interrupted run may have written it.
func (l *loader) wantedRoots(ctx context.Context, roots []root) ([]root, error) {
	numbers := map[string]string{} // the tag that takes each, of modules
	included := events{}
	for _, x := range roots {
		included[x.String()] = x.kind == rootStatus
	}
	foreign := map[string]bool{} // versions whose number names or named other files here
	var wanted []root
	for _, x := range roots {
		if x.have {
			foreign[x.String()] = x.odd
			continue
		}
		v, ok := addr.VersionFromTag(x.tag)
		ok = ok && x.kind == rootVersion
		if (ok || x.kind == rootStatus) && l.before[x.repo] == nil {
			listing, err := depot.ReadListing(ctx, x.repo, x.item.Kind, nil)
			if err != nil {
				return nil, fmt.Errorf("loading %s: %w", x, err)
			}
			l.before[x.repo] = listing
		}
		if edition, err := v.EditionOf().WithEdition(x.Digest.Encoded()); ok && v.Edition() && (err != nil || edition != v) {
			l.noteReason(&l.report.Refused, "%s names an edition by the beginning of its digest, but this is %s", x, x.Digest)
			continue
		}
		if ok {
			taken, is := errors.AsType[*depot.ConflictError](l.before[x.repo].Taken(v))
			if is && !included.explain(x, taken.Withdrawn) {
				l.noteReason(&l.report.Conflict, "%v", taken)
				foreign[x.String()] = true
				continue
			}
			number := x.repo.Name() + ":" + v.Number().Tag()
			if duplicate := numbers[number]; duplicate != "" && x.item.Kind == addr.KindModule {
				l.noteReason(&l.report.Conflict, "%s is the same version as %s to OpenTofu and Terraform", x, duplicate)
				continue
			}
			numbers[number] = x.tag
		}
		wanted = append(wanted, x)
	}
	wanted, err := l.dropForeign(ctx, wanted, foreign, included)
	for repo, list := range l.before { // events of the bundle are the history of its own versions, and reserve no number
		for _, x := range wanted {
			if x.kind == rootStatus && x.repo == repo {
				list.Tags = append(list.Tags, x.tag)
			}
		}
		slices.Sort(list.Tags)
	}
	return wanted, err
}

// dropForeign drops status events about numbers that name other files here: an event would become
// the record of a number.
func (l *loader) dropForeign(ctx context.Context, wanted []root, foreign map[string]bool, included events) ([]root, error) {
	about := map[string]string{} // the version of each event
	for _, x := range wanted {
		if x.kind != rootStatus {
			continue
		}
		if evidence.IsStatusAhead(x.tag, time.Time{}) {
			l.noteReason(&l.report.Refused, "%s is in the future; check the clock", x)
			foreign[x.String()] = true
			about[x.String()] = x.String()
			continue
		}
		m, err := l.manifest(ctx, x.repo, x.Descriptor)
		var e evidence.StatusEvent
		if err == nil {
			e, err = evidence.ParseStatusEvent(x.tag, m)
		}
		if v, wrong := addr.ParseVersion(e.Version); wrong == nil {
			about[x.String()] = x.repo.String() + ":" + v.Tag()
		}
		if err == nil {
			own := *l.before[x.repo] // what the registry knows without the bundle
			own.Events = slices.DeleteFunc(slices.Clone(own.Events), func(e evidence.StatusEvent) bool { return included[x.repo.String()+":"+e.Tag] })
			err = depot.CheckRemoval(ctx, &own, e)
		}
		if other, ok := errors.AsType[*depot.ConflictError](err); ok {
			l.noteReason(&l.report.Conflict, "%s: %v", x, other)
			foreign[about[x.String()]] = true
		} else if err != nil {
			return nil, fmt.Errorf("loading %s: %w", x, err)
		}
	}
	return slices.DeleteFunc(wanted, func(x root) bool { return foreign[about[x.String()]] }), nil
}

// events has the names of the status events in a bundle.
type events map[string]bool

// explain reports whether a withdrawal is in the bundle and about x.
func (e events) explain(x root, withdrawn *evidence.StatusEvent) bool {
	return withdrawn != nil && e[x.repo.String()+":"+withdrawn.Tag] && (withdrawn.Subject == "" || withdrawn.Subject == x.Digest)
}

// A scope is what is new with a bundle. Unauthenticated, only that may have scan reports and status
// in it: else a file could yank existing versions, or call them clean.
type scope struct {
	versions map[string]bool // REPOSITORY:TAG
	reached  map[string]bool // REPOSITORY@DIGEST of the content of the versions
}

// checkVouched checks that a manifest refers only to what is new, unless authenticated.
func (l *loader) checkVouched(x root, m oci.Manifest) error {
	subject, err := subjectOf(m)
	switch {
	case err != nil:
		return err
	case subject == nil:
		return nil
	case x.kind == rootReferrer && (l.trusted || l.fresh.reached[x.repo.Name()+"@"+subject.Digest.String()]):
		return nil
	case x.kind == rootSignature && x.tag == "sha256-"+subject.Digest.Encoded()+".sig" && evidence.OnlySignatures(m):
		return nil // their validity depends on keys
	}
	return &unvouchedError{about: subject.Digest.String()}
}

// vouchedStatus is checkVouched for a status event.
func (l *loader) vouchedStatus(ctx context.Context, x root, m oci.Manifest) error {
	e, err := evidence.ParseStatusEvent(x.tag, m)
	if err != nil || l.trusted {
		return err
	}
	if e.Version == evidence.AllVersions {
		list, err := x.repo.Snapshot(ctx)
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return err
		}
		if i := slices.IndexFunc(list.Tags, isVersion); i >= 0 {
			return &unvouchedError{about: list.Tags[i]}
		}
		return nil
	}
	v, err := addr.ParseVersion(e.Version)
	reserves := e.Action == evidence.ActionYank && l.before[x.repo].IsFree(v) // as a version would
	if err == nil && !reserves && !l.fresh.versions[x.repo.Name()+":"+v.Tag()] {
		err = &unvouchedError{about: v.Tag()}
	}
	return err
}

// unvouchedError is about something that an unauthenticated bundle does not contain.
type unvouchedError struct{ about string }

func (e *unvouchedError) Error() string {
	return fmt.Sprintf("its subject %s is not in the bundle, and the bundle is not signed by a trusted key", e.about)
}

// refuseRoot reports what is not loaded, unless it is there, or its subject is not.
func (l *loader) refuseRoot(ctx context.Context, x root, reason *unvouchedError) error {
	if x.kind == rootReferrer {
		if _, err := x.repo.Resolve(ctx, x.Digest.String()); !errors.Is(err, oci.ErrNotFound) {
			return err
		}
	}
	_, err := x.repo.Resolve(ctx, reason.about)
	if errors.Is(err, oci.ErrNotFound) {
		return nil
	}
	if err == nil {
		l.noteReason(&l.report.Refused, "%s: %v", x, reason)
	}
	return err
}

// noteReason adds the reason why a root is not loaded to a list of the report.
func (l *loader) noteReason(list *[]string, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}
