// SPDX-License-Identifier: Apache-2.0

package depot

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// bidPrefix begins a bid's tag, okara-publish-<version>-<digest>-<nonce>: the version, or the
// version and the index that is extended, as 16 hex digits of their hash. A further tag with the
// suffix bidEnd marks a bid as withdrawn that the registry cannot delete.
const (
	bidPrefix = "okara-publish-"
	bidEnd    = "-x"
	bidHash   = 16
	bidNonce  = 8
	bidDigest = sha256.Size * 2
)

// artifactBid is the type of a bid's manifest, each unique: deleting by digest removes no other
// tag.
const (
	artifactBid = "application/vnd.okara.publication.v1"
	annBid      = "vnd.okara.publication"
	annBidTime  = "vnd.okara.publication.time"     // RFC 3339
	annBidRoot  = "vnd.okara.publication.manifest" // which is pushed with the version; "": it is in the registry

	maxBidRoot = 64 << 10 // bytes of a manifest in its bid
)

// IsMark reports whether a tag is left beside a version: a bid, time, replaced index, or part.
func IsMark(tag string) bool {
	isPrefix := func(prefix string) bool { return strings.HasPrefix(tag, prefix) }
	return slices.ContainsFunc([]string{bidPrefix, timePrefix, previousIndexPrefix, oci.PartPrefix}, isPrefix)
}

// bidCleanup bounds the withdrawal of a bid after the caller has given up.
const bidCleanup = 10 * time.Second

// bid is one attempt to give a manifest a version tag, see doc.go.
type bid struct {
	repo     *oci.Repo
	version  addr.Version
	root     oci.Manifest
	replaces digest.Digest // the index that root extends; "": the version is new
	tag      string
	manifest oci.Manifest
	made     time.Time     // by the own clock
	ahead    time.Duration // of the registry's clock before the own one
	fresh    bool          // see putOptions
	moves    bool          // the number moves between editions
	own      putOwn
	late     bool     // the bid may arrive after it was removed
	gone     bool     // the bid was withdrawn
	list     *Listing // as last read
}

func newBid(l *Listing, v addr.Version, root oci.Manifest, o putOptions) (*bid, error) {
	b := &bid{repo: l.Repository, version: v, replaces: o.replaces, own: o.own, fresh: o.fresh, moves: o.edition, root: root, list: l, ahead: l.ahead}
	return b, b.takeName()
}

// takeName gives the bid a new name and the time by the registry's clock.
func (b *bid) takeName() (err error) {
	root := b.root
	b.made = time.Now().Round(0) // not monotonic, which stops while a machine sleeps
	nonce := make([]byte, bidNonce/2)
	_, _ = rand.Read(nonce) // never fails
	b.tag = bidPrefix + b.rivalHash() + "-" + root.Digest.Encoded() + "-" + hex.EncodeToString(nonce)
	about := map[string]string{artifact.AnnOkaraVersion: b.version.Tag(), annBid: b.tag, annBidTime: b.made.Add(b.ahead).UTC().Format(time.RFC3339)}
	if b.fresh && len(root.Bytes) <= maxBidRoot {
		about[annBidRoot] = string(root.Bytes)
	}
	b.manifest, err = artifact.NewBare(artifactBid, about)
	return err
}

// keepClock learns the registry's clock from a list; changed: the own bid's age would be misjudged.
func (b *bid) keepClock(list oci.TagList) (changed bool) {
	if list.Date.IsZero() || list.Cached {
		return false
	}
	before := b.ahead
	b.ahead = time.Until(list.Date)
	return (b.ahead - before).Abs() > clocksDiffer
}

// rivalHash returns what rivals share: the number, or the index they extend, until it moves.
func (b *bid) rivalHash() string {
	if b.replaces == "" {
		return numberHash(b.list.Kind, b.version)
	}
	return digest.FromString(b.version.Tag() + "@" + b.replaces.String()).Encoded()[:bidHash]
}

// numberHash returns the hash of v's number: who publishes one number are rivals.
func numberHash(kind string, v addr.Version) string {
	sum := sha256.Sum256([]byte(numberOf(kind, v).Tag()))
	return hex.EncodeToString(sum[:])[:bidHash]
}

// writeBid writes the bid. If the answer is lost, the same bid is written again.
func (b *bid) writeBid(ctx context.Context) error {
	err := artifact.PutBare(ctx, b.repo, b.tag, b.manifest)
	if b.late = errors.Is(err, oci.ErrUncertain); b.late && ctx.Err() == nil {
		err = b.repo.PutTag(ctx, b.tag, b.manifest)
	}
	return err
}

func (b *bid) digest() string { return b.root.Digest.Encoded() }

// publishers returns the digests of active bids for the number of a version that is extended: who
// made one may still write the index from before.
func (b *bid) publishers(ctx context.Context, tags []string) []string {
	if b.replaces == "" {
		return nil
	}
	return b.activeBids(ctx, tags, numberHash(b.list.Kind, b.version))
}

// rivalDigests returns the digests of active bids for other manifests, smallest first.
func (b *bid) rivalDigests(ctx context.Context, tags []string) []string {
	return b.activeBids(ctx, tags, b.rivalHash())
}

func (b *bid) activeBids(ctx context.Context, tags []string, hash string) []string {
	var found []string
	for _, tag := range tags {
		digest, ok := bidFor(tag, hash)
		if ok && digest != b.digest() && !slices.Contains(tags, tag+bidEnd) && b.isActive(ctx, tag, digest, hash == b.rivalHash()) {
			found = append(found, digest)
		}
	}
	slices.Sort(found)
	return found
}

