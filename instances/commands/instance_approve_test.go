// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/instances/internal/ledger"
	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
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
	planned := lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:plan1", Counts: &lifecycle.Counts{Add: 1}, Notes: portaltest.Noted(), Resources: -1}
	h.Store.Finish(t, id, planned)
	if code, _, errOut := h.as(t, "approve-b", "instance", "approve", id, "--yes"); code != cli.ExitOK || !strings.Contains(errOut, "check failed  \"health\": the site answers 503") || !strings.Contains(errOut, "Plan: 1 to import, 1 to add") {
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
	if code != cli.ExitUsage || !strings.Contains(errOut, "confirm with --yes") {
		t.Errorf("without a terminal: %d %s", code, errOut)
	}
	for _, want := range []string{
		`size = "small" -> "large"`, `secret = "(sensitive)"`, "net/vpc/aws 1.0.0 -> net/vpc/aws 1.1.0", "sha256:1 -> sha256:2", "more load",
		"input region added: string, required (breaks)", "output host removed (breaks)", "input backup added: bool, default false\n",
		"Name of use-anna (use-anna)", "Plan: 1 to import, 1 to add", "About to approve sha256:plan2",
		"costs         about 0.42 EUR an hour more (0.10 → 0.52); 3 resources have no price",
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
	if code, _, errOut := h.as(t, "approve-b", "instance", "approve", id, "--yes"); code != cli.ExitConflict || !strings.Contains(errOut, "instance "+id+" has nothing for you to approve") {
		t.Errorf("again: %d %s", code, errOut)
	}
}

func TestColored(t *testing.T) {
	must.Equal(t, "value", colorPlan("  + a\n  # b\n", true), "\x1b[32m  + a\x1b[0m\n  # b\n")
	must.Equal(t, "value", colorPlan("  + a\n", false), "  + a\n")
}

// startLeader leads, and has written the ledger once, until the returned function is called.
func startLeader(t *testing.T, host string) (stop func()) {
	t.Helper()
	client := must.Get(oci.New(host, oci.Options{PlainHTTP: true}))(t)
	l := must.Get(ledger.New(ledger.Options{
		Repo: func(int) (*oci.Repo, error) { return client.Repo("acme/ledger") }, Machine: &lifecycle.Machine{}, InClear: true,
	}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	for !l.Status().Leading {
		select {
		case <-l.Changed():
		case <-time.After(5 * time.Minute):
			t.Fatal("nobody leads: ", l.Status().Refused)
		}
	}
	must.Get(l.Do(t.Context(), lifecycle.Command{Event: lifecycle.PauseTemplate{Template: "lab/vpc", Reason: "x"}}))(t)
	return stop
}

// TestInstanceLedger accepts a ledger in its present state, unless a leader uses it.
//
// Shows: platform 21
func TestInstanceLedger(t *testing.T) {
	host := ocitest.New(t, ocitest.Quirks{})
	c := newHome(t, nil)
	stop := startLeader(t, host)
	want := func(name string, code int, out, errOut string, args ...string) {
		t.Helper()
		gotCode, gotOut, gotErr := c.run(t, append([]string{"instance", "ledger"}, args...)...)
		if gotCode != code || !strings.Contains(gotOut, out) || !strings.Contains(gotErr, errOut) {
			t.Errorf("%s: %d %q %q, want %d %q %q", name, gotCode, gotOut, gotErr, code, out, errOut)
		}
	}
	repository := host + "/acme/ledger"
	want("not said", cli.ExitUsage, "", "--accept is required", repository)
	want("not confirmed", cli.ExitUsage, "", "--yes", repository, "--accept")
	want("a server leads", cli.ExitConflict, "", "a leader is using it", repository, "--accept", "--yes")
	stop()
	want("accepted", cli.ExitOK, repository+" from serial 2 on, with 0 instances", "", repository, "--accept", "--yes")
	want("an empty one", cli.ExitOK, `"serial": 1`, "", host+"/other/ledger", "--accept", "--yes", "--json")
	want("nowhere", cli.ExitUsage, "", "", "--accept", "--yes")
	startLeader(t, host)() // the next leader continues with it
}

// TestInstanceClock accepts the clock, which only an admin may do.
//
// Shows: platform 21
func TestInstanceClock(t *testing.T) {
	h := newPortalUsers(t)
	for _, s := range []struct {
		name, who   string
		args        []string
		code        int
		out, errOut string
		before      func()
	}{
		{name: "not said", who: "admin-a", code: cli.ExitUsage, errOut: "--accept is required"},
		{name: "by who may not", who: "use-anna", args: []string{"--accept"}, code: cli.ExitDenied},
		{name: "nothing waited", who: "admin-a", args: []string{"--accept"}, out: "clock accepted; expiry was not suspended\n"},
		{
			name: "held", who: "admin-a", args: []string{"--accept"}, out: "clock accepted; expiry was suspended: they differ by an hour\n",
			before: func() { h.Store.Serve(t, lifecycle.ClockHeld{Reason: "they differ by an hour"}) },
		},
		{name: "as JSON", who: "admin-a", args: []string{"--accept", "--json"}, out: `"accepted": true`},
	} {
		if s.before != nil {
			s.before()
		}
		code, out, errOut := h.as(t, s.who, append([]string{"instance", "clock"}, s.args...)...)
		if code != s.code || !strings.Contains(out, s.out) || !strings.Contains(errOut, s.errOut) {
			t.Errorf("%s: %d %q %q, want %d %q %q", s.name, code, out, errOut, s.code, s.out, s.errOut)
		}
	}
}
