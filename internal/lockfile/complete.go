// SPDX-License-Identifier: Apache-2.0

package lockfile

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/moduledoc"
	"github.com/seed-141914ff/okara/oci"
)

// Options say where the hashes of a lock file come from.
type Options struct {
	Source      depot.Source // required
	DefaultHost string       // of provider addresses in the configuration that name none
	Compute     bool         // download packages for hashes that the source does not tell
	// Allowed refuses a version with an error; nil: none is refused. It is asked
	// for every entry before any hash is read.
	Allowed func(ctx context.Context, p addr.Provider, v addr.Version) error
}

// Result is what Complete did with one provider.
type Result struct {
	Provider  string   `json:"provider"`
	Version   string   `json:"version"`
	State     string   `json:"state"` // complete, updated, added, incomplete, conflict
	Added     []string `json:"added,omitempty"`
	Missing   []string `json:"missing,omitempty"` // platforms without h1:
	Conflicts []string `json:"conflicts,omitempty"`
	Verified  bool     `json:"verified"`
}

// Complete fills in the hashes of all entries and adds entries for providers that
// the configuration in tree requires. It returns the new text of the file; it is
// not to be written if a result has conflicts.
func (l *File) Complete(ctx context.Context, tree fs.FS, o Options) (text []byte, results []Result, err error) {
	entries, err := l.entries(ctx, tree, o)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if o.Allowed == nil {
			break
		}
		if err := o.Allowed(ctx, e.Address, e.Version); err != nil {
			return nil, nil, fmt.Errorf("locking %s %s: %w", e.Address, e.Version, err)
		}
	}
	for i, e := range entries {
		now, err := Hashes(ctx, o.Source, e.Address, e.Version, o.Compute)
		if err != nil {
			return nil, nil, fmt.Errorf("locking %s %s: %w", e.Address, e.Version, err)
		}
		var r Result
		entries[i], r = l.complete(e, now)
		results = append(results, r)
	}
	return l.With(entries), results, nil
}

// entries returns those of the file and new ones for what the configuration
// requires.
func (l *File) entries(ctx context.Context, tree fs.FS, o Options) ([]Provider, error) {
	entries := slices.Clone(l.Providers)
	required, err := moduledoc.RequiredProviders(tree, o.DefaultHost)
	if err != nil {
		return nil, err
	}
	for _, r := range required {
		if _, ok := l.Find(r.Address); ok {
			continue
		}
		versions, err := o.Source.Versions(ctx, r.Address)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(versions, r.Versions.Allows) // newest first
		if i < 0 {
			return nil, fmt.Errorf("%s: no version of %s matches %q: %w", r.Where, r.Address, r.Text, oci.ErrNotFound)
		}
		entries = append(entries, Provider{Address: r.Address, Label: r.Address.String(), Version: versions[i], Constraints: r.Text})
	}
	return entries, nil
}

// complete merges what a source says into an entry.
func (l *File) complete(e Provider, now Known) (Provider, Result) {
	merged, conflicts := Merge(e, now)
	r := Result{Provider: e.Address.String(), Version: e.Version.String(), State: "complete", Conflicts: conflicts, Verified: now.Verified}
	for _, h := range merged.Hashes {
		if !slices.Contains(e.Hashes, h) {
			r.Added = append(r.Added, h)
		}
	}
	for _, t := range now.Missing {
		r.Missing = append(r.Missing, t.String())
	}
	switch _, known := l.Find(e.Address); {
	case len(conflicts) > 0:
		r.State = "conflict"
	case !known:
		r.State = "added"
	case len(r.Missing) > 0:
		r.State = "incomplete"
	case len(r.Added) > 0:
		r.State = "updated"
	}
	return merged, r
}
