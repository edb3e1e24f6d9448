// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"time"

	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend"
)

// lockBody is who holds a workspace, and what to do if they are gone.
type lockBody struct {
	Who, Operation, Info, ID string
	Since                    moment
	Lease                    time.Duration // 0: the lock never ends by itself
	Unlock                   string        // "": the names hold what no shell should get
	Unreadable               bool
}

// newLock describes a lock; nil for none.
func newLock(now clock, h *statebackend.Held, repository, workspace string) *lockBody {
	if h == nil {
		return nil
	}
	l := &lockBody{
		Who: whoHolds(*h), Operation: clip(text.Block(statebackend.Version{Operation: h.Info.Operation}.Why())), Info: clip(text.Block(h.Info.Info)),
		ID: artifact.ShownID(h.Info.ID), Since: now.When(h.Info.Created), Lease: h.TTL, Unreadable: h.Unreadable,
	}
	if text.Block(workspace) == workspace {
		l.Unlock = states.UnlockCommand(repository, workspace, h.Info.ID)
	}
	return l
}

// whoHolds names the holder of a lock.
func whoHolds(h statebackend.Held) string {
	return cmp.Or(clip(text.Block(h.Info.Who)), "somebody who gave no name")
}
