// SPDX-License-Identifier: Apache-2.0

package downloads_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/downloads"
	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
)

// TestCounts writes counts twice and reads them, on every registry.
func TestCounts(t *testing.T) {
	ocitest.Each(t, func(t *testing.T, host string) {
		ctx, r := t.Context(), ocitest.Repo(t, host)
		tag := downloads.CountTag(time.Date(2026, 1, 2, 23, 30, 0, 0, time.FixedZone("", -3600)), "0123456789abcdef")
		if want := "count-20260103-0123456789abcdef"; tag != want {
			t.Fatalf("tag %s, want %s", tag, want)
		}
		if _, err := downloads.ReadCounts(ctx, r, tag); !errors.Is(err, oci.ErrNotFound) {
			t.Errorf("no counts: %v", err)
		}
		want := map[downloads.Counted]int64{{Kind: "module", Address: "net/vpc/aws", Version: "1.0.0"}: 1, {Kind: "mirror", Address: "h/a/b"}: 7}
		for range 2 {
			want[downloads.Counted{Kind: "module", Address: "net/vpc/aws", Version: "1.0.0"}]++
			must.Succeed(t, downloads.PutCounts(ctx, r, tag, want))
			got := must.Get(downloads.ReadCounts(ctx, r, tag))(t)
			must.Match(t, "counts", got, want)
		}
		must.Get(jobs.AddJob(ctx, r, jobs.Recorded{ID: "x", Time: time.Now()}))(t)
		if _, err := downloads.ReadCounts(ctx, r, jobs.JobTag("x")); !errors.Is(err, oci.ErrCorrupt) {
			t.Errorf("counts of a job: %v", err)
		}
	})
}

func TestParseCountTag(t *testing.T) {
	for tag, want := range map[string]bool{
		"count-20260103-0123456789abcdef": true, "count-20261303-0123456789abcdef": false, "count-20260103-0123456789ABCDEF": false,
		"count-20260103-0123456789abcde": false, "count-20260103-0123456789abcdef0": false, "xcount-20260103-0123456789abcdef": false, "1.0.0": false,
	} {
		day, id, ok := downloads.ParseCountTag(tag)
		if ok != want || ok && (downloads.CountTag(day, id) != tag) {
			t.Errorf("%s: %v %q %t", tag, day, id, ok)
		}
	}
}
