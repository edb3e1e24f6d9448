// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestDoctorParkedJobs shows the jobs that need a decision, and no others.
//
// Shows: mistakes 2
func TestDoctorParkedJobs(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	r := must.Get(oci.OpenRepo(host+"/acme/queue", oci.Options{}))(t)
	now := time.Now()
	add := func(id, kind string, tries int, end *jobs.End, data map[string]string) {
		must.Get(jobs.AddJob(t.Context(), r, jobs.Recorded{ID: id, Kind: kind, Data: data, Time: now}))(t)
		for n := range tries {
			must.Get(jobs.BeginTry(t.Context(), r, id, n+1, now))(t)
		}
		if end == nil {
			return
		}
		must.Succeed(t, jobs.EndJob(t.Context(), r, id, *end))
	}
	parked := &jobs.End{Failed: true, Parked: true, Result: "parked: the server stopped", Time: now}
	tag := func(name string) map[string]string {
		return map[string]string{"owner": "acme", "repository": "terraform-aws-vpc", "tag": name}
	}
	add("pull", "pull-through", 3, parked, map[string]string{"provider": "example.com/acme/dns", "version": "1.2.0"})
	add("hook", "github", 3, parked, tag("v1.0.0"))
	add("later", "github", 3, parked, tag("v1.1.0"))
	add("later again 2", "github", 1, &jobs.End{Result: "fine", Time: now}, tag("v1.1.0"))
	add("failed", "github", 4, &jobs.End{Failed: true, Result: "down", Time: now}, tag("v1.2.0"))
	add("open", "github", 3, nil, tag("v1.3.0"))
	o := okara(t, "admin", "doctor", "artifacts", "--registry", host+"/acme")
	if lines := strings.Count(o.out, "\n"); o.code != cli.ExitFailure || lines != 2 {
		t.Errorf("exit %d, %d lines, want 2:\n%s%s", o.code, lines, o.out, o.err)
	}
	for _, want := range []string{jobs.JobTag("pull"), "okara mirror example.com/acme/dns@1.2.0", jobs.JobTag("hook"), "acme/terraform-aws-vpc v1.0.0", "Redeliver"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("nothing of %s:\n%s", want, o.out)
		}
	}
}
