// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// findHeads returns the head and, if it is a takeover's copy, the versions that it copies.
func findHeads(ctx context.Context, c *child) ([]statebackend.Version, error) {
	return retryValue(ctx, c, func() ([]statebackend.Version, error) { return readHeads(ctx, c) })
}

func readHeads(ctx context.Context, c *child) ([]statebackend.Version, error) {
	v, err := c.lock.Head(ctx)
	if err != nil {
		return nil, oci.IgnoreNotFound(err)
	}
	list := []statebackend.Version{v}
	for v.Operation == format.OperationTakeover && v.Parent > 0 && len(list) < maxSeals {
		_, v, err = c.store.GetVersion(ctx, c.Order.Spec.Workspace, v.Parent)
		if errors.Is(err, oci.ErrNotFound) {
			break // pruned
		}
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// checkStored refuses to run without the state that an earlier run stored: a destroy would end with
// nothing destroyed, and an apply create everything again.
func checkStored(ctx context.Context, c *child) error {
	if !c.Order.Spec.Stored {
		return nil
	}
	heads, err := findHeads(ctx, c)
	if err == nil && len(heads) == 0 {
		err = fmt.Errorf("%s no longer has the state of this instance, so okara does not know its resources, which may still exist\nhint: restore the repository from a backup and retry, or remove them by hand and run `okara instance orphan`", c.Order.Spec.Repository)
	}
	return err
}

const (
	maxSeals = 20 // takeover copies that are followed
	maxForks = 50 // versions searched for a fork
)

// keepFork restores the last state of a run whose lock was forced, if nothing was written since;
// otherwise a person must decide.
func keepFork(ctx context.Context, c *child) error {
	heads, err := findHeads(ctx, c)
	if err != nil || len(heads) == 0 || len(heads) == 1 && c.Order.Spec.Took == "" {
		return err
	}
	var fork statebackend.Version
	fits := false
	err = c.retryPersistently(ctx, func() (err error) {
		fork, fits, err = findFork(ctx, c, heads)
		return err
	})
	if err != nil || fork.N == 0 {
		return err
	}
	if !fits {
		return fmt.Errorf("the previous attempt lost its lock and stored version %d, while another writer stored version %d\nhint: compare them with: okara state diff %s %d %d", fork.N, heads[0].N, c.Order.Spec.Repository, fork.N, heads[0].N)
	}
	return bringBackFork(ctx, c, fork)
}

// bringBackFork makes a version the current one. A write without an answer is repeated.
func bringBackFork(ctx context.Context, c *child, fork statebackend.Version) error {
	v, err := retryValue(ctx, c, func() (v statebackend.Version, err error) {
		state, _, err := c.store.GetVersion(ctx, c.Order.Spec.Workspace, fork.N)
		if err == nil {
			v, err = c.lock.Restore(statebackend.WithUsageOf(ctx, c.store, c.Order.Spec.Workspace, fork.N), state, false)
		}
		return v, err
	})
	if err != nil {
		return fmt.Errorf("restoring version %d: %w", fork.N, err)
	}
	c.wasStored(v, nil)
	c.log.logLine("okara: version %d, stored by a run whose lock was taken over, is now version %d", fork.N, v.N)
	return nil
}

// findFork returns the newest version that a run stored beside the current one, and
// whether nothing was written after the version it is based on.
func findFork(ctx context.Context, c *child, heads []statebackend.Version) (fork statebackend.Version, fits bool, err error) {
	same := map[int64]bool{}
	for _, v := range heads {
		same[v.N] = true
	}
	first := heads[len(heads)-1]
	took := c.Order.Spec.Took
	seen := 0
	for v, err := range c.store.History(ctx, c.Order.Spec.Workspace) {
		if err != nil {
			return fork, false, err
		}
		if seen++; seen > maxForks {
			break
		}
		if same[v.N] || v.Operation != operation || v.Empty || v.N >= heads[0].N {
			continue
		}
		if same[v.Parent] && v.N > first.N {
			return v, true, nil
		}
		if took == "" || v.LockID != format.ShownID(took) {
			continue
		}
		if known, err := isKnownState(ctx, c, v, first, heads[0]); err != nil || !known {
			return v, false, err
		}
	}
	return fork, false, nil
}

// isKnownState reports whether the last state of a run is an ancestor of the current one, or equal.
func isKnownState(ctx context.Context, c *child, v, first, head statebackend.Version) (bool, error) {
	if led, err := isAncestor(ctx, c, v.N, first); err != nil || led {
		return led, err
	}
	return isEqualState(ctx, c, v, head)
}

// isEqualState reports whether two versions are the same state, as after a repeated write.
func isEqualState(ctx context.Context, c *child, a, b statebackend.Version) (bool, error) {
	if a.Serial != b.Serial || a.Lineage != b.Lineage {
		return false, nil
	}
	version, _, err := c.store.GetVersion(ctx, c.Order.Spec.Workspace, a.N)
	if err != nil {
		return false, oci.IgnoreNotFound(err)
	}
	other, _, err := c.store.GetVersion(ctx, c.Order.Spec.Workspace, b.N)
	return err == nil && bytes.Equal(version, other), oci.IgnoreNotFound(err)
}

func isAncestor(ctx context.Context, c *child, n int64, v statebackend.Version) (bool, error) {
	for range maxForks {
		if v.Parent == n {
			return true, nil
		}
		if v.Parent < n {
			return false, nil
		}
		var err error
		if _, v, err = c.store.GetVersion(ctx, c.Order.Spec.Workspace, v.Parent); err != nil {
			return false, oci.IgnoreNotFound(err)
		}
	}
	return false, nil
}
