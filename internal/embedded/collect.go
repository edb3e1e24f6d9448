// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// ErrInUse says that a server or a collection has the directory open.
var ErrInUse = errors.New("the registry directory is in use")

// Collection says what a collection may remove.
type Collection struct {
	// MinAge is how old something must be by the time of its file. 0 is for a
	// directory that nobody has pushed to when it was closed. An upload is cut
	// when it got nothing for an hour, and always when no server runs.
	MinAge time.Duration
	// DryRun only counts. It needs no lock: beside a server the numbers are
	// those of one moment or another.
	DryRun bool

	closed bool // no server has the directory, so that no upload can go on
}

// Collected says what a collection removed, or would remove.
type Collected struct {
	Repositories []Garbage // by name, those that lost something
	Blobs        int       // files
	Bytes        int64     // of blobs and of cut uploads
	Used         int64     // the same of what stays
}

// Garbage is what one repository loses. Blobs of several repositories count
// for the first.
type Garbage struct {
	Repository string `json:"repository"` // empty: belongs to none
	Tags       int    `json:"tags"`       // of signatures and the like whose subject goes
	Manifests  int    `json:"manifests"`
	Blobs      int    `json:"blobs"`
	Uploads    int    `json:"uploads"`
	Bytes      int64  `json:"bytes"`
}

// Collect removes from a registry directory that no server has open what no
// tag leads to: manifests, blobs, and what cut uploads left. It may be
// interrupted at any time: what it removes is reachable by nobody, and the
// next run continues.
func Collect(ctx context.Context, dir string, o Collection) (Collected, error) {
	fail := func(err error) (Collected, error) {
		return Collected{}, fmt.Errorf("collect garbage in %s: %w", dir, err)
	}
	if _, err := os.Stat(dir); err != nil {
		return Collected{}, fmt.Errorf("collect garbage: %w", err)
	}
	if !o.DryRun {
		lock, err := lockDir(dir)
		if err != nil {
			return fail(err)
		}
		defer lock.Close()
	}
	s := newStore(dir, newChecks(nil))
	if !o.DryRun {
		o.closed = true
		if _, err := s.removeDanglingTags(ctx); err != nil {
			return fail(err)
		}
	}
	c, err := s.collect(ctx, o)
	if err != nil {
		return fail(err)
	}
	return c, nil
}

// Collect does the same while the registry serves. Pushes go on; they wait
// while the directory is looked through for the last time and while what goes
// is renamed, not while its files are removed. In memory it does nothing.
func (r *Registry) Collect(ctx context.Context, o Collection) (Collected, error) {
	if r.store == nil {
		return Collected{}, nil
	}
	c, err := r.store.collect(ctx, o)
	if err != nil {
		return c, fmt.Errorf("collect garbage in %s: %w", r.root, err)
	}
	return c, nil
}

func (s *store) collect(ctx context.Context, o Collection) (Collected, error) {
	p := newPlan(s.root, o)
	if err := p.find(ctx); err != nil || o.DryRun || len(p.remove) == 0 {
		return p.collected(), err
	}
	// Everything that was read is remembered, so that this is short.
	err := p.sweep(ctx, s)
	return p.collected(), errors.Join(err, s.emptyTrash())
}

// sweep looks once more, now with nobody beside it, and removes.
func (p *plan) sweep(ctx context.Context, s *store) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if err := p.find(ctx); err != nil {
		return err
	}
	for _, file := range p.remove {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := s.discard(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		s.removeEmpty(filepath.Dir(file))
	}
	return nil
}

// removeEmpty removes a folder of blobs or of repositories and those above it
// that have nothing in them. The folders inside a repository stay.
func (s *store) removeEmpty(dir string) {
	top := filepath.Join(s.root, "docker", "registry", "v2")
	for {
		rel, err := filepath.Rel(top, dir)
		parts := strings.Split(filepath.ToSlash(rel), "/")
		inside := slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, "_") })
		if err != nil || len(parts) < 2 || inside || os.Remove(dir) != nil {
			return
		}
		dir = filepath.Dir(dir)
	}
}

// Schedule is when a server collects.
type Schedule struct {
	Every  time.Duration // 0: never
	MinAge time.Duration // of what is removed, at least an hour
	Done   func(Collected, error)
}

// minAge leaves time for pushes on their way, see freshFor.
const minAge = time.Hour

// Run collects until the context ends: at once, and then on the schedule.
func (r *Registry) Run(ctx context.Context, s Schedule) {
	if s.Every <= 0 || r.store == nil {
		return
	}
	s.MinAge = max(s.MinAge, minAge)
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	var c settling
	start := time.Now()
	for {
		now := time.Now()
		if c.settled(now.Round(0).Sub(start.Round(0)), now.Sub(start), s.MinAge) {
			c, err := r.Collect(ctx, Collection{MinAge: s.MinAge})
			r.logged(c, err)
			s.Done(c, err)
		} else {
			r.log.Warn("the clock was set; no garbage is collected until what was written before is old enough", "min_age", s.MinAge)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// settling notices that the clock was set, which makes files that were just
// written look old.
type settling struct {
	ahead time.Duration // of the clock against the time that went by
	since time.Duration // when that was first seen
	set   bool
}

// maxDrift is what adjusting a clock bit by bit may do between two looks.
const maxDrift = time.Minute

// settled reports whether the clock has gone steadily for that long. It gets the
// time since the start by the clock and as it went by.
func (c *settling) settled(clock, passed, long time.Duration) bool {
	if ahead := clock - passed; (ahead - c.ahead).Abs() > maxDrift {
		c.ahead = ahead
		c.since = passed
		c.set = true
	} else {
		c.ahead = ahead
	}
	return !c.set || passed-c.since > long
}

// lockFile is what a server and a collection lock. The kernel releases it when
// a process is killed.
const lockFile = ".okara-lock"

func lockDir(dir string) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(dir, lockFile))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock registry storage: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%w by another okara serve or okara admin gc", ErrInUse)
	}
	return lock, nil
}

// logged says on the server's log what a collection did.
func (r *Registry) logged(c Collected, err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		r.log.Error("garbage collection of the embedded registry", "error", err)
	case c.Blobs > 0 || c.Bytes > 0:
		r.log.Info("garbage collection of the embedded registry", "blobs", c.Blobs, "bytes", c.Bytes, "used", c.Used)
	}
}
