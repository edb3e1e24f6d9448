// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// Announcement changes how a version is listed.
type Announcement struct {
	Action      string // evidence.ActionDeprecate, …Undeprecate, …Yank or …Unyank
	Version     string // exact, or evidence.AllVersions: those that exist now
	Message     string // shown to the users
	Replacement string // version or address to use instead
	Actor       string
	DeleteTag   bool // for a yank: remove the tag if the registry supports it
	Declared    bool // the replacement may be published later, as for an object in a cluster
	// Visible reports whether the caller may read an item, else its existence is not said. Nil:
	// all.
	Visible func(addr.Item) bool
}

// Announce records an announcement. The version must exist, or have existed: unyank restores its
// tag while the manifest is there. The warnings list what failed.
func (d *Depot) Announce(ctx context.Context, it addr.Item, an Announcement) (event evidence.StatusEvent, warnings []string, err error) {
	r, err := d.Repo(it.Repository(d.o.Layout))
	if err != nil {
		return evidence.StatusEvent{}, nil, err
	}
	defer d.lock(r.String())()
	l, err := ReadListing(ctx, r, it.Kind, nil)
	if err != nil {
		return evidence.StatusEvent{}, nil, err
	}
	if warnings, err = checkAnnounceable(ctx, d, l, an); err != nil {
		return evidence.StatusEvent{}, nil, err
	}
	if w, err := checkReplacement(ctx, d, l, an); an.Declared && errors.Is(err, oci.ErrNotFound) {
		warnings = append(warnings, "replacement: "+err.Error())
	} else if err != nil {
		return evidence.StatusEvent{}, nil, fmt.Errorf("replacement: %w", err)
	} else if w != "" {
		warnings = append(warnings, w)
	}
	e := evidence.StatusEvent{Action: an.Action, Version: an.Version, Message: an.Message, Replacement: an.Replacement, Actor: an.Actor, Time: evidence.NextStatusTime(l.Events, l.now())}
	latest := slices.Contains(l.Tags, artifact.TagLatest)
	e.Latest = latest && an.Action == evidence.ActionYank
	if an.Version == evidence.AllVersions && (an.Action == evidence.ActionYank || an.Action == evidence.ActionDeprecate) {
		for _, v := range slices.Concat(l.Versions, slices.Collect(maps.Keys(l.Hidden))) {
			e.Versions = append(e.Versions, v.String())
		}
		slices.Sort(e.Versions)
	}
	if !an.DeleteTag || an.Action != evidence.ActionYank || an.Version == evidence.AllVersions {
		event, err = evidence.PutStatusEvent(ctx, r, e)
	} else if event, err = withdrawVersion(ctx, r, e); event.Tag != "" && keepsTag(err) {
		warnings = append(warnings, fmt.Sprintf("%s is withdrawn, but can still be pulled by name, because the registry keeps the tag (%v); "+
			"`okara admin prune` may remove its manifest, which cannot be undone", an.Version, err))
		err = nil
	} else if v, wrong := addr.ParseVersion(an.Version); err == nil && wrong == nil {
		after := l.withEvent(event)
		dropPartTags(ctx, after, partTags(ctx, after), []addr.Version{v})
	}
	hadLatest := func(e evidence.StatusEvent) bool { return e.Latest }
	back := an.Action == evidence.ActionUnyank && slices.ContainsFunc(l.Events, hadLatest) // a yank removed it
	if it.Kind == addr.KindModule && event.Tag != "" && (e.Latest || back || latest && an.Action == evidence.ActionUnyank) {
		warnings = append(warnings, MoveLatest(ctx, l.withEvent(event))...)
	}
	return event, warnings, err
}

// withEvent returns the list with a new event, which a cache may lack.
func (l *Listing) withEvent(e evidence.StatusEvent) *Listing {
	next := *l
	next.Events = append(slices.Clone(l.Events), e)
	next.Tags = slices.Sorted(slices.Values(append(slices.Clone(l.Tags), e.Tag)))
	return &next
}

// checkReplacement checks that a version exists; an address may belong to another registry.
func checkReplacement(ctx context.Context, d *Depot, l *Listing, an Announcement) (warning string, err error) {
	replacement := an.Replacement
	if v, err := addr.ParseVersion(replacement); err == nil {
		if !slices.Contains(l.Versions, v) {
			return "", l.NoVersion(v)
		}
		return "", nil
	}
	s, err := addr.ParseSelection(replacement)
	if err != nil || an.Visible != nil && !an.Visible(s.Item) {
		return "", nil // free text, or not to be told
	}
	_, err = d.Versions(ctx, s.Item)
	if errors.Is(err, oci.ErrNotFound) {
		return fmt.Sprintf("the replacement %s is not in this registry", replacement), nil
	}
	return "", err
}

