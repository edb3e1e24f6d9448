// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"testing"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// TestJudge: what is known of a service precedes a test without fault.
func TestJudge(t *testing.T) {
	tests := []struct {
		name, host, peer string
		seen             format.Verdict
		want             string
	}{
		{"own registry", "registry.example.com", "", format.Verdict{Rounds: 200}, statebackend.LockingExact},
		{"own registry with a conflict", "registry.example.com", "", format.Verdict{Rounds: 200, Conflicts: 1}, statebackend.LockingRefused},
		{"own registry with a delayed list", "registry.example.com", "", format.Verdict{Rounds: 200, Stale: 1}, statebackend.LockingSettle},
		{"hosted service", "ghcr.io", "", format.Verdict{Rounds: 200}, statebackend.LockingSettle},
		{"hosted service with a conflict", "ghcr.io", "", format.Verdict{Rounds: 200, Conflicts: 1}, statebackend.LockingRefused},
		{"Docker Hub", "docker.io", "", format.Verdict{Rounds: 200}, statebackend.LockingRefused},
		{"Azure", "acme.azurecr.io", "", format.Verdict{Rounds: 200}, statebackend.LockingRefused},
		{"Azure, both regions tested", "acme.azurecr.io", "acme.westeurope.azurecr.io", format.Verdict{Rounds: 200}, statebackend.LockingSettle},
		{"a cache before it", "registry.example.com", "", format.Verdict{Rounds: 200, Reason: "a cache answers"}, statebackend.LockingRefused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := must.Get(oci.OpenRepo(tt.host+"/infra/state", oci.Options{}))(t)
			d := &examination{repo: r, report: Report{Peer: tt.peer}}
			v := tt.seen
			d.drawVerdict(&v)
			if v.Locking != tt.want || v.Reason == "" {
				t.Errorf("locking %q because %q, want %q", v.Locking, v.Reason, tt.want)
			}
		})
	}
}
