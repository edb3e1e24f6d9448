// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// The rule of bids, by the registry's clock, from which clocks may differ by the time between:
//  1. A bid counts until it is withdrawn, at most for bidExpires. Its publisher writes within bidValid.
//  2. While it counts, no other manifest becomes the version.
//  3. Who has the files of one that was begun finishes it at once, except an extension.
//  4. It does not count if the number named other content before, which its publisher sees too.
//  5. An extension waits for bids for the number, whose index would have fewer platforms, and for
//     a removal, which deletes the tag within bidValid of its event, even if it was taken back.
//  6. So a killed publisher holds a number for ten minutes; a bid of before 0.1.0, without a time, until 4.
const (
	bidValid   = 2 * time.Minute
	bidExpires = 10 * time.Minute
)

// How often, after what pauses, a list is read again for the own bid, and until rivals withdraw.
const (
	bidUnlisted   = 7 // 12.7 s in all
	bidRivals     = 5 // 6.2 s in all
	bidPause      = 100 * time.Millisecond
	bidRivalPause = 200 * time.Millisecond
)

// PutVersion gives a manifest in the registry a version's tag, once: of concurrent publishers of
// different ones one succeeds, others get ErrTaken, or a *RivalError if the tag does not exist yet.
// A number that named other content gives a *ConflictError. l is the list from before, with the
// numbers used. The publish time of a new version is recorded.
func PutVersion(ctx context.Context, l *Listing, v addr.Version, m oci.Manifest) (warnings []string, err error) {
	return putNew(ctx, l, v, m, putOptions{})
}

func putNew(ctx context.Context, l *Listing, v addr.Version, m oci.Manifest, o putOptions) (warnings []string, err error) {
	if len(v.Tag()) > maxTimedTag {
		return nil, fmt.Errorf("version %s has %d characters; a published version may have at most %d, so that it can be recorded: %w", v, len(v.Tag()), maxTimedTag, oci.ErrTooLarge)
	}
	before, warnings, err := putVersion(ctx, l, v, m, o)
	name := v
	if err == nil && o.edition { // not before, lest what loses the contest stays listed
		name, err = tagEdition(ctx, l, v, m)
	}
	if err == nil && !hasAll(before.Tags, []string{v.Tag(), name.Tag()}) {
		warnings = append(warnings, recordMove(ctx, l.Repository, v.Tag(), name.Tag(), before.now(), m)...)
	}
	if err == nil && o.ended != nil {
		warnings = append(warnings, o.ended()...)
	}
	return warnings, err
}

// putOptions are for publishing a new version with as few requests as possible.
type putOptions struct {
	// fresh: the registry has the blobs, not the manifest, which comes with its tag; the bid shows
	// whether unsigned ones are served.
	fresh bool
	// replaces is the index that m extends, "" for a new version; ErrTaken if it names another.
	replaces digest.Digest
	// edition: the version gets the tag of its edition as well.
	edition bool
	own     putOwn
	// written is called once the version exists, while others still see the bid. l is the list from
	// before; old means that it lacks the bid. ended is called after it is withdrawn.
	written func(l *Listing, root oci.Manifest, old bool) (warnings []string)
	ended   func() (warnings []string)
}

// putOwn says what bids for other manifests of the same content are, of another time or commit.
type putOwn int

const (
	isRival  putOwn = iota // rivals, as those for other content
	isBegun                // their publisher may have been killed: the manifest is a [begunError]
	isWaited               // rivals that are given time: the manifest is one that was begun
)

// begunError names a manifest of the own content that somebody began to publish.
type begunError struct{ theirs oci.Manifest }

func (e *begunError) Error() string {
	return "the publication of " + e.theirs.Digest.String() + " was started"
}

// putContent is putNew if only the content counts: a publication of it that somebody began is
// finished. root is the version's manifest.
func putContent(ctx context.Context, l *Listing, v addr.Version, m oci.Manifest, o putOptions) (root oci.Manifest, warnings []string, err error) {
	o.own = isBegun
	warnings, err = putNew(ctx, l, v, m, o)
	if begun, ok := errors.AsType[*begunError](err); ok {
		m = begun.theirs
		o.own = isWaited
		warnings, err = putNew(ctx, l, v, m, o)
	}
	return m, warnings, err
}

