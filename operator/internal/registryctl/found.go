// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// maxVersions is how many versions a status lists.
const maxVersions = 50

// found is what the registry holds of an entry after a run.
type found struct {
	listing *depot.Listing
	known   map[string]supply.VersionRecord // by version
	all     []v1alpha1.VersionSummary       // newest first
	fresh   map[string]depot.Published      // modules that the run published without a scan, by digest
}

// foundAfter returns what the registry holds, read again after a change.
func (r *entries) foundAfter(ctx context.Context, e *entry, p *supply.Plan) (*found, error) {
	if l := p.Listing(e.key); l != nil {
		return newFound(l, p.Known(e.key)), nil
	}
	return r.findInRegistry(ctx, e, p.Known(e.key))
}

func (r *entries) findInRegistry(ctx context.Context, e *entry, known map[string]supply.VersionRecord) (*found, error) {
	l, err := r.Depot.ReadListing(ctx, e.item)
	if err != nil {
		return nil, err
	}
	return newFound(l, known), nil
}

// newFound joins what the registry lists with what the record says.
func newFound(l *depot.Listing, known map[string]supply.VersionRecord) *found {
	f := &found{listing: l, known: known}
	versions := slices.Clone(l.Versions)
	for text, vr := range known {
		v, err := addr.ParseVersion(text)
		withdrawn := err == nil && l.Status(v).Yanked != nil // by somebody: retention forgets what it removes
		if err == nil && (withdrawn || vr.State != supply.StatePublished) && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b addr.Version) int { return b.Compare(a) })
	for _, v := range versions {
		if !v.Edition() {
			f.all = append(f.all, f.summary(v))
		}
	}
	return f
}

// noteFresh keeps what is known of modules that were just published: they need no read.
func (f *found) noteFresh(results []supply.Result) {
	f.fresh = map[string]depot.Published{}
	for _, res := range results {
		if res.Published.Size > 0 {
			f.fresh[res.Published.Digest] = res.Published
		}
	}
}

// summary describes one version, from the listing and the record.
func (f *found) summary(v addr.Version) v1alpha1.VersionSummary {
	vr, known := f.known[v.String()]
	there := slices.Contains(f.listing.Versions, v)
	status := f.listing.Status(v)
	s := v1alpha1.VersionSummary{Version: v.String(), Digest: vr.Digest, State: v1alpha1.StateUnknown}
	switch {
	case known && vr.State == supply.StateDrift:
		s.State = v1alpha1.StateDrift
	case there && status.Yanked != nil:
		s.State = v1alpha1.StateYanked
	case there && status.Deprecated != nil:
		s.State = v1alpha1.StateDeprecated
	case there:
		s.State = v1alpha1.StatePublished
	case status.Yanked != nil:
		s.State = v1alpha1.StateWithdrawn
	case known && vr.State == supply.StateWaiting:
		s.State = v1alpha1.StateWaiting
	case known && vr.State == supply.StateBlocked:
		s.State = v1alpha1.StateBlocked
	}
	return s
}

// isHeld reports whether a version is not published yet, but may be.
func isHeld(s v1alpha1.VersionState) bool {
	return s == v1alpha1.StateWaiting || s == v1alpha1.StateBlocked
}

// setState replaces the state of a version in the list.
func (f *found) setState(s v1alpha1.VersionSummary) {
	for i := range f.all {
		if f.all[i].Version == s.Version {
			f.all[i] = s
		}
	}
}

func (f *found) fillStatus(s *v1alpha1.EntryStatus) {
	s.Latest = ""
	s.Published = 0
	for _, v := range f.listing.Versions {
		if v.Edition() {
			continue
		}
		s.Published++
		if s.Latest == "" && !v.Prerelease() && f.listing.Status(v).Yanked == nil {
			s.Latest = v.String()
		}
	}
	s.Versions = f.all
	s.Truncated = len(f.all) > maxVersions
	if s.Truncated {
		s.Versions = f.all[:maxVersions]
	}
}

// addOmitted adds to a verdict what a run left out, and why.
func addOmitted(v verdict.Verdict, omitted []supply.Difference) verdict.Verdict {
	if len(omitted) == 0 {
		return v
	}
	var parts []string
	for _, d := range omitted {
		parts = append(parts, d.Version+": "+d.Reason)
	}
	v.Message += "; left out: " + text.Clip(strings.Join(parts, "; "), maxNote)
	return v
}

// noMatchVerdict is the verdict when the origin has no version that the entry wants.
func (e *entry) noMatchVerdict() verdict.Verdict {
	what := "the origin has no release"
	if e.spec.Versions != "" {
		what = fmt.Sprintf("no version at the origin matches %q", e.spec.Versions)
	}
	return verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonVersionMissing, Message: what}
}

// wantedVerdict is the verdict on a run without failure whose plan found versions: a pin must be in the
// registry, and what was removed from it is not published again.
func (e *entry) wantedVerdict(f *found, p *supply.Plan) verdict.Verdict {
	var gone []string
	for _, s := range p.Steps {
		if s.Action == supply.ActionGone {
			gone = append(gone, s.Version)
		}
	}
	for _, pin := range e.spec.Pin {
		switch {
		case slices.Contains(gone, pin):
			return verdict.Verdict{State: verdict.Stalled, Reason: v1alpha1.ReasonVersionMissing, Message: fmt.Sprintf("pin %s was removed from the registry: a Version of it with state: Active brings it back", pin)}
		case !slices.ContainsFunc(p.Steps, func(s supply.Step) bool { return s.Version == pin }) && !slices.ContainsFunc(f.listing.Versions, func(v addr.Version) bool { return v.String() == pin }):
			return verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonVersionMissing, Message: fmt.Sprintf("pin %s is not at the origin", pin)}
		}
	}
	v := f.verdict()
	if len(gone) > 0 {
		v.Message += fmt.Sprintf("; removed versions are not published again unless a Version of them has state: Active: %s", text.Clip(strings.Join(gone, ", "), maxNote))
	}
	return v
}

// hasMatch reports whether a run found a version that its entry wants.
func hasMatch(p *supply.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s supply.Step) bool { return s.Action != supply.ActionPrune })
}

// verdict is that of a run without failure. Drift stays until decided.
func (f *found) verdict() verdict.Verdict {
	waiting := 0
	for _, s := range f.all {
		switch s.State {
		case v1alpha1.StateDrift:
			return verdict.Verdict{State: verdict.Failing, Reason: v1alpha1.ReasonDrift, Message: s.Version + ": " + f.known[s.Version].Reason}
		case v1alpha1.StateWaiting, v1alpha1.StateBlocked, v1alpha1.StateRejected:
			waiting++
		}
	}
	v := verdict.Verdict{State: verdict.Ready, Reason: v1alpha1.ReasonSynced, Message: "the registry has what the origin offers"}
	if waiting > 0 {
		v.Message = fmt.Sprintf("the registry has what the origin offers, except for versions that are on hold: %d", waiting)
	}
	return v
}
