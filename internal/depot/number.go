// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// A number is used once: after it was readable, it names the same content, or nothing. The yank
// that removed a tag is the record, see [Listing.lastRemoval], also when it was taken back.

// numberOf returns what is unique among versions of a kind: the tools compare modules without what
// follows "+", providers whole.
func numberOf(kind string, v addr.Version) addr.Version {
	if kind == addr.KindModule {
		return v.Number()
	}
	return v
}

// lastRemoval returns the last event that removed a version's tag, or nil. Only its manifest, or
// one of its content, may be that version again.
func (l *Listing) lastRemoval(v addr.Version) *evidence.StatusEvent {
	for i, e := range slices.Backward(l.Events) {
		if o, ok := removedVersion(e); ok && o == v {
			return &l.Events[i]
		}
	}
	return nil
}

// removedVersion returns the version whose tag the event removed.
func removedVersion(e evidence.StatusEvent) (addr.Version, bool) {
	v, err := addr.ParseVersion(e.Version)
	return v, err == nil && e.Action == evidence.ActionYank && e.Subject.Validate() == nil
}

// duplicateOf returns another version with the number of v, which exists, was
// removed, or has a recorded time; zero if there is none.
func (l *Listing) duplicateOf(v addr.Version) addr.Version {
	number := numberOf(l.Kind, v)
	is := func(o addr.Version) bool { return o != v && numberOf(l.Kind, o) == number }
	if i := slices.IndexFunc(l.Versions, is); i >= 0 {
		return l.Versions[i]
	}
	for _, e := range l.Events {
		if o, ok := removedVersion(e); ok && is(o) {
			return o
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(l.Times)) {
		if o, ok := addr.VersionFromTag(tag); ok && is(o) {
			return o
		}
	}
	return addr.Version{}
}

// hide moves versions to Hidden that others, or an earlier okara, published beside one of their
// number. One without a recorded time may be younger than any.
func (l *Listing) hide() {
	if l.Kind != addr.KindModule {
		return
	}
	first := map[addr.Version]addr.Version{}
	consider := func(v addr.Version) {
		if have, ok := first[v.Number()]; !ok || l.publishedBefore(v, have) {
			first[v.Number()] = v
		}
	}
	for _, v := range l.Versions {
		consider(v)
	}
	for _, e := range l.Events {
		if v, ok := removedVersion(e); ok {
			consider(v)
		}
	}
	for tag := range l.Times {
		if v, ok := addr.VersionFromTag(tag); ok {
			consider(v) // its tag may have been removed without okara
		}
	}
	l.Versions = slices.DeleteFunc(l.Versions, func(v addr.Version) bool {
		winner := first[v.Number()]
		if winner != v {
			if l.Hidden == nil {
				l.Hidden = map[addr.Version]addr.Version{}
			}
			l.Hidden[v] = winner
		}
		return winner != v
	})
}

// publishedBefore compares the recorded times of two versions.
func (l *Listing) publishedBefore(a, b addr.Version) bool {
	at, known := l.Times[a.Tag()]
	other, otherKnown := l.Times[b.Tag()]
	switch {
	case known != otherKnown:
		return known
	case !at.Equal(other):
		return at.Before(other)
	}
	return a.Compare(b) < 0
}

// fixedContent returns what never changes: a module's tar and the folder that is installed, or a
// provider's zips; empty if not recorded.
func fixedContent(m oci.Manifest) []string {
	if module, err := artifact.ParseModule(m); err == nil {
		content := strings.Fields(module.ContentDigest)
		if len(content) == recordsNoFolder {
			content = append(content, "//"+url.PathEscape(module.Annotations[artifact.AnnModulePath]))
		}
		return content
	}
	index, err := artifact.ParseProviderIndex(m)
	if err != nil {
		return nil
	}
	var parts []string
	for _, p := range index.Platforms {
		parts = append(parts, p.Platform.String()+"="+p.Zh)
	}
	return parts
}

// recordsNoFolder is the length of a module's content in records before 0.1.0, without its folder.
const recordsNoFolder = 1

// hasContentOf reports whether two manifests of a version lead to the same files, as stored.
func hasContentOf(a, b oci.Manifest) bool {
	if module, err := artifact.ParseModule(a); err == nil {
		other, err := artifact.ParseModule(b)
		isSame := func(x, y oci.Descriptor) bool { return x.Digest == y.Digest }
		return err == nil && module.Version == other.Version && module.Dir() == other.Dir() && slices.EqualFunc(layersOf(module), layersOf(other), isSame)
	}
	return addsPlatforms(a, b) && addsPlatforms(b, a)
}

// ShareFiles reports whether one manifest has all files of the other: both can be one version.
func ShareFiles(a, b oci.Manifest) bool {
	has, other := fixedContent(a), fixedContent(b)
	return len(has) > 0 && len(other) > 0 && (hasAll(has, other) || hasAll(other, has))
}

func hasAll(all, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !slices.Contains(all, part) })
}

