// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	own    func() (mark, bool) // the newest record that this process has written

	reading sync.Mutex // held during a read

	mu     sync.Mutex            // guards the fields below
	parts  map[string]*knownPart // by tag
	claims map[string]claim      // by process
	// The amount held in memory, and the newest part whose entries are not held.
	bytes, entries int
	cut            AuditTag
}

// knownPart is a part in the cache.
type knownPart struct {
	link
	at    digest.Digest // of its manifest; "": it could not be read
	bytes int           // of its lines
	held  bool          // its entries are in memory
	final bool          // its process has begun a later part
}

func newReader(repo *oci.Repo, s artifact.Sealer, own func() (mark, bool)) *reader {
	return &reader{repo: repo, sealer: s, own: own, parts: map[string]*knownPart{}, claims: map[string]claim{}}
}

// state is the result of a read.
type state struct {
	entries []*Entry   // newest first, those held in memory
	older   []AuditTag // parts whose entries are not held, newest first
	altered []Alteration
	gone    []string // expired tags
}

// read updates the cache. Known parts that are final are read again only if all is set.
func (r *reader) read(ctx context.Context, now time.Time, all bool) (state, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	gone, oldest, err := r.load(ctx, now, all)
	if err != nil {
		return state{}, err
	}
	s := r.sum()
	s.gone = gone
	links, claims := r.chain()
	if s.altered = check(links, claims, oldest); len(s.altered) == 0 {
		return s, nil
	}
	// A part may claim newer records of another part than were read: read again, and
	// check against the earlier claims.
	if gone, oldest, err = r.load(ctx, now, all); err != nil {
		return state{}, err
	}
	s = r.sum()
	s.gone = gone
	links, _ = r.chain()
	s.altered = check(links, claims, oldest)
	return s, nil
}

// load reads the parts that are new or may have changed. oldest is the first day of which
// no part may be missing.
func (r *reader) load(ctx context.Context, now time.Time, all bool) (gone []string, oldest time.Time, err error) {
	oldest = now.Add(-keepFor).UTC().Truncate(day)
	if m, ok := r.own(); ok {
		r.claim(m, "this replica")
	}
	list, err := r.repo.Snapshot(ctx)
	if err != nil && !errors.Is(err, oci.ErrNotFound) {
		return nil, oldest, err
	}
	var tags []AuditTag
	newest := map[string]AuditTag{}
	for _, name := range list.Tags {
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
	if len(tags) > maxParts {
		tags = tags[:maxParts]
		oldest = tags[maxParts-1].Day.Add(day)
	}
	r.forget(tags, oldest)
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(readParallel)
	for _, t := range tags {
		final := t.Compare(newest[t.ID]) != 0
		known := r.known(t)
		if !all && known.part != nil && (known.final || t.Day.Before(now.Add(-settled))) {
			continue
		}
		g.Go(func() error { return r.readPart(reading, t, known.at, final) })
	}
	return gone, oldest, g.Wait()
}

// readPart reads a part, unless it has the known digest.
func (r *reader) readPart(ctx context.Context, t AuditTag, known digest.Digest, final bool) error {
	k := &knownPart{link: link{tag: t}, final: final}
	lines, at, err := ReadAudit(ctx, r.repo, r.sealer, t, known)
	switch {
	case err == nil && at == known:
		r.mu.Lock()
		r.parts[t.String()].final = final
		r.mu.Unlock()
		return nil
	case err == nil:
		var p *part
		if p, err = parsePart(t, lines); err == nil {
			k.part = p
			k.at = at
			k.bytes = len(lines)
			for _, m := range p.Others {
				r.claim(m, t.String())
			}
			p.Others = nil // they are kept as claims
		} else {
			k.reason = "it cannot be read: " + err.Error()
		}
	case errors.Is(err, oci.ErrCorrupt), errors.Is(err, oci.ErrTooLarge), errors.Is(err, oci.ErrUnsupported):
		k.reason = "it does not open: " + err.Error()
	case errors.Is(err, oci.ErrNotFound):
		return nil // another replica deleted it; the check reports it if that was too early
	default:
		return fmt.Errorf("read %s: %w", t, err)
	}
	r.keep(k)
	return nil
}

// keep stores a part in the cache, and drops entries of old parts if there are too many.
func (r *reader) keep(k *knownPart) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.parts[k.tag.String()]; old != nil {
		r.dropLocked(old)
	}
	r.parts[k.tag.String()] = k
	if k.part == nil {
		return
	}
	k.held = true
	r.bytes += k.bytes
	r.entries += len(k.part.entries)
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
	r.entries -= len(k.part.entries)
	bare := *k.part
	bare.entries = nil
	k.part = &bare
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

// forget drops parts that are not among tags, and claims about days before oldest.
func (r *reader) forget(tags []AuditTag, oldest time.Time) {
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
	maps.DeleteFunc(r.claims, func(_ string, c claim) bool {
		t, _ := ParseAuditTag(c.Tag)
		return t.Day.Before(oldest)
	})
}

// claim records that a record existed.
func (r *reader) claim(m mark, by string) {
	t, ok := ParseAuditTag(m.Tag)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.claims[t.ID]; (!ok || c.N < m.N) && (ok || len(r.claims) < maxParts) {
		r.claims[t.ID] = claim{m, by}
	}
}

func (r *reader) known(t AuditTag) knownPart {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.parts[t.String()]; k != nil {
		return *k
	}
	return knownPart{}
}

// chain returns the arguments of [check]. The last records that were read become claims
// for later checks.
func (r *reader) chain() (links []link, claims map[string]claim) {
	r.mu.Lock()
	links = make([]link, 0, len(r.parts))
	claims = maps.Clone(r.claims)
	for _, p := range r.parts {
		links = append(links, p.link)
	}
	r.mu.Unlock()
	for _, l := range links {
		if l.part != nil {
			r.claim(mark{l.tag.String(), l.part.last}, "this replica")
		}
	}
	return links, claims
}

// sum combines the cached parts.
func (r *reader) sum() (s state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.sortedLocked() {
		switch p := r.parts[t.String()]; {
		case p.part == nil:
		case p.held:
			for _, e := range slices.Backward(p.part.entries) {
				s.entries = append(s.entries, e)
			}
		default:
			s.older = append(s.older, t)
		}
	}
	newestFirst(s.entries)
	return s
}

// newestFirst sorts entries of several processes. Entries of one process with equal times
// keep their order.
func newestFirst(all []*Entry) {
	slices.SortStableFunc(all, func(a, b *Entry) int { return b.Time.Compare(a.Time) })
}

// others returns the newest known records of all processes but one, by tag, newest first.
func (r *reader) others(id string) []mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []mark
	for other, c := range r.claims {
		if other != id {
			all = append(all, c.mark)
		}
	}
	slices.SortFunc(all, func(a, b mark) int { return cmp.Compare(b.Tag, a.Tag) })
	return all[:min(len(all), maxOthers)]
}

// entriesOf reads the entries of a part again.
func (r *reader) entriesOf(ctx context.Context, t AuditTag) ([]*Entry, error) {
	lines, _, err := ReadAudit(ctx, r.repo, r.sealer, t, "")
	if err != nil {
		return nil, err
	}
	p, err := parsePart(t, lines)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	slices.Reverse(p.entries)
	return p.entries, nil
}
