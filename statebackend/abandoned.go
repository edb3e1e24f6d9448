// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

func (x *session) describeMissing(ctx context.Context, e *LockedError, c protocol.ClaimID) {
	e.Held = abandonedInfo(x.names.claimTag(c), c.X)
	g := x.s.observations.noteClaim(x.names.workspace, c, format.LockManifest{}, x.date)
	if g.Answers == protocol.AbandonedAnswers {
		x.s.o.Logger.WarnContext(ctx, "the lock is listed, but reading it returns 404; if this persists for a minute, it was never acknowledged and is removed",
			"repository", x.s.repo.String(), "workspace", x.names.workspace, "tag", x.names.claimTag(c))
	}
	e.Unreadable = true
	e.abandoned = g.Abandoned()
}

// abandonedInfo stands in for an unreadable claim. ForceUnlock accepts the end of a tag as its ID.
func abandonedInfo(tag, x string) LockInfo {
	return LockInfo{ID: x, Info: "unknown: listed, but reading it returns 404: " + tag}
}

// maxDanglingVersions bounds how many versions a takeover goes back.
const maxDanglingVersions = 20

// headToSeal reads the head that a takeover seals. A listed version that cannot be read was
// probably never acknowledged; if it was, only an explicit takeover may go back to an older one.
func (x *session) headToSeal(ctx context.Context, head int64) (format.StateManifest, error) {
	m, err := x.s.manifests.fetchState(ctx, x.names.numberedTag(head), x.names.workspace)
	if !errors.Is(err, oci.ErrNotFound) {
		return m, err
	}
	p, perr := x.s.manifests.fetchState(ctx, x.names.pointerTag(), x.names.workspace)
	if perr == nil && p.N == head {
		return p, nil // the same manifest under its other tag
	}
	if !x.terms.takeOver || perr != nil && !errors.Is(perr, oci.ErrNotFound) {
		return m, x.s.manifests.unreadableVersion(x.names, head, err)
	}
	old, err := x.findReadable(ctx, head)
	if errors.Is(err, oci.ErrNotFound) { // all are dangling: use the state from before them
		old = p
		err = nil
		if perr != nil {
			old = format.StateManifest{Workspace: x.names.workspace, Empty: true}
		}
	}
	if err == nil {
		x.s.o.Logger.WarnContext(ctx, "the newest version is listed, but reading it returns 404; an older one is now current",
			"repository", x.s.repo.String(), "workspace", x.names.workspace, "tag", x.names.numberedTag(head), "current", old.N)
	}
	return old, err
}

// findReadable returns the newest version below head that can be read.
func (x *session) findReadable(ctx context.Context, head int64) (format.StateManifest, error) {
	tried := 0
	for _, n := range x.numbers {
		if n >= head {
			continue
		}
		if tried++; tried > maxDanglingVersions {
			return format.StateManifest{}, fmt.Errorf("none of the %d versions before %d can be read: %w", maxDanglingVersions, head, oci.ErrCorrupt)
		}
		m, err := x.s.manifests.fetchState(ctx, x.names.numberedTag(n), x.names.workspace)
		if !errors.Is(err, oci.ErrNotFound) {
			return m, err
		}
	}
	return format.StateManifest{}, oci.ErrNotFound
}
