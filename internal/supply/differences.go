// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
)

// Difference is something in which the registry differs from a depot file.
type Difference struct {
	Entry   string `json:"entry"`
	Version string `json:"version,omitempty"` // "": the whole entry
	Reason  string `json:"reason"`
}

// withoutStep returns the versions in the registry for which there is no step.
func (it item) withoutStep(l *depot.Listing, offers []offer, steps []Step) []Difference {
	var kept []Difference
	for _, v := range l.Versions {
		if v.Edition() || slices.ContainsFunc(steps, func(st Step) bool { return st.version == v }) {
			continue
		}
		reason := "not allowed by " + constraintText(it.Entry)
		switch {
		case !slices.ContainsFunc(offers, func(o offer) bool { return o.version == v }):
			reason = "the origin does not have it"
		case it.Versions.Allows(v):
			reason = "older than what limit or keep select"
		}
		kept = append(kept, Difference{it.key, v.String(), reason})
	}
	return kept
}

// Omitted returns, after a run, what an entry's origin lists and the registry does not get, and the
// platforms that the entry wants and its origin lacks.
func (p *Plan) Omitted(entry string) []Difference {
	var out []Difference
	for _, d := range p.LeftOut {
		if d.Entry == entry {
			out = append(out, d)
		}
	}
	known := p.Known(entry)
	for _, version := range slices.Sorted(maps.Keys(known)) {
		if absent := known[version].Absent; len(absent) > 0 {
			out = append(out, Difference{entry, version, absentText(absent)})
		}
	}
	return out
}

// byKey returns the entries of a set, with the platforms of providers.
func (s *Set) byKey() map[string]item {
	all := map[string]item{}
	for _, e := range s.Modules {
		all[e.Key()] = item{Entry: e.Entry, key: e.Key(), address: addr.Item{Kind: addr.KindModule, Module: e.Address}}
	}
	for _, e := range s.Providers {
		all[e.Key()] = item{Entry: e.Entry, key: e.Key(), address: e.Address.Item(), platforms: e.Platforms, mirrors: true}
	}
	return all
}

func (s *Set) unlistedEntries(rec *Record) []Difference {
	listed := s.byKey()
	var out []Difference
	for _, entry := range rec.Names() {
		if _, ok := listed[entry]; !ok && len(rec.Entries[entry]) > 0 {
			out = append(out, Difference{Entry: entry, Reason: "published by an earlier run, no longer in the depot file"})
		}
	}
	return out
}

// Differences compares the set, the record and the registry, with one list of tags for each entry.
// A plan tells what an origin has and the registry lacks.
func (s *Set) Differences(ctx context.Context, d *depot.Depot, rec *Record) ([]Difference, error) {
	out := s.unlistedEntries(rec)
	listed := s.byKey()
	for _, e := range slices.Sorted(maps.Keys(listed)) {
		it := listed[e]
		l, err := d.ReadListing(ctx, it.address)
		if err != nil {
			return out, fmt.Errorf("%s: %w", e, err)
		}
		versions := rec.Versions(e)
		if len(versions) == 0 {
			out = append(out, Difference{Entry: e, Reason: "in the depot file, but no run has published a version"})
		}
		for _, v := range l.Versions {
			if _, ok := rec.get(e, v); !ok && !v.Edition() {
				out = append(out, Difference{e, v.String(), "in the registry, but not in the record: published by another process or user"})
			}
		}
		for _, version := range versions {
			vr := rec.Entries[e][version]
			v, err := addr.ParseVersion(version)
			if err != nil || vr.State != StatePublished {
				continue
			}
			switch withdrawn := depot.WithoutNext(l.Taken(v)); {
			case withdrawn != nil:
				out = append(out, Difference{e, version, withdrawn.Error()})
			case l.Hidden[v] != (addr.Version{}):
				out = append(out, Difference{e, version, l.NoVersion(v).Error()})
			case !slices.Contains(l.Versions, v):
				out = append(out, Difference{e, version, "published by an earlier run, but no longer in the registry"})
			case len(it.Exact) == 0 && !it.Versions.Allows(v) && !it.isPinned(v):
				out = append(out, Difference{e, version, "not allowed by " + constraintText(it.Entry)})
			case l.Status(v).Yanked != nil:
				out = append(out, Difference{e, version, strings.Join(l.WarnYanked(v), "")})
			case !vr.coversPlatforms(it.askedPlatforms()):
				out = append(out, Difference{e, version, "published without all of " + strings.Join(it.askedPlatforms(), ", ") + ", as far as recorded; the next run checks"})
			case len(vr.Absent) > 0:
				out = append(out, Difference{e, version, absentText(vr.Absent)})
			}
		}
	}
	return out, nil
}
