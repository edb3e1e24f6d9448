// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
	"github.com/seed-141914ff/okara/operator/internal/verdict"
)

// TestSumDepot sums up entries: one that a user suspended is no failure of its Depot.
func TestSumDepot(t *testing.T) {
	for reasons, want := range map[[2]string]verdict.State{
		{"", ""}:                                  verdict.Ready,
		{"", v1alpha1.ReasonSuspended}:            verdict.UnderWay,
		{v1alpha1.ReasonRunning, ""}:              verdict.UnderWay,
		{v1alpha1.ReasonSuspended, "Failed"}:      verdict.Failing,
		{v1alpha1.ReasonNameTaken, "RateLimited"}: verdict.Stalled,
	} {
		list := []v1alpha1.DepotEntry{{Kind: kindModule, Reason: reasons[0]}, {Kind: kindModule, Reason: reasons[1]}}
		d := &v1alpha1.Depot{}
		if v := sumDepot(d, list); v.State != want || (d.Status.Failed == 0) != (want == verdict.Ready) || strings.Contains(v.Message, "not of this Depot") != (want == verdict.Stalled) {
			t.Errorf("%v: %+v, %d failed", reasons, v, d.Status.Failed)
		}
	}
}
