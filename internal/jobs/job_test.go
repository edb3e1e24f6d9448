// SPDX-License-Identifier: Apache-2.0

package jobs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestJob checks the life of a job on every kind of registry.
func TestJob(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		ctx, r := t.Context(), ocitest.Repo(t, host)
		at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
		want := jobs.Recorded{ID: "delivery 1", Kind: "github", Data: map[string]string{"owner": "net", "text": "ü \" \n"}, Time: at}
		const tag = "job-9b488edbb2e798830229127c7255c839"
		if got := jobs.JobTag(want.ID); got != tag {
			t.Fatalf("tag %s, want %s", got, tag)
		}
		if _, err := jobs.ReadJob(ctx, r, tag); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("no job: %v", err)
		}
		for i, first := range []bool{true, false} {
			j := want
			j.Time = at.Add(time.Duration(i) * time.Second)
			if added, err := jobs.AddJob(ctx, r, j); err != nil || added != first {
				t.Fatalf("add: %t, %v; want %t", added, err, first)
			}
		}
		got := must.Get(jobs.ReadJob(ctx, r, tag))(t)
		must.Match(t, "job", got, want)
		if _, err := jobs.ReadEnd(ctx, r, want.ID); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("no end: %v", err)
		}
		end := jobs.End{Failed: true, Result: "no such tag", Time: at}
		for _, e := range []jobs.End{end, {Result: "later", Time: at}} {
			must.Succeed(t, jobs.EndJob(ctx, r, want.ID, e))
		}
		if got, err := jobs.ReadEnd(ctx, r, want.ID); err != nil || got != end {
			t.Errorf("end %+v, %v; want %+v", got, err, end)
		}
		if _, err := jobs.AddJob(ctx, r, jobs.Recorded{ID: "x", Data: map[string]string{"k": strings.Repeat("v", 64<<10)}}); !errors.Is(err, oci.ErrTooLarge) {
			t.Errorf("a large job: %v", err)
		}
	})
}

// TestJobTags tells tags of jobs from others, and jobs from each other.
func TestJobTags(t *testing.T) {
	job := jobs.JobTag("x")
	for tag, want := range map[string]string{
		job: "done-" + strings.TrimPrefix(job, "job-"), "done-" + job[4:]: "", job[:30]: "", strings.ToUpper(job): "", job + "0": "", "1.0.0": "", "": "",
	} {
		must.Equal(t, tag, jobs.DoneTag(tag), want)
	}
	r := ocitest.Repo(t, ocitest.New(t, ocitest.Quirks{}))
	must.Get(jobs.AddJob(t.Context(), r, jobs.Recorded{ID: "x", Time: time.Unix(1, 0)}))(t)
	m := must.Get(r.Fetch(t.Context(), job))(t)
	other := jobs.JobTag("y")
	must.Succeed(t, r.PutTag(t.Context(), other, m))
	if _, err := jobs.ReadJob(t.Context(), r, other); !errors.Is(err, oci.ErrCorrupt) {
		t.Errorf("job under another's tag: %v, want %v", err, oci.ErrCorrupt)
	}
}
