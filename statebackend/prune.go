// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// forkAge is how long versions outside the head's ancestry, writes of an overtaken lock, are kept.
const forkAge = 30 * 24 * time.Hour

// Prune removes all but the newest keep versions and returns the removed ones. The highest stays,
// for its number must not return, as do those of 30 days that the head does not descend from.
func (w Workspaces) Prune(ctx context.Context, workspace string, keep int) ([]int64, error) {
	tags, err := w.s.manifests.tags(ctx)
	if err != nil {
		return nil, err
	}
	p := pruner{w.s.manifests, tagNamesOf(workspace)}
	list := versionNumbers(tags, p.names.fragment)
	return p.prune(ctx, tags, list, max(keep, 1), len(list))
}

// Prunable returns the versions that Prune would remove, oldest first.
func (w Workspaces) Prunable(ctx context.Context, workspace string, keep int) ([]int64, error) {
	tags, err := w.s.manifests.tags(ctx)
	if err != nil {
		return nil, err
	}
	p := pruner{w.s.manifests, tagNamesOf(workspace)}
	list := versionNumbers(tags, p.names.fragment)
	return p.prunableVersions(ctx, tags, list, max(keep, 1), len(list))
}

type pruner struct {
	manifests *manifests
	names     tagNames
}

// prunableVersions returns up to limit of the versions after the first keep ones, oldest first.
func (p pruner) prunableVersions(ctx context.Context, tags []string, list []int64, keep, limit int) ([]int64, error) {
	if len(list) <= keep {
		return nil, nil
	}
	forks, err := p.findForks(ctx, tags, list)
	if err != nil {
		return nil, err
	}
	var old []int64
	for _, n := range slices.Backward(list[keep:]) {
		if len(old) == limit {
			break
		}
		if forks[n] {
			m, err := p.manifests.fetchState(ctx, p.names.numberedTag(n), p.names.workspace)
			if err != nil && !errors.Is(err, oci.ErrNotFound) {
				return nil, err
			}
			if err == nil && p.manifests.o.Now().Sub(m.Created) < forkAge {
				continue
			}
		}
		old = append(old, n)
	}
	return old, nil
}

func (p pruner) prune(ctx context.Context, tags []string, list []int64, keep, limit int) (gone []int64, err error) {
	old, err := p.prunableVersions(ctx, tags, list, keep, limit)
	if err != nil || len(old) == 0 {
		return nil, err
	}
	return p.dropVersions(ctx, tags, old)
}

func (p pruner) dropVersions(ctx context.Context, tags []string, old []int64) (gone []int64, err error) {
	shared, err := p.sharedTest(ctx, tags)
	if err != nil {
		return nil, err
	}
	for _, n := range old {
		if err := p.manifests.dropTag(ctx, p.names.numberedTag(n), shared); err != nil {
			return gone, fmt.Errorf("removing version %d of workspace %q: %w", n, p.names.workspace, err)
		}
		gone = append(gone, n)
	}
	return gone, nil
}

// findForks returns the versions that the head does not descend from. It reads ancestors only where
// a jump in the numbers shows a takeover, or a copy keeps versions of its own.
func (p pruner) findForks(ctx context.Context, tags []string, list []int64) (map[int64]bool, error) {
	kept, err := p.keptVersions(ctx, tags)
	if err != nil || len(kept) == 0 && !hasJump(list) {
		return nil, err
	}
	forks := map[int64]bool{}
	for _, n := range list {
		forks[n] = true
	}
	for n := list[0]; forks[n] && !slices.Contains(kept, n); {
		delete(forks, n)
		m, err := p.manifests.fetchState(ctx, p.names.numberedTag(n), p.names.workspace)
		if errors.Is(err, oci.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		n = m.ParentN
	}
	return forks, nil
}

func (p pruner) keptVersions(ctx context.Context, tags []string) ([]int64, error) {
	if !slices.Contains(tags, format.TagReplica) {
		return nil, nil
	}
	mark, err := p.manifests.readMark(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, nil
	}
	return mark.Kept[p.names.workspace], err
}

// hasJump reports whether a lock was ever taken over in this history.
func hasJump(list []int64) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1]-list[i] >= protocol.Jump/2 {
			return true
		}
	}
	return false
}

