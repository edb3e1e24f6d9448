// SPDX-License-Identifier: Apache-2.0

package registry_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/internal/jobs"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestPullThroughParked parks the job that completes a version, since its
// server crashed during each try. A request on the next day runs it again.
//
// Shows: mistakes 2
func TestPullThroughParked(t *testing.T) {
	from, zips := newOrigin(t)
	storage := ocitest.Handler(t, ocitest.Quirks{})
	bubble(t, func(t *testing.T) {
		first := newOffline(t, storage, pullFrom(from)) // its jobs do not run
		first.get(t, first.archive(t, "linux_amd64"))
		synctest.Wait() // the package is stored
		queue := first.repo(t, first.layout.QueueRepo())
		list, err := queue.Snapshot(t.Context())
		if err != nil || len(list.Tags) != 1 {
			t.Fatalf("the queue: %v, %v; want one job", list.Tags, err)
		}
		j := must.Fixed(jobs.ReadJob(t.Context(), queue, list.Tags[0]))
		end := jobs.End{Failed: true, Parked: true, Result: "parked", Time: time.Now()}
		must.Succeed(t, jobs.EndJob(t.Context(), queue, j.ID, end))
		time.Sleep(24 * time.Hour) // of the bubble's clock
		second := newOffline(t, storage, pullFrom(from))
		second.start(t)
		second.get(t, second.archive(t, "linux_amd64"))
		synctest.Wait()
		second.archive(t, "linux_amd64")
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	checkStored(t, storage, from, zips)
}
