// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// ErrNotState says that bytes are not a state file of OpenTofu or Terraform.
var ErrNotState = errors.New("not a state file")

// CheckState returns nil for a complete state file, else ErrNotState.
func CheckState(state []byte) error {
	if _, _, ok := Meta(state); !ok {
		return fmt.Errorf("not JSON with lineage and serial: %w", ErrNotState)
	}
	if !json.Valid(state) {
		return fmt.Errorf("the JSON is incomplete: %w", ErrNotState)
	}
	return nil
}

// Succeeds reports whether next may replace the current state: it needs the same lineage and a
// higher serial, in clear also if OpenTofu encrypted it, or the error is ErrStale. same says that
// next equals the current state byte for byte, which is not in clear if the store seals; with an
// error, not every reader sees it yet.
//
// It is for writes by a client that has not seen the current state; Put leaves the decision to the
// tools. The current state is read only where its manifest does not decide, and where it is
// encrypted: a caller that cannot open it has the wrong key.
func (l *Lock) Succeeds(ctx context.Context, next []byte) (head Version, same bool, err error) {
	head, err = l.Head(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return Version{}, false, nil
	}
	if err != nil {
		return head, false, err
	}
	lineage, serial, ok := Meta(next)
	if !ok {
		return head, false, fmt.Errorf("not JSON with lineage and serial: %w", ErrNotState)
	}
	if head.Lineage == "" || head.Serial == serial || head.Encrypted && l.s.o.Sealer == nil {
		state, _, err := l.Get(ctx)
		if err != nil {
			return head, false, err
		}
		if bytes.Equal(state, next) {
			return head, !l.s.vault.isInClear(head, state), l.BringPointer(ctx)
		}
		head.Lineage, head.Serial, _ = Meta(state)
	}
	if head.Lineage != "" && head.Lineage != lineage {
		return head, false, fmt.Errorf("lineage %q does not match %q of the current state, it belongs to another configuration: %w", lineage, head.Lineage, ErrStale)
	}
	if serial <= head.Serial {
		return head, false, fmt.Errorf("serial %d does not follow the current %d: %w", serial, head.Serial, ErrStale)
	}
	return head, false, nil
}

// Push stores next unless it is the current state; with force also if stale, or above one in clear.
func (l *Lock) Push(ctx context.Context, next []byte, force bool) (Version, error) {
	head, same, err := l.Succeeds(ctx, next)
	if same {
		return head, err
	}
	if err != nil && !(force && (errors.Is(err, ErrStale) || errors.Is(err, ErrUnsealed))) {
		return head, err
	}
	return l.Put(ctx, next)
}

// isInClear reports whether a state should be sealed but is not.
func (s *vault) isInClear(v Version, state []byte) bool {
	return s.o.Sealer != nil && !v.Encrypted && !EncryptedByTool(state)
}

// Head returns the current version; oci.ErrNotFound if there is no state or the workspace was
// deleted. With a Sealer the state is opened, since the description in the manifest is not sealed.
func (l *Lock) Head(ctx context.Context) (Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, err := l.readHead(ctx)
	if err != nil {
		return Version{}, err
	}
	if l.s.o.Sealer != nil {
		state, v, err := l.s.vault.readState(ctx, m, m.N)
		if err == nil {
			v.Lineage, v.Serial, _ = Meta(state)
		}
		return v, err
	}
	v := newVersion(m)
	v.Current = true
	if m.Empty {
		return v, l.s.manifests.noState(l.x.names.workspace)
	}
	return v, nil
}

// PutNext writes a state if it may follow the current one, or with force; none if it is the same.
func PutNext(ctx context.Context, l *Lock, state []byte, force bool) (v Version, same bool, err error) {
	if v, same, err = l.Succeeds(ctx, state); same {
		return v, true, err
	}
	if err != nil && !(force && errors.Is(err, ErrStale)) {
		return Version{}, false, err
	}
	v, err = l.Put(ctx, state)
	return v, false, err
}

// IsRepeated reports, once for a version, whether another process of the client took the lock, if v
// is zero, or wrote v: a request whose answer was lost came here again.
func IsRepeated(l *Lock, v Version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.N == 0 {
		return l.hold.Joined
	}
	repeated := !l.wrote && !l.told && v.LockID == l.x.info.ID
	l.told = l.told || repeated
	return repeated
}

const (
	// cleanUpAge is how old a tombstone is when removed: a claim still on its way must find it.
	cleanUpAge = 7 * 24 * time.Hour
	// maxCleaned bounds what one lock cleans up.
	maxCleaned = 20
)

// cleanUpClaims removes ended claims and their tombstones, oldest first, under the lock. A claim
// ended by force must stay until no number that its holder may still write can become the highest.
// The claim goes first: without its tombstone it would be live again, while a holder without claim
// knows that it is fenced. The next lock tries again.
func (l cleaner) cleanUpClaims(ctx context.Context) {
	v := l.x.snapshot
	cleaned := 0
	for _, c := range slices.SortedFunc(maps.Keys(v.Ended), protocol.CompareClaims) {
		if cleaned == maxCleaned {
			return
		}
		if v.Ended[c] == protocol.EndedForced && c.Fence+protocol.Jump > v.Newest {
			continue
		}
		if err := l.cleanUpClaim(ctx, v, c); err != nil {
			if !errors.Is(err, errYoung) && !errors.Is(err, oci.ErrUnsupported) && l.s.findings.isNewWarning(c.X, refusalText(err)) {
				l.s.o.Logger.WarnContext(ctx, "a tag of a released lock could not be removed", "repository", l.s.repo.String(), "workspace", l.x.names.workspace, "error", err)
			}
			return
		}
		cleaned++
	}
}

var errYoung = errors.New("too young")

func (l cleaner) cleanUpClaim(ctx context.Context, v protocol.Snapshot, c protocol.ClaimID) error {
	t := format.StateTag{Kind: format.LockTombstone, Fragment: l.x.names.fragment, N: c.Fence, X: c.X}
	if v.Ended[c] == protocol.EndedForced {
		t.Kind = format.ForceTombstone
	}
	end, err := l.s.manifests.fetchLock(ctx, t.String(), l.x.names.workspace)
	if errors.Is(err, oci.ErrNotFound) {
		// The tag is dangling, and may vanish on restart; then the claim is live again. So it is
		// rewritten, and removed when old. Its reason is lost: another client's lets nobody join.
		reason := format.ReasonUncertain
		if v.Ended[c] == protocol.EndedForced {
			reason = format.ReasonForced
		}
		return l.x.perform(ctx, protocol.Request{Op: protocol.OpPutTombstone, Claim: c, Forced: v.Ended[c] == protocol.EndedForced, Reason: reason}, nil).Err
	}
	if err != nil {
		return err
	}
	if l.s.o.Now().Sub(end.Created) < cleanUpAge {
		return errYoung
	}
	if v.Has(c) {
		claim := t
		claim.Kind = format.LockClaim
		if err := l.s.manifests.removeTag(ctx, claim.String()); err != nil {
			return err
		}
	}
	return l.s.manifests.removeTag(ctx, t.String())
}
