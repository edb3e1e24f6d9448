// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

const (
	// sweepAge is how old a tombstone must be before it is removed: a claim
	// that is still on its way must find it.
	sweepAge = 7 * 24 * time.Hour
	// maxSwept bounds what one lock cleans up.
	maxSwept = 20
)

// sweep removes ended claims and their tombstones, oldest first, while we hold
// the lock. One that was ended by force must stay until no number that its
// holder may still write can become the highest. The claim goes first: without
// its tombstone it would be live again, while a holder that finds its claim
// gone knows that it is fenced. It is a courtesy: the next lock tries again.
func (l *Lock) sweep(ctx context.Context) {
	v := l.x.seen
	swept := 0
	for _, c := range slices.SortedFunc(maps.Keys(v.Ended), protocol.CompareClaims) {
		if swept == maxSwept {
			return
		}
		if v.Ended[c] == protocol.EndedForced && c.Fence+protocol.Jump > v.Newest {
			continue
		}
		if err := l.sweepClaim(ctx, v, c); err != nil {
			if !errors.Is(err, errYoung) && !errors.Is(err, oci.ErrUnsupported) && l.s.findings.first(c.X, refusal(err)) {
				l.s.o.Logger.WarnContext(ctx, "an ended lock could not be removed", "repository", l.s.repo.String(), "workspace", l.x.workspace, "error", err)
			}
			return
		}
		swept++
	}
}

// errYoung says that a tombstone is too young to be removed.
var errYoung = errors.New("too young")

func (l *Lock) sweepClaim(ctx context.Context, v protocol.View, c protocol.ClaimID) error {
	t := format.StateTag{Kind: format.LockTombstone, Fragment: l.x.fragment, N: c.Fence, X: c.X}
	if v.Ended[c] == protocol.EndedForced {
		t.Kind = format.ForceTombstone
	}
	end, err := l.s.fetchLock(ctx, t.String(), l.x.workspace)
	if errors.Is(err, oci.ErrNotFound) {
		// A ghost, which a registry may drop when it starts again, and the claim
		// would be live: made real now, removed when it is old enough.
		return l.x.perform(ctx, protocol.Request{Op: protocol.OpPutTombstone, Claim: c, Forced: v.Ended[c] == protocol.EndedForced, Reason: format.ReasonUncertain}).Err
	}
	if err != nil {
		return err
	}
	if l.s.o.Now().Sub(end.Created) < sweepAge {
		return errYoung
	}
	if v.Has(c) {
		claim := t
		claim.Kind = format.LockClaim
		if err := l.s.removeTag(ctx, claim.String()); err != nil {
			return err
		}
	}
	return l.s.removeTag(ctx, t.String())
}
