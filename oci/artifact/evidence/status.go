// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// ArtifactStatus is the type of an event that changes how a version is listed.
const ArtifactStatus = "application/vnd.okara.status.v1"

// Actions of a status event. ActionResign replaces a provider version's signature and keys.
const (
	ActionDeprecate   = "deprecate"
	ActionUndeprecate = "undeprecate"
	ActionYank        = "yank"
	ActionUnyank      = "unyank"
	ActionResign      = "resign"
)

// AllVersions in a StatusEvent means every version of the repository, or those in its Versions.
const AllVersions = "*"

const (
	annStatusAction      = "vnd.okara.status.action"
	annStatusVersion     = "vnd.okara.status.version"
	annStatusSubject     = "vnd.okara.status.subject"
	annStatusContent     = "vnd.okara.status.content"
	annStatusMessage     = "vnd.okara.status.message"
	annStatusReplacement = "vnd.okara.status.replacement"
	annStatusTime        = "vnd.okara.status.time"
	annStatusActor       = "vnd.okara.status.actor"
	annStatusLatest      = "vnd.okara.status.latest" // "true", or absent
	annStatusVersions    = "vnd.okara.status.versions"

	statusTagPrefix = "okara-status-"
	maxMessage      = 300
	maxActor        = 128
	statusParallel  = 8
	statusTimeEnd   = 1e13 // of 13 digits
)

// StatusEvent is an entry of a repository's history. Its tag is unique, so writers never collide,
// and never changes, so readers can cache it.
type StatusEvent struct {
	Tag         string // filled by ParseStatusEvent and PutStatusEvent
	Action      string
	Version     string        // exact, or AllVersions
	Subject     digest.Digest // of the index, for ActionResign; of the manifest whose tag was removed, for ActionYank
	Content     []string      // of that manifest, for ActionYank: one word for each part that must never change; nil: unknown
	Message     string
	Replacement string
	Actor       string
	Time        time.Time
	Layers      []oci.Descriptor // signature and keys, for ActionResign
	Latest      bool             // the module had the tag latest, for ActionYank
	Versions    []string         // that existed, for AllVersions; nil: all, those to come as well, as before 0.1.0
}

// Because returns message and replacement as the continuation of a sentence; "" if there are none.
func (e StatusEvent) Because() string {
	because := ""
	if e.Message != "" {
		because = ": " + e.Message
	}
	if e.Replacement != "" {
		because += "; use " + e.Replacement
	}
	return because
}

// Covers reports whether the event is about a version.
func (e StatusEvent) Covers(version string) bool {
	if e.Version != AllVersions {
		return e.Version == version
	}
	return len(e.Versions) == 0 || slices.Contains(e.Versions, version)
}

// IsStatusTag reports whether tag is the tag of a status event.
func IsStatusTag(tag string) bool {
	rest, ok := strings.CutPrefix(tag, statusTagPrefix)
	ms, id, ok2 := strings.Cut(rest, "-")
	isTime := len(ms) == 13 && strings.Trim(ms, "0123456789") == ""
	isID := len(id) == 16 && strings.Trim(id, "0123456789abcdef") == ""
	return ok && ok2 && isTime && isID
}

// PutStatusEvent stores the event under a tag of its own and returns it with that, if it is
// written. blobs are those of e.Layers.
func PutStatusEvent(ctx context.Context, r *oci.Repo, e StatusEvent, blobs ...oci.Blob) (StatusEvent, error) {
	if err := e.check(); err != nil {
		return e, err
	}
	layers := e.Layers
	if len(layers) == 0 {
		layers = []oci.Descriptor{artifact.EmptyConfig()}
	}
	annotations := map[string]string{artifact.AnnKind: artifact.KindStatus}
	for key, value := range map[string]string{
		annStatusAction: e.Action, annStatusVersion: e.Version, annStatusSubject: e.Subject.String(), annStatusContent: strings.Join(e.Content, " "), annStatusMessage: e.Message,
		annStatusReplacement: e.Replacement, annStatusActor: e.Actor, annStatusTime: e.Time.UTC().Format(time.RFC3339Nano),
		annStatusLatest: map[bool]string{true: "true"}[e.Latest], annStatusVersions: strings.Join(e.Versions, " "),
	} {
		if value != "" {
			annotations[key] = value
		}
	}
	m, err := oci.NewManifest(ocispec.Manifest{ArtifactType: ArtifactStatus, Config: artifact.EmptyConfig(), Layers: layers, Annotations: annotations})
	if err != nil {
		return e, err
	}
	if _, err := r.Push(ctx, oci.Artifact{Blobs: append(blobs, oci.EmptyBlob()), Root: m}); err != nil {
		return e, err
	}
	if err := r.CheckHandedOut(ctx, m.Digest); err != nil {
		return e, err
	}
	tag := statusTag(e.Time)
	if err := r.PutTag(ctx, tag, m); err != nil {
		return e, err
	}
	e.Tag = tag
	return e, nil
}