// putVersion is PutVersion without recording the time. before is the last list before the write.
func putVersion(ctx context.Context, l *Listing, v addr.Version, m oci.Manifest, o putOptions) (before *Listing, warnings []string, err error) {
	r := l.Repository
	tag := v.Tag()
	b, err := newBid(l, v, m, o)
	if err != nil {
		return l, nil, err
	}
	if !o.fresh {
		if err := r.CheckHandedOut(ctx, m.Digest); err != nil {
			return l, nil, err
		}
	}
	if err := b.writeBid(ctx); err != nil {
		b.withdraw(ctx, true) // the bid may be in the registry
		return l, nil, fmt.Errorf("announce the publication: %w", err)
	}
	if o.fresh {
		if err := r.CheckHandedOut(ctx, b.manifest.Digest); err != nil {
			b.withdraw(ctx, true)
			return l, nil, err
		}
	}
	shown, err := b.awaitAlone(ctx)
	if err != nil {
		b.withdraw(ctx, !errors.Is(err, ErrTaken))
		return l, nil, err
	}
	done, err := b.writeVersion(ctx, !shown)
	if err == nil && !shown {
		warnings = []string{fmt.Sprintf("the tag list of %s does not show the latest push: another publisher may have published %s at the same time", r, tag)}
	}
	if err == nil && o.written != nil {
		warnings = append(warnings, o.written(b.list, m, !shown)...)
	}
	if done { // otherwise the version may still appear, and no other may be written before it
		b.withdraw(ctx, b.replaces == "" && b.list.Kind != addr.KindModule || err != nil && !errors.Is(err, ErrTaken))
	}
	return b.list, warnings, err
}

// writeVersion points the version at the manifest.
func (b *bid) writeVersion(ctx context.Context, look bool) (done bool, err error) {
	isLate := time.Since(b.made) > bidValid
	switch {
	case isLate && b.replaces != "":
		return true, ErrTaken
	case isLate:
		return true, fmt.Errorf("%s:%s was not published within %s; publish it again", b.repo, b.version.Tag(), bidValid)
	case b.replaces == "":
		return putOnce(ctx, b.repo, b.version.Tag(), b.root, look)
	}
	putErr := b.repo.PutTag(ctx, b.version.Tag(), b.root)
	back, err := b.repo.Resolve(ctx, b.version.Tag())
	done = !errors.Is(putErr, oci.ErrUncertain)
	switch {
	case err != nil:
		return done, errors.Join(putErr, err)
	case back.Digest == b.root.Digest:
		return true, nil
	}
	return done, fmt.Errorf("%s:%s still points to %s: %w", b.repo, b.version.Tag(), back.Digest, errors.Join(oci.ErrExists, putErr)) // immutable tags
}

// awaitAlone returns nil once a list shows the bid and no active one for another manifest. It
// checks the version only if the list has it. Of several bidders the smallest digest waits for the
// others to withdraw. shown is false if no list had the bid.
func (b *bid) awaitAlone(ctx context.Context) (shown bool, err error) {
	unlisted := 0
	waited := 0
	renamed := false
	for {
		list, err := b.repo.Snapshot(ctx)
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return false, err
		}
		if b.list, err = b.list.withTags(ctx, list); err != nil {
			return false, err
		}
		if b.keepClock(list) && !renamed {
			renamed = true
			b.withdraw(ctx, true)
			b.gone = false
			if err := b.takeName(); err != nil {
				return false, err
			}
			if err := b.writeBid(ctx); err != nil {
				return false, err
			}
			continue
		}
		if b.replaces != "" || b.list.hasVersion(b.version) {
			if there, err := b.hasOwnManifest(ctx); there || err != nil {
				return true, err
			}
		}
		if err := b.checkRemoved(); err != nil {
			return true, err
		}
		if b.fresh { // it may have been withdrawn since the plan
			if err := b.list.Taken(b.version); err != nil {
				return true, err
			}
		}
		if b.replaces == "" { // the version does not exist, or its tag leads nowhere
			if err := b.list.checkNumber(ctx, b.version, b.root, b.moves); err != nil {
				return true, err
			}
		}
		pause := bidRivalPause
		publishers := b.publishers(ctx, list.Tags)
		switch rivals := b.rivalDigests(ctx, list.Tags); {
		case len(publishers) > 0 && waited == bidRivals:
			b.withdraw(ctx, true)
			return true, &RivalError{Repository: b.repo.String(), Tag: b.version.Tag(), Theirs: "sha256:" + publishers[0], Ours: b.root.Digest.String()}
		case len(rivals) > 0 && waited == bidRivals && b.own == isWaited && len(b.begun(ctx, rivals)) == len(rivals):
			return true, nil // whichever is written, it is the same content
		case len(rivals) > 0 && (rivals[0] < b.digest() && b.own != isWaited || waited == bidRivals):
			begun := b.begun(ctx, rivals[:1])
			b.withdraw(ctx, true)
			if len(begun) > 0 && b.own == isBegun {
				return true, &begunError{begun[0]}
			}
			return true, b.waitForRival(ctx, rivals[0])
		case len(rivals) > 0, len(publishers) > 0:
			pause = bidRivalPause << waited
			waited++
		case slices.Contains(list.Tags, b.tag):
			return true, nil
		case unlisted == bidUnlisted:
			return false, nil
		default:
			pause = bidPause << unlisted
			unlisted++
		}
		if err := text.Wait(ctx, pause); err != nil {
			return false, err
		}
	}
}

