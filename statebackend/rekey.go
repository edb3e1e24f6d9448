// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Rekey opens version n of the workspace and seals the same content anew, in its
// place and under its number: the one case in which the manifest of a version
// changes. What the old keys open goes with the old manifest, where the registry
// deletes. A state that OpenTofu encrypted has no key of ours and stays; one in
// clear is ErrUnsealed.
func (l *writer) Rekey(ctx context.Context, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.rekey(ctx, n); err != nil {
		return fmt.Errorf("sealing version %d of workspace %q in %s with other keys: %w", n, l.x.workspace, l.s.repo, err)
	}
	return nil
}

func (l *writer) rekey(ctx context.Context, n int64) error {
	if l.released {
		return ErrLockLost
	}
	if l.s.o.Sealer == nil {
		return errNoKey
	}
	m, err := l.s.fetchState(ctx, l.x.numbered(n), l.x.workspace)
	if err != nil {
		return err
	}
	state, _, err := l.s.read(ctx, m, 0)
	if err != nil && !(m.Empty && errors.Is(err, oci.ErrNotFound)) {
		return err
	}
	switch {
	case !sealed(m):
		return nil
	case m.Origin.Repository != l.s.repo.Name():
		return fmt.Errorf("it was sealed for %s: %w", m.Origin.Repository, ErrReplica)
	}
	old := m.Manifest
	blob, _, err := l.s.store(ctx, state, &m)
	if err != nil {
		return err
	}
	next, err := format.NewStateManifest(m)
	if err != nil {
		return err
	}
	if _, err := l.s.repo.EnsureBlob(ctx, blob); err != nil {
		return err
	}
	return l.replace(ctx, n, old, next)
}

// replace puts a manifest in the place of another one.
func (l *writer) replace(ctx context.Context, n int64, old oci.Descriptor, next oci.Manifest) error {
	v, err := l.x.list(ctx)
	if err != nil {
		return err
	}
	if !v.Has(l.hold.Claim) || v.Ended[l.hold.Claim] != 0 {
		return ErrLockLost
	}
	if err := l.s.repo.PutTag(ctx, l.x.numbered(n), next); err != nil {
		return err
	}
	if n == v.Newest {
		l.head = nil
		if err := l.s.movePointer(ctx, l.x.line, n); err != nil {
			return err
		}
	}
	err = l.s.repo.Delete(ctx, old)
	if errors.Is(err, oci.ErrNotFound) || errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied) {
		return nil // it has no tag any more
	}
	return err
}
