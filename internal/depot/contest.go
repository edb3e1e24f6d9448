// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// bidPrefix is the tag prefix of a bid: okara-publish-<version>-<digest>-<nonce>, the
// version as 16 hexadecimal digits of its hash. With bidEnd it has been withdrawn
// where nothing can be deleted.
const (
	bidPrefix = "okara-publish-"
	bidEnd    = "-x"
	bidHash   = 16
	bidNonce  = 8
	bidDigest = sha256.Size * 2
)

// artifactBid is the type of what a bid names: nothing, but never twice the same, so
// that deleting it by digest takes no other tag.
const (
	artifactBid = "application/vnd.okara.publication.v1"
	annBid      = "vnd.okara.publication"
)

// How often, and after which pauses, a list is asked again: for an own bid that it does
// not show, and for rivals to leave.
const (
	bidUnlisted   = 7 // 12.7 s in all
	bidRivals     = 5 // 6.2 s in all
	bidPause      = 100 * time.Millisecond
	bidRivalPause = 200 * time.Millisecond
)

// bidCleanup bounds what withdraws a bid after the caller has given up.
const bidCleanup = 10 * time.Second

// bid is one attempt to give a manifest a version tag, see doc.go.
type bid struct {
	repo     *oci.Repo
	version  string // the tag
	root     oci.Manifest
	tag      string
	manifest oci.Manifest
	late     bool     // the bid may arrive after it was removed
	gone     bool     // the bid was withdrawn
	tags     []string // of the repository, as they were listed last
}

// PutVersion gives a manifest that the registry has the tag of a version, which is
// written once: of several publishers with other manifests one writes it, whatever
// the others do at that moment. The others get ErrTaken, or a *RivalError where the
// tag is not there yet. The time is recorded, unless the list shows that the version was
// there before.
func PutVersion(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest) (warnings []string, err error) {
	return putNew(ctx, r, tag, m, putOptions{})
}

func putNew(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest, o putOptions) (warnings []string, err error) {
	tags, warnings, err := putVersion(ctx, r, tag, m, o)
	if err == nil && !slices.Contains(tags, tag) {
		warnings = append(warnings, recordTime(ctx, r, tag)...)
	}
	return warnings, err
}

// putOptions are for who publishes a new version by as few requests as there can be.
type putOptions struct {
	// fresh: the registry has the blobs and not the manifest, which comes with its tag.
	// Then the bid shows whether it serves what nobody signed.
	fresh bool
	// written is called once the version is there, while others still see the bid, with
	// the tags of before. They are old where they do not show the bid.
	written func(tags []string, old bool) (warnings []string)
}

// putVersion is PutVersion without the time. tags are those of the repository before.
func putVersion(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest, o putOptions) (tags, warnings []string, err error) {
	b, err := newBid(r, tag, m)
	if err != nil {
		return nil, nil, err
	}
	if !o.fresh {
		if err := r.CheckHandedOut(ctx, m.Digest); err != nil {
			return nil, nil, err
		}
	}
	if err := b.put(ctx); err != nil {
		b.withdraw(ctx, true) // the bid may have arrived
		return nil, nil, fmt.Errorf("announce the publication: %w", err)
	}
	if o.fresh {
		if err := r.CheckHandedOut(ctx, b.manifest.Digest); err != nil {
			b.withdraw(ctx, true)
			return nil, nil, err
		}
	}
	shown, err := b.alone(ctx)
	if err != nil {
		b.withdraw(ctx, !errors.Is(err, ErrTaken))
		return nil, nil, err
	}
	done, err := putOnce(ctx, r, tag, m, !shown)
	if err == nil && !shown {
		warnings = []string{fmt.Sprintf("the tag list of %s does not show what was pushed just now: it is unknown whether somebody else published %s at the same time", r, tag)}
	}
	if err == nil && o.written != nil {
		warnings = append(warnings, o.written(b.tags, !shown)...)
	}
	if done { // else the version may arrive late, and nothing else must come before
		b.withdraw(ctx, err != nil && !errors.Is(err, ErrTaken))
	}
	return b.tags, warnings, err
}

func newBid(r *oci.Repo, version string, root oci.Manifest) (*bid, error) {
	b := &bid{repo: r, version: version, root: root}
	nonce := make([]byte, bidNonce/2)
	_, _ = rand.Read(nonce) // it never fails
	b.tag = bidPrefix + versionHash(version) + "-" + root.Digest.Encoded() + "-" + hex.EncodeToString(nonce)
	var err error
	b.manifest, err = artifact.NewBare(artifactBid, map[string]string{artifact.AnnOkaraVersion: version, annBid: b.tag})
	return b, err
}

func versionHash(version string) string {
	sum := sha256.Sum256([]byte(version))
	return hex.EncodeToString(sum[:])[:bidHash]
}

// put writes the bid; an answer that got lost is no reason not to write the same again.
func (b *bid) put(ctx context.Context) error {
	err := artifact.PutBare(ctx, b.repo, b.tag, b.manifest)
	if b.late = errors.Is(err, oci.ErrUncertain); b.late && ctx.Err() == nil {
		err = b.repo.PutTag(ctx, b.tag, b.manifest)
	}
	return err
}

