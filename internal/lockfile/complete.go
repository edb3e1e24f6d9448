// SPDX-License-Identifier: Apache-2.0

package lockfile

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/oci"
)

// Options configures how a lock file is completed.
type Options struct {
	Source   depot.Source                   // required
	Required []description.RequiredProvider // by the configuration
	Compute  bool                           // download packages for hashes that the source does not provide
	// Allowed refuses a version before any hash is read; nil: none.
	Allowed func(ctx context.Context, p addr.Provider, v addr.Version) error
	// Versions lists what a new entry may have, highest first; nil: all of Source.
	Versions func(ctx context.Context, p addr.Provider) ([]addr.Version, error)
}

// Result describes what Complete did with one provider.
type Result struct {
	Provider  string   `json:"provider"`
	Version   string   `json:"version"`
	State     string   `json:"state"`           // complete, updated, added, incomplete, outdated, conflict
	Wants     string   `json:"wants,omitempty"` // for outdated: the constraint of the configuration that the version does not fulfil
	Added     []string `json:"added,omitempty"`
	Missing   []string `json:"missing,omitempty"` // platforms without h1:
	Conflicts []string `json:"conflicts,omitempty"`
	Verified  bool     `json:"verified"`
}

// Refused reports whether this entry prevents the file from being written.
func (r Result) Refused() bool { return r.State == "conflict" || r.State == "outdated" }

// Addresses returns the providers of the file and the required ones.
func (l *File) Addresses(required []description.RequiredProvider) []addr.Provider {
	var all []addr.Provider
	for _, p := range l.Providers {
		all = append(all, p.Address)
	}
	for _, r := range required {
		if !slices.Contains(all, r.Address) {
			all = append(all, r.Address)
		}
	}
	return all
}

// Complete fills in all hashes, and adds required providers. An entry keeps its version: one that
// is not allowed is outdated. The new text must not be written if a result is refused.
func (l *File) Complete(ctx context.Context, o Options) (text []byte, results []Result, err error) {
	entries, err := l.entries(ctx, o)
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
		entries[i], r = l.completeEntry(e, now)
		r.recordOutdated(e, o.Required)
		results = append(results, r)
	}
	return l.With(entries), results, nil
}

// entries returns the file's entries, and new ones that the configuration requires.
func (l *File) entries(ctx context.Context, o Options) ([]Provider, error) {
	from := o.Versions
	if from == nil {
		from = o.Source.Versions
	}
	entries := slices.Clone(l.Providers)
	for _, r := range o.Required {
		if _, ok := l.Find(r.Address); ok {
			continue
		}
		versions, err := from(ctx, r.Address)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(versions, r.Versions.Allows) // highest first
		if i < 0 {
			return nil, fmt.Errorf("%s: no version of %s matches %q: %w", r.Where, r.Address, r.Text, oci.ErrNotFound)
		}
		entries = append(entries, Provider{Address: r.Address, Label: r.Address.String(), Version: versions[i], Constraints: r.Text})
	}
	return entries, nil
}

// recordOutdated records that the configuration does not allow an entry's version.
func (r *Result) recordOutdated(e Provider, required []description.RequiredProvider) {
	i := slices.IndexFunc(required, func(q description.RequiredProvider) bool { return q.Address == e.Address })
	if i >= 0 && required[i].Text != "" && !required[i].Versions.Allows(e.Version) && r.State != "conflict" {
		r.State = "outdated"
		r.Wants = required[i].Text
	}
}

// completeEntry merges the hashes of a source into an entry.
func (l *File) completeEntry(e Provider, now Known) (Provider, Result) {
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