func statusTag(t time.Time) string {
	id := make([]byte, 8)
	rand.Read(id) // never fails
	return fmt.Sprintf("%s%013d-%s", statusTagPrefix, t.UnixMilli(), hex.EncodeToString(id))
}

func (e StatusEvent) check() error {
	if _, err := addr.ParseVersion(e.Version); err != nil && e.Version != AllVersions {
		return err
	}
	switch {
	case e.Time.UnixMilli() < 0 || e.Time.UnixMilli() >= statusTimeEnd:
		return fmt.Errorf("the event has the time %s: %w", e.Time, oci.ErrCorrupt)
	case !slices.Contains([]string{ActionDeprecate, ActionUndeprecate, ActionYank, ActionUnyank, ActionResign}, e.Action):
		return fmt.Errorf("unknown action %q: %w", e.Action, oci.ErrCorrupt)
	case len(e.Message) > maxMessage:
		return fmt.Errorf("message of %d bytes, the limit is %d: %w", len(e.Message), maxMessage, oci.ErrTooLarge)
	case len(e.Actor) > maxActor:
		return fmt.Errorf("actor of %d bytes, the limit is %d: %w", len(e.Actor), maxActor, oci.ErrTooLarge)
	case e.Action == ActionResign && (e.Subject.Validate() != nil || len(e.Layers) == 0):
		return fmt.Errorf("a resign event requires the digest of the index and layers: %w", oci.ErrCorrupt)
	}
	return nil
}

// ParseStatusEvent reads the event under tag.
func ParseStatusEvent(tag string, m oci.Manifest) (StatusEvent, error) {
	image, err := m.Image()
	if err != nil {
		return StatusEvent{}, err
	}
	if image.ArtifactType != ArtifactStatus {
		return StatusEvent{}, fmt.Errorf("manifest %s has artifact type %q: %w", m.Digest, image.ArtifactType, oci.ErrCorrupt)
	}
	a := image.Annotations
	e := StatusEvent{
		Tag: tag, Action: a[annStatusAction], Version: a[annStatusVersion], Subject: digest.Digest(a[annStatusSubject]), Content: strings.Fields(a[annStatusContent]),
		Message: text.Excerpt(a[annStatusMessage]), Replacement: text.Excerpt(a[annStatusReplacement]), Actor: text.Excerpt(a[annStatusActor]),
		Latest: a[annStatusLatest] == "true", Versions: strings.Fields(a[annStatusVersions]),
	}
	if e.Time, err = time.Parse(time.RFC3339, a[annStatusTime]); err != nil {
		return StatusEvent{}, fmt.Errorf("status event %s: %v: %w", tag, err, oci.ErrCorrupt)
	}
	for _, layer := range image.Layers {
		if layer.MediaType != ocispec.MediaTypeEmptyJSON {
			e.Layers = append(e.Layers, layer)
		}
	}
	return e, e.check()
}

// MaxStatusAhead is how far an event may be ahead of the clock: no later time could take it back.
const MaxStatusAhead = 24 * time.Hour

// IsStatusAhead reports whether the time in a tag is too far ahead, by the clock of the registry,
// if it is known, and by the own one: the event has no effect.
func IsStatusAhead(tag string, date time.Time) bool {
	at := StatusTime(tag).Add(-MaxStatusAhead)
	return at.After(date) && at.After(time.Now())
}