// alone returns nil once a list shows the bid, and no live bid for another manifest; it
// looks whether the version is there only where the list shows it. Of several bidders
// the one with the smallest digest waits for the others to leave. shown is false
// where the list never showed the own bid.
func (b *bid) alone(ctx context.Context) (shown bool, err error) {
	unlisted := 0
	waited := 0
	for {
		list, err := b.repo.Snapshot(ctx)
		if err != nil && !errors.Is(err, oci.ErrNotFound) {
			return false, err
		}
		b.tags = list.Tags
		if slices.Contains(list.Tags, b.version) {
			if there, err := b.there(ctx); there || err != nil {
				return true, err
			}
		}
		pause := bidRivalPause
		switch rivals := b.rivals(list.Tags); {
		case len(rivals) > 0 && (rivals[0] < b.digest() || waited == bidRivals):
			b.withdraw(ctx, true)
			return true, b.lost(ctx, rivals[0])
		case len(rivals) > 0:
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

func (b *bid) digest() string { return b.root.Digest.Encoded() }

// rivals are the digests for which others bid, the smallest first.
func (b *bid) rivals(tags []string) []string {
	var found []string
	for _, tag := range tags {
		digest, ok := bidFor(tag, b.version)
		if ok && digest != b.digest() && !slices.Contains(tags, tag+bidEnd) {
			found = append(found, digest)
		}
	}
	slices.Sort(found)
	return found
}

// bidFor returns the digest for which a tag bids, if it does for the version.
func bidFor(tag, version string) (digest string, ok bool) {
	rest, ok := strings.CutPrefix(tag, bidPrefix+versionHash(version)+"-")
	if !ok || len(rest) != bidDigest+1+bidNonce || rest[bidDigest] != '-' {
		return "", false
	}
	return rest[:bidDigest], true
}

// there reports whether the version has our manifest; ErrTaken says that it has
// another one. One that is listed and cannot be read is neither.
func (b *bid) there(ctx context.Context) (bool, error) {
	switch have, err := b.repo.Resolve(ctx, b.version); {
	case err == nil && have.Digest == b.root.Digest:
		return true, nil
	case err == nil:
		return false, ErrTaken
	case errors.Is(err, oci.ErrNotFound):
		return false, nil
	default:
		return false, err
	}
}

// lost waits a moment for the version that a rival is about to write.
func (b *bid) lost(ctx context.Context, rival string) error {
	for waited := range bidRivals {
		if err := text.Wait(ctx, bidRivalPause<<waited); err != nil {
			return err
		}
		if _, err := b.there(ctx); errors.Is(err, ErrTaken) {
			return err
		}
	}
	return &RivalError{Repository: b.repo.String(), Tag: b.version, Theirs: "sha256:" + rival, Ours: b.root.Digest.String()}
}

// withdraw removes the bid. Where that does not last, and say is set, a tag says that
// it has ended: a bid that stays keeps other manifests from a version that is not
// there, and keeps nobody from anything once it is.
func (b *bid) withdraw(ctx context.Context, say bool) {
	if b.gone {
		return
	}
	b.gone = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bidCleanup)
	defer cancel()
	err := b.repo.Untag(ctx, b.tag)
	if errors.Is(err, oci.ErrUnsupported) {
		err = b.repo.Delete(ctx, b.manifest.Descriptor)
	}
	if say && (b.late || err != nil && !errors.Is(err, oci.ErrNotFound)) {
		_ = b.repo.PutTag(ctx, b.tag+bidEnd, b.manifest) // there is nobody to tell
	}
}

// maxBidsDropped bounds what one call removes.
const maxBidsDropped = 100

// dropBids removes what publishers left that were killed, or could not delete then: bids
// for versions that are there mean nothing any more. One for a version that is not there
// may be of somebody who is about to write it. It is a courtesy, and ends where the
// registry refuses.
func dropBids(ctx context.Context, l *Listing) {
	there := map[string]bool{}
	for _, v := range l.Versions {
		there[versionHash(v.Tag())] = true
	}
	dropped := 0
	for _, tag := range l.Tags { // sorted: a bid comes before the tag that says it has ended
		rest, ok := strings.CutPrefix(tag, bidPrefix)
		if !ok || len(rest) < bidHash || !there[rest[:bidHash]] {
			continue
		}
		err := l.Repository.Untag(ctx, tag)
		if errors.Is(err, oci.ErrUnsupported) {
			err = deleteBid(ctx, l.Repository, tag)
		}
		if dropped++; err != nil && !errors.Is(err, oci.ErrNotFound) || dropped == maxBidsDropped {
			return
		}
	}
}

// deleteBid deletes the manifest of a bid by its digest, which takes the tag with it, and
// no other: each bid has a manifest of its own.
func deleteBid(ctx context.Context, r *oci.Repo, tag string) error {
	d, err := r.Resolve(ctx, tag)
	if err != nil {
		return err
	}
	return r.Delete(ctx, d)
}

// RivalError says that another manifest is about to become a version. It is an
// oci.ErrExists.
type RivalError struct {
	Repository, Tag string
	Theirs, Ours    string // digests of the manifests
}

func (e *RivalError) Error() string {
	return fmt.Sprintf("%s:%s is being published with other content, or that was begun and not finished: theirs %s, yours %s; "+
		"publish theirs again to finish it, or another version", e.Repository, e.Tag, e.Theirs, e.Ours)
}

func (e *RivalError) Unwrap() error { return oci.ErrExists }

// putOnce writes a tag that must not move, unless there is one: another manifest
// under it gives ErrTaken. Two who write at the same moment see each other only if
// one of them looks after the other has written, which look asks for; a tag that
// belongs to a manifest does without. done is false where the tag may arrive late.
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
		return true, nil // also when the answer to the PUT was lost
	case err == nil:
		return true, ErrTaken // a rule for immutable tags refuses with several codes
	case putErr != nil:
		return !errors.Is(putErr, oci.ErrUncertain), putErr
	}
	return true, err
}

// keep gives a manifest a tag that is named after it, so that no garbage collection
// takes it.
func keep(ctx context.Context, r *oci.Repo, tag string, m oci.Manifest) error {
	_, err := putOnce(ctx, r, tag, m, true)
	return err
}