// begun returns the manifests of rivals that have the content of the own one.
func (b *bid) begun(ctx context.Context, rivals []string) (found []oci.Manifest) {
	if b.own == isRival {
		return nil
	}
	for _, rival := range rivals {
		i := slices.IndexFunc(b.list.Tags, func(tag string) bool {
			digest, ok := bidFor(tag, b.rivalHash())
			return ok && digest == rival
		})
		theirs, _, err := b.readBid(ctx, b.list.Tags[i], rival)
		if err == nil && hasContentOf(theirs, b.root) {
			found = append(found, theirs)
		}
	}
	return found
}

// readBid returns the manifest that a rival bids for, and when.
func (b *bid) readBid(ctx context.Context, tag, rival string) (theirs oci.Manifest, made time.Time, err error) {
	m, err := b.repo.Fetch(ctx, tag)
	if err != nil {
		return theirs, made, err
	}
	image, _ := m.Image() // without annotations if it is damaged
	made, _ = time.Parse(time.RFC3339, image.Annotations[annBidTime])
	root := []byte(image.Annotations[annBidRoot])
	theirs = oci.Manifest{Descriptor: oci.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(root), Size: int64(len(root))}, Bytes: root}
	if theirs.Digest.Encoded() != rival {
		theirs, err = b.repo.Fetch(ctx, "sha256:"+rival)
	}
	return theirs, made, err
}

// isActive reports whether a publisher may still write the manifest it bids for. Without
// a time, a bid for a version that exists is an old one.
func (b *bid) isActive(ctx context.Context, tag, rival string, isRival bool) bool {
	theirs, made, err := b.readBid(ctx, tag, rival)
	if made.IsZero() && !isRival {
		return false
	}
	if !made.IsZero() && time.Now().Add(b.ahead).Sub(made) > bidExpires {
		return false
	}
	if err != nil || b.replaces != "" {
		return true
	}
	_, refused := errors.AsType[*ConflictError](b.list.checkNumber(ctx, b.version, theirs, true))
	return !refused
}

// bidFor returns the digest in a tag that is a bid for the number with the hash.
func bidFor(tag, hash string) (digest string, ok bool) {
	rest, ok := strings.CutPrefix(tag, bidPrefix+hash+"-")
	if !ok || len(rest) != bidDigest+1+bidNonce || rest[bidDigest] != '-' {
		return "", false
	}
	return rest[:bidDigest], true
}

// withdraw removes the bid, or, if that is uncertain and say is set, marks it as ended. One that is
// left blocks other manifests until the version exists.
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
		_ = b.repo.PutTag(ctx, b.tag+bidEnd, b.manifest) // a failure cannot be reported
	}
}

// maxBidsRead bounds how many bids one call looks at.
const maxBidsRead = 100

// dropBids removes bids for existing versions, whose publishers were killed or could not delete
// them. The publisher of a missing version may be about to write it. It ends at the registry's
// first refusal.
func dropBids(ctx context.Context, l *Listing) {
	there := map[string]bool{}
	for _, v := range l.Versions {
		there[numberHash(l.Kind, v)] = true
	}
	read := 0
	for _, tag := range l.Tags { // sorted: a bid comes before the tag that marks it as ended
		rest, ok := strings.CutPrefix(tag, bidPrefix)
		if !ok || len(rest) < bidHash || !there[rest[:bidHash]] {
			continue
		}
		isBid := func(m oci.Manifest) bool {
			image, err := m.Image()
			return err == nil && image.ArtifactType == artifactBid && image.Annotations[annBid] == strings.TrimSuffix(tag, bidEnd)
		}
		if read++; read > maxBidsRead || !isLiving(ctx, l, tag) && dropTag(ctx, l.Repository, tag, isBid) != nil {
			return
		}
	}
}

// isLiving reports whether a provider's bid, or its end, may count: it may be adding platforms.
func isLiving(ctx context.Context, l *Listing, tag string) bool {
	if l.Kind == addr.KindModule {
		return false
	}
	age, err := bidAge(ctx, l, tag)
	return err == nil && age <= bidExpires
}

func bidAge(ctx context.Context, l *Listing, tag string) (time.Duration, error) {
	m, err := l.Repository.Fetch(ctx, tag)
	made, _ := time.Parse(time.RFC3339, artifact.AnnotationsOf(m)[annBidTime])
	return l.now().Sub(made).Abs(), err
}

// hasUnderWay reports whether a module's publisher, whose bid does not begin with own, may not have moved
// latest yet: its bid is young, and the version's time, which is recorded then, is not there.
func hasUnderWay(ctx context.Context, l *Listing, own string) bool {
	done := map[string]bool{}
	for tag := range l.Times {
		if v, ok := addr.VersionFromTag(tag); ok {
			done[numberHash(l.Kind, v)] = true
		}
	}
	return slices.ContainsFunc(l.Tags, func(tag string) bool {
		rest, ok := strings.CutPrefix(tag, bidPrefix)
		if !ok || len(rest) < bidHash || done[rest[:bidHash]] || own != "" && strings.HasPrefix(tag, own) || slices.Contains(l.Tags, strings.TrimSuffix(tag, bidEnd)+bidEnd) {
			return false
		}
		age, err := bidAge(ctx, l, tag)
		return err != nil || age <= bidValid // it may have been withdrawn since
	})
}
