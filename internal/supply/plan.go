// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/internal/upstream"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Origins provides access to origins with the credentials of one auth block.
type Origins struct {
	Client   *upstream.Client
	Git      *upstream.Git
	GitHub   *upstream.GitHub
	Provider func(origin string, p addr.Provider) (depot.Source, error)         // the origin argument of a provider block
	Open     func(reference string) (*oci.Repo, error)                          // HOST/REPOSITORY
	Registry func(host string, m addr.Module) (*upstream.ModuleRegistry, error) // of modules
	Permit   func(upstream.Location) error                                      // refuses the location of a module's tree, whoever names it; nil: no check
}

// SyncOptions configures a Syncer.
type SyncOptions struct {
	Set     *Set
	Origins func(auth string) (Origins, error)
	Used    func(entry string, v addr.Version) bool // retention keeps versions for which it returns true; nil: none
	// Rejected reports whether a person rejected this content of a version, which no rule approves then; nil: none.
	Rejected func(v addr.Version, digest string) bool
	// InUse returns which versions the newest versions of states use, for entries that keep those.
	InUse func(ctx context.Context, address string) func(addr.Version) bool
	Jobs  int        // entries processed concurrently; 0: 4
	Own   *OwnRecord // each entry has a separate record; nil: the common one
	Once  bool       // the set is for this run only: the record is neither read nor written, and existing versions are examined again
	Now   func() time.Time

	// Repair looks at all parts of all versions, one HEAD each, and pushes again what is lost.
	Repair bool

	// Examined is when the previous run began, if nothing in it failed: of published versions only
	// the newest and those due since are examined, see [examineWithin], with their parts. Zero:
	// all.
	Examined time.Time
}

// Syncer publishes into a registry what a depot file declares.
type Syncer struct {
	d *depot.Depot
	o SyncOptions
}

