// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	digest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// Types of artifacts and layers in the repository of an instance, besides its state.
const (
	artifactSource = "application/vnd.okara.source.v1"
	artifactRun    = "application/vnd.okara.run.v1"
	artifactLog    = "application/vnd.okara.log.v1"
	artifactFinal  = "application/vnd.okara.record.v1" // the final record

	mediaLockFile = "application/vnd.okara.lockfile.v1"
	mediaSnapshot = "application/vnd.okara.template.v1+json"
	mediaRun      = "application/vnd.okara.run.v1+json"
	mediaRunLog   = "application/vnd.okara.log.v1+zstd"
	mediaPlan     = "application/vnd.okara.plan.v1"
	mediaPlanJSON = "application/vnd.okara.plan.v1+json+zstd"
	mediaFinal    = "application/vnd.okara.record.v1+json"
)

// Bounds, in bytes, of what is read.
const (
	MaxRunResult = 4 << 20
	MaxRunLog    = 64 << 20
	MaxPlan      = 256 << 20
	MaxPlanJSON  = 32 << 20
	MaxLockFile  = 1 << 20
	maxSnapshot  = 1 << 20
	maxFinal     = 64 << 10
)

// Kinds of [InstanceTag].
const (
	TagSource = "source" // what runs from N on execute
	TagRun    = "run"    // report of an attempt, written once
	TagLog    = "log"    // log of an attempt so far, rewritten
	TagFinal  = "record" // the final record
)

// InstanceTag identifies a tag in the repository of an instance.
type InstanceTag struct {
	Kind       string
	ID         string
	N, Attempt int    // of a run; Attempt of run and log only
	Hex        string // of an input: the first digits of its digest
}

// String returns the tag.
func (t InstanceTag) String() string {
	switch t.Kind {
	case TagFinal:
		return t.Kind + "-" + t.ID
	case TagInput:
		return t.Kind + "-" + t.ID + "-" + t.Hex
	case TagSource:
		return t.Kind + "-" + t.ID + "-" + strconv.Itoa(t.N)
	}
	return t.Kind + "-" + t.ID + "-" + strconv.Itoa(t.N) + "-" + strconv.Itoa(t.Attempt)
}

var instanceTagRE = text.Pattern(`^(source|run|log|record)-([a-z0-9]{1,40})(?:-([1-9][0-9]{0,8}))?(?:-([1-9][0-9]{0,8}))?$`)

// ParseInstanceTag is the inverse of String. It returns false for other tags.
func ParseInstanceTag(tag string) (InstanceTag, bool) {
	if m := inputTagRE().FindStringSubmatch(tag); m != nil {
		return InstanceTag{Kind: TagInput, ID: m[1], Hex: m[2]}, true
	}
	m := instanceTagRE().FindStringSubmatch(tag)
	if m == nil {
		return InstanceTag{}, false
	}
	t := InstanceTag{Kind: m[1], ID: m[2]}
	t.N, _ = strconv.Atoi(m[3]) // the expression has only digits; a missing number becomes 0
	t.Attempt, _ = strconv.Atoi(m[4])
	return t, t.String() == tag
}

// InstanceRepo is an instance's repository. A Sealer seals secrets, and only sealed data is read.
type InstanceRepo struct {
	Repo   *oci.Repo
	Sealer artifact.Sealer // nil: not sealed
}

// Source is what the runs of an instance execute.
type Source struct {
	// Zip is the archive of the module. It is mounted from its repository (From), or sent
	// again; if From is the instance's repository it is there already.
	Zip      oci.Blob
	Lock     []byte // the dependency lock file; nil: none yet
	Template []byte // JSON of the snapshot
	// First reports that nothing was ever run for the instance, so that nothing need be checked.
	First bool
	// Annotations have names that begin with okara_. Nothing is decided by them.
	Annotations map[string]string
}

const (
	ownAnnotation  = "okara_"
	maxAnnotations = 32
)