// CheckRemoval returns the conflict of another registry's event with what a version is or was here.
func CheckRemoval(ctx context.Context, l *Listing, e evidence.StatusEvent) error {
	v, ok := removedVersion(e)
	if !ok {
		return nil
	}
	var records []evidence.StatusEvent
	var err error
	if l.hasVersion(v) {
		var m oci.Manifest
		m, err = l.Repository.Fetch(ctx, v.Tag())
		records = []evidence.StatusEvent{{Subject: m.Digest, Content: fixedContent(m)}}
	} else {
		records, err = readRecords(ctx, l, v)
	}
	switch {
	case err != nil, slices.ContainsFunc(records, func(was evidence.StatusEvent) bool { return isTruth(l.Kind, e, was) }):
		return err
	case len(records) > 0:
		return l.conflictWith(v, records[0].Subject.String(), e.Subject.String())
	case !l.Times[v.Tag()].IsZero(): // from before it was recorded what a version is
		return l.conflictWith(v, "", "")
	}
	return l.checkDuplicate(v)
}

// checkNumber returns the conflict if the number of v was used, and m is not what it
// named. With moves, it may have moved to the edition that it named last.
func (l *Listing) checkNumber(ctx context.Context, v addr.Version, m oci.Manifest, moves bool) error {
	if err := l.checkDuplicate(v); err != nil {
		return err
	}
	records, err := readRecords(ctx, l, v)
	if err != nil {
		return err
	}
	isNamed := slices.ContainsFunc(records, func(was evidence.StatusEvent) bool { return was.Subject == m.Digest })
	for _, was := range records {
		isKnown := len(was.Content) > 0
		if moves && was.Version != v.Tag() && was.Version != v.String() {
			continue
		}
		if was.Subject != m.Digest && (!isKnown || !hasAll(fixedContent(m), was.Content)) && (isKnown || !isNamed) {
			return l.conflictWith(v, was.Subject.String(), m.Digest.String())
		}
	}
	return nil
}

// readRecords returns what is recorded of a version whose tag is gone, as removals: by such an
// event, and publish times. The first is what it named last. A provider has all files of any; of a
// module, which moves between editions, only the last counts.
func readRecords(ctx context.Context, l *Listing, v addr.Version) (records []evidence.StatusEvent, err error) {
	after := time.Time{}
	if e := l.lastRemoval(v); e != nil {
		records = []evidence.StatusEvent{*e}
		after = evidence.StatusTime(e.Tag)
	}
	for _, tag := range slices.Backward(l.Tags) {
		version, at, ok := parseTime(tag)
		named, isVersion := addr.VersionFromTag(version)
		if !ok || !isVersion || named.EditionOf() != v && named != v || at.After(l.now().Add(clocksDiffer)) {
			continue
		}
		if l.Kind == addr.KindModule && !at.After(after) {
			break
		}
		was, err := readTime(ctx, l.Repository, tag, v)
		if err != nil {
			return nil, err
		}
		if was != nil && l.Kind == addr.KindModule {
			records = []evidence.StatusEvent{*was}
			break
		}
		if was != nil {
			records = append(records, *was)
		}
	}
	for i, was := range records {
		if l.Kind == addr.KindModule && len(was.Content) == recordsNoFolder {
			if m, err := l.Repository.Fetch(ctx, was.Subject.String()); err == nil {
				records[i].Content = fixedContent(m)
			} else if !errors.Is(err, oci.ErrNotFound) {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(records, func(a, b evidence.StatusEvent) int { return len(b.Content) - len(a.Content) })
	return records, nil
}

// checkDuplicate returns the conflict if another version has the number of v.
func (l *Listing) checkDuplicate(v addr.Version) error {
	duplicate := l.duplicateOf(v)
	if duplicate == (addr.Version{}) {
		return nil
	}
	err := l.conflictWith(v, "", "")
	err.Duplicate = duplicate
	return err
}

// Taken returns the conflict for a missing version whose number a withdrawn one used, or one that
// differs only after "+"; else nil.
func (l *Listing) Taken(v addr.Version) error {
	switch {
	case l.hasVersion(v):
		return nil
	case l.Status(v).Yanked != nil:
		return l.conflictWith(v, "", "")
	}
	return l.checkDuplicate(v)
}

// IsFree reports whether no version ever had the number of v, as far as is known.
func (l *Listing) IsFree(v addr.Version) bool {
	return !l.hasVersion(v) && l.Status(v).Yanked == nil && l.lastRemoval(v) == nil && l.Times[v.Tag()].IsZero() && l.duplicateOf(v) == (addr.Version{})
}

// hasVersion reports whether the version has a tag, even if it is hidden.
func (l *Listing) hasVersion(v addr.Version) bool {
	_, hidden := l.Hidden[v]
	return hidden || slices.Contains(l.Versions, v)
}

// conflictWith returns the error for content that differs from the stored version.
func (l *Listing) conflictWith(v addr.Version, stored, offered string) *ConflictError {
	return &ConflictError{
		Repository: l.Repository.String(), Tag: v.Tag(), Stored: stored, Offered: offered, Withdrawn: l.Status(v).Yanked, Next: l.nextFree(v),
	}
}

// nextFree returns the first unused patch after v, or zero.
func (l *Listing) nextFree(v addr.Version) addr.Version {
	for range len(l.Versions) + len(l.Hidden) + len(l.Events) + 1 {
		v = v.NextPatch()
		if l.IsFree(v) {
			return v
		}
	}
	return addr.Version{}
}