// keepsTag reports whether the registry refuses to delete any tag, this one, or any for this
// account.
func keepsTag(err error) bool {
	return errors.Is(err, oci.ErrUnsupported) || errors.Is(err, oci.ErrDenied)
}

// checkAnnounceable checks that a version exists, and restores it for an unyank.
func checkAnnounceable(ctx context.Context, d *Depot, l *Listing, an Announcement) (warnings []string, err error) {
	if an.Version == evidence.AllVersions {
		return keptWarning(l, an.Action), l.emptyError()
	}
	v, err := addr.ParseVersion(an.Version)
	if err != nil || l.hasVersion(v) {
		return nil, err
	}
	was := l.lastRemoval(v)
	if an.Action != evidence.ActionUnyank || was == nil && l.Status(v).Yanked == nil {
		return nil, l.NoVersion(v)
	}
	if was != nil && l.Kind == addr.KindModule { // the number may have moved after the event
		records, err := readRecords(ctx, l, v)
		if err != nil {
			return nil, err
		}
		was = &records[0]
	}
	err = fmt.Errorf("its content is not known: %w", oci.ErrNotFound)
	if was != nil {
		var m oci.Manifest
		if m, err = l.Repository.Fetch(ctx, was.Subject.String()); err == nil {
			lost, err := lostParts(ctx, l.Repository, m)
			if err != nil {
				return nil, err
			}
			if len(lost) > 0 {
				return []string{fmt.Sprintf("the registry has lost %d parts of version %s; publish the same files again", len(lost), v)}, nil
			}
			_, warnings, err = putVersion(ctx, l, v, m, putOptions{own: isWaited}) // the publish time stays
			return warnings, err
		}
	}
	if it, ok := d.o.Layout.Parse(l.Repository.Name()); ok && it.Kind == addr.KindMirror && errors.Is(err, oci.ErrNotFound) {
		return []string{fmt.Sprintf("version %s was deleted from the registry; mirror it again", v)}, nil
	}
	return nil, fmt.Errorf("version %s was removed and cannot be restored: %w", v, err)
}

// keptWarning warns that what is taken back for all versions stays where a version has its own.
func keptWarning(l *Listing, action string) []string {
	took := map[string]string{evidence.ActionUnyank: evidence.ActionYank, evidence.ActionUndeprecate: evidence.ActionDeprecate}[action]
	own := map[addr.Version]bool{}
	for _, e := range l.Events {
		if v, err := addr.ParseVersion(e.Version); err == nil && (e.Action == took || e.Action == action) {
			own[v] = e.Action == took
		}
	}
	maps.DeleteFunc(own, func(_ addr.Version, is bool) bool { return !is })
	if len(own) == 0 {
		return nil
	}
	versions := slices.SortedFunc(maps.Keys(own), addr.Version.Compare)
	return []string{fmt.Sprintf("%s kept their own status: %s; undo it for each", text.Plural(len(own), "version"), text.Excerpt(fmt.Sprint(versions)))}
}

// withdrawVersion yanks a version, then removes its tag. The event records what it named, to be
// restored, and that the number names nothing else; once written it has a Tag. Who adds platforms
// bids before looking for the event, which is written before looking for bids: nothing readable is
// missing in it.
func withdrawVersion(ctx context.Context, r *oci.Repo, e evidence.StatusEvent) (evidence.StatusEvent, error) {
	v, err := addr.ParseVersion(e.Version)
	if err != nil {
		return e, err
	}
	m, err := r.Fetch(ctx, v.Tag())
	if err != nil && !errors.Is(err, oci.ErrNotFound) { // damaged, but it has a digest
		if m.Descriptor, err = r.Resolve(ctx, v.Tag()); err != nil {
			return e, err
		}
	}
	var begun time.Time
	for {
		begun = time.Now().Round(0)
		e.Subject = m.Digest
		e.Content = fixedContent(m)
		if e, err = evidence.PutStatusEvent(ctx, r, e); err != nil {
			return e, err
		}
		if _, err := artifact.ParseProviderIndex(m); err != nil {
			break
		}
		recorded := m.Digest
		if m, err = awaitExtended(ctx, r, v, m); err != nil || m.Digest == recorded {
			break
		}
		e.Time = evidence.NextStatusTime([]evidence.StatusEvent{e}, e.Time.Add(time.Since(begun)))
	}
	switch {
	case err != nil:
	case time.Since(begun) > bidValid: // see checkRemoved
		err = fmt.Errorf("%s:%s is yanked, but keeps its tag, because removing it took more than %s; repeat the command", r, v.Tag(), bidValid)
	default:
		err = r.Untag(ctx, v.Tag())
	}
	if errors.Is(err, oci.ErrNotFound) {
		err = nil
	}
	return e, err
}

