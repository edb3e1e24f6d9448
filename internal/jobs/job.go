// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
)

// artifactJob is an entry of the queue: a job, or its end, each under a tag written once.
const artifactJob = "application/vnd.okara.job.v1"

const (
	annJobID     = "vnd.okara.job.id"
	annJobKind   = "vnd.okara.job.kind"
	annJobTime   = "vnd.okara.job.time"
	annJobState  = "vnd.okara.job.state"
	annJobResult = "vnd.okara.job.result"
	annJobData   = "vnd.okara.job.data." // followed by the key

	annJobTry = "vnd.okara.job.try"

	jobTagPrefix  = "job-"
	doneTagPrefix = "done-"
	tryTagPrefix  = "try-"  // followed by the number of the try
	backTagPrefix = "back-" // likewise

	// maxJob bounds a job's content, in bytes.
	maxJob = 64 << 10
)

// Recorded is a stored job. All readers of the queue see Data, so it must have no secrets.
type Recorded struct {
	ID   string
	Kind string
	Data map[string]string
	Time time.Time // when it was recorded
}

// End records how a job ended.
type End struct {
	Failed bool
	Parked bool   // failed because too many tries did not return
	Result string // a message for users
	Time   time.Time
}

// jobName returns the common part of the two tags of a job.
func jobName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// JobTag returns the tag of the job with this id.
func JobTag(id string) string { return jobTagPrefix + jobName(id) }

// DoneTag returns the tag that ends the job under tag, or "".
func DoneTag(tag string) string {
	name, ok := strings.CutPrefix(tag, jobTagPrefix)
	if !ok || len(name) != 32 || strings.Trim(name, "0123456789abcdef") != "" {
		return ""
	}
	return doneTagPrefix + name
}

// endedJobTag returns the tag of the job that tag ends, or "".
func endedJobTag(tag string) string {
	name, ok := strings.CutPrefix(tag, doneTagPrefix)
	if job := jobTagPrefix + name; ok && DoneTag(job) == tag {
		return job
	}
	return ""
}

// AddJob records a job; false: its id exists. Two concurrent writers may both get true.
func AddJob(ctx context.Context, r *oci.Repo, j Recorded) (added bool, err error) {
	size := len(j.ID) + len(j.Kind)
	for k, v := range j.Data {
		size += len(k) + len(v)
	}
	if size > maxJob {
		return false, fmt.Errorf("job of %d bytes, the limit is %d: %w", size, maxJob, oci.ErrTooLarge)
	}
	annotations := map[string]string{annJobID: j.ID, annJobKind: j.Kind, annJobTime: j.Time.UTC().Format(time.RFC3339Nano)}
	for k, v := range j.Data {
		annotations[annJobData+k] = v
	}
	added, err = putOnce(ctx, r, JobTag(j.ID), annotations)
	if err != nil {
		return false, fmt.Errorf("record job in %s: %w", r, err)
	}
	return added, nil
}

