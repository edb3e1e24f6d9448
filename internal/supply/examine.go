// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// examineWithin is how often each version is examined if the last run's start is known: only one
// request for each version shows that a tag moved.
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
		return actionRepair, lostText(x.lost)
	case len(x.lacking.Offered) > 0:
		return ActionExtend, "lacks " + strings.Join(platformNames(x.lacking.Offered), ", ")
	}
	return ActionPresent, absentText(platformNames(x.lacking.Absent))
}

func lostText(parts int) string {
	return fmt.Sprintf("the registry has lost %d of its parts", parts)
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

// allPlatforms stands in a record for the platforms of an entry that names none.
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

// coversPlatforms reports whether a version has all that is asked for, as far as the origin had it.
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

// hasGrown reports whether a provider in the registry is the recorded one with more platforms.
func (it item) hasGrown(ctx context.Context, recorded, found string) (bool, error) {
	if !it.mirrors {
		return false, nil
	}
	return depot.HasGrown(ctx, it.repo, recorded, found)
}

// examine returns a version in the registry, or as recorded if it is published and not due. On
// demand, daily, and after a loss its parts are looked for, and new platforms of the origin.
func (s *Syncer) examine(ctx context.Context, it item, v addr.Version, known VersionRecord, newest bool) (x stored, err error) {
	isDue := shouldExamine(it.key, v, s.o.Examined, s.o.Now())
	looks := s.looksForParts(it.key, v, known)
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
	if err == nil && looks {
		_, x.lost, err = countLost(ctx, it.repo, x.digest)
	}
	return x, err
}

func (s *Syncer) looksForParts(entry string, v addr.Version, known VersionRecord) bool {
	return s.o.Repair || known.Lost > 0 || !s.o.Examined.IsZero() && shouldExamine(entry, v, s.o.Examined, s.o.Now())
}

// countLost returns a version's digest, and how many of its parts the registry lacks.
func countLost(ctx context.Context, r *oci.Repo, ref string) (digest string, n int, err error) {
	root, err := r.Fetch(ctx, ref)
	if errors.Is(err, oci.ErrNotFound) {
		return "", 1, nil
	}
	if err != nil {
		return "", 0, err
	}
	lost, err := depot.LostParts(ctx, r, root)
	return root.Digest.String(), len(lost), err
}

// lostSteps returns a step for each version in the registry that the entry does not select and that
// lost parts. They come from the origin, or the step fails. An edition comes with its number.
func (s *Syncer) lostSteps(ctx context.Context, it item, l *depot.Listing, offers []offer, rec *Record, steps []Step) ([]Step, error) {
	found := make([]Step, len(l.Versions))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.o.Jobs)
	for i, v := range l.Versions {
		known, recorded := rec.get(it.key, v)
		if slices.ContainsFunc(steps, func(st Step) bool { return st.version == v }) || !s.looksForParts(it.key, v, known) || l.Status(v).Yanked != nil {
			continue
		}
		g.Go(func() error {
			digest, lost, err := countLost(ctx, it.repo, v.Tag())
			if errors.Is(err, oci.ErrCorrupt) { // another tool wrote it
				return nil
			}
			if err != nil || lost == 0 && known.Lost == 0 {
				return err
			}
			known.Lost = lost
			st := Step{Action: actionRepair, Reason: lostText(lost)}
			at := slices.IndexFunc(offers, func(o offer) bool { return o.version == v })
			switch {
			case lost == 0:
				st = Step{Action: ActionPresent}
			case v.Edition():
				if d, err := it.repo.Resolve(ctx, v.EditionOf().Tag()); err == nil && d.Digest.String() == digest {
					return nil
				}
				fallthrough
			case at < 0 && it.publish == nil:
				st = failedStep(fmt.Errorf("%s, and no entry says where to get them", lostText(lost)))
			case at < 0:
				st = failedStep(fmt.Errorf("%s, and the origin does not have the version", lostText(lost)))
			case recorded:
				st.run = func(ctx context.Context) (VersionRecord, error) { return s.extend(ctx, it, offers[at], known) }
			default:
				st.run = func(ctx context.Context) (VersionRecord, error) { return s.publish(ctx, it, offers[at], l.Versions) }
			}
			st.Version, st.version, st.known, st.learned = v.String(), v, known, recorded
			found[i] = st
			return nil
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(found, func(st Step) bool { return st.Action == "" }), err
}

// shouldExamine reports whether a version is due; last is when the previous run began. Each has a
// time of day, which spreads them over runs: due are those whose time has passed since last.
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
