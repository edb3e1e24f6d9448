// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
)

// TestInstanceApproveShows shows all that an approval covers before the question, and
// approves nothing without an answer.
//
// Shows: platform 9
func TestInstanceApproveShows(t *testing.T) {
	h := newPortalUsers(t)
	h.Catalog.Change("lab/vpc", func(e *template.Entry) {
		changed := *e.Template
		changed.Approval = template.ApprovalPlan
		e.Template = &changed
	})
	id := h.create(t, "use-anna", "lab/vpc")
	planned := lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:plan1", Counts: &lifecycle.Counts{Add: 1}, Resources: -1}
	h.Store.Finish(t, id, planned)
	if code, _, errOut := h.as(t, "approve-b", "instance", "approve", id, "--yes"); code != cli.ExitOK || !strings.Contains(errOut, "Plan: 1 to add") {
		t.Fatalf("%d %s", code, errOut)
	}
	h.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, Resources: 1, State: true, Outputs: map[string]json.RawMessage{}})
	if code, out, errOut := h.as(t, "use-anna", "instance", "update", id, "-p", "size=large", "--version", "1.1.0", "--reason", "more load"); code != cli.ExitOK {
		t.Fatalf("%d %s %s", code, out, errOut)
	}
	planned.Plan = "sha256:plan2"
	must.Succeed(t, json.Unmarshal([]byte(`{"before":100000,"after":520000,"currency":"EUR","priced":2,"unpriced":3}`), &planned.Cost))
	h.Store.Finish(t, id, planned)
	code, _, errOut := h.as(t, "approve-b", "instance", "approve", id)
	if code != cli.ExitUsage || !strings.Contains(errOut, "add --yes") {
		t.Errorf("without a terminal: %d %s", code, errOut)
	}
	for _, want := range []string{
		`size = "small" -> "large"`, `secret = "(sensitive)"`, "net/vpc/aws 1.0.0 -> net/vpc/aws 1.1.0", "sha256:1 -> sha256:2", "more load",
		"input region added: string, required (breaking)", "output host removed (breaking)", "input backup added: bool, default false\n",
		"Name of use-anna (use-anna)", "Plan: 1 to add", "You approve sha256:plan2",
		"costs     about 0.42 EUR an hour more (0.10 → 0.52); 3 resources have no price",
	} {
		if !strings.Contains(errOut, want) {
			t.Errorf("%q is not shown:\n%s", want, errOut)
		}
	}
	if r := h.Store.Record(t, id); r.Phase != lifecycle.Planned {
		t.Fatalf("it is %s", r.Phase)
	}
	if code, out, errOut := h.as(t, "approve-b", "instance", "approve", id, "--yes", "--reason", "until Friday"); code != cli.ExitOK || out != id+" updating\n" {
		t.Errorf("%d %s %s", code, out, errOut)
	}
	if _, out, _ := h.as(t, "use-anna", "instance", "show", id); !strings.Contains(out, "until Friday") {
		t.Errorf("who asked does not read the comment:\n%s", out)
	}
	if code, _, errOut := h.as(t, "approve-b", "instance", "approve", id, "--yes"); code != cli.ExitConflict || !strings.Contains(errOut, "nothing of instance "+id+" waits") {
		t.Errorf("again: %d %s", code, errOut)
	}
}

func TestColored(t *testing.T) {
	if got := colored("  + a\n  # b\n", true); got != "\x1b[32m  + a\x1b[0m\n  # b\n" {
		t.Errorf("%q", got)
	}
	if got := colored("  + a\n", false); got != "  + a\n" {
		t.Errorf("%q", got)
	}
}
