// SPDX-License-Identifier: Apache-2.0

package oci

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

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// ArtifactJob is the type of an entry of the queue: a job under one tag, and
// how it ended under another. Both tags are written once.
const ArtifactJob = "application/vnd.okara.job.v1"

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

	// maxJob bounds what a job says, in bytes: a request is a few hundred.
	maxJob = 64 << 10
)

// Job is work that was asked for. Everybody who reads the queue reads Data, so
// nothing secret is in it.
type Job struct {
	ID   string
	Kind string
	Data map[string]string
	Time time.Time // when it was recorded
}

// JobEnd is how a job ended.
type JobEnd struct {
	Failed bool
	Parked bool   // failed, since no try came back
	Result string // for people
	Time   time.Time
}

// jobName is the part that the two tags of a job share.
func jobName(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// JobTag returns the tag of the job with this id.
func JobTag(id string) string { return jobTagPrefix + jobName(id) }

// DoneTag returns the tag that ends the job under tag, "" if tag is not one of
// a job.
func DoneTag(tag string) string {
	name, ok := strings.CutPrefix(tag, jobTagPrefix)
	if !ok || len(name) != 32 || strings.Trim(name, "0123456789abcdef") != "" {
		return ""
	}
	return doneTagPrefix + name
}

// EndedJobTag is the inverse of DoneTag: the tag of the job that tag ends, ""
// if tag is not the end of one.
func EndedJobTag(tag string) string {
	name, ok := strings.CutPrefix(tag, doneTagPrefix)
	if job := jobTagPrefix + name; ok && DoneTag(job) == tag {
		return job
	}
	return ""
}

// AddJob records the job in the queue r. It is false if there is one with this
// id already, whether it has ended or not. Of two writers at one moment both
// may be told that they were first.
func (r *Repo) AddJob(ctx context.Context, j Job) (added bool, err error) {
	size := len(j.ID) + len(j.Kind)
	for k, v := range j.Data {
		size += len(k) + len(v)
	}
	if size > maxJob {
		return false, fmt.Errorf("job of %d bytes, at most %d: %w", size, maxJob, ErrTooLarge)
	}
	annotations := map[string]string{annJobID: j.ID, annJobKind: j.Kind, annJobTime: j.Time.UTC().Format(time.RFC3339Nano)}
	for k, v := range j.Data {
		annotations[annJobData+k] = v
	}
	added, err = r.putOnce(ctx, JobTag(j.ID), annotations)
	if err != nil {
		return false, fmt.Errorf("record job in %s: %w", r, err)
	}
	return added, nil
}

// EndJob records how the job ended. Who comes second changes nothing.
func (r *Repo) EndJob(ctx context.Context, id string, e JobEnd) error {
	state := "done"
	if e.Failed {
		state = "failed"
	}
	if e.Parked {
		state = "parked"
	}
	_, err := r.putOnce(ctx, DoneTag(JobTag(id)), map[string]string{
		annJobID: id, annJobState: state, annJobResult: plainText(e.Result), annJobTime: e.Time.UTC().Format(time.RFC3339Nano),
	})
	if err != nil {
		return fmt.Errorf("end job in %s: %w", r, err)
	}
	return nil
}

// BeginTry records that a try of the job begins, before it does. It is false if
// there was a try of this number.
func (r *Repo) BeginTry(ctx context.Context, id string, n int, at time.Time) (bool, error) {
	begun, err := r.putTry(ctx, tryTagPrefix, id, n, at)
	if err != nil {
		return false, fmt.Errorf("record try %d of a job in %s: %w", n, r, err)
	}
	return begun, nil
}

// EndTry records that a try came back without ending the job.
func (r *Repo) EndTry(ctx context.Context, id string, n int, at time.Time) error {
	if _, err := r.putTry(ctx, backTagPrefix, id, n, at); err != nil {
		return fmt.Errorf("record the end of try %d of a job in %s: %w", n, r, err)
	}
	return nil
}

// Try returns when a try began and whether it came back.
func (r *Repo) Try(ctx context.Context, id string, n int) (began time.Time, back bool, err error) {
	if _, began, err = r.jobAnnotations(ctx, tryTag(tryTagPrefix, id, n)); err != nil {
		return began, false, err
	}
	_, err = r.Resolve(ctx, tryTag(backTagPrefix, id, n))
	if errors.Is(err, ErrNotFound) {
		return began, false, nil
	}
	return began, err == nil, err
}

func tryTag(prefix, id string, n int) string { return fmt.Sprintf("%s%s-%d", prefix, jobName(id), n) }

// TriedJobTag returns the tag of the job that tag tells of a try of, "" if it is
// no such tag.
func TriedJobTag(tag string) string {
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

func (r *Repo) putTry(ctx context.Context, prefix, id string, n int, at time.Time) (bool, error) {
	return r.putOnce(ctx, tryTag(prefix, id, n), map[string]string{
		annJobID: id, annJobTry: strconv.Itoa(n), annJobTime: at.UTC().Format(time.RFC3339Nano),
	})
}

// putOnce writes a manifest of the queue unless its tag is taken.
func (r *Repo) putOnce(ctx context.Context, tag string, annotations map[string]string) (bool, error) {
	if _, err := r.Resolve(ctx, tag); err == nil || !errors.Is(err, ErrNotFound) {
		return false, err
	}
	annotations = maps.Clone(annotations)
	annotations[AnnKind] = KindJob
	m, err := NewManifest(ocispec.Manifest{ArtifactType: ArtifactJob, Config: emptyConfig(), Layers: []Descriptor{emptyConfig()}, Annotations: annotations})
	if err != nil {
		return false, err
	}
	if _, err := r.EnsureBlob(ctx, EmptyBlob()); err != nil {
		return false, err
	}
	putErr := r.PutTag(ctx, tag, m)
	have, err := r.Resolve(ctx, tag)
	if err == nil { // also when the answer to the PUT was lost
		return have.Digest == m.Digest, nil
	}
	return false, errors.Join(putErr, err)
}

// Job reads the job under tag.
func (r *Repo) Job(ctx context.Context, tag string) (Job, error) {
	a, at, err := r.jobAnnotations(ctx, tag)
	if err != nil {
		return Job{}, err
	}
	j := Job{ID: a[annJobID], Kind: a[annJobKind], Data: map[string]string{}, Time: at}
	if JobTag(j.ID) != tag {
		return Job{}, fmt.Errorf("%s:%s is another job: %w", r, tag, ErrCorrupt)
	}
	for k, v := range a {
		if key, ok := strings.CutPrefix(k, annJobData); ok {
			j.Data[key] = v
		}
	}
	return j, nil
}

// JobEnd reads how the job with this id ended; ErrNotFound if it has not.
func (r *Repo) JobEnd(ctx context.Context, id string) (JobEnd, error) {
	return r.JobEndAt(ctx, DoneTag(JobTag(id)))
}

// JobEndAt reads the end of a job under its own tag.
func (r *Repo) JobEndAt(ctx context.Context, tag string) (JobEnd, error) {
	a, at, err := r.jobAnnotations(ctx, tag)
	if err != nil {
		return JobEnd{}, err
	}
	parked := a[annJobState] == "parked"
	return JobEnd{Failed: parked || a[annJobState] == "failed", Parked: parked, Result: plainText(a[annJobResult]), Time: at}, nil
}

func (r *Repo) jobAnnotations(ctx context.Context, tag string) (map[string]string, time.Time, error) {
	m, err := r.Fetch(ctx, tag)
	if err != nil {
		return nil, time.Time{}, err
	}
	image, err := m.Image()
	if err != nil {
		return nil, time.Time{}, err
	}
	if image.ArtifactType != ArtifactJob {
		return nil, time.Time{}, fmt.Errorf("%s:%s is no job: %w", r, tag, ErrCorrupt)
	}
	at, err := time.Parse(time.RFC3339, image.Annotations[annJobTime])
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%s:%s: %w: %w", r, tag, err, ErrCorrupt)
	}
	return image.Annotations, at, nil
}
