// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Result is the result of one step.
type Result struct {
	Step
	State State  `json:"state,omitempty"`
	Error string `json:"error,omitempty"`

	Published depot.Published `json:"-"` // the version that was published from its origin, or found in the registry
}

// Apply carries out a plan, several steps at once; a failure does not stop others. The record is
// written once at the end, even if ctx has ended. notify, if not nil, is called after each step.
func (s *Syncer) Apply(ctx context.Context, p *Plan, notify func(Result)) ([]Result, error) {
	if err := p.save(ctx, s.d, true); err != nil {
		return nil, err
	}
	results := make([]Result, len(p.Steps))
	var mu sync.Mutex                             // guards the records, the listings and notify
	for _, pruning := range []bool{false, true} { // removals wait for the versions that replace the removed ones
		var g errgroup.Group
		g.SetLimit(s.o.Jobs)
		for i, st := range p.Steps {
			if (st.Action == ActionPrune) != pruning {
				continue
			}
			g.Go(func() error {
				vr, err := st.do(ctx)
				mu.Lock()
				defer mu.Unlock()
				results[i] = p.records[st.Entry].applyStep(st, vr, err)
				if st.Changes() {
					delete(p.listings, st.Entry)
				}
				if notify != nil {
					notify(results[i])
				}
				return nil
			})
		}
		_ = g.Wait() // a step stores its error in its result
	}
	if s.o.Once {
		return results, ctx.Err()
	}
	const saveTime = 30 * time.Second
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	return results, cmp.Or(p.save(sctx, s.d, false), ctx.Err())
}

// save writes the records, of which many may be one; with claims only those of entries with a
// new owner, before anything is published.
func (p *Plan) save(ctx context.Context, d *depot.Depot, claims bool) error {
	var errs []error
	saved := map[*Record]bool{nil: true}
	for _, rec := range p.records {
		if !saved[rec] && (rec.claimed || !claims) {
			saved[rec] = true
			errs = append(errs, rec.save(ctx, d))
		}
	}
	return errors.Join(errs...)
}

// do carries out a step.
func (st Step) do(ctx context.Context) (VersionRecord, error) {
	if st.run == nil {
		return VersionRecord{}, nil
	}
	if err := ctx.Err(); err != nil {
		return VersionRecord{}, err
	}
	return st.run(ctx)
}

// applyStep records a step's outcome. What a check held back did not fail: the file asked for it.
func (rec *Record) applyStep(st Step, vr VersionRecord, err error) Result {
	res := Result{Step: st, State: vr.State, Published: vr.published}
	if st.learned && (st.run == nil || err != nil) {
		rec.set(st.Entry, st.version, st.known)
	}
	switch {
	case errors.Is(err, errStays):
		res.Action = ActionPresent
		res.Reason = err.Error()
		res.run = nil
	case err != nil:
		res.Error = err.Error()
		res.err = err
		if st.Action == ActionPublish && errors.Is(err, oci.ErrTooLarge) {
			rec.set(st.Entry, st.version, vr.parkVersion(st.known, err))
		}
	case st.Action == actionFailed || st.Action == actionParked:
		res.Error = st.Reason
	case st.Action == ActionPrune:
		rec.remove(st.Entry, st.version)
	case st.run != nil:
		rec.set(st.Entry, st.version, vr)
		if vr.Reason != "" {
			res.Reason = vr.Reason
		}
	case st.Action == ActionDrift:
		res.State = StateDrift
		rec.set(st.Entry, st.version, st.known)
	}
	return res
}

// publish fetches one version and publishes it, unless a check holds it back.
func (s *Syncer) publish(ctx context.Context, it item, o offer, have []addr.Version) (VersionRecord, error) {
	vr := VersionRecord{State: StatePublished, Origin: o.commit, Since: s.o.Now().UTC().Truncate(time.Second)}
	var check depot.Check = func(ctx context.Context, x depot.Candidate) error {
		if it.Scan.Scanner != "" {
			vr.Scanned = s.o.Now().UTC().Truncate(time.Second)
			if err := it.scanAll(ctx, x.Root, o.version, s.o); err != nil {
				return err
			}
		}
		if !it.Approval.isAutomatic(o.version, have, x.Signers, time.Time{}, s.o.Now()) {
			return errWaiting
		}
		return nil
	}
	if it.Scan.Scanner == "" && !it.Approval.Required {
		check = nil // the version is written with fewer requests
	}
	out, err := it.publish(ctx, o, it.listing, check)
	vr.recordStored(it, out)
	if held, ok := errors.AsType[*depot.HeldError](err); ok {
		vr.Digest = held.Digest
		for why, state := range map[error]State{errWaiting: StateWaiting, ErrBlocked: StateBlocked} {
			if errors.Is(held.Err, why) {
				vr.State = state
				vr.Reason = held.Err.Error()
				return vr, nil
			}
		}
	}
	return vr, err
}

