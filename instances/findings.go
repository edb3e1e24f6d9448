// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"fmt"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/internal/web"
)

// ledgerFindings reports the leader of the instances, and what keeps them from expiring.
func ledgerFindings(s ledger.Status) []web.Finding {
	f := web.Finding{About: "Instances", Meaning: "What is launched is written down, and ends in time."}
	switch {
	case s.Leading:
		f.State = "this replica is the leader"
	case s.Leader != "":
		f.State = "led by " + s.Leader
	case s.Refused != nil:
		f.Verdict = web.Act
		f.State = "no leader: " + s.Refused.Error()
		f.Meaning = "Nothing is launched, changed or ended."
		f.Do = "Fix what the state names."
	default:
		f.Verdict = web.Look
		f.State = "no leader is known"
		f.Meaning = "A leader should be elected within 30 seconds."
		f.Do = "Check again then. If there is still none, look at the logs of the replicas."
	}
	all := []web.Finding{f}
	if s.Held != "" {
		all = append(all, web.Finding{
			Verdict: web.Act, About: "Clock of instances", State: s.Held, Meaning: "No instance ends because of its age until the clock is trusted.",
			Do: "Set the clock of the registry right.",
		})
	}
	if n := len(s.Aside); n > 0 {
		all = append(all, web.Finding{
			Verdict: web.Act, About: "Records of instances", State: fmt.Sprintf("%d are set aside", n), Meaning: "They violate a rule of this version, so they are ignored.",
			Do: "They return once they are valid again, as after an update of okara.",
		})
	}
	return all
}
