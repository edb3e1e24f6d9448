// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestOwnActs takes an instance from its launch to its end: acts of the server itself are
// recorded once each, with their outcome; requests of users are not recorded here.
//
// Shows: mistakes 39
func TestOwnActs(t *testing.T) {
	handler := ocitest.Handler(t, ocitest.Quirks{})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, handler, time.Minute)
		var log bytes.Buffer // written only by the loop of the reconciler
		w.options.Audit = slog.New(slog.NewJSONHandler(&log, nil))
		stop := w.run(t)
		synctest.Wait() // it leads before the launch, so that the launch is not in its first document
		rec := w.launch(t, testTemplate("sandbox/vpc"), "anna")
		w.until(t, rec.ID, 10*time.Hour, lifecycle.Destroyed)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		var got []string
		for line := range strings.Lines(log.String()) {
			var r auditlog.Record
			must.Succeed(t, json.Unmarshal([]byte(line), &r))
			if r.Kind != "instance" || r.Address != "sandbox/vpc/"+rec.ID || r.Mode != "server" {
				t.Errorf("%+v", r)
			}
			got = append(got, strings.TrimSpace(r.Action+" "+r.Outcome+" "+r.Subject))
		}
		want := []string{"run-apply done anna", "expired done", "run-destroy done"}
		if !slices.Equal(got, want) {
			t.Errorf("recorded %q, want %q", got, want)
		}
	})
}
