// SPDX-License-Identifier: Apache-2.0

package states

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/cache"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Summary lists the workspaces of a state. It is shared and never changed.
type Summary struct {
	Heads []statebackend.Head
	Locks []statebackend.Held
}

func (s *Summary) size() int { return (len(s.Heads) + len(s.Locks)) << 10 }

// Held returns the lock of a workspace; nil if it is free.
func (s *Summary) Held(workspace string) *statebackend.Held {
	for i, h := range s.Locks {
		if h.Workspace == workspace {
			return &s.Locks[i]
		}
	}
	return nil
}

func (s *States) listVersions(ctx context.Context, name string) (*statebackend.Listing, error) {
	store, err := s.storeByName(name)
	if err != nil {
		return nil, err
	}
	return s.lists.Get(ctx, name, listPolicy(), func(ctx context.Context, _ *statebackend.Listing, _ bool) (*statebackend.Listing, error) {
		return store.List(ctx)
	})
}

// Summary reads the newest version of each workspace of a state, and each lock.
func (s *States) Summary(ctx context.Context, name string) (*Summary, error) {
	return s.summary(ctx, name, listPolicy())
}

func (s *States) summary(ctx context.Context, name string, p cache.Policy) (*Summary, error) {
	return s.heads.Get(ctx, name, p, func(ctx context.Context, _ *Summary, _ bool) (*Summary, error) {
		l, err := s.listVersions(ctx, name)
		if err != nil {
			return nil, err
		}
		var out Summary
		if out.Heads, err = l.Heads(ctx); err != nil {
			return nil, err
		}
		out.Locks, err = l.Locks(ctx)
		return &out, err
	})
}

// Bounds of one [States.Glance].
const (
	glanceNew = 200 // states that are read for the first time
	glanceOld = 200 // states that are read again in the background
)

// Glance returns states' summaries, reading some new ones as ctx allows, and renewing others in the
// background. left counts those without.
func (s *States) Glance(ctx context.Context, names []string) (known map[string]*Summary, left int) {
	known = map[string]*Summary{}
	first := 0
	if len(names) > 0 {
		first = int(s.cursor.Add(glanceOld)-glanceOld) % len(names)
	}
	read := 0
	var mu sync.Mutex // guards known and left
	var g errgroup.Group
	g.SetLimit(2 * parallel)
	for i, name := range names {
		sum, ok := s.heads.Peek(name)
		if ok && (i-first+len(names))%len(names) >= glanceOld {
			mu.Lock()
			known[name] = sum
			mu.Unlock()
			continue
		}
		if !ok {
			if read++; read > glanceNew || ctx.Err() != nil {
				mu.Lock()
				left++
				mu.Unlock()
				continue
			}
		}
		g.Go(func() error {
			sum, err := s.summary(ctx, name, cache.Policy{Fresh: 10 * time.Minute, Grace: 24 * time.Hour, Stale: 24 * time.Hour})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				known[name] = sum
			} else if !errors.Is(err, oci.ErrNotFound) {
				left++
			}
			return nil
		})
	}
	_ = g.Wait() // a failed state counts as left
	return known, left
}

// Workspace is the history and the lock of a workspace. It is shared and never changed.
type Workspace struct {
	Repository string  // without host
	Numbers    []int64 // of the versions, newest first
	Held       *statebackend.Held
	Replica    *format.ReplicaMark // the mark of a copy; nil: not a copy
}

func (w *Workspace) size() int { return 8*len(w.Numbers) + 1<<10 }

// Workspace reads a workspace; [oci.ErrNotFound]: neither version nor lock.
func (s *States) Workspace(ctx context.Context, name, workspace string) (*Workspace, error) {
	s.mu.Lock()
	key := fmt.Sprintf("%s\n%d\n%s", name, s.writes[name], workspace)
	s.mu.Unlock()
	return s.workspaces.Get(ctx, key, listPolicy(), func(ctx context.Context, _ *Workspace, _ bool) (*Workspace, error) {
		return s.readWorkspace(ctx, name, workspace)
	})
}

func (s *States) readWorkspace(ctx context.Context, name, workspace string) (*Workspace, error) {
	store, err := s.storeByName(name)
	if err != nil {
		return nil, err
	}
	l, err := s.listVersions(ctx, name)
	if err != nil {
		return nil, err
	}
	w := &Workspace{Repository: store.Repo().Name(), Numbers: l.Numbers(workspace)}
	if w.Held, err = l.Held(ctx, workspace); err != nil {
		return nil, err
	}
	if len(w.Numbers) == 0 && w.Held == nil {
		return nil, fmt.Errorf("workspace %q of state %s: %w", workspace, name, oci.ErrNotFound)
	}
	w.Replica, err = replicaOf(ctx, store, l)
	return w, err
}

// Version reads the manifest of a version.
func (s *States) Version(ctx context.Context, name, workspace string, n int64) (statebackend.Version, error) {
	store, err := s.storeByName(name)
	if err != nil {
		return statebackend.Version{}, err
	}
	return s.versions.Get(ctx, versionKey(name, workspace, n), cache.Policy{Fresh: 10 * time.Minute, Grace: time.Hour, Stale: 24 * time.Hour}, func(ctx context.Context, _ statebackend.Version, _ bool) (statebackend.Version, error) {
		return store.Describe(ctx, workspace, n)
	})
}

// versionKey names a version of a workspace; names have no line breaks.
func versionKey(name, workspace string, n int64) string {
	return fmt.Sprintf("%s\n%d\n%s", name, n, workspace)
}

// Versions reads versions' manifests, a request each, without missing ones.
func (s *States) Versions(ctx context.Context, name, workspace string, numbers []int64) ([]statebackend.Version, error) {
	all := make([]statebackend.Version, len(numbers))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, n := range numbers {
		g.Go(func() error {
			v, err := s.Version(ctx, name, workspace, n)
			if errors.Is(err, oci.ErrNotFound) {
				return nil
			}
			all[i] = v
			return err
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(all, func(v statebackend.Version) bool { return v.N == 0 }), err
}
