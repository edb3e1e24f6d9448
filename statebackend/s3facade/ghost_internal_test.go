// SPDX-License-Identifier: Apache-2.0

package s3facade

import (
	"testing"
	"testing/synctest"

	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// A run that meets a lock that was never acknowledged waits until it may be
// ended, whatever the tool's own -lock-timeout is.
func TestRunWaitsForGhost(t *testing.T) {
	g := &ocitest.Ghosts{Handler: ocitest.Handler(t, ocitest.Quirks{})}
	synctest.Test(t, func(t *testing.T) {
		r, err := oci.OpenRepo("registry.test/infra/state", oci.Options{Transport: ocitest.Direct{Handler: g}, PlainHTTP: true})
		if err != nil {
			t.Fatal(err)
		}
		g.Add("infra/state", "locked-prod-000000000001-0123456789abcdef")
		l, err := New(Options{}).acquire(t.Context(), statebackend.New(r, statebackend.Options{}), "prod", statebackend.LockInfo{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