// ReadStatusEvents reads the events in a list of the repository's tags, in chronological order,
// without those of the future and damaged ones. dangling tags are listed although their GET returns
// 404, as a registry that crashes while writing a tag leaves them.
func ReadStatusEvents(ctx context.Context, r *oci.Repo, list oci.TagList) (out []StatusEvent, dangling []string, err error) {
	wanted := slices.Sorted(slices.Values(list.Tags))
	wanted = slices.DeleteFunc(wanted, func(tag string) bool { return !IsStatusTag(tag) || IsStatusAhead(tag, list.Date) })
	events := make([]*StatusEvent, len(wanted))
	missing := make([]bool, len(wanted))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(statusParallel)
	for i, tag := range wanted {
		g.Go(func() error {
			m, err := r.Fetch(ctx, tag)
			if missing[i] = errors.Is(err, oci.ErrNotFound); missing[i] {
				return nil
			}
			if err != nil {
				return err
			}
			if e, err := ParseStatusEvent(tag, m); err == nil {
				events[i] = &e
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, nil, fmt.Errorf("read status events of %s: %w", r, err)
	}
	for i, e := range events {
		if e != nil {
			out = append(out, *e)
		}
		if missing[i] {
			dangling = append(dangling, wanted[i])
		}
	}
	return out, dangling, nil
}

// Status is the status of one version according to the events. A nil field means no.
type Status struct {
	Deprecated *StatusEvent
	Yanked     *StatusEvent
	Resigned   *StatusEvent // whose layers replace those of the index
}

// Text describes a status in a few words; "": nothing to report.
func (s Status) Text() string {
	var parts []string
	for _, p := range []struct {
		word  string
		event *StatusEvent
	}{{"yanked", s.Yanked}, {"deprecated", s.Deprecated}} {
		if p.event == nil {
			continue
		}
		text := p.word
		if p.event.Message != "" {
			text += ": " + p.event.Message
		}
		if p.event.Replacement != "" {
			text += " (use " + p.event.Replacement + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// FoldStatus returns the status of the version with this manifest: of each pair of opposite actions
// the last event counts. One about all versions takes back only what such events did; one about the
// version takes back both. Events must be in the order of ReadStatusEvents.
func FoldStatus(events []StatusEvent, version string, manifest digest.Digest) Status {
	var deprecated, yanked mark
	var s Status
	for i, e := range events {
		if !e.Covers(version) {
			continue
		}
		switch e.Action {
		case ActionDeprecate:
			deprecated.set(e)
		case ActionUndeprecate:
			deprecated.clearMark(e)
		case ActionYank:
			yanked.set(e)
		case ActionUnyank:
			yanked.clearMark(e)
		case ActionResign:
			if e.Subject == manifest {
				s.Resigned = &events[i]
			}
		}
	}
	s.Deprecated = deprecated.last
	s.Yanked = yanked.last
	return s
}

// mark is one of two opposite states of a version. last is own or all.
type mark struct{ own, all, last *StatusEvent }

func (m *mark) set(e StatusEvent) {
	m.last = e.asSuccessor(m.last)
	if e.Version == AllVersions {
		m.all = m.last
	} else {
		m.own = m.last
	}
}

func (m *mark) clearMark(e StatusEvent) {
	if m.all = nil; e.Version != AllVersions {
		m.own = nil
	}
	m.last = m.own
}

// asSuccessor returns e, which repeats message and replacement of before if it has neither.
func (e StatusEvent) asSuccessor(before *StatusEvent) *StatusEvent {
	if before != nil && e.Message == "" && e.Replacement == "" {
		e.Message = before.Message
		e.Replacement = before.Replacement
	}
	return &e
}

// Resigned is ReadProviderMetadata with the layers of the resign event, if any, in their place.
func Resigned(ctx context.Context, r *oci.Repo, x artifact.ProviderIndex, s Status) (artifact.ProviderMetadata, error) {
	if s.Resigned == nil {
		return artifact.ReadProviderMetadata(ctx, r, x)
	}
	return artifact.ReadProviderMetadata(ctx, r, x, s.Resigned.Layers...)
}

// NextStatusTime returns the time now, but at least a millisecond after the last of the ordered
// events: a clock that is behind must not change the order.
func NextStatusTime(events []StatusEvent, now time.Time) time.Time {
	now = now.UTC()
	if n := len(events); n > 0 {
		if last := StatusTime(events[n-1].Tag); !now.After(last.Add(time.Millisecond)) {
			return last.Add(time.Millisecond)
		}
	}
	return now
}

// StatusTime returns when the event with this tag was written; zero for any other tag.
func StatusTime(tag string) time.Time {
	if !IsStatusTag(tag) {
		return time.Time{}
	}
	ms, err := strconv.ParseInt(tag[len(statusTagPrefix):len(statusTagPrefix)+13], 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
