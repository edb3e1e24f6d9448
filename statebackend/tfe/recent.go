// SPDX-License-Identifier: Apache-2.0

package tfe

import (
	"net/http"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/statebackend"
)

const (
	// recentTime is how old a list may be of which the next request of a command makes
	// use.
	recentTime = 2 * time.Second
	// maxRecent bounds what is kept of lists, in bytes.
	maxRecent = 16 << 20
)

// recent keeps the lists by which workspaces were shown to commands. A command reads
// its workspace twice and then locks it: one list does for all, as if the command had
// been slow. Its handle is as old as the list, so that a deletion since is seen.
type recent struct {
	mu   sync.Mutex // guards the fields below
	kept map[reader]dated
	size int
}

// reader is a command that reads a workspace, known by its connection.
type reader struct {
	place
	connection, subject string
}

func readerOf(r *http.Request, p place, g access.Grant) reader {
	return reader{p, r.RemoteAddr, subjectOf(g.Caller)}
}

// dated is a list with the time before it was made.
type dated struct {
	list *statebackend.Listing
	at   time.Time
}

// keep remembers a list for a command, unless there is no room.
func (r *recent) keep(by reader, d dated) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, old := range r.kept {
		if other == by || d.at.Sub(old.at).Abs() > recentTime {
			r.drop(other)
		}
	}
	if size := d.list.Size(); r.size+size <= maxRecent {
		r.kept[by] = d
		r.size += size
	}
}

// get returns the list that was kept for a command, a nil one for none of a moment ago.
func (r *recent) get(by reader, now time.Time) dated {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.kept[by]; d.list != nil && now.Sub(d.at).Abs() <= recentTime {
		return d
	}
	return dated{}
}

// forget has whoever reads the workspace next look at the registry.
func (r *recent) forget(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for by := range r.kept {
		if by.place == p {
			r.drop(by)
		}
	}
}

// drop forgets what one command read. The caller holds r.mu.
func (r *recent) drop(by reader) {
	r.size -= r.kept[by].list.Size()
	delete(r.kept, by)
}
