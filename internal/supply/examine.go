// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
)

// examineWithin is how long a run that knows of the one before leaves a version
// unexamined, and after it at most the time until the next run. A list of tags does not
// say what they name, so that somebody moved one takes a request for each to see.
const examineWithin = 24 * time.Hour

// examine returns the digest that the registry has of a version. One that was published,
// and whose turn it is not, has the digest of then.
func (s *Syncer) examine(ctx context.Context, it item, v addr.Version, known VersionRecord, newest bool) (string, error) {
	if known.State == StatePublished && !newest && !shouldExamine(it.key, v, s.o.Examined, s.o.Now()) {
		return known.Digest, nil
	}
	d, err := it.repo.Resolve(ctx, v.Tag())
	return d.Digest.String(), err
}

// shouldExamine reports whether a version is to be examined now, when the run before began at
// last. Each has its own time of the day, so that they are spread over the runs; a run
// takes all those whose time has come since.
func shouldExamine(entry string, v addr.Version, last, now time.Time) bool {
	if last.IsZero() || now.Before(last) || now.Sub(last) >= examineWithin {
		return true
	}
	const day = int64(examineWithin / time.Second)
	h := fnv.New64a()
	_, _ = h.Write([]byte(entry + " " + v.String())) // a hash cannot fail
	at := int64(h.Sum64() % uint64(day))
	return (last.Unix()-at)/day != (now.Unix()-at)/day
}
