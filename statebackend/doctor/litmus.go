// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// keptRounds is for one repository that deletes nothing: its tags stay in the list of every lock.
const keptRounds = 20

// checkLitmus lets two writers push and list at once. At least one of them must see the other.
func (d *examination) checkLitmus(ctx context.Context, v *format.Verdict) error {
	a, b, rounds, err := d.litmusRepos(ctx, v)
	if err != nil {
		return err
	}
	d.o.Note("litmus test: %s in %s", text.Plural(rounds, "round"), a)
	for i := range rounds {
		r, err := d.runRound(ctx, a, b, i)
		if err != nil {
			return fmt.Errorf("litmus test, round %d: %w", i+1, err)
		}
		v.Rounds++
		if r.conflict {
			v.Conflicts++
		}
		v.Stale += r.stale
		if err := d.cleanRound(ctx, a, v, r); err != nil {
			return fmt.Errorf("litmus test, round %d: %w", i+1, err)
		}
	}
	d.addFinding(v.Conflicts == 0, "litmus: two writers see each other", fmt.Sprintf("%d of %d rounds failed", v.Conflicts, v.Rounds),
		ternary(v.Conflicts == 0, "no two runs can hold one lock", "two runs could hold one lock"))
	d.addFinding(v.Stale == 0, "litmus: writers see their own push", fmt.Sprintf("%d of %d lists did not show it", v.Stale, 2*v.Rounds),
		ternary(v.Stale == 0, "lists are not delayed", "lists are delayed, locks wait for them to settle"))
	return nil
}

func (d *examination) litmusRepos(ctx context.Context, v *format.Verdict) (a, b *oci.Repo, rounds int, err error) {
	if v.DeleteTag || v.DeleteDigest {
		return d.repo, d.other, d.o.Rounds, nil
	}
	if a, _, err = d.connect(d.repo.String() + "/okara-doctor"); err != nil {
		return nil, nil, 0, err
	}
	if b, _, err = d.connect(d.other.String() + "/okara-doctor"); err != nil {
		return nil, nil, 0, err
	}
	if _, err := a.EnsureBlob(ctx, oci.EmptyBlob()); err != nil {
		d.o.Note("cannot write to %s, running %s in the repository itself: %v", a, text.Plural(keptRounds, "round"), err)
		return d.repo, d.other, keptRounds, nil
	}
	return a, b, d.o.Rounds, nil
}

type litmusRound struct {
	tags      [2]string
	manifests [2]oci.Manifest
	conflict  bool
	stale     int
}

func (d *examination) runRound(ctx context.Context, a, b *oci.Repo, i int) (litmusRound, error) {
	var r litmusRound
	var lists [2][]string
	for side, name := range [2]string{"a", "b"} {
		var err error
		if r.tags[side], r.manifests[side], err = d.scratch(strconv.Itoa(i)+name, nil); err != nil {
			return r, err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	for side, repo := range [2]*oci.Repo{a, b} {
		g.Go(func() error {
			if err := repo.PutTag(gctx, r.tags[side], r.manifests[side]); err != nil {
				return err
			}
			l, err := repo.Snapshot(gctx)
			if errors.Is(err, oci.ErrNotFound) {
				return nil // the list does not even show the repository
			}
			lists[side] = l.Tags
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return r, err
	}
	r.conflict = !slices.Contains(lists[0], r.tags[1]) && !slices.Contains(lists[1], r.tags[0])
	for side := range lists {
		if !slices.Contains(lists[side], r.tags[side]) {
			r.stale++
		}
	}
	return r, nil
}

func (d *examination) cleanRound(ctx context.Context, repo *oci.Repo, v *format.Verdict, r litmusRound) error {
	for side := range r.tags {
		if v.DeleteTag {
			if _, err := canDelete(repo.Untag(ctx, r.tags[side])); err != nil {
				return err
			}
		}
		if v.DeleteDigest {
			if _, err := canDelete(repo.Delete(ctx, r.manifests[side].Descriptor)); err != nil {
				return err
			}
		}
	}
	return nil
}
