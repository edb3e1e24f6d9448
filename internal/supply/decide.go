// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// decideStep decides on one wanted version.
func (s *Syncer) decideStep(ctx context.Context, it item, o offer, l *depot.Listing, rec *Record) (Step, error) {
	err := depot.WithoutNext(l.Taken(o.version))
	if l.Hidden[o.version] != (addr.Version{}) {
		err = l.NoVersion(o.version)
	}
	if err != nil {
		return it.removedStep(o, err), nil
	}
	if s.o.Once {
		return s.decideOnce(ctx, it, o, l), nil
	}
	have := slices.DeleteFunc(slices.Clone(l.Versions), addr.Version.Edition)
	known, recorded := rec.get(it.key, o.version)
	st := Step{known: known}
	switch {
	case slices.Contains(have, o.version):
		found, err := s.examine(ctx, it, o.version, known, o.version == have[0])
		if err != nil {
			return st, err
		}
		st, err = s.comparePresent(ctx, it, o, st, recorded, found, have)
		if st.Action == ActionPresent {
			st.Reason = cmp.Or(strings.Join(l.WarnYanked(o.version), ""), st.Reason)
		}
		return st, err
	case recorded && (known.State == StateWaiting || known.State == StateBlocked):
		return s.decideCandidate(it, o, st, have), nil
	case recorded && known.isResting(o, s.o.Now()):
		return st.parkedStep(), nil
	}
	st.Action = ActionPublish
	st.Reason = "allowed by " + constraintText(it.Entry)
	st.run = func(ctx context.Context) (VersionRecord, error) { return s.publish(ctx, it, o, have) }
	return st, nil
}

// removedStep returns the step for a removed version, a failure if exactly that is asked for.
func (it item) removedStep(o offer, err error) Step {
	if slices.Contains(it.Exact, o.version) || it.Versions.String() == o.version.String() {
		return failedStep(err)
	}
	return Step{Action: ActionGone, Reason: err.Error()}
}

// decideOnce decides on a version without a record. One that exists may still lack a platform.
func (s *Syncer) decideOnce(ctx context.Context, it item, o offer, l *depot.Listing) Step {
	st := Step{Action: ActionPublish, Reason: "allowed by " + constraintText(it.Entry)}
	switch found, err := it.findStored(ctx, o.version); {
	case err == nil:
		st.Action, st.Reason = found.action()
	case !errors.Is(err, oci.ErrNotFound):
		return failedStep(err)
	}
	st.run = func(ctx context.Context) (VersionRecord, error) {
		vr, err := s.publish(ctx, it, o, nil)
		if err == nil && vr.published.Existing {
			vr.published.Warnings = slices.Concat(l.WarnYanked(o.version), vr.published.Warnings)
		}
		return vr, err
	}
	return st
}

func constraintText(e Entry) string {
	if t := e.Versions.String(); t != "" {
		return fmt.Sprintf("%q", t)
	}
	return "default: every release"
}