// dropTag deletes a tag, and its manifest unless other tags share it, since many registries never
// collect untagged ones. Where tags cannot be deleted, only the manifest is.
func (r *manifests) dropTag(ctx context.Context, tag string, shared func(oci.Descriptor) bool) error {
	d, err := r.repo.Resolve(ctx, tag)
	if err == nil {
		err = r.repo.Untag(ctx, tag)
	}
	unsupported := errors.Is(err, oci.ErrUnsupported)
	switch {
	case errors.Is(err, oci.ErrNotFound):
		return nil
	case err != nil && !unsupported:
		return err
	case shared(d) && unsupported:
		return fmt.Errorf("another tag refers to the same manifest: %w", err)
	case shared(d):
		return nil
	}
	err = r.repo.Delete(ctx, d)
	if errors.Is(err, oci.ErrNotFound) || !unsupported && (errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied)) {
		return nil // the tag is gone; the registry's garbage collection frees the space
	}
	return err
}

// maxForeign bounds how many tags of other tools are looked up; beyond it, no manifest is deleted.
const maxForeign = 100

// sharedTest tests whether state-W or another tool's tag has a manifest; versions share none.
func (p pruner) sharedTest(ctx context.Context, tags []string) (func(oci.Descriptor) bool, error) {
	look := foreignTags(tags)
	if len(look) > maxForeign {
		return func(oci.Descriptor) bool { return true }, nil
	}
	var found []oci.Descriptor
	for _, tag := range append(look, p.names.pointerTag()) {
		if d, err := p.manifests.repo.Resolve(ctx, tag); err == nil {
			found = append(found, d)
		} else if !errors.Is(err, oci.ErrNotFound) {
			return nil, err
		}
	}
	return func(d oci.Descriptor) bool {
		return slices.ContainsFunc(found, func(f oci.Descriptor) bool { return f.Digest == d.Digest })
	}, nil
}

// foreignTags returns tags that okara did not write: of unknown form, or state-X without versions.
func foreignTags(tags []string) (list []string) {
	versioned := map[string]bool{}
	for _, tag := range tags {
		if t, ok := format.ParseStateTag(tag); ok && t.Kind == format.StateNumbered {
			versioned[t.Fragment] = true
		}
	}
	for _, tag := range tags {
		t, ok := format.ParseStateTag(tag)
		_, record := format.ParseWorkspaceTag(tag)
		switch {
		case ok && t.Fragment == format.ProbeFragment:
		case ok && (t.Kind != format.StatePointer || versioned[t.Fragment]):
		case format.IsVerdictTag(tag), tag == format.TagReplica, record:
		default:
			list = append(list, tag)
		}
	}
	return list
}

// Restore writes old, an earlier state, as the successor of the current one, with a serial above
// both, unless OpenTofu encrypted it. Above a sealed version it needs the key of that version, as
// [Lock.Push] does, lest a sealed history go on in clear or under a key that no other client has.
// With lostKey any key that seals is enough, and of the current version only the manifest is read.
func (l *Lock) Restore(ctx context.Context, old []byte, lostKey bool) (Version, error) {
	head, err := l.Head(ctx)
	if err == nil && head.Encrypted && l.s.o.Sealer == nil {
		_, _, err = l.Get(ctx)
	}
	if err != nil && lostKey && l.s.o.Sealer != nil {
		head, err = closedHead(ctx, l, err)
	}
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return Version{}, err
	}
	_, serial, _ := Meta(old)
	serial = max(serial, head.Serial)
	next, err := withSerial(old, serial+1)
	if err != nil {
		return Version{}, err
	}
	return l.Put(ctx, next)
}

// closedHead returns the current version from its manifest if sealed, else the error of opening it.
func closedHead(ctx context.Context, l *Lock, err error) (Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m, rerr := l.readHead(ctx); rerr == nil && isSealed(m) {
		return newVersion(m), nil
	}
	return Version{}, err
}

// withSerial returns state with another serial and otherwise the same bytes. One that OpenTofu
// encrypted is returned unchanged: the serials inside and outside must be equal.
func withSerial(state []byte, serial uint64) ([]byte, error) {
	if EncryptedByTool(state) {
		return state, nil
	}
	d := json.NewDecoder(bytes.NewReader(state))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, ErrNotState
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotState, err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotState, err)
		}
		if name != "serial" {
			continue
		}
		end := int(d.InputOffset())
		start := end - len(value)
		return bytes.Join([][]byte{state[:start], strconv.AppendUint(nil, serial, 10), state[end:]}, nil), nil
	}
	return nil, fmt.Errorf("it has no serial: %w", ErrNotState)
}
