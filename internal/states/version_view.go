// SPDX-License-Identifier: Apache-2.0

package states

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/seed-141914ff/okara/internal/envelope"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// maxState bounds a state that is read for display.
const maxState = MaxShown

// VersionView is a version with its content. It is shared and never changed.
type VersionView struct {
	*Document // nil: the content is not shown
	Version   statebackend.Version
	Bytes     int    // size of the state as the tool wrote it; 0: not read
	Why       string // why the content is not shown; "": it is
}

func (d *VersionView) size() int {
	if d.Document == nil {
		return 1 << 10
	}
	return d.Document.Size()
}

// Document reads a version and its content.
func (s *States) Document(ctx context.Context, name, workspace string, n int64) (*VersionView, error) {
	store, err := s.storeByName(name)
	if err != nil {
		return nil, err
	}
	key := versionKey(name, workspace, n)
	load := func(ctx context.Context, _ *VersionView, _ bool) (*VersionView, error) {
		d, err := readVersionView(ctx, store, workspace, n)
		if err == nil {
			s.versions.Put(key, d.Version)
		}
		return d, err
	}
	d, err := s.documents.Get(ctx, key, foreverPolicy(), load)
	if err != nil {
		return nil, err
	}
	if v, err := s.Version(ctx, name, workspace, n); err != nil || v.Digest == d.Version.Digest {
		return d, err
	}
	s.documents.Forget(key) // the keys or the repository under this name have changed
	return s.documents.Get(ctx, key, foreverPolicy(), load)
}

// Has reports whether the document of a version is in memory.
func (s *States) Has(name, workspace string, n int64) bool {
	_, ok := s.documents.Peek(versionKey(name, workspace, n))
	return ok
}

func readVersionView(ctx context.Context, store *statebackend.Store, workspace string, n int64) (*VersionView, error) {
	var d VersionView
	v, err := store.ViewVersion(ctx, workspace, n, func(state []byte, _ statebackend.Version) error {
		d.Bytes = len(state)
		if err := Fits(state); err != nil {
			return err
		}
		parsed, err := Parse(bytes.Clone(state)) // it is lent to this function only
		if err != nil && !errors.Is(err, ErrEncrypted) {
			d.Why = "This cannot be shown: " + err.Error() + "."
			return nil
		}
		d.Document = parsed
		return err
	})
	d.Version = v
	if v.N == 0 {
		return nil, err
	}
	if why := whyClosed(v, err); why != "" {
		d.Why = why
		err = nil
	}
	return &d, err
}

// whyClosed says why a state cannot be displayed, or "".
func whyClosed(v statebackend.Version, err error) string {
	switch {
	case err == nil:
		return ""
	case v.Deleted || v.Empty:
		return "No state in this version: the workspace was deleted, or had none when its lock was taken over."
	case errors.Is(err, ErrEncrypted):
		return "OpenTofu encrypted this state; only holders of its key can read it."
	case errors.Is(err, ErrNotShown), errors.Is(err, oci.ErrTooLarge):
		return fmt.Sprintf("This state has more than %d MiB or %d levels, which is more than a page shows.", MaxShown>>20, MaxLevels)
	case errors.Is(err, envelope.ErrKey), keyMissing(err):
		return "This state is encrypted with keys that this server does not have."
	case errors.Is(err, statebackend.ErrUnsealed), errors.Is(err, envelope.ErrSealed):
		return "This state is not encrypted with this server's keys, so someone may have replaced it. Inspect it with okara state pull."
	}
	return ""
}

func keyMissing(err error) bool {
	e, ok := errors.AsType[*statebackend.RemediedError](err)
	return ok && e.Remedy.Kind == statebackend.RemedyKey
}
