// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// Version is one version of a source, checked but not kept in memory.
type Version struct {
	Label   string // the file or tag it comes from, for messages
	Lineage string
	Serial  uint64
	Load    func(context.Context) ([]byte, error)
}

// Files returns the versions in a state file or a directory of them, by serial. read checks a file.
func Files(ctx context.Context, path string, read func(path string) ([]byte, error)) ([]Version, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = filesOf(path); err != nil {
			return nil, err
		}
	}
	var versions []Version
	for _, file := range files {
		v, err := newVersion(ctx, file, func(context.Context) ([]byte, error) { return read(file) })
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("there are no state files in %s: %w", path, oci.ErrNotFound)
	}
	slices.SortStableFunc(versions, func(a, b Version) int { return cmp.Compare(a.Serial, b.Serial) })
	return versions, checkOrder(versions)
}

func filesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

func newVersion(ctx context.Context, label string, load func(context.Context) ([]byte, error)) (Version, error) {
	state, err := load(ctx)
	if err != nil {
		return Version{}, err
	}
	if err := statebackend.CheckState(state); err != nil {
		return Version{}, fmt.Errorf("%s: %w", label, err)
	}
	v := Version{Label: label, Load: load}
	v.Lineage, v.Serial, _ = statebackend.Meta(state)
	return v, nil
}

// Repository returns each workspace's versions. A state larger than limit is oci.ErrTooLarge.
func Repository(ctx context.Context, from *statebackend.Store, limit int64) (map[string][]Version, error) {
	found := map[string][]State{}
	repo := from.Repo()
	for tag, err := range repo.Tags(ctx) {
		if err != nil {
			return nil, err
		}
		if !IsStateTag(tag) {
			continue
		}
		m, err := repo.Fetch(ctx, tag)
		if errors.Is(err, oci.ErrNotFound) {
			continue // removed since the list
		}
		if err != nil {
			return nil, err
		}
		s, ok, err := ParseState(tag, m)
		if err != nil {
			return nil, err
		}
		if ok {
			found[s.Workspace] = append(found[s.Workspace], s)
		}
	}
	sources := map[string][]Version{}
	for ws, states := range found {
		versions, err := orderedVersions(ctx, from, states, limit)
		if err != nil {
			return nil, fmt.Errorf("workspace %q of %s: %w", ws, repo, err)
		}
		sources[ws] = versions
	}
	return sources, nil
}

// orderedVersions sorts by version, the current state last unless it is a copy of the newest.
func orderedVersions(ctx context.Context, from *statebackend.Store, states []State, limit int64) ([]Version, error) {
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(orderOf(a), orderOf(b)) })
	if n := len(states); n > 1 && states[n-1].N == 0 && states[n-1].Layer.Digest == states[n-2].Layer.Digest {
		states = states[:n-1]
	}
	var versions []Version
	for _, s := range states {
		v, err := newVersion(ctx, "tag "+s.Tag, func(ctx context.Context) ([]byte, error) { return loadForeign(ctx, from, s, limit) })
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, nil
}

func orderOf(s State) int64 {
	if s.N == 0 {
		return math.MaxInt64
	}
	return s.N
}

func loadForeign(ctx context.Context, from *statebackend.Store, s State, limit int64) ([]byte, error) {
	if s.Ours {
		state, _, err := from.GetTag(ctx, s.Workspace, s.Tag)
		return state, err
	}
	stored, err := from.Repo().ReadBlob(ctx, s.Layer, limit)
	if err != nil {
		return nil, fmt.Errorf("tag %s: %w", s.Tag, err)
	}
	switch s.Encoding {
	case "":
		return stored, nil
	case "+gzip":
		return gunzip(stored, limit)
	}
	return nil, oci.Unsupported("tag %s: encoding %q", s.Tag, s.Encoding)
}

func gunzip(b []byte, limit int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", oci.ErrCorrupt, err)
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", oci.ErrCorrupt, err)
	}
	if int64(len(out)) > limit {
		return nil, fmt.Errorf("gzip: more than %.1f MiB: %w", float64(limit)/(1<<20), oci.ErrTooLarge)
	}
	return out, nil
}

func checkOrder(versions []Version) error {
	for i, v := range versions[1:] {
		switch last := versions[i]; {
		case v.Lineage != last.Lineage:
			return fmt.Errorf("%s has lineage %q and %s has %q: %w", v.Label, v.Lineage, last.Label, last.Lineage, statebackend.ErrStale)
		case v.Serial < last.Serial:
			return fmt.Errorf("%s has serial %d, after %s with %d: %w", v.Label, v.Serial, last.Label, last.Serial, statebackend.ErrStale)
		}
	}
	return nil
}
