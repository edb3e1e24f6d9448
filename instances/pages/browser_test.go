// SPDX-License-Identifier: Apache-2.0

//go:build browser

package pages_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/webtest"
)

func eachScript(t *testing.T, test func(t *testing.T, b *webtest.Browser, script bool)) {
	b := webtest.New(t)
	for script, widths := range map[bool][]int{true: {1440, 375}, false: {375}} {
		for _, b.Width = range widths {
			t.Run(fmt.Sprintf("script %t at %d", script, b.Width), func(t *testing.T) { test(t, b, script) })
		}
	}
}

// TestBrowserFailed reads the reason, changes a value, keeps a secret, launches again.
func TestBrowserFailed(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d, tab := visit(t, b, script, "run/lab/vpc?p.size=large")
		tab.Wait("The link that you followed")
		tab.To("secret")
		tab.Press("hunter2hunter2")
		tab.To("Launch")
		tab.Enter()
		tab.Wait("Log of run 1")
		id := strings.TrimPrefix(tab.Path(), "/ui/instances/")
		d.Store.Start(t, id)
		d.Results.Append("Error: Invalid value for variable: zone c has no large ones\n")
		d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "Invalid value for variable: zone c has no large ones", Permanent: true})
		tab.Wait("Fix and retry")
		tab.Wait("Failed while creating: Invalid value for variable")
		tab.Wait("the last state lists no resources")
		tab.Wait("Error: Invalid value for variable")
		tab.To("Fix and retry …")
		tab.Enter()
		tab.Wait("Secrets are kept")
		tab.To("size")
		tab.Press("small")
		tab.To("Fix and retry")
		tab.Enter()
		tab.Wait("Log of run 2")
		d.Ready(t, id)
		tab.Wait("20:00 UTC") // the remaining time depends on the clock of the browser
		if p := d.Store.Record(t, id).Parameters; string(p["size"]) != `"small"` || string(p["secret"]) != `"hunter2hunter2"` {
			t.Errorf("it was launched with %s", p)
		}
	})
}

// TestBrowserLive: phase, queue, log and history change together.
func TestBrowserLive(t *testing.T) {
	d, tab := visit(t, webtest.New(t), true, "run/lab/planned")
	tab.Wait("Launch lab/planned")
	tab.To("Name")
	tab.To("Launch")
	tab.Enter()
	tab.Wait("Position 1 in the queue")
	id := strings.TrimPrefix(tab.Path(), "/ui/instances/")
	d.Store.Start(t, id)
	tab.Wait("Run 1 has been running since")
	if text := tab.Text(); strings.Contains(text, "Position 1 in the queue") {
		t.Errorf("it runs and waits:\n%s", text)
	}
	d.Results.Append("aws_vpc.a: Refreshing\naws_vpc.b: Refre")
	tab.Wait("aws_vpc.a: Refreshing")
	d.Results.Append("shing\n")
	tab.Wait("aws_vpc.b: Refreshing")
	plan := "sha256:" + strings.Repeat("a1", 32)
	d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, Plan: plan, Counts: &lifecycle.Counts{Add: 2}})
	tab.Wait("plan made: run 1, requested by anna; 2 to add, 0 to change, 0 to destroy")
	tab.Wait("plan waiting for approval")
	d.Want(t, 200, nil, d.Tokens["approver"], "POST", "instances/"+id+"/approve", `{"plan":"`+plan+`"}`)
	tab.Wait("approved by Name of approver")
	d.Store.Start(t, id)
	tab.Wait("being created")
	d.Results.Append("aws_vpc.a: Creation complete after 1s\nthe last word")
	tab.Wait("Creation complete")
	if text := tab.Text(); strings.Contains(text, "the last") {
		t.Errorf("half a line:\n%s", text)
	}
	d.Ready(t, id)
	tab.Wait("ready: run 1, requested by anna; 2 added, 0 changed, 0 destroyed")
	tab.Wait("the last word")
	tab.Wait("Open it")
}

// TestBrowserDestroyFails: reason and next attempt, started at once, stopped.
func TestBrowserDestroyFails(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d, tab, id := launch(t, b, script)
		d.Ready(t, id)
		tab.Wait("20:00 UTC") // the remaining time depends on the clock of the browser
		tab.To("Destroy …")
		tab.Enter()
		tab.Wait("This cannot be undone")
		tab.To("Type its name")
		tab.Press("net one")
		tab.To("Destroy")
		tab.Enter()
		tab.Wait("being destroyed")
		d.Results.SetResources("aws_subnet.a", "aws_vpc.main")
		broken := lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "DependencyViolation: the network has an interface", State: true, Resources: 2}
		d.Store.Finish(t, id, broken)
		tab.Wait("attempt 1 of 5 failed: DependencyViolation")
		tab.Wait("next attempt at 12:01 UTC")
		tab.Wait("aws_subnet.a")
		tab.To("Try now")
		tab.Enter()
		tab.Wait("Retrying.")
		d.Store.Finish(t, id, broken)
		tab.Wait("attempt 2 of 5 failed")
		tab.To("Stop trying")
		tab.Enter()
		tab.Wait("stopped by anna after 2 attempts: DependencyViolation")
		tab.Wait("destroy failed")
		tab.Wait("next at Saturday 12:00 UTC")
		tab.To("Try again")
		tab.Enter()
		tab.Wait("being destroyed")
		d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true})
		tab.Wait("Its record is removed at")
	})
}

// TestBrowserLaunch opens a link that fills a form, logs in, launches, watches the log to its
// end, extends and destroys: with the keyboard only, with script and without.
//
// Shows: pages 8 | hostile logs, lock IDs, READMEs that are slow to render, spreadsheet cells,
// secrets across chunks
// Shows: pages 14
func TestBrowserLaunch(t *testing.T) {
	eachScript(t, func(t *testing.T, b *webtest.Browser, script bool) {
		d, tab, id := launch(t, b, script)
		tab.Wait("Launch submitted.") // the message after the form, shown once
		tab.Wait("Position 1 in the queue")
		d.Store.Start(t, id)
		d.Results.Append("Plan: 2 to add, 0 to change, 0 to destroy.\r\naws_vpc.a: Creation complete after 1s\n\x1b[31mred\x1b[0m \u202eevent: end\n\n<b>bold</b>\n")
		tab.Wait("1 of 2 done")
		tab.Wait("<b>bold</b>")
		d.Results.Append("aws_vpc.b: Creation complete after 2s\n")
		tab.Wait("2 of 2 done")
		d.Ready(t, id)
		tab.Wait("20:00 UTC") // the remaining time depends on the clock of the browser
		tab.To("Extend by 2 h (2 of 2 left)")
		tab.Enter()
		tab.Wait("Extended until 22:00 UTC.")
		tab.To("Destroy …")
		tab.Enter()
		tab.Wait("This cannot be undone")
		tab.To("Destroy")
		tab.Enter()
		tab.Wait("The name does not match")
		tab.Focused("Failed")
		tab.To("Type its name")
		tab.Press("net one")
		tab.To("Destroy")
		tab.Enter()
		tab.Wait("being destroyed")
		d.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true})
		tab.Wait("Its record is removed at")
	})
}
