// SPDX-License-Identifier: Apache-2.0

package instances

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/internal/web"
)

// TestLedgerFindings shows what is reported of the leader and of what delays expiry.
func TestLedgerFindings(t *testing.T) {
	for name, c := range map[string]struct {
		status ledger.Status
		want   string // verdict and state of each finding, separated by semicolons
	}{
		"leads":           {ledger.Status{Leading: true, Held: "the clock jumped"}, "0 this replica is the leader;2 the clock jumped"},
		"follows":         {ledger.Status{Leader: "https://a.example.com", Aside: map[string]string{"x": "y"}}, "0 led by https://a.example.com;2 1 are set aside"},
		"refused to lead": {ledger.Status{Refused: errors.New("no keys")}, "2 no leader: no keys"},
		"no leader":       {ledger.Status{}, "1 no leader is known"},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := ledgerFindings(c.status), strings.Split(c.want, ";")
			if len(got) != len(want) {
				t.Fatalf("findings %+v, want %q", got, want)
			}
			for i, f := range got {
				verdict, state, _ := strings.Cut(want[i], " ")
				if int(f.Verdict) != int(verdict[0]-'0') || !strings.Contains(f.State, state) || f.About == "" || f.Meaning == "" || f.Verdict != web.Fine && f.Do == "" {
					t.Errorf("finding %+v, want %s", f, want[i])
				}
			}
		})
	}
}
