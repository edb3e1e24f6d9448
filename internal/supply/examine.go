// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// examineWithin is the period within which each version is examined by a run
// that knows when the previous one began. A list of tags does not show what
// they name, so detecting a moved tag takes one request per version.
const examineWithin = 24 * time.Hour

// stored is a version in the registry, compared with what its entry asks for.
type stored struct {
	digest  string
	looked  bool // its platforms were compared
	lacking depot.Lacking
	lost    int // parts that the registry does not have
}

// action returns what is to be done with an existing version, and why.
func (x stored) action() (Action, string) {
	switch {
	case x.lost > 0:
		return actionRepair, fmt.Sprintf("the registry has lost %d of its parts", x.lost)
	case len(x.lacking.Offered) > 0:
		return ActionExtend, "lacks " + strings.Join(platformNames(x.lacking.Offered), ", ")
	}
	return ActionPresent, absentText(platformNames(x.lacking.Absent))
}

func absentText(platforms []string) string {
	if len(platforms) == 0 {
		return ""
	}
	return "the origin has no package for " + strings.Join(platforms, ", ")
}

func platformNames(platforms []addr.Platform) []string {
	var out []string
	for _, t := range platforms {
		out = append(out, t.String())
	}
	return out
}

// allPlatforms is what a record has for the platforms of an entry that names
// none.
const allPlatforms = "*"

// askedPlatforms returns the platforms of an entry as a record has them.
func (it item) askedPlatforms() []string {
	switch {
	case !it.mirrors:
		return nil
	case len(it.platforms) == 0:
		return []string{allPlatforms}
	}
	return platformNames(it.platforms)
}

// coversPlatforms reports whether a version was published with all platforms that are
// asked for, as far as the origin had them.
func (vr VersionRecord) coversPlatforms(asked []string) bool {
	return !slices.ContainsFunc(asked, func(t string) bool {
		return !slices.Contains(vr.Platforms, t) && !slices.Contains(vr.Platforms, allPlatforms)
	})
}

func (it item) findStored(ctx context.Context, v addr.Version) (stored, error) {
	if !it.mirrors {
		d, err := it.repo.Resolve(ctx, v.Tag())
		return stored{digest: d.Digest.String()}, err
	}
	d, lacking, err := depot.LackingPlatforms(ctx, it.repo, it.source, it.provider, v, it.platforms)
	return stored{digest: d.String(), looked: true, lacking: lacking}, err
}

// hasGrown reports whether a provider in the registry is the recorded one with
// further platforms.
func (it item) hasGrown(ctx context.Context, recorded, found string) (bool, error) {
	if !it.mirrors {
		return false, nil
	}
	return depot.HasGrown(ctx, it.repo, recorded, found)
}

// examine returns a version in the registry. A published version that is not
// examined now is as recorded. On demand, and daily, its parts are looked for, and
// the platforms that the origin has by now.
func (s *Syncer) examine(ctx context.Context, it item, v addr.Version, known VersionRecord, newest bool) (x stored, err error) {
	isDue := shouldExamine(it.key, v, s.o.Examined, s.o.Now())
	looks := s.o.Repair || isDue && !s.o.Examined.IsZero()
	switch {
	case looks || !known.coversPlatforms(it.askedPlatforms()):
		x, err = it.findStored(ctx, v)
	case known.State == StatePublished && !newest && !isDue:
		return stored{digest: known.Digest}, nil
	default:
		var d oci.Descriptor
		d, err = it.repo.Resolve(ctx, v.Tag())
		x.digest = d.Digest.String()
	}
	if err != nil || !looks {
		return x, err
	}
	root, err := it.repo.Fetch(ctx, x.digest)
	if err != nil {
		return x, err
	}
	lost, err := depot.LostParts(ctx, it.repo, root)
	x.lost = len(lost)
	return x, err
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
