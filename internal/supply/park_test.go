// SPDX-License-Identifier: Apache-2.0

package supply_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/depottest"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/internal/upstream"
)

// TestSyncParks: after a crashing or refused pack a run waits an hour, then two.
func TestSyncParks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		maxBytes int64
		fetches  int // each death takes seconds
	}{{"dies", 1 << 40, 2}, {"refused", 0, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var fetches atomic.Int64
			srv := httptest.NewTLSServer(depottest.GitHandler(depottest.DeltaBomb(), &fetches))
			t.Cleanup(srv.Close)
			upstream.InstallGit(srv.Client())
			t.Cleanup(func() { upstream.InstallGit(http.DefaultClient) })
			r := newRunner(t)
			r.git.MaxBytes = tt.maxBytes
			src := fmt.Sprintf("module \"net/vpc/aws\" {\n  source = \"git::%s/acme/vpc.git\"\n}\n", srv.URL)
			for _, s := range []struct {
				after time.Duration
				want  string
				asked int64
			}{
				{0, "publish 1.0.0 published error", 1},
				{0, "parked 1.0.0 error", 1},
				{59 * time.Minute, "parked 1.0.0 error", 1},
				{2 * time.Minute, "publish 1.0.0 published error", 2},
				{119 * time.Minute, "parked 1.0.0 error", 2},
				{2 * time.Minute, "publish 1.0.0 published error", 3},
			} {
				if s.asked > int64(tt.fetches) {
					break
				}
				r.now = r.now.Add(s.after)
				r.want(r.apply(src), s.want)
				if n := fetches.Load(); n != s.asked {
					t.Fatalf("%s: %d fetches, want %d", s.want, n, s.asked)
				}
			}
			rec := must.Get(supply.ReadRecord(t.Context(), r.depot))(t)
			vr := rec.Entries["module net/vpc/aws"]["1.0.0"]
			if vr.State != supply.StateParked || vr.Tries != tt.fetches || !strings.Contains(vr.Reason, "/acme/vpc.git") {
				t.Errorf("the record says %+v", vr)
			}
		})
	}
}
