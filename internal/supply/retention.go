// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// retention returns an entry's retention. A version that the entry does not want, or that a later
// scan blocked, does not count.
func (s *Syncer) retention(ctx context.Context, it item, rec *Record) depot.Retention {
	blocked := map[string]bool{}
	for version, known := range rec.Entries[it.key] {
		blocked[version] = known.State == StatePublished && known.Reason != ""
	}
	inUse := func(addr.Version) bool { return false }
	if it.KeepUsed {
		_, address, _ := strings.Cut(it.key, " ")
		inUse = s.o.InUse(ctx, address)
	}
	return depot.Retention{
		Keep:   it.Keep,
		Pinned: func(v addr.Version) bool { return it.isPinned(v) || s.o.Used != nil && s.o.Used(it.key, v) || inUse(v) },
		Usable: func(v addr.Version) bool { return it.isWanted(v) && !blocked[v.String()] },
	}
}

// isWanted reports whether an entry names a version, whatever its limit and retention.
func (it item) isWanted(v addr.Version) bool {
	return len(it.Exact) > 0 || it.Versions.Allows(v) || it.isPinned(v)
}

func (it item) isPinned(v addr.Version) bool { return slices.Contains(it.Pin, v.String()) }

// comingVersions returns the versions that the steps will publish without a person's approval.
func (s *Syncer) comingVersions(it item, l *depot.Listing, steps []Step) []addr.Version {
	var out []addr.Version
	for _, st := range steps {
		if st.Action == ActionApprove || st.Action == ActionPublish && it.Approval.isAutomatic(st.version, l.Versions, nil, time.Time{}, s.o.Now()) {
			out = append(out, st.version)
		}
	}
	return out
}

// withPublished returns the list as it will be when the versions have been published.
func withPublished(l *depot.Listing, versions []addr.Version) *depot.Listing {
	all := map[addr.Version]bool{}
	for _, v := range slices.Concat(l.Versions, versions) {
		all[v] = true
	}
	next := *l
	next.Versions = slices.SortedFunc(maps.Keys(all), func(a, b addr.Version) int { return b.Compare(a) })
	return &next
}

// prunableSteps returns a step for each version that retention removes. It is decided again after
// the other steps: a replacement may have failed, or wait.
func (s *Syncer) prunableSteps(it item, l *depot.Listing, keep depot.Retention) []Step {
	if it.Keep == 0 {
		return nil
	}
	reason := fmt.Sprintf("keep = %d", it.Keep)
	if it.KeepUsed {
		reason += ", used"
	}
	p := &pruning{repo: it.repo, kind: it.kind, keep: keep, turn: make(chan struct{}, 1)}
	var steps []Step
	for _, v := range l.Prunable(keep) {
		steps = append(steps, Step{
			Version: v.String(), version: v, Action: ActionPrune, Reason: reason,
			run: func(ctx context.Context) (VersionRecord, error) { return VersionRecord{}, p.pruneVersion(ctx, v) },
		})
	}
	return steps
}

// pruning removes versions of one repository.
type pruning struct {
	repo *oci.Repo
	kind string
	keep depot.Retention

	turn chan struct{} // of one version at a time; guards now
	now  *depot.Listing
}

// errStays means that a version is still needed.
var errStays = errors.New("kept: the newer version that replaces it is missing")

func (p *pruning) pruneVersion(ctx context.Context, v addr.Version) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if p.now == nil {
		l, err := depot.ReadListing(ctx, p.repo, p.kind, nil)
		if err != nil {
			return err
		}
		p.now = l
	}
	if !slices.Contains(p.now.Prunable(p.keep), v) {
		return errStays
	}
	return depot.PruneVersions(ctx, p.now, []addr.Version{v})
}