// PutSource writes the source of an instance from run n on, once.
func (i InstanceRepo) PutSource(ctx context.Context, id string, n int, s Source) error {
	zip := s.Zip
	zip.MediaType = artifact.MediaZip
	blobs := []oci.Blob{zip}
	if s.Lock != nil {
		blobs = append(blobs, oci.BytesBlob(mediaLockFile, s.Lock))
	}
	if s.Template != nil {
		blobs = append(blobs, oci.BytesBlob(mediaSnapshot, s.Template))
	}
	if len(s.Annotations) > maxAnnotations {
		return fmt.Errorf("%d annotations, the limit is %d: %w", len(s.Annotations), maxAnnotations, oci.ErrTooLarge)
	}
	ann := map[string]string{}
	for k, v := range s.Annotations {
		if !strings.HasPrefix(k, ownAnnotation) {
			return fmt.Errorf("annotation %q must begin with %s", k, ownAnnotation)
		}
		ann[k] = text.Excerpt(v)
	}
	empty := oci.EmptyBlob()
	if s.First { // a registry that has the module has the empty blob too
		empty.From = zip.From
		blobs = append(blobs, empty)
	}
	return i.putTag(ctx, layers{tag: InstanceTag{Kind: TagSource, ID: id, N: n}, artifactType: artifactSource, blobs: blobs, ann: ann, once: !s.First})
}

// SourceManifest is a source in the registry, compared with the ledger before it runs.
type SourceManifest struct {
	Zip         oci.Descriptor
	Lock        *oci.Descriptor
	Template    *oci.Descriptor
	Annotations map[string]string
}

// Source reads the manifest under a source tag.
func (i InstanceRepo) Source(ctx context.Context, id string, n int) (SourceManifest, error) {
	tag := InstanceTag{Kind: TagSource, ID: id, N: n}
	image, err := i.image(ctx, tag, artifactSource)
	if err != nil {
		return SourceManifest{}, err
	}
	s := SourceManifest{Annotations: maps.Clone(image.Annotations)}
	maps.DeleteFunc(s.Annotations, func(k, _ string) bool { return !strings.HasPrefix(k, ownAnnotation) })
	for _, l := range image.Layers {
		switch l.MediaType {
		case artifact.MediaZip:
			s.Zip = l
		case mediaLockFile:
			s.Lock = &l
		case mediaSnapshot:
			s.Template = &l
		}
	}
	if s.Zip.Digest == "" {
		return s, fmt.Errorf("%s:%s has no layer of type %s: %w", i.Repo, tag, artifact.MediaZip, oci.ErrCorrupt)
	}
	return s, artifact.CheckSHA256(s.Zip)
}

// Template reads the JSON of the snapshot of a source; nil if it has none.
func (i InstanceRepo) Template(ctx context.Context, s SourceManifest) ([]byte, error) {
	if s.Template == nil {
		return nil, nil
	}
	return i.Repo.ReadBlob(ctx, *s.Template, maxSnapshot)
}

func attemptTag(kind string, a lifecycle.Ref) InstanceTag {
	return InstanceTag{Kind: kind, ID: a.ID, N: a.N, Attempt: a.Attempt}
}

// RunTag returns the tag of an attempt's report.
func RunTag(a lifecycle.Ref) string { return attemptTag(TagRun, a).String() }

// RunFiles are the files that an attempt leaves.
type RunFiles struct {
	Result []byte // JSON with a member nonce
	Log    []byte // nil: none
	Plan   []byte // plan file of the tool; nil: none
	JSON   []byte // the plan as JSON; nil: none
	Lock   []byte // dependency lock file, which is stored in clear; nil: none
	// Unlisted reports that a list of tags, read under the attempt's lock, had no report of it.
	Unlisted bool
}

// PutRun writes the report of an attempt, once: oci.ErrExists if there is a different one.
func (i InstanceRepo) PutRun(ctx context.Context, a lifecycle.Ref, f RunFiles) error {
	tag := attemptTag(TagRun, a)
	var blobs []oci.Blob
	for _, l := range []struct {
		mediaType string
		b         []byte
	}{{mediaRun, f.Result}, {mediaRunLog, f.Log}, {mediaPlan, f.Plan}, {mediaPlanJSON, f.JSON}} {
		if l.b == nil {
			continue
		}
		seal := artifact.Seal
		if l.mediaType == mediaRun {
			seal = artifact.SealInlined
		}
		blob, err := seal(ctx, i.Repo, i.Sealer, tag.String(), l.mediaType, l.b)
		if err != nil {
			return err
		}
		blobs = append(blobs, blob)
	}
	if f.Lock != nil {
		blobs = append(blobs, oci.BytesBlob(mediaLockFile, f.Lock))
	}
	return i.putTag(ctx, layers{tag: tag, artifactType: artifactRun, blobs: blobs, once: !f.Unlisted})
}

// RunResult is the report of an attempt, whose nonce was checked.
type RunResult struct {
	JSON  []byte
	layer map[string]oci.Descriptor
	tag   string
	i     InstanceRepo
}

