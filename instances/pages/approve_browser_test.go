// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/portal"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/statictoken"
	"github.com/seed-141914ff/okara/internal/webtest"
)

// approving is the token of the approver.
const approving = "oks_boss_cccccccccccccccccccccccc"

func newApproval(t *testing.T) *portaltest.Pages {
	t.Helper()
	return portaltest.NewPages(t, func(_ *portal.Options, p *access.Policy) {
		boss := statictoken.Token{ID: "boss", Hash: sha256.Sum256([]byte(approving)), Scopes: webtest.Rule(t, "approve", "approve:instance:lab/*").Allow}
		p.Tokens = []statictoken.Token{annasToken(t), boss}
	})
}

// TestBrowserApproveVersion approves another version of the module: the changes in the module
// are on the same page, breaking ones first.
func TestBrowserApproveVersion(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
			d := newApproval(t)
			id := asked(t, d, `{"version":"1.1.0","reason":"more load"}`)
			tab := loggedAs(t, b, d, approving, script, "instances/"+id+"/approve")
			tab.Wait("What changes in the module")
			tab.Wait("2 of these can break a caller.")
			text := tab.Text()
			for _, want := range []string{"region", "string, required", "breaking", "host", "removed", "backup", "bool, default false", "Compare version 1.0.0 with 1.1.0", "more load"} {
				if !strings.Contains(text, want) {
					t.Errorf("the page does not say %q:\n%s", want, text)
				}
			}
			if strings.Index(text, "host") > strings.Index(text, "backup") {
				t.Error("what breaks nothing stands first")
			}
			tab.To("Approve")
			tab.Enter()
			tab.Wait("It is approved")
		})
	}
}

// TestBrowserComments approves one change with a comment and rejects the next with a reason;
// the requester reads both, and the approver reads the requester's reason.
func TestBrowserComments(t *testing.T) {
	b := webtest.New(t)
	for _, script := range []bool{true, false} {
		t.Run(fmt.Sprintf("script %t", script), func(t *testing.T) {
			d := newApproval(t)
			id := asked(t, d, `{"version":"1.1.0","reason":"more load"}`)
			at := "instances/" + id
			boss := loggedAs(t, b, d, approving, script, at+"/approve")
			boss.Wait("more load")
			boss.To("Comment")
			boss.Press("until")
			boss.Enter()
			boss.Press("Friday")
			boss.To("Approve")
			boss.Enter()
			boss.Wait("It is approved")
			boss.Wait("commented by boss: until\nFriday")
			d.Shows(t, "anna", at, "commented by boss: until\nFriday")
			d.Ready(t, id)
			d.Want(t, 202, nil, d.Tokens["anna"], "POST", at+"/update", `{"version":"1.0.0","reason":"it is slow"}`)
			boss.Go(d.Pages.URL + "/ui/" + at + "/reject")
			boss.Wait("The requester can read the reason")
			boss.To("Reason")
			boss.Press("go on with the new one")
			boss.To("Reject")
			boss.Enter()
			boss.Wait("It is rejected")
			d.Shows(t, "anna", at, "rejected by boss: go on with the new one", "rejected: go on with the new one")
		})
	}
}
