// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
)

// examineWithin is the period within which each version is examined by a run
// that knows when the previous one began. A list of tags does not show what
// they name, so detecting a moved tag takes one request per version.
const examineWithin = 24 * time.Hour

// examine returns the digest of a version in the registry. For a published
// version that is not examined now, it returns the recorded digest.
func (s *Syncer) examine(ctx context.Context, it item, v addr.Version, known VersionRecord, newest bool) (string, error) {
	if known.State == StatePublished && !newest && !shouldExamine(it.key, v, s.o.Examined, s.o.Now()) {
		return known.Digest, nil
	}
	d, err := it.repo.Resolve(ctx, v.Tag())
	return d.Digest.String(), err
}

// shouldExamine reports whether a version is to be examined now; last is when
// the previous run began. Each version has its own time of day, which spreads
// them over the runs; a run examines those whose time has passed since the
// previous run.
func shouldExamine(entry string, v addr.Version, last, now time.Time) bool {
	if last.IsZero() || now.Before(last) || now.Sub(last) >= examineWithin {
		return true
	}
	const day = int64(examineWithin / time.Second)
	h := fnv.New64a()
	_, _ = h.Write([]byte(entry + " " + v.String())) // a hash never fails
	at := int64(h.Sum64() % uint64(day))
	return (last.Unix()-at)/day != (now.Unix()-at)/day
}