// awaitExtended waits for those who extend an index, and returns what the version names then.
func awaitExtended(ctx context.Context, r *oci.Repo, v addr.Version, m oci.Manifest) (oci.Manifest, error) {
	b := &bid{repo: r, version: v, root: m, replaces: m.Digest, list: &Listing{Kind: addr.KindProvider}}
	for waited := range bidRivals {
		list, err := r.Snapshot(ctx)
		if err != nil {
			return m, err
		}
		b.keepClock(list)
		if len(b.rivalDigests(ctx, list.Tags)) == 0 {
			return r.Fetch(ctx, v.Tag())
		}
		if err := text.Wait(ctx, bidRivalPause<<waited); err != nil {
			return m, err
		}
	}
	return m, fmt.Errorf("%s:%s is yanked, but keeps its tag, because someone is adding platforms to it, or was interrupted while doing so; repeat the command after at most %s: %w", r, v.Tag(), bidExpires, oci.ErrExists)
}

// A publish time is the tag okara-time-<13 digits, Unix milliseconds>-<version tag>, in the list
// that all read. It is not in the version's manifest: the same content has the same digest. Its own
// manifest protects no version from garbage collection, and says what was published, for a version
// whose tag somebody removes.
const (
	timePrefix   = "okara-time-"
	timeDigits   = 13
	artifactTime = "application/vnd.okara.time.v1"
	maxTag       = 128

	annTimeManifest = "vnd.okara.time.manifest" // digest of the manifest of the version
	annTimeContent  = "vnd.okara.time.content"  // what must never change in it, in words
)

func parseTime(tag string) (version string, at time.Time, ok bool) {
	rest, ok := strings.CutPrefix(tag, timePrefix)
	if !ok || len(rest) <= timeDigits || rest[timeDigits] != '-' || strings.Trim(rest[:timeDigits], "0123456789") != "" {
		return "", time.Time{}, false
	}
	ms, err := strconv.ParseInt(rest[:timeDigits], 10, 64)
	return rest[timeDigits+1:], time.UnixMilli(ms).UTC(), err == nil
}

// Published returns when a version was published, by record or annotations, or zero. A recorded
// time before the manifest's creation is ignored.
func (l *Listing) Published(v addr.Version, annotations map[string]string) time.Time {
	at := l.Times[v.Tag()]
	created, err := time.Parse(time.RFC3339, annotations[artifact.AnnCreated])
	if moved := l.moved[v.Tag()]; moved.After(at) {
		at = moved
	}
	if err != nil || created.After(time.Now().Add(clocksDiffer)) || !at.Before(created.Truncate(time.Second)) {
		return at
	}
	return created.UTC()
}

// clocksDiffer is the accepted difference between the clocks of publishers.
const clocksDiffer = time.Minute

// timesIn returns times in sorted tags, none of the future. Of several the last counts: anybody may
// push one, before a version exists too, and none must look older to a policy of a minimum age.
// Editions' times count for a version that has none, and are the ages of the others.
func timesIn(tags []string, now time.Time) (times, moved map[string]time.Time) {
	times = map[string]time.Time{}
	moved = map[string]time.Time{}
	first, _ := slices.BinarySearch(tags, timePrefix)
	for _, tag := range tags[first:] {
		if !strings.HasPrefix(tag, timePrefix) {
			break
		}
		version, at, ok := parseTime(tag)
		if !ok || at.After(now.Add(clocksDiffer)) {
			continue
		}
		times[version] = at
		if v, ok := addr.VersionFromTag(version); ok && v.Edition() {
			moved[v.EditionOf().Tag()] = at
		}
	}
	for version, at := range moved {
		if times[version].IsZero() {
			times[version] = at
		}
	}
	return times, moved
}

// recordGrowth records that a published version names an index with more platforms: some
// milliseconds later, as many as its digest says, lest two have one tag.
func recordGrowth(ctx context.Context, l *Listing, version string, is oci.Manifest) (warnings []string) {
	at, ok := l.Times[version]
	later, err := strconv.ParseUint(is.Digest.Encoded()[:growthHex], 16, 64)
	if !ok || err != nil {
		return nil // it would become younger
	}
	return recordTime(ctx, l.Repository, version, at.Add(time.Duration(later+1)*time.Millisecond), is)
}

