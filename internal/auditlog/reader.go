// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

const (
	keepFor = 90 * day // maximum age of a part that is read
	spare   = day      // additional time before deletion: another clock may be behind
	settled = 2 * day  // after this time a part seldom changes

	maxParts     = 20_000   // maximum number of parts read, the newest ones
	maxHeldBytes = 16 << 20 // of lines whose entries are held in memory
	maxHeld      = 50_000   // entries in memory
	readParallel = 4
	removeAtOnce = 100 // old tags deleted per hour
)

// reader reads the parts of all processes, and caches them.
type reader struct {
	repo   *oci.Repo
	sealer artifact.Sealer
	log    *slog.Logger

	reading sync.Mutex // held during a read

	mu    sync.Mutex            // guards the fields below
	parts map[string]*knownPart // by tag
	// The amount held in memory, and the newest part whose entries are not held.
	bytes, entries int
	cut            AuditTag
}

type knownPart struct {
	tag     AuditTag
	at      digest.Digest // of its manifest; "": it could not be read
	entries []*Entry      // oldest first; nil if they are not held
	bytes   int           // of its lines
	held    bool          // its entries are in memory
	final   bool          // its process has begun a later part
}

// state is the result of a read.
type state struct {
	entries    []*Entry   // newest first, those held in memory
	older      []AuditTag // parts whose entries are not held, newest first
	unreadable int        // number of parts that do not open or are not valid
	gone       []string   // expired tags
}

// readParts updates the cache. Known parts that are final are read again only if all is set.
func (r *reader) readParts(ctx context.Context, now time.Time, all bool) (state, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	list, err := r.repo.Snapshot(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return state{}, err
	}
	tags, newest, gone := sortTags(list.Tags, now.Add(-keepFor).UTC().Truncate(day))
	r.forgetParts(tags)
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(readParallel)
	for _, t := range tags {
		final := t.Compare(newest[t.ID]) != 0
		known := r.partOf(t)
		if !all && known.at != "" && (known.final || t.Day.Before(now.Add(-settled))) {
			continue
		}
		g.Go(func() error { return r.readPart(reading, t, known.at, final) })
	}
	if err := g.Wait(); err != nil {
		return state{}, err
	}
	s := r.sumParts()
	s.gone = gone
	return s, nil
}

// sortTags returns the parts from a day on, newest first, each process's newest, and expired tags.
func sortTags(names []string, oldest time.Time) (tags []AuditTag, newest map[string]AuditTag, gone []string) {
	newest = map[string]AuditTag{}
	for _, name := range names {
		t, ok := ParseAuditTag(name)
		switch {
		case !ok:
		case t.Day.Before(oldest):
			if t.Day.Before(oldest.Add(-spare)) {
				gone = append(gone, name)
			}
		default:
			tags = append(tags, t)
			if t.Compare(newest[t.ID]) > 0 {
				newest[t.ID] = t
			}
		}
	}
	slices.SortFunc(tags, func(a, b AuditTag) int { return b.Compare(a) })
	return tags[:min(len(tags), maxParts)], newest, gone
}

// readPart reads a part, unless it has the known digest.
func (r *reader) readPart(ctx context.Context, t AuditTag, known digest.Digest, final bool) error {
	k := &knownPart{tag: t, final: final}
	lines, at, err := ReadAudit(ctx, r.repo, r.sealer, t, known)
	switch {
	case err == nil && at == known:
		r.mu.Lock()
		r.parts[t.String()].final = final
		r.mu.Unlock()
		return nil
	case err == nil:
		if k.entries, err = parsePart(t, lines); err == nil {
			k.at = at
			k.bytes = len(lines)
		}
	case errors.Is(err, oci.ErrCorrupt), errors.Is(err, oci.ErrTooLarge), errors.Is(err, oci.ErrUnsupported):
	case errors.Is(err, oci.ErrNotFound):
		return nil // another replica deleted it
	default:
		return fmt.Errorf("read %s: %w", t, err)
	}
	if err != nil {
		r.log.Warn("reading a part of the audit log failed", "part", t.String(), "error", err)
	}
	r.keepPart(k)
	return nil
}

// keepPart stores a part in the cache, and drops entries of old parts if there are too many.
func (r *reader) keepPart(k *knownPart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.parts[k.tag.String()]; old != nil {
		r.dropLocked(old)
	}
	r.parts[k.tag.String()] = k
	if k.at == "" {
		return
	}
	k.held = true
	r.bytes += k.bytes
	r.entries += len(k.entries)
	if k.tag.Compare(r.cut) <= 0 {
		r.dropLocked(k)
		return
	}
	if r.bytes <= maxHeldBytes && r.entries <= maxHeld {
		return
	}
	for _, t := range slices.Backward(r.sortedLocked()) { // drop more than necessary, so that it happens seldom
		if r.bytes <= maxHeldBytes*3/4 && r.entries <= maxHeld*3/4 {
			break
		}
		r.dropLocked(r.parts[t.String()])
		r.cut = t
	}
}

// dropLocked removes the entries of a part from memory.
func (r *reader) dropLocked(k *knownPart) {
	if !k.held {
		return
	}
	r.bytes -= k.bytes
	r.entries -= len(k.entries)
	k.entries = nil
	k.held = false
}

// sortedLocked returns the tags of all known parts, newest first.
func (r *reader) sortedLocked() []AuditTag {
	tags := make([]AuditTag, 0, len(r.parts))
	for _, p := range r.parts {
		tags = append(tags, p.tag)
	}
	slices.SortFunc(tags, func(a, b AuditTag) int { return b.Compare(a) })
	return tags
}

// forgetParts drops parts that are not among tags.
func (r *reader) forgetParts(tags []AuditTag) {
	there := make(map[string]bool, len(tags))
	for _, t := range tags {
		there[t.String()] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.parts, func(tag string, k *knownPart) bool {
		if !there[tag] {
			r.dropLocked(k)
		}
		return !there[tag]
	})
}

func (r *reader) partOf(t AuditTag) knownPart {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.parts[t.String()]; k != nil {
		return *k
	}
	return knownPart{}
}

// sumParts combines the cached parts.
func (r *reader) sumParts() (s state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.sortedLocked() {
		switch p := r.parts[t.String()]; {
		case p.at == "":
			s.unreadable++
		case p.held:
			for _, e := range slices.Backward(p.entries) {
				s.entries = append(s.entries, e)
			}
		default:
			s.older = append(s.older, t)
		}
	}
	newestFirst(s.entries)
	return s
}

// newestFirst sorts entries; those of one process with equal times keep their order.
func newestFirst(all []*Entry) {
	slices.SortStableFunc(all, func(a, b *Entry) int { return b.Time.Compare(a.Time) })
}

// entriesOf reads the entries of a part again.
func (r *reader) entriesOf(ctx context.Context, t AuditTag) ([]*Entry, error) {
	lines, _, err := ReadAudit(ctx, r.repo, r.sealer, t, "")
	if err != nil {
		return nil, err
	}
	entries, err := parsePart(t, lines)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	slices.Reverse(entries)
	return entries, nil
}