func (vr *VersionRecord) recordStored(it item, out depot.Published) {
	vr.Digest = out.Digest
	vr.Lost = 0
	vr.Platforms = it.askedPlatforms()
	vr.Subdir = it.subdir
	vr.Absent = platformNames(out.Absent)
	vr.published = out
}

// extend adds platforms to a version. They were approved by their sums: only a scan holds them
// back.
func (s *Syncer) extend(ctx context.Context, it item, o offer, known VersionRecord) (VersionRecord, error) {
	vr := known
	out, err := it.publish(ctx, o, nil, func(ctx context.Context, x depot.Candidate) error {
		if it.Scan.Scanner == "" {
			return nil
		}
		vr.Scanned = s.o.Now().UTC().Truncate(time.Second)
		return it.scanAll(ctx, x.Root, o.version, s.o)
	})
	if err != nil {
		return known, err
	}
	vr.recordStored(it, out)
	return vr, nil
}

// errWaiting means that a version waits for `okara depot approve`.
var errWaiting = errors.New("waiting for approval")

func (s *Syncer) approve(ctx context.Context, it item, v addr.Version, known VersionRecord) (VersionRecord, error) {
	if _, err := s.d.Approve(ctx, it.repo, v, known.Digest); err != nil {
		return known, err
	}
	known.State = StatePublished
	known.Reason = ""
	return known, nil
}

func (s *Syncer) rescan(ctx context.Context, it item, v addr.Version, known VersionRecord) (VersionRecord, error) {
	m, err := it.repo.Fetch(ctx, known.Digest)
	if err != nil {
		return known, err
	}
	known.Scanned = s.o.Now().UTC().Truncate(time.Second)
	known.Reason = ""
	if err := it.scanAll(ctx, m, v, s.o); errors.Is(err, ErrBlocked) {
		known.Reason = "published, but the newest scan failed: " + err.Error() // a published version stays; the front-end decides whether it is served
	} else if err != nil {
		return known, err
	}
	return known, nil
}

// items converts the file's entries, and, of the common record, those that left it and lost parts,
// or all of these to repair.
func (s *Syncer) items(common *Record) ([]item, error) {
	var items []item
	for _, e := range s.o.Set.Modules {
		it, err := s.moduleItem(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Where, err)
		}
		items = append(items, it)
	}
	for _, e := range s.o.Set.Providers {
		it, err := s.providerItem(e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Where, err)
		}
		items = append(items, it)
	}
	if common == nil {
		return items, nil
	}
	for _, d := range s.o.Set.unlistedEntries(common) {
		kind, address, _ := strings.Cut(d.Entry, " ")
		known, err := addr.ParseItem(address)
		isLost := func(v string) bool { return common.Entries[d.Entry][v].Lost > 0 }
		if err != nil || known.Kind != kind || !s.o.Repair && !slices.ContainsFunc(common.Versions(d.Entry), isLost) {
			continue
		}
		r, err := s.d.Repo(known.Repository(s.d.Options().Layout))
		if err != nil {
			return nil, err
		}
		items = append(items, item{key: d.Entry, kind: kind, repo: r, list: func(context.Context) ([]offer, error) { return nil, nil }})
	}
	return items, nil
}