// checkRemoved refuses to extend a version that was removed, or may still be although that was
// taken back: see withdrawVersion.
func (b *bid) checkRemoved() error {
	e := b.list.lastRemoval(b.version)
	if b.replaces == "" || e == nil {
		return nil
	}
	if y := b.list.Status(b.version).Yanked; y != nil && y.Subject != "" {
		return b.list.conflictWith(b.version, "", "")
	}
	if left := bidExpires - time.Now().Add(b.ahead).Sub(evidence.StatusTime(e.Tag)); left > 0 {
		return fmt.Errorf("%s:%s was removed and restored; platforms can be added in %s: %w", b.repo, b.version.Tag(), left.Round(time.Second), oci.ErrExists)
	}
	return nil
}

// hasOwnManifest reports whether the version has the own manifest; ErrTaken means that
// it has another one. A version that is listed but not found gives false.
func (b *bid) hasOwnManifest(ctx context.Context) (bool, error) {
	switch have, err := b.repo.Resolve(ctx, b.version.Tag()); {
	case err == nil && have.Digest == b.root.Digest:
		return true, nil
	case err == nil && have.Digest == b.replaces, b.replaces == "" && errors.Is(err, oci.ErrNotFound):
		return false, nil
	case err == nil, errors.Is(err, oci.ErrNotFound):
		return false, ErrTaken
	default:
		return false, err
	}
}

// waitForRival waits briefly for the version that a rival is about to write.
func (b *bid) waitForRival(ctx context.Context, rival string) error {
	for waited := range bidRivals {
		if err := text.Wait(ctx, bidRivalPause<<waited); err != nil {
			return err
		}
		if _, err := b.hasOwnManifest(ctx); errors.Is(err, ErrTaken) {
			return err
		}
	}
	return &RivalError{Repository: b.repo.String(), Tag: b.version.Tag(), Theirs: "sha256:" + rival, Ours: b.root.Digest.String()}
}

// RivalError means that another manifest is about to be the version. It wraps oci.ErrExists.
type RivalError struct {
	Repository, Tag string
	Theirs, Ours    string // digests of the manifests
}

func (e *RivalError) Error() string {
	return fmt.Sprintf("%s:%s is being published with different content, or an earlier publication did not finish: theirs %s, yours %s; "+
		"publish theirs again to finish it, or publish another version; an unfinished publication expires after ten minutes", e.Repository, e.Tag, e.Theirs, e.Ours)
}

func (e *RivalError) Unwrap() error { return oci.ErrExists }

// putOnce writes a tag that must not move, unless it exists; another manifest there is ErrTaken.
// Two writers notice each other only if one reads after the other wrote, as look asks; a tag named
// after its manifest needs no look. done is false if the tag may appear later.
func putOnce(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest, look bool) (done bool, err error) {
	switch have, err := r.Resolve(ctx, tag); {
	case err == nil && have.Digest == m.Digest:
		return true, nil
	case err == nil:
		return true, ErrTaken
	case !errors.Is(err, oci.ErrNotFound):
		return true, err
	}
	putErr := r.PutTag(ctx, tag, m)
	if putErr == nil && !look {
		return true, nil
	}
	have, err := r.Resolve(ctx, tag)
	switch {
	case err == nil && have.Digest == m.Digest:
		return true, nil // also if the answer to the PUT was lost
	case err == nil:
		return true, ErrTaken // registries with immutable tags refuse with various codes
	case putErr != nil:
		return !errors.Is(putErr, oci.ErrUncertain), putErr
	}
	return true, err
}

// keepManifest gives a manifest a tag that is named after it, against garbage collection.
func keepManifest(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest) error {
	_, err := putOnce(ctx, r, tag, m, true)
	return err
}
