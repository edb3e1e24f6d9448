// SPDX-License-Identifier: Apache-2.0

package site

import (
	"cmp"
	"time"

	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Lock describes the holder of a workspace's lock, and how to unlock it.
type Lock struct {
	Who, Operation, Info, ID string
	Since                    Timestamp
	Lease                    time.Duration // 0: the lock never ends by itself
	Unlock                   string        // "": the names are not safe for a shell
	Unreadable               bool
}

// NewLock describes a lock; nil for none.
func NewLock(now Clock, h *statebackend.Held, repository, workspace string) *Lock {
	if h == nil {
		return nil
	}
	l := &Lock{
		Who: WhoHolds(*h), Operation: Clip(text.Block(statebackend.Version{Operation: h.Info.Operation}.Why())), Info: Clip(text.Block(h.Info.Info)),
		ID: format.ShownID(h.Info.ID), Since: now.When(h.Info.Created), Lease: h.TTL, Unreadable: h.Unreadable,
	}
	if text.Block(workspace) == workspace {
		l.Unlock = states.UnlockCommand(repository, workspace, h.Info.ID)
	}
	return l
}

// WhoHolds returns the name of the holder of a lock.
func WhoHolds(h statebackend.Held) string {
	return cmp.Or(Clip(text.Block(h.Info.Who)), "an unknown holder")
}
