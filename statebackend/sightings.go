// SPDX-License-Identifier: Apache-2.0

package statebackend

import (
	"maps"
	"sync"
	"time"

	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/internal/protocol"
)

// sightings keeps what was seen of the claims of each workspace, across the attempts
// of a process: a server answers each LOCK at once, and the client that polls it
// makes the time pass. A lock that moved from server to server has several claims,
// and is over when each of them is.
type sightings struct {
	mu   sync.Mutex // guards last
	last map[string]map[protocol.ClaimID]protocol.Sighting
}

// maxSightings bounds what is kept of one workspace.
const maxSightings = 64

// missing notes a 404 for a claim that the list of that date shows.
func (s *sightings) missing(workspace string, c protocol.ClaimID, date time.Time) protocol.Sighting {
	return s.read(workspace, c, format.LockManifest{}, date)
}

// read notes a claim that the list of that date shows, as it was read.
func (s *sightings) read(workspace string, c protocol.ClaimID, l format.LockManifest, date time.Time) protocol.Sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.last[workspace]
	if seen == nil || len(seen) >= maxSightings {
		seen = map[protocol.ClaimID]protocol.Sighting{}
		s.last[workspace] = seen
	}
	seen[c] = seen[c].Again(c, l, time.Now(), date)
	return seen[c]
}

// failed says that the registry did not answer: what was seen of a lease counts
// no more, since its holder may have got no answer either.
func (s *sightings) failed(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.last[workspace], func(_ protocol.ClaimID, g protocol.Sighting) bool { return g.Beat != "" })
}

// forget drops what was noted about a workspace whose lock is free.
func (s *sightings) forget(workspace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.last, workspace)
}
