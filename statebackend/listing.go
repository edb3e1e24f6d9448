// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"slices"
	"time"

	"github.com/seed-141914ff/okara/statebackend/format"
)

// Listing is what one tag list says of a repository: any number of questions
// about it cost one request, and those that read more say so. It grows old.
type Listing struct {
	s    *Store
	tags []string
	date time.Time // by the registry's clock; zero: it did not say
}

// List lists the repository; one that does not exist yet is empty.
func (s *Store) List(ctx context.Context) (*Listing, error) {
	l, err := s.snapshot(ctx)
	return &Listing{s, l.Tags, l.Date}, err
}

// Numbers are those of the versions of a workspace, newest first.
func (l *Listing) Numbers(workspace string) []int64 {
	return numbers(l.tags, lineOf(workspace).fragment)
}

// Has reports whether a tag is listed.
func (l *Listing) Has(tag string) bool { return slices.Contains(l.tags, tag) }

// Replica reports whether the repository says that it is, or was, a copy.
func (l *Listing) Replica() bool { return slices.Contains(l.tags, format.TagReplica) }

// Size is about how much memory the listing takes, in bytes.
func (l *Listing) Size() int {
	size := 0
	for _, tag := range l.tags {
		size += len(tag) + 16
	}
	return size
}

// Head is a workspace with its newest version.
type Head struct {
	Workspace string
	Version
}

// Heads are the workspaces with a state, in order of their names; a request for
// each. Nothing is opened, as by [Store.Current].
func (l *Listing) Heads(ctx context.Context) ([]Head, error) { return l.s.headsIn(ctx, l.tags) }

// Held returns the lock of one workspace, nil when it is free. Without a lock it
// reads nothing.
func (l *Listing) Held(ctx context.Context, workspace string) (*Held, error) {
	fragment := lineOf(workspace).fragment
	own := slices.DeleteFunc(lockTags(l.tags), func(t format.StateTag) bool { return t.Fragment != fragment })
	if slices.ContainsFunc(own, func(t format.StateTag) bool { return t.Kind == format.LockClaim }) { // the marker says the same
		own = slices.DeleteFunc(own, func(t format.StateTag) bool { return t.Kind == format.LockMarker })
	}
	locks, err := l.s.locksOf(ctx, own)
	for _, h := range locks {
		if h.Workspace == workspace {
			return &h, nil
		}
	}
	return nil, err
}

// Locks lists the locks that are held in the repository, a request for each.
func (l *Listing) Locks(ctx context.Context) ([]Held, error) {
	return l.s.locksOf(ctx, lockTags(l.tags))
}
