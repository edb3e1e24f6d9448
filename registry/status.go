// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Bounds of the warnings of a provider, which both tools show on every init.
const (
	maxWarnings    = 5
	maxWarning     = 300
	yankWarnedDays = 90
)

// readEvents returns the status events among tags. Events never change, so
// those of the old listing are kept and only new tags are read.
func readEvents(ctx context.Context, r *oci.Repo, tags []string, old *listing) ([]artifact.StatusEvent, error) {
	var known []string
	var events []artifact.StatusEvent
	if old != nil {
		known, events = old.tags, old.events
	}
	var fresh []string
	for _, t := range tags {
		if _, ok := slices.BinarySearch(known, t); !ok && artifact.IsStatusTag(t) {
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return events, nil
	}
	read, err := artifact.ReadStatusEvents(ctx, r, fresh)
	if err != nil {
		return nil, err
	}
	events = append(slices.Clone(events), read...)
	slices.SortFunc(events, func(a, b artifact.StatusEvent) int { return cmp.Compare(a.Tag, b.Tag) })
	return events, nil
}

// split parts the versions into those that are listed and those withdrawn.
func (l *listing) split(all []addr.Version) {
	if len(l.events) == 0 {
		l.versions = all
		return
	}
	l.yanked = map[addr.Version]artifact.StatusEvent{}
	for _, v := range all {
		if s := artifact.FoldStatus(l.events, v.String(), ""); s.Yanked != nil {
			l.yanked[v] = *s.Yanked
		} else {
			l.versions = append(l.versions, v)
		}
	}
}

// available is 404 with the reason for a version that was withdrawn or refused.
func (l *listing) available(v addr.Version) error {
	if err := l.refused[v]; err != nil {
		return err
	}
	e, ok := l.yanked[v]
	if !ok {
		return nil
	}
	return notFound("version %s was withdrawn%s", v, because(e))
}

// withdrawn reports whether a version is, though it need not be in the registry.
func (l *listing) withdrawn(v addr.Version) bool {
	return artifact.FoldStatus(l.events, v.String(), "").Yanked != nil
}

// because are the words of the person who made an event.
func because(e artifact.StatusEvent) string {
	text := ""
	if e.Message != "" {
		text = ": " + e.Message
	}
	if e.Replacement != "" {
		text += "; use " + e.Replacement
	}
	return text
}

// resigned is the tag of the last event that may replace the signature of a
// version, "" if there is none.
func (l *listing) resigned(v addr.Version) string {
	for _, e := range slices.Backward(l.events) {
		if e.Action == artifact.ActionResign && (e.Version == v.String() || e.Version == artifact.AllVersions) {
			return e.Tag
		}
	}
	return ""
}

// warnings are the lines about deprecated and lately withdrawn versions, those
// with the same words together.
func (l *listing) warnings(now time.Time) []string {
	var order []string
	versions := map[string][]string{}
	add := func(words string, v addr.Version) {
		if versions[words] == nil {
			order = append(order, words)
		}
		versions[words] = append(versions[words], v.String())
	}
	for _, v := range l.versions {
		if s := artifact.FoldStatus(l.events, v.String(), ""); s.Deprecated != nil {
			add("deprecated"+because(*s.Deprecated), v)
		}
	}
	for _, v := range versionsOf(l.tags) {
		if e, ok := l.yanked[v]; ok && now.Sub(e.Time) < yankWarnedDays*day {
			add("withdrawn"+because(e), v)
		}
	}
	var lines []string
	for i, words := range order {
		if i == maxWarnings {
			lines = append(lines, fmt.Sprintf("and %d more", len(order)-i))
			break
		}
		verb := " is "
		if len(versions[words]) > 1 {
			verb = " are "
		}
		lines = append(lines, shorten(strings.Join(versions[words], ", ")+verb+words, maxWarning))
	}
	return lines
}

// shorten cuts a text at a rune.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// listed is list for a question about one version: a repository that is not
// listed yet, because another replica has just made it, has no events.
func (s *store) listed(ctx context.Context, repository string) (*listing, error) {
	l, err := s.list(ctx, repository)
	if errors.Is(err, oci.ErrNotFound) {
		return &listing{}, nil
	}
	return l, err
}