func (s *Syncer) moduleItem(e ModuleEntry) (item, error) {
	from, err := s.o.Origins(e.Auth)
	if err != nil {
		return item{}, err
	}
	r, err := s.d.Repo(s.d.Options().Layout.Module(e.Address))
	if err != nil {
		return item{}, err
	}
	it := item{Entry: e.Entry, key: e.Key(), kind: addr.KindModule, repo: r, editions: e.Policy == string(depot.PolicyEditions), subdir: &e.Subdir}
	it.list = func(ctx context.Context) ([]offer, error) { return moduleOffers(ctx, from, e) }
	if e.Source.Kind == sourceOCI {
		it.read = func(ctx context.Context, o offer) error {
			_, _, err := readModule(ctx, from.Open, e.Source.Location, o.ref)
			return err
		}
	}
	var more atomic.Bool // a version was published
	it.publish = func(ctx context.Context, o offer, l *depot.Listing, c depot.Check) (depot.Published, error) {
		m := addr.ModuleVersion{Module: e.Address, Version: o.version}
		fetch := func(ctx context.Context, dir string, whole bool) (depot.Fetched, error) {
			got, err := fetchModule(ctx, from, e, o, dir, whole)
			if err == nil && e.Folder != "" {
				_, err = describeFetched(got.Package, path.Join(got.Dir, e.Folder), nil)
			}
			all := map[string]string{artifact.AnnTitle: e.Address.Title(e.Title)}
			maps.Copy(all, got.Annotations)
			got.Annotations = all
			return got, err
		}
		out, err := s.d.MirrorModule(ctx, m, fetch, depot.ModuleOptions{
			Policy: depot.Policy(e.Policy), Ignore: e.Ignore, Check: c, Compare: true, Listed: l, More: more.Load(),
			AllowInvalid: e.AllowInvalid || s.o.Once, // a mirrored module was already published elsewhere
		})
		more.Store(more.Load() || err == nil)
		return out, err
	}
	return it, nil
}

func (s *Syncer) providerItem(e ProviderEntry) (item, error) {
	from, err := s.o.Origins(e.Auth)
	if err != nil {
		return item{}, err
	}
	r, err := s.d.Repo(e.Address.Item().Repository(s.d.Options().Layout))
	if err != nil {
		return item{}, err
	}
	src, err := from.Provider(e.Origin, e.Address)
	if err != nil {
		return item{}, err
	}
	it := item{Entry: e.Entry, key: e.Key(), kind: e.Address.Item().Kind, repo: r, mirrors: true, platforms: e.Platforms, source: src, provider: e.Address}
	if repository, ok := src.(*upstream.Repository); ok {
		it.read = func(ctx context.Context, o offer) error {
			_, err := repository.Platforms(ctx, e.Address, o.version)
			return err
		}
	}
	it.list = func(ctx context.Context) ([]offer, error) {
		versions, err := src.Versions(ctx, e.Address)
		return offersOf(versions), err
	}
	it.publish = func(ctx context.Context, o offer, _ *depot.Listing, c depot.Check) (depot.Published, error) {
		return s.d.MirrorProvider(ctx, src, e.Address, o.version, depot.MirrorOptions{
			Platforms: e.Platforms, AllowUnsigned: e.AllowUnsigned, AllowExpired: e.AllowExpired, Trusted: e.Trusted, Check: c, Compare: true,
		})
	}
	return it, nil
}

// moduleOffers lists the versions of a module at its origin, with one request for each page.
func moduleOffers(ctx context.Context, from Origins, e ModuleEntry) ([]offer, error) {
	var tags []upstream.Tag
	var err error
	if from.Permit != nil && e.Source.Kind != SourceRegistry {
		if err := from.Permit(e.Source.Location); err != nil {
			return nil, err
		}
	}
	switch src := e.Source; src.Kind {
	case sourceGit:
		tags, err = from.Git.Tags(ctx, src.Location)
	case sourceGitHub:
		owner, name := ownerAndName(src.Location.URL)
		if src.Releases {
			tags, err = from.GitHub.Releases(ctx, owner, name)
		} else {
			tags, err = from.GitHub.Tags(ctx, owner, name)
		}
	case SourceRegistry:
		return registryOffers(ctx, from, src)
	case sourceOCI:
		return repositoryOffers(ctx, from, src)
	}
	var offers []offer
	first := map[addr.Version]upstream.Tag{}
	for _, t := range tags {
		rest, ok := strings.CutPrefix(t.Name, e.Source.TagPrefix)
		switch dir, v, err := addr.VersionFromGit(rest); {
		case ok && err == nil && dir == "" && first[v].Name != "":
			if t.Commit == "" || t.Commit != first[v].Commit {
				upstream.LeaveOut(ctx, t.Name, fmt.Errorf("tag %s already points to this version", first[v].Name))
			}
		case ok && err == nil && dir == "":
			first[v] = t
			offers = append(offers, offer{version: v, ref: t.Name, commit: t.Commit})
		case ok && err != nil && likeVersion().MatchString(rest):
			if strings.IndexAny(strings.TrimPrefix(rest, "v"), "0123456789") > 0 {
				err = fmt.Errorf("%w; set tag_prefix in the depot file to what precedes the version", err)
			}
			upstream.LeaveOut(ctx, t.Name, err)
		}
	}
	return offers, err
}