const growthHex = 3 // up to four seconds

// completeTime records the time of a version without one, as after a kill. It stays as old as it
// was; of two with one number the first stays.
func (l *Listing) completeTime(ctx context.Context, v addr.Version) (warnings []string) {
	if l.Cached || !l.hasVersion(v) || !l.Times[v.Tag()].IsZero() || l.duplicateOf(v) != (addr.Version{}) {
		return nil
	}
	m, err := l.Repository.Fetch(ctx, v.Tag())
	if err != nil {
		return []string{fmt.Sprintf("publish time of %s not recorded: %v", v, err)}
	}
	at := l.Published(v, artifact.AnnotationsOf(m))
	if at.Unix() <= 0 {
		at = time.Now()
	}
	return recordTime(ctx, l.Repository, v.Tag(), at, m)
}

// maxTimedTag bounds the tag of a new version, for which there must be a record.
const maxTimedTag = maxTag - len(timePrefix) - timeDigits - 1

// recordTime records a version's time; a failure is a warning.
func recordTime(ctx context.Context, r *oci.Repo, version string, at time.Time, was oci.Manifest) (warnings []string) {
	return recordMove(ctx, r, version, version, at, was)
}

// recordMove records the time of a version, or the edition it moved to.
func recordMove(ctx context.Context, r *oci.Repo, number, version string, at time.Time, was oci.Manifest) (warnings []string) {
	if len(version) > maxTimedTag { // of okara before 0.1.0
		return nil
	}
	tag := fmt.Sprintf("%s%0*d-%s", timePrefix, timeDigits, at.UnixMilli(), version)
	m, err := artifact.NewBare(artifactTime, map[string]string{
		artifact.AnnOkaraVersion: number, artifact.AnnTitle: tag, annTimeManifest: was.Digest.String(), annTimeContent: strings.Join(fixedContent(was), " "),
	})
	if err == nil {
		err = artifact.PutBare(ctx, r, tag, m)
	}
	if err != nil {
		return []string{fmt.Sprintf("publish time of %s not recorded: %v", version, err)}
	}
	return nil
}

// readTime returns what a publish time says of content, as a removal; nil if nothing is recorded,
// as before 0.1.0, or of an edition to which the number did not move.
func readTime(ctx context.Context, r *oci.Repo, tag string, v addr.Version) (*evidence.StatusEvent, error) {
	m, err := r.Fetch(ctx, tag)
	if errors.Is(err, oci.ErrNotFound) {
		return nil, nil
	}
	was := parseTimeRecord(m)
	version, _, _ := parseTime(tag)
	if err != nil || was == nil || version != v.Tag() && artifact.AnnotationsOf(m)[artifact.AnnOkaraVersion] != v.Tag() {
		return nil, err
	}
	was.Version = version
	return was, nil
}

// parseTimeRecord returns nil if a manifest is none of a publish time: anybody may push such a tag.
func parseTimeRecord(m oci.Manifest) *evidence.StatusEvent {
	image, err := m.Image()
	was := &evidence.StatusEvent{Subject: digest.Digest(image.Annotations[annTimeManifest]), Content: strings.Fields(image.Annotations[annTimeContent])}
	if err != nil || image.ArtifactType != artifactTime || was.Subject.Validate() != nil {
		return nil
	}
	return was
}

// dropTimes removes removed versions' times, as far as the registry allows, but those that decide
// which of two is hidden, or to which edition a number that stays moved. By digest it deletes only
// okara's own manifests.
func dropTimes(ctx context.Context, l *Listing, gone []addr.Version) {
	first := slices.Collect(maps.Values(l.Hidden))
	for _, tag := range l.Tags {
		version, _, _ := parseTime(tag)
		v, _ := addr.VersionFromTag(version)
		if !slices.Contains(gone, v) || l.duplicateOf(v) != (addr.Version{}) || slices.Contains(first, v) {
			continue
		}
		if number := v.EditionOf(); !slices.Contains(gone, number) {
			if was, err := readTime(ctx, l.Repository, tag, number); was != nil || err != nil {
				continue
			}
		}
		isRecord := func(m oci.Manifest) bool {
			image, err := m.Image()
			return err == nil && image.ArtifactType == artifactTime && image.Annotations[artifact.AnnTitle] == tag
		}
		if dropTag(ctx, l.Repository, tag, isRecord) != nil {
			return
		}
	}
}
