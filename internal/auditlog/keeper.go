// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// maxUnwritten bounds the lines in memory, including those of the open part.
const maxUnwritten = 8 << 20

const day = 24 * time.Hour

// keeper holds this process's changes until they are written, and the open part's.
type keeper struct {
	repo    *oci.Repo
	sealer  artifact.Sealer
	id      string // of this process, in its tags
	dropped func() // is called for each dropped record

	writing sync.Mutex // held during a write

	mu     sync.Mutex // guards the fields below
	parts  []*ownPart // to be written in this order; the last one is open
	bytes  int        // of their lines
	number int64      // of the last record
	lost   int64      // records dropped since the last record that reports drops
	all    int64      // records dropped since the start
}

type ownPart struct {
	tag     AuditTag
	first   int64
	lines   []byte
	entries []*Entry
	closed  bool // no lines are added any more
	written int  // number of entries that are stored under the tag
}

func newKeeper(repo *oci.Repo, s artifact.Sealer, dropped func()) *keeper {
	id := make([]byte, 8)
	rand.Read(id) // never fails
	return &keeper{repo: repo, sealer: s, id: hex.EncodeToString(id), dropped: dropped}
}

// keepRecord keeps a record. It does not block.
func (k *keeper) keepRecord(r Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost > 0 && k.hasRoom() {
		dropped := Record{Time: r.Time, Action: "drop", Kind: "audit", Detail: fmt.Sprintf("%d earlier changes were lost: the registry was unavailable for too long", k.lost)}
		if k.appendLocked(dropped) {
			k.lost = 0
		}
	}
	if k.lost > 0 || !k.hasRoom() || !k.appendLocked(r) {
		k.lost++
		k.all++
		k.dropped()
	}
}

// hasRoom reports whether two more lines fit in memory.
func (k *keeper) hasRoom() bool { return k.bytes <= maxUnwritten-2*maxLine }

// appendLocked adds a line, or returns false if it cannot. The caller holds mu.
func (k *keeper) appendLocked(r Record) bool {
	line, err := encodeEntry(k.number+1, r)
	if err != nil {
		return false
	}
	p := k.goOnLocked(r.Time.UTC().Truncate(day), len(line))
	if p == nil {
		return false
	}
	k.number++
	p.lines = append(p.lines, line...)
	p.entries = append(p.entries, &Entry{Process: k.id, N: k.number, Record: r})
	k.bytes += len(line)
	return true
}

// goOnLocked returns the part for a line of a day, none before the newest's; nil: too many parts.
func (k *keeper) goOnLocked(on time.Time, size int) *ownPart {
	tag := AuditTag{Day: on, ID: k.id, Part: 1}
	if len(k.parts) > 0 {
		p := k.parts[len(k.parts)-1]
		later := on.After(p.tag.Day)
		if !later && len(p.lines)+size <= maxLineBytes && len(p.entries) < maxLines {
			return p
		}
		if !later {
			tag.Day = p.tag.Day
			tag.Part = p.tag.Part + 1
		}
		if tag.Part > maxAuditParts {
			return nil
		}
		p.closed = true
	}
	p := &ownPart{tag: tag, first: k.number + 1}
	k.parts = append(k.parts, p)
	return p
}

// writeParts stores new lines; what fails is tried again at the next call.
func (k *keeper) writeParts(ctx context.Context) error {
	k.writing.Lock()
	defer k.writing.Unlock()
	for {
		k.mu.Lock()
		if len(k.parts) == 0 {
			k.mu.Unlock()
			return nil
		}
		p := k.parts[0]
		lines := p.lines[:len(p.lines):len(p.lines)]
		entries := len(p.entries)
		written := p.written
		closed := p.closed
		k.mu.Unlock()
		if entries > written {
			text := append(encodeHeader(p.tag, p.first), lines...)
			if err := PutAudit(ctx, k.repo, k.sealer, p.tag, text); err != nil {
				return fmt.Errorf("write %s: %w", p.tag, err)
			}
			k.mu.Lock()
			p.written = entries
			k.mu.Unlock()
		}
		if !closed {
			return nil
		}
		k.mu.Lock()
		k.parts = k.parts[1:]
		k.bytes -= len(lines)
		k.mu.Unlock()
	}
}

// entriesAfter returns entries in memory above number n, and how many are not written.
func (k *keeper) entriesAfter(n int64) (all []*Entry, waiting int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.parts {
		waiting += len(p.entries) - p.written
		if len(p.entries) > 0 && p.entries[len(p.entries)-1].N > n {
			all = append(all, p.entries[max(0, n+1-p.first):]...)
		}
	}
	return all, waiting
}

// droppedSoFar returns how many records were dropped since the start.
func (k *keeper) droppedSoFar() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all
}
