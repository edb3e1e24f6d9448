// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// split divides the versions into listed and withdrawn ones.
func (l *Versions) split() {
	if len(l.Listing.Events) == 0 {
		l.Listed = l.Listing.Versions
		return
	}
	l.yanked = map[addr.Version]evidence.StatusEvent{}
	for _, v := range l.Listing.Versions {
		if s := l.Listing.Status(v); s.Yanked != nil {
			l.yanked[v] = *s.Yanked
		} else {
			l.Listed = append(l.Listed, v)
		}
	}
}

// Available returns a [RefusedError] for a version that was withdrawn or refused.
func (l *Versions) Available(v addr.Version) error {
	if err := l.refused[v]; err != nil {
		return err
	}
	if e, ok := l.yanked[v]; ok {
		return newRefused("version %s was withdrawn%s", v, e.Because())
	}
	if e := l.Listing.Status(v).Yanked; e != nil && !slices.Contains(l.Listing.Versions, v) {
		return newRefused("version %s was withdrawn and removed%s", v, e.Because())
	}
	return nil
}

// refuse marks a version as not served, with the reason.
func (l *Versions) refuse(v addr.Version, reason error) {
	if l.refused == nil {
		l.refused = map[addr.Version]error{}
	}
	l.refused[v] = reason
}

// Withdrawn reports whether a version was withdrawn, even if it is not there.
func (l *Versions) Withdrawn(v addr.Version) bool { return l.Listing.Status(v).Yanked != nil }

// lastResign returns the tag of the last event that may replace a signature, or "".
func (l *Versions) lastResign(v addr.Version) string {
	for _, e := range slices.Backward(l.Listing.Events) {
		if e.Action == evidence.ActionResign && e.Covers(v.String()) {
			return e.Tag
		}
	}
	return ""
}

// HeldModule is [Catalog.ModuleVersion] for publishers: of versions not served too, with a reason.
func (c *Catalog) HeldModule(ctx context.Context, m addr.Module, v addr.Version) (*ModuleVersion, *RefusedError, error) {
	mv, err := c.ModuleVersion(ctx, m, v)
	no, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return mv, nil, err
	}
	mv, err = c.manifests.loadedModule(ctx, c.layout.Module(m), v)
	return mv, no, err
}

// HeldProvider is like [Catalog.ProviderVersion] in the same way.
func (c *Catalog) HeldProvider(ctx context.Context, p addr.Provider, v addr.Version) (*ProviderVersion, *RefusedError, error) {
	pv, err := c.ProviderVersion(ctx, p, v)
	no, ok := errors.AsType[*RefusedError](err)
	if !ok {
		return pv, nil, err
	}
	repository := p.Item().Repository(c.layout)
	l, err := listForVersion(ctx, c, p.Item())
	if err != nil {
		return nil, no, err
	}
	pv, err = c.manifests.providerVersion(ctx, repository, p.Type, v, l)
	if err == nil && pv.Broken != nil {
		err = pv.Broken
	}
	return pv, no, err
}

// Held returns the versions not served, highest first, with the [RefusedError] of each.
func (l *Versions) Held() ([]addr.Version, []error) {
	var versions []addr.Version
	var reasons []error
	for _, v := range slices.Backward(slices.SortedFunc(slices.Values(l.Listing.Versions), addr.Version.Compare)) {
		if err := l.Available(v); err != nil {
			versions = append(versions, v)
			reasons = append(reasons, err)
		}
	}
	return versions, reasons
}