// EndJob records how the job ended. A second call changes nothing.
func EndJob(ctx context.Context, r *oci.Repo, id string, e End) error {
	state := "done"
	if e.Failed {
		state = "failed"
	}
	if e.Parked {
		state = "parked"
	}
	_, err := putOnce(ctx, r, DoneTag(JobTag(id)), map[string]string{
		annJobID: id, annJobState: state, annJobResult: text.Excerpt(e.Result), annJobTime: e.Time.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return fmt.Errorf("end job in %s: %w", r, err)
	}
	return nil
}

// BeginTry records a try before it begins; false: its number exists.
func BeginTry(ctx context.Context, r *oci.Repo, id string, n int, at time.Time) (bool, error) {
	begun, err := putTry(ctx, r, tryTagPrefix, id, n, at)
	if err != nil {
		return false, fmt.Errorf("record attempt %d of a job in %s: %w", n, r, err)
	}
	return begun, nil
}

// endTry records that a try returned without ending the job.
func endTry(ctx context.Context, r *oci.Repo, id string, n int, at time.Time) error {
	if _, err := putTry(ctx, r, backTagPrefix, id, n, at); err != nil {
		return fmt.Errorf("record the end of attempt %d of a job in %s: %w", n, r, err)
	}
	return nil
}

func readTry(ctx context.Context, r *oci.Repo, id string, n int) (began time.Time, back bool, err error) {
	if _, began, err = jobAnnotations(ctx, r, tryTag(tryTagPrefix, id, n)); err != nil {
		return began, false, err
	}
	_, err = r.Resolve(ctx, tryTag(backTagPrefix, id, n))
	if errors.Is(err, oci.ErrNotFound) {
		return began, false, nil
	}
	return began, err == nil, err
}

func tryTag(prefix, id string, n int) string { return fmt.Sprintf("%s%s-%d", prefix, jobName(id), n) }

// triedJobTag returns the tag of the job of a try, or "".
func triedJobTag(tag string) string {
	for _, prefix := range []string{tryTagPrefix, backTagPrefix} {
		if rest, ok := strings.CutPrefix(tag, prefix); ok {
			name, _, _ := strings.Cut(rest, "-")
			if job := jobTagPrefix + name; DoneTag(job) != "" {
				return job
			}
		}
	}
	return ""
}

func putTry(ctx context.Context, r *oci.Repo, prefix, id string, n int, at time.Time) (bool, error) {
	return putOnce(ctx, r, tryTag(prefix, id, n), map[string]string{
		annJobID: id, annJobTry: strconv.Itoa(n), annJobTime: at.UTC().Format(time.RFC3339Nano),
	})
}

// putOnce writes a manifest of the queue unless its tag exists.
func putOnce(ctx context.Context, r *oci.Repo, tag string, annotations map[string]string) (bool, error) {
	if _, err := r.Resolve(ctx, tag); err == nil || !errors.Is(err, oci.ErrNotFound) {
		return false, err
	}
	annotations = maps.Clone(annotations)
	annotations[artifact.AnnKind] = "job"
	m, err := artifact.NewBare(artifactJob, annotations)
	if err != nil {
		return false, err
	}
	if _, err := r.EnsureBlob(ctx, oci.EmptyBlob()); err != nil {
		return false, err
	}
	putErr := r.PutTag(ctx, tag, m)
	have, err := r.Resolve(ctx, tag)
	if err == nil { // also if the answer to the PUT was lost
		return have.Digest == m.Digest, nil
	}
	return false, errors.Join(putErr, err)
}

// ReadJob reads the job under tag.
func ReadJob(ctx context.Context, r *oci.Repo, tag string) (Recorded, error) {
	a, at, err := jobAnnotations(ctx, r, tag)
	if err != nil {
		return Recorded{}, err
	}
	j := Recorded{ID: a[annJobID], Kind: a[annJobKind], Data: map[string]string{}, Time: at}
	if JobTag(j.ID) != tag {
		return Recorded{}, fmt.Errorf("%s:%s is another job: %w", r, tag, oci.ErrCorrupt)
	}
	for k, v := range a {
		if key, ok := strings.CutPrefix(k, annJobData); ok {
			j.Data[key] = v
		}
	}
	return j, nil
}

// ReadEnd returns how a job ended; ErrNotFound: not yet.
func ReadEnd(ctx context.Context, r *oci.Repo, id string) (End, error) {
	return readEndAt(ctx, r, DoneTag(JobTag(id)))
}

func readEndAt(ctx context.Context, r *oci.Repo, tag string) (End, error) {
	a, at, err := jobAnnotations(ctx, r, tag)
	if err != nil {
		return End{}, err
	}
	parked := a[annJobState] == "parked"
	return End{Failed: parked || a[annJobState] == "failed", Parked: parked, Result: text.Excerpt(a[annJobResult]), Time: at}, nil
}

func jobAnnotations(ctx context.Context, r *oci.Repo, tag string) (map[string]string, time.Time, error) {
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return nil, time.Time{}, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, time.Time{}, err
	}
	if image.ArtifactType != artifactJob {
		return nil, time.Time{}, fmt.Errorf("%s:%s is not a job: %w", r, tag, oci.ErrCorrupt)
	}
	at, err := time.Parse(time.RFC3339, image.Annotations[annJobTime])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s:%s: %w: %w", r, tag, err, oci.ErrCorrupt)
	}
	return image.Annotations, at, nil
}