// Run reads the report of an attempt: oci.ErrNotFound, or oci.ErrCorrupt with another nonce.
func (i InstanceRepo) Run(ctx context.Context, a lifecycle.Ref) (RunResult, error) {
	r, err := i.result(ctx, attemptTag(TagRun, a))
	if err != nil {
		return r, err
	}
	var doc struct {
		Nonce string `json:"nonce"`
	}
	err = json.Unmarshal(r.JSON, &doc)
	if err != nil || a.Nonce == "" || subtle.ConstantTimeCompare([]byte(doc.Nonce), []byte(a.Nonce)) != 1 {
		return RunResult{}, fmt.Errorf("%s:%s is not the result of this attempt: %w", i.Repo, r.tag, oci.ErrCorrupt)
	}
	return r, nil
}

func (i InstanceRepo) result(ctx context.Context, tag InstanceTag) (RunResult, error) {
	r := RunResult{layer: map[string]oci.Descriptor{}, tag: tag.String(), i: i}
	image, err := i.image(ctx, tag, artifactRun)
	if err != nil {
		return r, err
	}
	for _, l := range image.Layers {
		r.layer[artifact.ClearType(l.MediaType)] = l
	}
	r.JSON, err = r.read(ctx, mediaRun, MaxRunResult)
	return r, err
}

// Log reads the whole log of the attempt; nil if it has none.
func (r RunResult) Log(ctx context.Context) ([]byte, error) {
	return r.read(ctx, mediaRunLog, MaxRunLog)
}

// Plan reads the plan file; nil if the attempt left none.
func (r RunResult) Plan(ctx context.Context) ([]byte, error) { return r.read(ctx, mediaPlan, MaxPlan) }

// PlanJSON reads the plan as JSON; nil if the attempt left none.
func (r RunResult) PlanJSON(ctx context.Context) ([]byte, error) {
	return r.read(ctx, mediaPlanJSON, MaxPlanJSON)
}

// PlanAt reads a plan file without its nonce. The caller compares its digest.
func (i InstanceRepo) PlanAt(ctx context.Context, tag string) ([]byte, error) {
	t, ok := ParseInstanceTag(tag)
	if !ok || t.Kind != TagRun {
		return nil, fmt.Errorf("%q is not a tag of an attempt: %w", tag, oci.ErrNotFound)
	}
	image, err := i.image(ctx, t, artifactRun)
	if err != nil {
		return nil, err
	}
	for _, l := range image.Layers {
		if artifact.ClearType(l.MediaType) == mediaPlan {
			return artifact.Open(ctx, i.Repo, i.Sealer, tag, mediaPlan, l, MaxPlan)
		}
	}
	return nil, fmt.Errorf("%s:%s has no plan: %w", i.Repo, tag, oci.ErrNotFound)
}

// Lock reads the dependency lock file that the attempt left; nil if none.
func (r RunResult) Lock(ctx context.Context) ([]byte, error) {
	l, ok := r.layer[mediaLockFile]
	if !ok {
		return nil, nil
	}
	return r.i.Repo.ReadBlob(ctx, l, MaxLockFile)
}

func (r RunResult) read(ctx context.Context, mediaType string, limit int64) ([]byte, error) {
	l, ok := r.layer[mediaType]
	if !ok && mediaType == mediaRun {
		return nil, fmt.Errorf("%s:%s has no result: %w", r.i.Repo, r.tag, oci.ErrCorrupt)
	}
	if !ok {
		return nil, nil
	}
	return artifact.Open(ctx, r.i.Repo, r.i.Sealer, r.tag, mediaType, l, limit)
}

// PutLog rewrites the log of an attempt. Only the attempt's child process writes it.
func (i InstanceRepo) PutLog(ctx context.Context, a lifecycle.Ref, log []byte) error {
	tag := attemptTag(TagLog, a)
	blob, err := artifact.Seal(ctx, i.Repo, i.Sealer, tag.String(), mediaRunLog, log)
	if err != nil {
		return err
	}
	return i.putTag(ctx, layers{tag: tag, artifactType: artifactLog, blobs: []oci.Blob{blob}})
}

// Log reads the log of an attempt so far.
func (i InstanceRepo) Log(ctx context.Context, a lifecycle.Ref) ([]byte, error) {
	return i.readOnlyLayer(ctx, attemptTag(TagLog, a), artifactLog, mediaRunLog, MaxRunLog)
}

// PutFinal writes the final record of an instance, once.
func (i InstanceRepo) PutFinal(ctx context.Context, id string, record []byte) error {
	tag := InstanceTag{Kind: TagFinal, ID: id}
	blob, err := artifact.Seal(ctx, i.Repo, i.Sealer, tag.String(), mediaFinal, record)
	if err != nil {
		return err
	}
	return i.putTag(ctx, layers{tag: tag, artifactType: artifactFinal, blobs: []oci.Blob{blob}, once: true})
}

