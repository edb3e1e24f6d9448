// SPDX-License-Identifier: Apache-2.0

package main

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

// fileVersions reads a state file or a directory of them.
func fileVersions(ctx context.Context, path string) ([]importVersion, error) {
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
	var versions []importVersion
	for _, file := range files {
		v, err := newImportVersion(ctx, file, func(context.Context) ([]byte, error) { return readState(nil, file) })
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("state files in %s: %w", path, oci.ErrNotFound)
	}
	slices.SortStableFunc(versions, func(a, b importVersion) int { return cmp.Compare(a.serial, b.serial) })
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

// newImportVersion loads a version once, to check it.
func newImportVersion(ctx context.Context, label string, load func(context.Context) ([]byte, error)) (importVersion, error) {
	state, err := load(ctx)
	if err != nil {
		return importVersion{}, err
	}
	if err := statebackend.CheckState(state); err != nil {
		return importVersion{}, fmt.Errorf("%s: %w", label, err)
	}
	v := importVersion{label: label, load: load}
	v.lineage, v.serial, _ = statebackend.Meta(state)
	return v, nil
}

// repositoryVersions reads every state of a repository in a known layout.
func repositoryVersions(ctx context.Context, from *statebackend.Store) (map[string][]importVersion, error) {
	found := map[string][]oci.ForeignState{}
	repo := from.Repo()
	for tag, err := range repo.Tags(ctx) {
		if err != nil {
			return nil, err
		}
		if !oci.ForeignStateTag(tag) {
			continue
		}
		m, err := repo.Fetch(ctx, tag)
		if errors.Is(err, oci.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		s, ok, err := oci.ParseForeignState(tag, m)
		if err != nil {
			return nil, err
		}
		if ok {
			found[s.Workspace] = append(found[s.Workspace], s)
		}
	}
	sources := map[string][]importVersion{}
	for ws, states := range found {
		versions, err := orderedVersions(ctx, from, states)
		if err != nil {
			return nil, fmt.Errorf("workspace %q of %s: %w", ws, repo, err)
		}
		sources[ws] = versions
	}
	return sources, nil
}

// orderedVersions puts numbered versions in order and the current state last,
// unless it is a copy of the last one.
func orderedVersions(ctx context.Context, from *statebackend.Store, states []oci.ForeignState) ([]importVersion, error) {
	slices.SortFunc(states, func(a, b oci.ForeignState) int { return cmp.Compare(place(a), place(b)) })
	if n := len(states); n > 1 && states[n-1].N == 0 && states[n-1].Layer.Digest == states[n-2].Layer.Digest {
		states = states[:n-1]
	}
	var versions []importVersion
	for _, s := range states {
		v, err := newImportVersion(ctx, "tag "+s.Tag, func(ctx context.Context) ([]byte, error) { return loadForeign(ctx, from, s) })
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, nil
}

// place orders states by version, the current one last.
func place(s oci.ForeignState) int64 {
	if s.N == 0 {
		return math.MaxInt64
	}
	return s.N
}

// loadForeign fetches and unpacks a state.
func loadForeign(ctx context.Context, from *statebackend.Store, s oci.ForeignState) ([]byte, error) {
	stored, err := from.Repo().ReadBlob(ctx, s.Layer, maxState)
	if err != nil {
		return nil, fmt.Errorf("tag %s: %w", s.Tag, err)
	}
	if s.Ours {
		state, _, err := from.Decode(ctx, s.Manifest, stored)
		return state, err
	}
	switch s.Encoding {
	case "":
		return stored, nil
	case "+gzip":
		return gunzip(stored)
	}
	return nil, fmt.Errorf("tag %s: encoding %q: %w", s.Tag, s.Encoding, oci.ErrUnsupported)
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", oci.ErrCorrupt, err)
	}
	out, err := io.ReadAll(io.LimitReader(r, maxState+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w: %w", oci.ErrCorrupt, err)
	}
	if len(out) > maxState {
		return nil, fmt.Errorf("gzip: more than %s: %w", byteSize(maxState), oci.ErrTooLarge)
	}
	return out, nil
}