// likeVersion matches a tag that is meant as a version, such as v1.2.3.4.
var likeVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^((release|version|ver|rel)[-_.]?)?v?[0-9]+\.[0-9]`)
})

func registryOffers(ctx context.Context, from Origins, src ModuleSource) ([]offer, error) {
	r, err := from.Registry(src.Host, src.Address)
	if err != nil {
		return nil, err
	}
	versions, err := r.Versions(ctx, src.Address)
	return offersOf(versions), err
}

func offersOf(versions []addr.Version) []offer {
	offers := make([]offer, len(versions))
	for i, v := range versions {
		offers[i] = offer{version: v}
	}
	return offers
}

func repositoryOffers(ctx context.Context, from Origins, src ModuleSource) ([]offer, error) {
	r, err := from.Open(src.Location.URL.Host + src.Location.URL.Path)
	if err != nil {
		return nil, err
	}
	var offers []offer
	for tag, err := range r.Tags(ctx) {
		if err != nil {
			return nil, err
		}
		if v, ok := addr.VersionFromTag(tag); ok {
			offers = append(offers, offer{version: v, ref: tag})
		}
	}
	return offers, nil
}

// fetchModule writes a version's tree below dir. It fails if a git tag moved since it was listed.
func fetchModule(ctx context.Context, from Origins, e ModuleEntry, o offer, dir string, whole bool) (depot.Fetched, error) {
	f := fetcher{Client: from.Client, Git: from.Git, Open: from.Open, Permit: from.Permit}
	l := e.Source.Location
	l.Subdir = e.Subdir
	switch e.Source.Kind {
	case sourceGitHub:
		return fetchGitHub(ctx, from, f, e, o, dir, whole)
	case SourceRegistry:
		r, err := from.Registry(e.Source.Host, e.Source.Address)
		if err != nil {
			return depot.Fetched{}, err
		}
		f.Client = r.Client
		if l, err = r.Location(ctx, e.Source.Address, o.version); err != nil {
			return depot.Fetched{}, err
		}
		l.Subdir = path.Join(l.Subdir, e.Subdir) // as the tools
		f.Source = "https://" + e.Source.Host + "/" + e.Source.Address.String()
	default:
		l.Ref = o.ref
	}
	got, err := f.fetch(ctx, l, dir)
	if err == nil && o.commit != "" && got.Annotations[artifact.AnnRevision] != o.commit {
		err = fmt.Errorf("tag %s moved from %s to %s during the run: %w", o.ref, o.commit, got.Annotations[artifact.AnnRevision], oci.ErrCorrupt)
	}
	return got, err
}

func fetchGitHub(ctx context.Context, from Origins, f fetcher, e ModuleEntry, o offer, dir string, whole bool) (depot.Fetched, error) {
	owner, name := ownerAndName(e.Source.Location.URL)
	source := map[string]string{artifact.AnnSource: publicURL(e.Source.Location), artifact.AnnSourceRef: o.ref}
	if o.commit != "" {
		source[artifact.AnnRevision] = o.commit
	}
	got, err := githubTree(ctx, from, f, owner, name, cmp.Or(o.commit, o.ref), e.Subdir, dir, whole)
	got.Annotations = source
	return got, err
}

// githubTree writes the tree of ref below dir; unless whole, only folder may be complete. Without
// folder in it, the error is ErrNoModule.
func githubTree(ctx context.Context, from Origins, f fetcher, owner, name, ref, folder, dir string, whole bool) (depot.Fetched, error) {
	body, err := from.GitHub.Tarball(ctx, owner, name, ref)
	if err != nil {
		return depot.Fetched{}, err
	}
	if folder = path.Clean(strings.Trim(folder, "/")); folder == "." {
		folder = ""
	}
	wanted := folder
	if whole {
		wanted = ""
	}
	if err := f.unpackFolder(ctx, body, wanted, dir); err != nil {
		return depot.Fetched{}, err
	}
	top, err := stripTop(dir)
	if err != nil {
		return depot.Fetched{}, err
	}
	got, err := describeFetched(top, folder, nil)
	if err != nil {
		return got, fmt.Errorf("%w: %w", depot.ErrNoModule, err)
	}
	return got, nil
}