// comparePresent compares an existing version, by digest, with record and origin. Drift is
// reported, never repaired: what is published does not change. Missing platforms are added.
func (s *Syncer) comparePresent(ctx context.Context, it item, o offer, st Step, recorded bool, found stored, have []addr.Version) (Step, error) {
	now := VersionRecord{State: StatePublished, Digest: found.digest, Origin: o.commit, Since: s.o.Now().UTC().Truncate(time.Second), Subdir: it.subdir, Lost: found.lost}
	st.learned = recorded && st.known.Lost != found.lost
	st.known.Lost = found.lost
	adopt := func(reason string) (Step, error) {
		st.Action = actionAdopt
		st.Reason = reason
		st.run = func(ctx context.Context) (VersionRecord, error) { return s.publish(ctx, it, o, have) }
		return st, nil
	}
	switch {
	case !recorded || slices.Contains([]State{StateWaiting, StateBlocked, StateParked}, st.known.State):
		return adopt("published by another process or user")
	case it.subdir != nil && st.known.Subdir != nil && *st.known.Subdir != *it.subdir:
		return st.markDrift(fmt.Sprintf("the entry names the directory %q, but %q was published", *it.subdir, *st.known.Subdir), now.Since), nil
	case it.editions && st.known.Digest != now.Digest:
		st.Action = actionAdopt
		st.Reason = "another process or user published an edition"
		st.run = func(context.Context) (VersionRecord, error) { return now, nil }
	case it.editions && !it.Approval.Required && st.known.Origin != "" && o.commit != "" && st.known.Origin != o.commit:
		st.Action = ActionPublish
		st.Reason = fmt.Sprintf("tag %s of the origin moved to %s, which becomes an edition", o.ref, o.commit)
		st.run = func(ctx context.Context) (VersionRecord, error) { return s.publish(ctx, it, o, have) }
	case st.known.Digest != now.Digest:
		grown, err := it.hasGrown(ctx, st.known.Digest, now.Digest)
		if err != nil {
			return st, err
		}
		if grown {
			return adopt("platforms were added by another process or user")
		}
		return st.markDrift(fmt.Sprintf("the registry has %s, %s was published", now.Digest, st.known.Digest), now.Since), nil
	case st.known.Origin != "" && o.commit != "" && st.known.Origin != o.commit:
		return st.markDrift(fmt.Sprintf("tag %s of the origin moved from %s to %s, or the version was published from another tag", o.ref, st.known.Origin, o.commit), now.Since), nil
	case st.known.State == StateDrift:
		now.Since = st.known.Since
		now.Scanned = st.known.Scanned
		st.Action = actionAdopt
		st.Reason = "no longer drifted: " + st.known.Reason
		st.run = func(context.Context) (VersionRecord, error) { return now, nil }
	case found.lost > 0 || len(found.lacking.Offered) > 0:
		st.Action, st.Reason = found.action()
		st.run = func(ctx context.Context) (VersionRecord, error) { return s.extend(ctx, it, o, st.known) }
	case it.Scan.isExpired(st.known.Scanned, s.o.Now()):
		st.Action = actionScan
		st.Reason = "the newest report is older than " + it.Scan.MaxAge.String()
		st.run = func(ctx context.Context) (VersionRecord, error) { return s.rescan(ctx, it, o.version, st.known) }
	default:
		st.learned = st.learned || found.looked || it.subdir != nil && st.known.Subdir == nil
		st.known.Subdir = it.subdir
		if found.looked {
			st.known.Platforms = it.askedPlatforms()
			st.known.Absent = platformNames(found.lacking.Absent)
		}
		st.Action = ActionPresent
		st.Reason = absentText(st.known.Absent)
	}
	return st, nil
}

func (st Step) markDrift(reason string, now time.Time) Step {
	if st.known.Lost > 0 {
		reason += "; " + lostText(st.known.Lost)
	}
	st.Action = ActionDrift
	st.Reason = reason
	if st.known.State != StateDrift || st.known.Reason != reason {
		vr := st.known
		vr.State = StateDrift
		vr.Reason = reason
		vr.Drifted = now
		st.known = vr
	}
	return st
}

// decideCandidate decides on a version that a check held back in an earlier run.
func (s *Syncer) decideCandidate(it item, o offer, st Step, have []addr.Version) Step {
	st.Reason = st.known.Reason
	rejected := func() bool { return s.o.Rejected != nil && s.o.Rejected(o.version, st.known.Digest) }
	switch {
	case st.known.State == StateWaiting && it.Approval.isAutomatic(o.version, have, nil, st.known.Since, s.o.Now()) && !rejected():
		st.Action = ActionApprove
		st.Reason = "approval rules met"
		st.run = func(ctx context.Context) (VersionRecord, error) { return s.approve(ctx, it, o.version, st.known) }
	case st.known.State == StateWaiting:
		st.Action = actionWaiting
	case it.Scan.isExpired(st.known.Scanned, s.o.Now()):
		st.Action = actionScan
		st.run = func(ctx context.Context) (VersionRecord, error) { return s.publish(ctx, it, o, have) }
	default:
		st.Action = actionBlocked
	}
	return st
}

// isExpired reports whether a policy requires a new report.
func (p ScanPolicy) isExpired(scanned, now time.Time) bool {
	return p.Scanner != "" && p.MaxAge > 0 && now.Sub(scanned) > p.MaxAge
}

// isAutomatic reports whether a new version needs no person's approval. The keys signers signed it.
func (p ApprovalPolicy) isAutomatic(v addr.Version, have []addr.Version, signers []string, since, now time.Time) bool {
	if !p.Required {
		return true
	}
	if p.Patch && !v.Prerelease() && slices.ContainsFunc(have, func(h addr.Version) bool { return sameMinor(h, v) && h.Compare(v) < 0 }) {
		return true
	}
	if p.OlderAge > 0 && !since.IsZero() && now.Sub(since) >= p.OlderAge {
		return true
	}
	return slices.ContainsFunc(signers, func(id string) bool {
		return slices.ContainsFunc(p.SignedBy, func(want string) bool { return strings.HasSuffix(id, strings.ToUpper(want)) && len(want) >= 16 })
	})
}

func sameMinor(a, b addr.Version) bool {
	minor := func(v addr.Version) string {
		parts := strings.SplitN(v.String(), ".", 3)
		return strings.Join(parts[:2], ".")
	}
	return !a.Prerelease() && minor(a) == minor(b)
}
