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

// ErrInUse means that a server or a collection has the directory open.
var ErrInUse = errors.New("the registry directory is in use")

// Collection configures what a collection may remove.
type Collection struct {
	// MinAge is the least age, by file time, of what is removed; 0 only for a closed directory. An
	// upload is abandoned after an hour without bytes, and where no server runs.
	MinAge time.Duration
	// DryRun only counts, without lock; beside a server the numbers belong to no one moment.
	DryRun bool

	closed bool // no server has the directory open, so no upload can continue
}

// Collected is the content that a collection removed, or would remove.
type Collected struct {
	Repositories []Garbage // by name, those that lost content
	Blobs        int       // files
	Bytes        int64     // of blobs and of abandoned uploads
	Used         int64     // bytes of blobs and uploads that stay
}

// Garbage is what one repository loses; shared blobs count for the first.
type Garbage struct {
	Repository string `json:"repository"` // empty: in no repository
	Tags       int    `json:"tags"`       // of signatures and other referrers whose subject is removed
	Manifests  int    `json:"manifests"`
	Blobs      int    `json:"blobs"`
	Uploads    int    `json:"uploads"`
	Bytes      int64  `json:"bytes"`
}

// Collect removes what no tag leads to, manifests, blobs and abandoned uploads, from a directory
// that no server has open. It may be interrupted: the next run continues.
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

// Collect does the same beside the server. Pushes wait only for the last scan and the renaming of
// what is removed. In memory it does nothing.
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
	if err := p.findGarbage(ctx); err != nil || o.DryRun || len(p.remove) == 0 {
		return p.sumCollected(), err
	}
	// Manifests that were read are cached, so this is short.
	err := p.sweep(ctx, s)
	return p.sumCollected(), errors.Join(err, s.emptyTrash())
}

// sweep scans once more, with exclusive access, and removes.
func (p *plan) sweep(ctx context.Context, s *store) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if err := p.findGarbage(ctx); err != nil {
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

// removeEmpty removes an empty directory of blobs or repositories, and empty ones above it.
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

// Schedule configures when a server collects.
type Schedule struct {
	Every  time.Duration // 0: never
	MinAge time.Duration // minimum age of removed content, at least an hour
	Done   func(Collected, error)
}

// minAge leaves time for running pushes, see freshFor.
const minAge = time.Hour

// Run collects at once, and then on the schedule, until the context ends.
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
		if c.isSettledAt(now.Round(0).Sub(start.Round(0)), now.Sub(start), s.MinAge) {
			c, err := r.Collect(ctx, Collection{MinAge: s.MinAge})
			r.logCollection(c, err)
			s.Done(c, err)
		} else {
			r.log.Warn("the clock was changed; garbage collection pauses until earlier data is old enough", "min_age", s.MinAge)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// settling detects that the clock was set, which makes recent files look old.
type settling struct {
	ahead time.Duration // of the wall clock relative to elapsed time
	since time.Duration // elapsed time when that was first seen
	set   bool
}

// maxDrift is how far gradual adjustment may move the clock between two checks.
const maxDrift = time.Minute

// isSettledAt reports whether the clock has been steady for longer than long, by wall clock and
// elapsed time since the start.
func (c *settling) isSettledAt(clock, passed, long time.Duration) bool {
	if ahead := clock - passed; (ahead - c.ahead).Abs() > maxDrift {
		c.ahead = ahead
		c.since = passed
		c.set = true
	} else {
		c.ahead = ahead
	}
	return !c.set || passed-c.since > long
}

// lockFile is locked by a server or collection; the kernel releases the lock of a killed process.
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

func (r *Registry) logCollection(c Collected, err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		r.log.Error("garbage collection of the built-in registry", "error", err)
	case c.Blobs > 0 || c.Bytes > 0:
		r.log.Info("garbage collection of the built-in registry", "blobs", c.Blobs, "bytes", c.Bytes, "used", c.Used)
	}
}
