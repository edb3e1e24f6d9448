// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/mutant"
)

// mutants take one guard each from the machine.
var mutants = []struct{ name, file, old, mutant string }{
	{"expiry first", "meet.go", "case w.expired(r):", "case false:"},
	{"phase of a verb", "meet.go", "case !admits(v, r.Phase) && !r.admits(v):", "case false:"},
	{"an attempt in full", "runs.go", "|| r.ref() != ref ||", "||"},
	{"of the attempt that runs", "runs.go", "!r.Run.active() || r.ref()", "r.ref()"},
	{"one run at a time", "runs.go", "if r.Run.active() {\n\t\tr.Then = next", "if false {\n\t\tr.Then = next"},
	{"stopped before it is destroyed", "final.go", "case r.Run.active():\n\t\tr.Then = nil", "case false:\n\t\tr.Then = nil"},
	{"resources are left", "ended.go", "res.Outcome == Done && res.Resources == 0", "res.Outcome == Done"},
	{"a failed destroy", "ended.go", "res.Outcome == Done && res.Resources == 0", "res.Resources == 0"},
	{"an apply may have made something", "final.go", "if !r.Applied {", "if true {"},
	{"an apply that was begun counts", "runs.go", "run.Applied, r.Applied = true, true", "run.Applied = true"},
	{"places", "runs.go", "if q.running >= places {", "if false {"},
	{"half the places", "runs.go", "q.turns[r.turnOf()].running < share", "share > 0"},
	{"destroys first", "runs.go", "cmp.Compare(a.class(), b.class()), ", ""},
	{"owners in turn", "runs.go", "x.served.Compare(y.served), ", ""},
	{"time of a retry", "runs.go", "if r.Run.waits() && !r.Run.NotBefore.After(now) {\n\t\t\tq", "if r.Run.waits() {\n\t\t\tq"},
	{"attempts left", "ended.go", "if run.Failures > retries {", "if run.Failures > retries+1 {"},
	{"attempts of a destroy", "ended.go", "run.Failures < destroyAttempts", "run.Failures <= destroyAttempts"},
	{"waiting for a lock is no failure", "ended.go", "case res.Outcome == Held:", "case false:"},
	{"quota", "quota.go", "if q.Used >= q.Limit {", "if false {"},
	{"what counts", "quota.go", "r.Phase.Live() || r.Kept && !r.Removing", "r.Phase.Live()"},
	{"highest quota", "quota.go", "(!ok || n > limit)", "!ok"},
	{"whose quota", "quota.go", "&& q.covers(o, a) &&", "&&"},
	{"limit of a template", "quota.go", "if limit > 0 && n >= limit {", "if false {"},
	{"limit of a pool", "pool.go", "short = min(short, most-w.doc.live(t.Name))", "_ = most"},
	{"back-off", "pool.go", "p.Paused != \"\" || p.Backoff.After(w.now)) {\n\t\treturn\n", "p.Paused != \"\") {\n\t\treturn\n"},
	{"paused", "pool.go", "p.Paused != \"\" || p.Backoff.After(w.now)) {\n\t\treturn\n", "p.Backoff.After(w.now)) {\n\t\treturn\n"},
	{"failures pause", "pool.go", "if p.Failures >= poolFailures {", "if false {"},
	{"evidence is one", "pool.go", "return o.Phase == Failed && o.ID != r.ID && o.Protected == \"\"", "return false"},
	{"successors first", "pool.go", "surplus := len(available) - t.Pool.Size", "surplus := len(available)"},
	{"room for successors", "pool.go", "if surplus <= 0 && w.stuck(t, available, revision) {", "if false {"},
	{"only who is available", "create.go", "return r.Phase == Available && !over", "return !over"},
	{"too old to claim", "create.go", "return r.Phase == Available && !over", "return r.Phase == Available && (over || !over)"},
	{"one for each owner", "create.go", "if r := w.only(e); r != nil {", "if r := w.only(e); false {"},
	{"room of a document", "quota.go", "len(w.doc.Records) >= maxRecords ||", ""},
	{"forced by an admin", "create.go", "if e.Forced && !w.command.Actor.Admin {", "if false {"},
	{"switched off", "create.go", "if !t.Enabled {", "if false {"},
	{"paused by an admin", "create.go", "p != nil && p.By != \"\" {", "p != nil && false {"},
	{"four eyes: who asked", "approve.go", "case a.same(r.WantedBy()), r.Phase", "case r.Phase"},
	{"four eyes: who asked first", "approve.go", "r.Run.First != nil && a.same(*r.Run.First):", "r.Run.First != nil && false:"},
	{"four eyes: its owner", "approve.go", "case a.is(r.Owner):", "case false:"},
	{"a change is approved", "approve.go", "w.approval(r, run.Snapshot, ApprovalRequest) && run.Confirmed == nil && !run.same(r)", "w == nil"},
	{"newer providers are another version", "approve.go", "if r.Source != of.Source ||", "if r.Source.Digest != of.Source.Digest ||"},
	{"the template that it has counts", "approve.go", "return w.doc.template(r.Snapshot).Approval == kind || ", "return "},
	{"a change is not replaced", "approve.go", "had != nil && had.By.Subject != \"\"", "had != nil && false"},
	{"a salt", "approve.go", "p.At, p.Salt, p.Why = w.now, w.newNonce(), ", "p.At, p.Why = w.now, "},
	{"a declined version", "pool.go", " || r.Declined == revisionOf(e.Digest, e.Source)", ""},
	{"a change waits for a week", "due.go", "if r.Pending != nil {", "if false {"},
	{"an end beyond the template's is approved", "ends.go", "if w.unapprovedEnd(r, end) {", "if false {"},
	{"an end within the template's is not", "ends.go", "return end.After(from.Add(max(t.TTL.Default, minTTL)))", "return true"},
	{"no protection instead of approval", "change.go", "return t.Protection && t.Approval != ApprovalRequest", "return t.Protection"},
	{"what nobody approved is not tried again", "change.go", "run.Confirmed = last.Confirmed", "run.Confirmed = &last.By"},
	{"a plan is seen whole", "ended.go", "why != \"\" && approved {", "why != \"\" && false {"},
	{"a plan that nobody looks at has any size", "ended.go", "why != \"\" && approved {", "why != \"\" {"},
	{"exactly this plan", "approve.go", "if e.Plan != plan || plan == \"\" {", "if false {"},
	{"a plan first", "runs.go", "if run.Kind == RunApply && w.planFirst(r, run) {", "if false {"},
	{"a stale plan is made anew", "ended.go", "\t\tw.planAnew(r)\n\t\tw.await(r, 0, WaitQueued,", "\t\tw.await(r, 0, WaitQueued,"},
	{"auto stops", "ended.go", "c.Remove == 0 && c.Replace == 0", "true"},
	{"auto once", "pool.go", "case same || r.tried(e) ||", "case same ||"},
	{"protected", "change.go", "if r.Protected != \"\" {", "if false {"},
	{"an admin's protection", "change.go", "case r.Protected == byAdmin:", "case false:"},
	{"protection ends", "ends.go", "return later(r.ExpiresAt, r.Since.Add(t.Max))", "return time.Time{}"},
	{"protection ends without max", "ends.go", "return r.ExpiresAt.Add(protectedOver)", "return time.Time{}"},
	{"orphaned by an admin", "change.go", "case !w.command.Actor.Admin:\n\t\treturn Answer{}, refuse(ErrDenied, \"only an admin leaves", "case false:\n\t\treturn Answer{}, refuse(ErrDenied, \"only an admin leaves"},
	{"given away by an admin", "change.go", "case !a.Admin && !(a.may(r.Owner) && a.may(e.To)):", "case a.Admin && false:"},
	{"a gift fills a quota", "change.go", "if err := w.within(t, e.To, r); err != nil {", "if err := w.within(t, e.To, r); false {"},
	{"extended so often", "ends.go", "ttl.Extends > 0 && r.Extends >= ttl.Extends:", "false:"},
	{"extended so far", "ends.go", "end = sooner(end, r.Since.Add(ttl.Max))\n\t}\n\tif !end", "}\n\tif !end"},
	{"the max of a lifetime", "ends.go", "if t.TTL.Max > 0 && r.TTL <= t.TTL.Max {", "if false {"},
	{"a failed one ends sooner", "ended.go", "t.Failed > 0 && r.ReadyAt.IsZero() {", "false {"},
	{"the lifetime begins when it is ready", "ended.go", "w.begins(r, t, first)", ""},
	{"held clock: ends", "due.go", "(d.Clock.Held == \"\" || !y.held())", "true"},
	{"held clock: pools", "pool.go", "if w.doc.Clock.Held == \"\" {", "if true {"},
	{"written before it goes", "final.go", "if r.Archived {\n\t\tw.do(Remove", "if true {\n\t\tw.do(Remove"},
	{"removed when nothing is left", "final.go", "r != nil && r.Removing && r.Archived {", "r != nil && r.Removing {"},
	{"left to people until an admin comes", "due.go", "if r.Kept || r.Removing {", "if r.Removing {"},
	{"twenty final records", "final.go", "if len(final) <= maxFinal {", "if true {"},
	{"key of another request", "requests.go", "if q.Digest != w.command.Digest {", "if false {"},
	{"key of a record", "requests.go", "if r := w.made(key); r != nil {", "if r := w.made(key); false {"},
	{"answers are bounded", "requests.go", "for len(w.doc.Requests) >= maxRequests {", "for false {"},
	{"time runs on", "machine.go", "now = later(now.UTC().Round(0), d.Clock.At)", "now = now.UTC().Round(0)"},
	{"notices once", "due.go", "if !r.told(expires(lead)) {", "if true {"},
	{"only what is listed", "ended.go", "if v, ok := outputs[name]; ok && len(v) <= maxOutput && json.Valid(v) {", "if v, ok := outputs[name]; ok && json.Valid(v) {"},
	{"size of a record", "size.go", "if 2*r.weight() <= limit || r.size() <= limit {", "if true {"},
	{"exactly the plan of a workspace", "workspace.go", "case e.Plan != run.Plan:", "case false:"},
	{"only what waits is confirmed", "workspace.go", "case run.Result != \"\" || !run.planWaiting():", "case false:"},
	{"only what was not begun is discarded", "workspace.go", "case run.Result != \"\" || run.active() || run.Approved != \"\":", "case run.Result != \"\":"},
	{"cancelled before it is killed", "workspace.go", "|| e.Force && run.Cancel == \"\":", "|| false:"},
	{"a plan that waits holds the others", "workspace.go", "run.Plan == \"\" && (!waits || run.Ask.Speculative || run.Ask.Save)", "run.Plan == \"\" && (waits || !waits)"},
	{"a plan to look at is never applied", "workspace.go", "case !res.Changes || run.Ask.Speculative:", "case !res.Changes:"},
	{"runs that wait are few", "workspace.go", "if pending >= maxPending || len(r.Open) >= maxOpen {", "if false {"},
	{"a workspace with runs is not closed", "workspace.go", "if r.Run != nil || len(r.Open) > 0 {", "if false {"},
	{"events of instances", "meet.go", "case r == nil || r.isWorkspace():", "case r == nil:"},
	{"nobody launches a workspace", "create.go", "if isWorkspaceTemplate(t.Name) {", "if false {"},
	{"copies", "work.go", "return w.put(r.clone())", "return w.put(r)"},
	{"what is cancelled is repeated", "runs.go", "if r.Cancel != \"\" {\n\t\tall", "if false {\n\t\tall"},
}

// TestMutants takes one guard after the other away and wants the tests to fail.
func TestMutants(t *testing.T) {
	tests := []string{"-short", "-skip", "TestMutants|Parse|Canonical|Schema|Render|Fuzz", "."}
	mutant.Guard{File: "meet.go"}.Whole(t, tests...)
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			mutant.Guard{File: m.file, Old: m.old, New: m.mutant}.Check(t, tests...)
		})
	}
}
