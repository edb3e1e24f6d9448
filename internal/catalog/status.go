// SPDX-License-Identifier: Apache-2.0

package catalog

import (
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
