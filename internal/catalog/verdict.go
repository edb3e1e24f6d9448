// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/search"
	"github.com/seed-141914ff/okara/internal/usage"
	"github.com/seed-141914ff/okara/oci"
)

// Status of a version in use, beside the levels of a scan.
const (
	StatusWithdrawn  = "withdrawn"
	StatusDeprecated = "deprecated"
)

// ItemInUse returns the item of the catalog that a state uses, and which of its versions; false if it is
// not from here. host is the name of the server in addresses; "": any name is.
func ItemInUse(u usage.Item, host string) (it addr.Item, v addr.Version, ok bool) {
	v, err := addr.ParseVersion(u.Version)
	if err != nil {
		return it, v, false
	}
	if u.Kind == addr.KindProvider {
		p, err := addr.ParseProvider(u.Source)
		if p.Hostname == host {
			p.Hostname = ""
		}
		return p.Item(), v, err == nil
	}
	m, err := addr.ParseModule(u.Address())
	from, _, _ := strings.Cut(u.Source, "/")
	local := !strings.ContainsAny(from, ".:") || strings.HasPrefix(u.Source, "oci://") || host == "" || from == host
	return m.Item(), v, err == nil && local
}

// Judge says what is known about a version in use; zero if it is not from here or cannot be read.
func (c *Catalog) Judge(ctx context.Context, u usage.Item, host string) (out usage.Verdict) {
	it, v, ok := ItemInUse(u, host)
	if !ok {
		return out
	}
	l, err := c.Versions(ctx, it)
	if host == "" && it.Kind == addr.KindMirror && errors.Is(err, oci.ErrNotFound) { // perhaps one of the registry's own
		it.Provider.Hostname = ""
		it = it.Provider.Item()
		l, err = c.Versions(ctx, it)
	}
	if err != nil {
		out.Unread = !errors.Is(err, oci.ErrNotFound)
		return out
	}
	allow, err := addr.ParseConstraint(u.Constraints)
	if newest, ok := l.Highest(allow.Allows); err == nil && ok && newest.Compare(v) > 0 {
		out.Newest = newest.String()
	}
	switch s := l.Listing.Status(v); {
	case s.Yanked != nil:
		out.Status = StatusWithdrawn
	case s.Deprecated != nil:
		out.Status = StatusDeprecated
	default:
		out.Status = c.finder.flagOf(it, v)
	}
	for _, better := range slices.Backward(l.Listed) {
		if better.Compare(v) > 0 && !better.Prerelease() && l.Listing.Status(better).Deprecated == nil && c.finder.flagOf(it, better) == "" {
			out.Better = better.String()
			break
		}
	}
	return out
}

// flagOf returns the level of a version's scan if that is critical or high. Only the newest
// version's is known; a nil finder knows none.
func (f *Finder) flagOf(it addr.Item, v addr.Version) string {
	if f == nil {
		return ""
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entry(it)
	if e.Version == v.String() && (e.Scan == search.ScanCritical || e.Scan == search.ScanHigh) {
		return e.Scan
	}
	return ""
}