// Final reads the final record of an instance.
func (i InstanceRepo) Final(ctx context.Context, id string) ([]byte, error) {
	return i.readOnlyLayer(ctx, InstanceTag{Kind: TagFinal, ID: id}, artifactFinal, mediaFinal, maxFinal)
}

func (i InstanceRepo) readOnlyLayer(ctx context.Context, tag InstanceTag, artifactType, mediaType string, limit int64) ([]byte, error) {
	image, err := i.image(ctx, tag, artifactType)
	if err != nil {
		return nil, err
	}
	if len(image.Layers) != 1 {
		return nil, fmt.Errorf("%s:%s has %d layers: %w", i.Repo, tag, len(image.Layers), oci.ErrCorrupt)
	}
	return artifact.Open(ctx, i.Repo, i.Sealer, tag.String(), mediaType, image.Layers[0], limit)
}

// LockFile reads a dependency lock file by its digest.
func (i InstanceRepo) LockFile(ctx context.Context, d digest.Digest) ([]byte, error) {
	desc, err := i.Repo.Stat(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("lock file %s of %s: %w", d, i.Repo, err)
	}
	return i.Repo.ReadBlob(ctx, desc, MaxLockFile)
}

func (i InstanceRepo) image(ctx context.Context, tag InstanceTag, artifactType string) (ocispec.Manifest, error) {
	m, err := i.Repo.Fetch(ctx, tag.String())
	if err != nil {
		return ocispec.Manifest{}, err
	}
	image, err := m.Image()
	if err == nil && image.ArtifactType != artifactType {
		err = fmt.Errorf("%s:%s has artifact type %q instead of %s: %w", i.Repo, tag, image.ArtifactType, artifactType, oci.ErrCorrupt)
	}
	return image, err
}

// layers are the content to write under a tag.
type layers struct {
	tag          InstanceTag
	artifactType string
	blobs        []oci.Blob // the layers, in order; the empty blob is not a layer
	ann          map[string]string
	once         bool
}

// putTag writes a tag. One that is written once is checked before, and after a lost answer; the
// same is no error. Blobs are sent without looking, the empty one only if it is missing.
func (i InstanceRepo) putTag(ctx context.Context, l layers) error {
	err := i.putLayers(ctx, l)
	if err != nil && !errors.Is(err, oci.ErrExists) {
		return fmt.Errorf("writing %s:%s: %w", i.Repo, l.tag, err)
	}
	return err
}

func (i InstanceRepo) putLayers(ctx context.Context, l layers) error {
	empty := artifact.EmptyConfig()
	image := ocispec.Manifest{ArtifactType: l.artifactType, Config: empty, Annotations: l.ann}
	for _, b := range l.blobs {
		if b.Digest != empty.Digest {
			image.Layers = append(image.Layers, b.Descriptor)
		}
	}
	m, err := oci.NewManifest(image)
	if err != nil {
		return err
	}
	if l.once {
		if have, err := i.Repo.Resolve(ctx, l.tag.String()); err == nil {
			return i.checkSame(l.tag, have, m)
		} else if !errors.Is(err, oci.ErrNotFound) {
			return err
		}
	}
	for _, b := range l.blobs {
		if b.From != nil && b.From.String() == i.Repo.String() {
			continue // it is in this repository
		}
		if err := i.Repo.PushBlob(ctx, b); err != nil {
			return err
		}
	}
	err = i.Repo.PutTag(ctx, l.tag.String(), m)
	// First the empty blob, which was not sent, then those assumed to be in the repository.
	for _, missed := range [][]oci.Blob{{oci.EmptyBlob()}, l.blobs} {
		if !oci.MissesBlob(err) {
			break
		}
		for _, b := range missed {
			b.From = nil
			if err := i.Repo.PushBlob(ctx, b); err != nil {
				return err
			}
		}
		err = i.Repo.PutTag(ctx, l.tag.String(), m)
	}
	if errors.Is(err, oci.ErrUncertain) {
		if have, rerr := i.Repo.Resolve(ctx, l.tag.String()); rerr == nil && have.Digest == m.Digest {
			return nil
		}
	}
	return err
}

func (i InstanceRepo) checkSame(tag InstanceTag, have oci.Descriptor, m oci.Manifest) error {
	if have.Digest == m.Digest {
		return nil
	}
	return fmt.Errorf("%s:%s: %w", i.Repo, tag, oci.ErrExists)
}