// NewSyncer returns a Syncer that publishes through d.
func NewSyncer(d *depot.Depot, o SyncOptions) *Syncer {
	if o.Jobs <= 0 {
		o.Jobs = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Syncer{d: d, o: o}
}

// Action is what a run does, or would do, with one version.
type Action string

// The actions. Present, waiting, blocked, drift, withdrawn and parked change nothing.
const (
	ActionPublish Action = "publish"
	ActionExtend  Action = "extend"  // the version lacks platforms that the origin has
	ActionApprove Action = "approve" // the approval rules hold now
	actionScan    Action = "scan"    // the newest report is too old
	actionRepair  Action = "repair"  // the registry has lost parts of the version
	actionAdopt   Action = "adopt"   // the version exists but is not yet in the record
	ActionPrune   Action = "prune"
	ActionPresent Action = "present"
	actionWaiting Action = "waiting"
	actionBlocked Action = "blocked"
	ActionDrift   Action = "drift"
	ActionGone    Action = "withdrawn" // the version was removed, and its number is not reused
	actionFailed  Action = "failed"    // the origin or the registry could not be read
	actionParked  Action = "parked"    // the origin sent too much; a later run tries again
)

// Step is one version in a plan.
type Step struct {
	Entry   string `json:"entry"` // "module net/vpc/aws"
	Version string `json:"version,omitempty"`
	Action  Action `json:"action"`
	Reason  string `json:"reason,omitempty"`
	Where   string `json:"where"` // file:line of the entry

	version addr.Version
	known   VersionRecord
	run     func(ctx context.Context) (VersionRecord, error) // nil: nothing to do
	learned bool                                             // known is to be recorded although nothing is done
	err     error
}

// Err returns why an ActionFailed failed, or why carrying out the step failed.
func (s Step) Err() error { return s.err }

// Changes reports whether the step would change the registry.
func (s Step) Changes() bool { return s.run != nil }

// Plan is the list of steps of a run, in the order of the depot file, newest versions first.
type Plan struct {
	Steps []Step       `json:"steps"`
	Kept  []Difference `json:"kept,omitempty"` // in the registry, and no run removes it

	LeftOut []Difference `json:"left_out,omitempty"` // listed by the origin, and no run takes it

	records  map[string]*Record        // by entry; nil if it could not be read
	listings map[string]*depot.Listing // like records
}

// item is one entry with the functions specific to modules or providers.
type item struct {
	Entry
	key     string
	address addr.Item // set by [Set.byKey]
	kind    string    // of the address
	repo    *oci.Repo
	list    func(ctx context.Context) ([]offer, error)
	publish func(ctx context.Context, o offer, l *depot.Listing, c depot.Check) (depot.Published, error) // nil: the set does not have the entry any more
	read    func(ctx context.Context, o offer) error                                                     // reads the manifest of a tag of a repository; nil: the origin is none

	platforms []addr.Platform // of a provider, see [ProviderEntry]
	mirrors   bool            // it is a provider
	editions  bool            // of a module: other content under a number is published
	subdir    *string         // of a module
	listing   *depot.Listing  // of the registry, as the plan read it
	source    depot.Source    // of a provider
	provider  addr.Provider
}

// offer is one version at its origin.
type offer struct {
	version addr.Version
	ref     string // git tag
	commit  string // the commit of the tag, if the origin reports it
}

// Plan compares origins with the registry and changes nothing. An entry that cannot be read becomes
// a step of ActionFailed.
func (s *Syncer) Plan(ctx context.Context) (*Plan, error) {
	common, err := s.commonRecord(ctx)
	if err != nil {
		return nil, err
	}
	items, err := s.items(common)
	if err != nil {
		return nil, err
	}
	found := make([]entryPlan, len(items))
	records := make([]*Record, len(items))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.o.Jobs)
	for i, it := range items {
		g.Go(func() error {
			rec, err := s.record(gctx, it.key, common)
			if err == nil {
				records[i] = rec
				found[i], err = s.planEntry(gctx, it, rec)
			}
			if err != nil && gctx.Err() == nil {
				found[i].steps = []Step{failedStep(err)}
				err = nil
			}
			for j := range found[i].steps {
				found[i].steps[j].Entry = it.key
				found[i].steps[j].Where = it.Where
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	p := &Plan{records: map[string]*Record{}, listings: map[string]*depot.Listing{}}
	for i, it := range items {
		p.Steps = append(p.Steps, found[i].steps...)
		p.Kept = append(p.Kept, found[i].kept...)
		p.LeftOut = append(p.LeftOut, found[i].left...)
		p.records[it.key] = records[i]
		p.listings[it.key] = found[i].listing
	}
	if common != nil { // not that of a single entry
		p.Kept = append(p.Kept, s.o.Set.unlistedEntries(common)...)
	}
	return p, nil
}

// commonRecord returns the common record of earlier runs; nil if each entry has its own.
func (s *Syncer) commonRecord(ctx context.Context) (*Record, error) {
	switch {
	case s.o.Once:
		return newRecord(""), nil
	case s.o.Own != nil:
		return nil, nil
	}
	return ReadRecord(ctx, s.d)
}

func (s *Syncer) record(ctx context.Context, entry string, common *Record) (*Record, error) {
	if common != nil {
		return common, nil
	}
	return ownRecord(ctx, s.d, *s.o.Own, entry)
}

func failedStep(err error) Step { return Step{Action: actionFailed, Reason: err.Error(), err: err} }

// entryPlan is the part of a plan that is about one entry.
type entryPlan struct {
	steps      []Step
	kept, left []Difference
	listing    *depot.Listing // of the registry
}

// planEntry decides on every version of one entry.
func (s *Syncer) planEntry(ctx context.Context, it item, rec *Record) (p entryPlan, err error) {
	offers := offersOf(it.Exact)
	if len(offers) == 0 {
		leave := func(listed string, why error) {
			p.left = append(p.left, Difference{it.key, text.Excerpt(listed), why.Error()})
		}
		if offers, err = it.list(upstream.ReportLeftOut(ctx, leave)); err != nil {
			return p, err
		}
	}
	if p.listing, err = depot.ReadListing(ctx, it.repo, it.kind, nil); err != nil {
		return p, err
	}
	it.listing = p.listing
	keep := s.retention(ctx, it, rec)
	wanted, twice := it.wantedOffers(offers, p.listing, keep)
	for i := 0; i < len(wanted); i++ {
		o := wanted[i]
		known, _ := rec.get(it.key, o.version)
		isUnknown := it.read != nil && len(it.Exact) == 0 && !slices.Contains(p.listing.Versions, o.version) && p.listing.Taken(o.version) == nil && !known.isResting(o, s.o.Now())
		if !isUnknown || !errors.Is(it.read(ctx, o), artifact.ErrOther) {
			continue // publishing fails with other errors
		}
		p.left = append(p.left, Difference{it.key, o.version.String(), "the tag is that of another artifact"})
		offers = slices.DeleteFunc(offers, func(other offer) bool { return other == o })
		wanted, twice = it.wantedOffers(offers, p.listing, keep)
		i-- // what comes before is still wanted
	}
	p.left = append(p.left, twice...)
	if s.o.Once && len(wanted) == 0 {
		address, versions, _ := strings.Cut(it.Where, "@")
		return p, fmt.Errorf("no version of %s matches %q: %w", address, versions, oci.ErrNotFound)
	}
	p.steps = make([]Step, len(wanted))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(s.o.Jobs)
	for i, o := range wanted {
		g.Go(func() (err error) {
			p.steps[i], err = s.decideStep(gctx, it, o, p.listing, rec)
			p.steps[i].version = o.version
			p.steps[i].Version = o.version.String()
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return p, err
	}
	p.steps = append(p.steps, s.prunableSteps(it, withPublished(p.listing, s.comingVersions(it, p.listing, p.steps)), keep)...)
	if s.o.Once {
		return p, nil
	}
	if it.publish != nil {
		p.kept = it.withoutStep(p.listing, offers, p.steps)
	}
	lost, err := s.lostSteps(ctx, it, p.listing, offers, rec, p.steps)
	p.steps = append(p.steps, lost...)
	return p, err
}

// wantedOffers returns the offers that constraint and limit select and retention keeps, highest
// first, with versions removed from l, which the limit does not count. twice have another's number.
func (it item) wantedOffers(offers []offer, l *depot.Listing, keep depot.Retention) (wanted []offer, twice []Difference) {
	offers = slices.DeleteFunc(slices.Clone(offers), func(o offer) bool { return !it.isWanted(o.version) })
	offers, twice = it.withoutPairs(offers, l)
	slices.SortFunc(offers, func(a, b offer) int { return b.version.Compare(a.version) })
	offers = slices.CompactFunc(offers, func(a, b offer) bool { return a.version == b.version })
	free := 0
	offers = slices.DeleteFunc(offers, func(o offer) bool {
		beyond := it.Limit > 0 && free >= it.Limit && !it.isPinned(o.version)
		if l.Taken(o.version) == nil {
			free++
		}
		return beyond
	})
	if it.Keep == 0 {
		return offers, twice
	}
	coming := make([]addr.Version, len(offers))
	for i, o := range offers {
		coming[i] = o.version
	}
	keep.Pinned = it.isPinned
	removed := withPublished(l, coming).Prunable(keep)
	return slices.DeleteFunc(offers, func(o offer) bool { return slices.Contains(removed, o.version) }), twice
}

// withoutPairs keeps one of a module's versions that differ only after "+", which the tools do not
// tell apart: the one in the registry, or the origin's first.
func (it item) withoutPairs(offers []offer, l *depot.Listing) (kept []offer, twice []Difference) {
	if it.kind != addr.KindModule {
		return offers, nil
	}
	first := map[addr.Version]addr.Version{}
	for _, o := range offers {
		number := o.version.Number()
		if _, ok := first[number]; !ok || slices.Contains(l.Versions, o.version) {
			first[number] = o.version
		}
	}
	for _, o := range offers {
		if winner := first[o.version.Number()]; winner == o.version {
			kept = append(kept, o)
		} else {
			twice = append(twice, Difference{it.key, o.version.String(), fmt.Sprintf("to OpenTofu and Terraform it is %s, because they ignore what follows \"+\"", winner)})
		}
	}
	return kept, twice
}
