// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Values of artifact.Verdict's field Locking.
const (
	LockingExact   = "exact"   // a tag list shows a finished push
	LockingSettle  = "settle"  // it does so after a moment
	LockingRefused = "refused" // it may not
)

// Verdict reads what the last check of the registry found out. It is kept in
// the repository and goes before what is known of the host; oci.ErrNotFound
// without one.
func (s *Store) Verdict(ctx context.Context) (artifact.Verdict, error) { return s.verdict(ctx) }

func (r *records) verdict(ctx context.Context) (artifact.Verdict, error) {
	m, err := r.repo.Fetch(ctx, artifact.TagVerdict)
	if err != nil {
		return artifact.Verdict{}, fmt.Errorf("verdict on %s: %w", r.repo, err)
	}
	v, err := artifact.ParseVerdict(m)
	if err != nil {
		return v, fmt.Errorf("verdict on %s: %w", r.repo, err)
	}
	return v, nil
}

// RecordVerdict keeps a verdict in the repository.
func (s *Store) RecordVerdict(ctx context.Context, v artifact.Verdict) error {
	m, err := artifact.NewVerdict(v)
	if err != nil {
		return err
	}
	if err := s.session("", LockInfo{}).put(ctx, artifact.TagVerdict, m); err != nil {
		return fmt.Errorf("recording the verdict in %s: %w", s.repo, err)
	}
	s.findings.reset()
	return nil
}

// abilitiesOf returns how a checked registry deletes.
func abilitiesOf(v artifact.Verdict) abilities {
	can := abilities{byDigest: unable, byTag: unable}
	if v.DeleteDigest && v.DigestDropsTags {
		can.byDigest = able
	}
	if v.DeleteTag {
		can.byTag = able
	}
	return can
}

// judgement is what the first lock of a store found out.
type judgement struct {
	settle time.Duration
	err    error
}

// findings are what this process knows of its registry.
type findings struct {
	mu        sync.Mutex // guards the fields below
	can       abilities
	judgement *judgement // nil until a lock needs it
}

func (f *findings) abilities() abilities {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.can
}

// learn keeps what was found out; what is unknown there may be known here.
func (f *findings) learn(can abilities) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if can.byDigest != unknown {
		f.can.byDigest = can.byDigest
	}
	if can.byTag != unknown {
		f.can.byTag = can.byTag
	}
}

// reset lets the next lock read the verdict.
func (f *findings) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.judgement = nil
}

// judge decides whether this repository can be locked, once per store: by the
// verdict if there is one among the tags, else by the host.
func (f *findings) judge(ctx context.Context, r *records, tags []string) (judgement, error) {
	f.mu.Lock()
	known := f.judgement
	f.mu.Unlock()
	if known != nil {
		return *known, known.err
	}
	verdict := HostVerdict(r.repo.Host())
	if slices.Contains(tags, artifact.TagVerdict) {
		v, err := r.verdict(ctx)
		switch {
		case err == nil:
			verdict = v
			f.learn(abilitiesOf(v))
		case !errors.Is(err, oci.ErrNotFound):
			return judgement{}, err
		}
	}
	j := judgement{settle: r.o.Settle}
	if j.settle == 0 && verdict.Locking == LockingSettle {
		j.settle = settleTime
	}
	if verdict.Locking != LockingExact && verdict.Locking != LockingSettle {
		j.err = &RemediedError{
			Remedy{Kind: RemedyProbe, Repository: r.repo.String()},
			fmt.Errorf("a lock in %s would not be safe: %s: %w", r.repo, verdict.Reason, ErrUnsafe),
		}
	}
	if j.err != nil && r.o.UnsafeLocking {
		r.o.Logger.WarnContext(ctx, "locking although two runs may hold the lock at once", "repository", r.repo.String(), "reason", verdict.Reason)
		j.err = nil
	}
	f.mu.Lock()
	f.judgement = &j
	f.mu.Unlock()
	return j, j.err
}

// settleTime is the wait on hosted registries whose tag list has not been
// proven to show a finished push at once.
const settleTime = 2 * time.Second

// HostVerdict is what is known of registries by their names. Others are taken
// for one that shows its own writes; each lock checks that it does.
func HostVerdict(host string) artifact.Verdict {
	for _, known := range [...]struct{ pattern, locking, reason string }{
		{"docker.io", LockingRefused, "Docker Hub serves tag lists from caches and counts pulls"},
		{"*.docker.io", LockingRefused, "Docker Hub serves tag lists from caches and counts pulls"},
		{"mirror.gcr.io", LockingRefused, "it is a mirror"},
		{"*.azurecr.io", LockingRefused, "a registry of this service may be replicated to other regions, whose lists lag behind"},
		{"quay.io", LockingSettle, ""},
		{"ghcr.io", LockingSettle, ""},
		{"registry.gitlab.com", LockingSettle, ""},
		{"*.dkr.ecr.*.amazonaws.com", LockingSettle, ""},
		{"*-docker.pkg.dev", LockingSettle, ""},
	} {
		if ok, err := path.Match(known.pattern, host); err == nil && ok {
			return artifact.Verdict{Locking: known.locking, Reason: known.reason}
		}
	}
	return artifact.Verdict{Locking: LockingExact}
}
