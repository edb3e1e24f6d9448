// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/instances/portaltest"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/states"
)

func finished(outcome, text string) lifecycle.Result {
	r := lifecycle.Result{Outcome: outcome, Error: text, Resources: 1, State: true}
	if outcome == lifecycle.Done {
		r.Outputs = map[string]json.RawMessage{"url": json.RawMessage(`"https://x.example/"`)}
	}
	return r
}

// TestInstanceCommands takes an instance through its life with commands.
//
// Shows: platform 21 | commands | `okara instance`, `okara instance template`
func TestInstanceCommands(t *testing.T) {
	h := newPortalUsers(t)
	h.Results.Append("Apply complete!\n\x1b]0;title\x07\n")
	h.Results.SetOutputs(map[string]states.Output{"password": {Value: json.RawMessage(`"hunter2"`), Sensitive: true}})
	id := h.create(t, "use-anna", "lab/vpc")
	steps := []struct {
		name, who   string
		args        []string
		code        int
		out, errOut string
		then        func()
	}{
		{name: "list", who: "use-anna", args: []string{"instance", "list"}, out: `(?m)^ID +TEMPLATE.*\n` + id + ` +lab/vpc +provisioning +Name of use-anna`},
		{
			name: "logs of what has none", who: "use-anna", args: []string{"instance", "logs", id, "--run", "7"}, code: cli.ExitNotFound, errOut: "has no run 7",
			then: func() { h.Store.Finish(t, id, finished(lifecycle.Done, "")) },
		},
		{name: "wait", who: "use-anna", args: []string{"instance", "wait", id}, out: "^" + id + " ready\n$"},
		{name: "show", who: "use-anna", args: []string{"instance", "show", id}, out: `(?m)^parameter +secret = \(sensitive\)$`},
		{name: "show as a reader", who: "read-r", args: []string{"instance", "show", id, "--json"}, out: `"role": "reader"`},
		{name: "outputs", who: "use-anna", args: []string{"instance", "outputs", id}, out: `(?m)^password +\(sensitive\)\nurl +https://x.example/$`},
		{name: "one output", who: "use-anna", args: []string{"instance", "outputs", id, "url"}, out: `^https://x.example/\n$`},
		{name: "reveal", who: "use-anna", args: []string{"instance", "outputs", id, "password", "--reveal"}, out: `^hunter2\n$`},
		{name: "reveal as an admin", who: "admin-a", args: []string{"instance", "outputs", id, "password", "--reveal"}, code: cli.ExitDenied, errOut: "this requires its owner"},
		{name: "reveal nothing", who: "use-anna", args: []string{"instance", "outputs", id, "--reveal"}, code: cli.ExitUsage, errOut: "requires the name of an output"},
		{name: "logs", who: "use-anna", args: []string{"instance", "logs", id}, out: "^Apply complete!\n\ufffd]0;title\ufffd\n$"},
		{name: "logs followed", who: "use-anna", args: []string{"instance", "logs", id, "-f"}, out: "^Apply complete!\n\ufffd]0;title\ufffd\n$"},
		{name: "logs as a reader", who: "read-r", args: []string{"instance", "logs", id}, code: cli.ExitDenied, errOut: "403"},
		{name: "plan", who: "approve-b", args: []string{"instance", "logs", id, "--run", "1", "--plan"}, out: "(?m)^Plan: 1 to import, 1 to add"},
		{name: "extend", who: "use-anna", args: []string{"instance", "extend", id}, out: "^" + id + " ready\n$", errOut: "it ends at"},
		{name: "extend again", who: "use-anna", args: []string{"instance", "extend", id}, out: "ready"},
		{name: "extend too often", who: "use-anna", args: []string{"instance", "extend", id}, code: cli.ExitConflict, errOut: "(?s)extended 2 of 2 times.*hint: `okara instance show " + id},
		{name: "extend by nonsense", who: "use-anna", args: []string{"instance", "extend", id, "--by", "long"}, code: cli.ExitUsage, errOut: "is not a duration"},
		{name: "update", who: "use-anna", args: []string{"instance", "update", id, "--name", "demo"}, out: "ready"},
		{name: "show by name", who: "use-anna", args: []string{"instance", "show", "my demo"}, code: cli.ExitNotFound, errOut: `instance "my demo"`},
		{name: "update by name", who: "use-anna", args: []string{"instance", "update", "demo", "--name", "my demo"}, out: "^" + id + " ready\n$"},
		{name: "show by the new name", who: "use-anna", args: []string{"instance", "show", "my demo"}, out: "^id +" + id},
		{name: "a name like an ID", who: "use-anna", args: []string{"instance", "update", id, "--name", "greatshape"}, out: "ready"},
		{name: "show by it", who: "use-anna", args: []string{"instance", "show", "greatshape"}, out: "^id +" + id},
		{name: "an ID of none", who: "use-anna", args: []string{"instance", "show", "abcdefgh23"}, code: cli.ExitNotFound},
		{name: "a name of another's", who: "admin-a", args: []string{"instance", "show", "my demo"}, code: cli.ExitNotFound},
		{name: "an empty name", who: "use-anna", args: []string{"instance", "destroy", ""}, code: cli.ExitNotFound},
		{name: "a name that turns text", who: "use-anna", args: []string{"instance", "update", id, "--name", "gpj\u202e.exe\u200b"}, out: "ready"},
		{name: "list it", who: "use-anna", args: []string{"instance", "list"}, out: "gpj\ufffd.exe\ufffd\n$"},
		{name: "update what stays", who: "use-anna", args: []string{"instance", "update", id, "-p", "secret=x"}, code: cli.ExitUsage, errOut: "secret"},
		{name: "protect", who: "use-anna", args: []string{"instance", "protect", id}, out: "ready"},
		{name: "destroy protected", who: "use-anna", args: []string{"instance", "destroy", id}, code: cli.ExitConflict, errOut: "hint: .*unprotect " + id},
		{name: "unprotect", who: "use-anna", args: []string{"instance", "unprotect", id}, out: "ready"},
		{name: "retry", who: "use-anna", args: []string{"instance", "retry", id}, code: cli.ExitConflict, errOut: "retr"},
		{name: "cancel", who: "use-anna", args: []string{"instance", "cancel", id}, code: cli.ExitConflict},
		{name: "a stranger", who: "nobody", args: []string{"instance", "show", id}, code: cli.ExitNotFound, errOut: "instance .* not found or not visible to you"},
		{name: "transfer to another issuer", who: "use-anna", args: []string{"instance", "transfer", id, "--to", "user:somebody", "--issuer", "https://other.example"}, code: cli.ExitUsage, errOut: "an admin"},
		{name: "offer to nobody", who: "use-anna", args: []string{"instance", "transfer", id, "--to", "user:use-ben"}, code: cli.ExitUsage, errOut: "not used this portal since"},
		{name: "look around", who: "use-ben", args: []string{"instance", "list"}},
		{name: "offer", who: "use-anna", args: []string{"instance", "transfer", id, "--to", "name of use-ben"}, out: "^" + id + " ready\n$", errOut: "offered to Name of use-ben until"},
		{name: "what is offered", who: "use-ben", args: []string{"instance", "list", "--owner", "offered"}, out: id + " +lab/vpc +ready +Name of use-anna"},
		{name: "show what is offered", who: "use-ben", args: []string{"instance", "show", id}, out: `(?m)^offered +to Name of use-ben by Name of use-anna \(use-anna\), until `},
		{name: "take what is offered to another", who: "use-carla", args: []string{"instance", "take", id}, code: cli.ExitNotFound, errOut: "instance .* not found or not visible to you"},
		{name: "take", who: "use-ben", args: []string{"instance", "take", id}, out: "^" + id + " ready\n$"},
		{name: "offer it back", who: "use-ben", args: []string{"instance", "transfer", id, "--to", "user:use-anna"}, out: "ready"},
		{name: "decline", who: "use-anna", args: []string{"instance", "decline", id}, out: id},
		{name: "take what was declined", who: "use-anna", args: []string{"instance", "take", id}, code: cli.ExitNotFound},
		{name: "offer it back again", who: "use-ben", args: []string{"instance", "transfer", id, "--to", "user:use-anna"}, out: "ready"},
		{name: "take it back", who: "use-anna", args: []string{"instance", "take", id, "--json"}, out: `"role": "owner"`},
		{name: "take what is not offered", who: "use-anna", args: []string{"instance", "take", id}, code: cli.ExitConflict, errOut: "not offered to anyone now"},
		{name: "orphan by who may not", who: "use-anna", args: []string{"instance", "orphan", id, "--reason", "x"}, code: cli.ExitDenied, errOut: "an admin"},
		{name: "approve nothing", who: "approve-b", args: []string{"instance", "approve", id}, code: cli.ExitConflict, errOut: "instance " + id + " has nothing for you to approve"},
		{name: "approve what does not wait", who: "approve-b", args: []string{"instance", "approve", id, "--plan", "x"}, code: cli.ExitConflict},
		{name: "no such template", who: "use-anna", args: []string{"instance", "create", "lab/none"}, code: cli.ExitNotFound, errOut: "template lab/none not found or not visible to you"},
		{name: "a wrong value", who: "use-anna", args: []string{"instance", "create", "lab/vpc", "-p", "size=huge"}, code: cli.ExitUsage, errOut: "parameters/size"},
		{name: "a parameter twice", who: "use-anna", args: []string{"instance", "create", "lab/vpc", "-p", "size=large", "-p", "size=large"}, code: cli.ExitUsage, errOut: "duplicate --parameter size"},
		{name: "no id", who: "use-anna", args: []string{"instance", "show", "../me"}, code: cli.ExitNotFound},
		{name: "destroy", who: "use-anna", args: []string{"instance", "destroy", id}, out: "^" + id + " destroying\n$"},
		{
			name: "list what ends", who: "use-anna", args: []string{"instance", "list"}, out: id + " +lab/vpc +destroying +Name of use-anna +- ",
			then: func() {
				h.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true})
			},
		},
		{name: "gone", who: "use-anna", args: []string{"instance", "wait", id}, out: "^" + id + " destroyed\n$"},
		{name: "list without it", who: "use-anna", args: []string{"instance", "list", "--owner", "me"}, out: "^$", errOut: "no instances"},
		{name: "list with it", who: "use-anna", args: []string{"instance", "list", "--all"}, out: id},
	}
	for _, s := range steps {
		code, out, errOut := h.as(t, s.who, s.args...)
		if code != s.code || !regexp.MustCompile(s.out).MatchString(out) || !regexp.MustCompile(s.errOut).MatchString(errOut) {
			t.Errorf("%s: %v: %d %q %q, want %d %s %s", s.name, s.args, code, out, errOut, s.code, s.out, s.errOut)
		}
		if strings.Contains(out+errOut, "\x1b") {
			t.Errorf("%s: control characters reach the terminal: %q", s.name, out)
		}
		if s.then != nil {
			s.then()
		}
	}
}

// TestInstanceQuota exits with the code of a conflict, and names what counts.
func TestInstanceQuota(t *testing.T) {
	h := newPortalUsers(t)
	var ids []string
	for range 3 {
		ids = append(ids, h.create(t, "use-anna", "lab/vpc"))
	}
	code, _, errOut := h.as(t, "use-anna", "instance", "create", "lab/vpc")
	if code != cli.ExitConflict || !strings.Contains(errOut, "you have 3 of 3 instances") || !strings.Contains(errOut, "hint: destroy one") {
		t.Errorf("%d %s", code, errOut)
	}
	if code, _, errOut := h.as(t, "use-anna", "instance", "create", "lab/pool"); code != cli.ExitConflict || !strings.Contains(errOut, "empty") {
		t.Errorf("an empty pool: %d %s", code, errOut)
	}
	for _, id := range ids {
		if !strings.Contains(errOut, id) {
			t.Errorf("%s does not name %s", errOut, id)
		}
	}
	if code, out, errOut := h.as(t, "use-anna", "instance", "create", "lab/vpc", "--json"); code != cli.ExitConflict || !strings.Contains(out, `"code": 4`) {
		t.Errorf("as JSON: %d %s %s", code, out, errOut)
	}
}

// TestInstanceFailed exits with the code of a failure, and says how to go on.
func TestInstanceFailed(t *testing.T) {
	h := newPortalUsers(t)
	h.Catalog.Change("lab/vpc", func(e *template.Entry) { e.Template.Retries = 0 })
	id := h.create(t, "use-anna", "lab/vpc")
	h.Results.Append("Error: no\n")
	h.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "no such zone", Resources: -1})
	code, out, errOut := h.as(t, "use-anna", "instance", "wait", id)
	if code != cli.ExitPartly || out != id+" failed\n" || !strings.Contains(errOut, "no such zone") || !strings.Contains(errOut, "okara instance retry "+id) {
		t.Errorf("wait: %d %q %q", code, out, errOut)
	}
	if code, _, _ := h.as(t, "use-anna", "instance", "logs", id, "-f"); code != cli.ExitPartly {
		t.Errorf("logs: %d", code)
	}
	if code, out, errOut := h.as(t, "use-anna", "instance", "retry", id); code != cli.ExitOK || out != id+" provisioning\n" {
		t.Errorf("retry: %d %s %s", code, out, errOut)
	}
}

// TestInstanceDestroyFails: the command shows attempt and next time, stops, and cancels.
func TestInstanceDestroyFails(t *testing.T) {
	h := newPortalUsers(t)
	id := h.create(t, "use-anna", "lab/vpc")
	h.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done, State: true, Resources: 1})
	if code, _, errOut := h.as(t, "use-anna", "instance", "destroy", id, "--timeout", "1s"); code != cli.ExitUsage || !strings.Contains(errOut, "--timeout requires --wait") {
		t.Errorf("without --wait: %d %s", code, errOut)
	}
	if code, _, errOut := h.as(t, "use-anna", "instance", "destroy", id); code != cli.ExitOK {
		t.Fatalf("destroy: %d %s", code, errOut)
	}
	h.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "a network is in use", State: true, Resources: 1})
	if code, _, errOut := h.as(t, "use-anna", "instance", "wait", id, "--timeout", "-1s"); code != cli.ExitUsage || !strings.Contains(errOut, "is not a duration such as 15m") {
		t.Errorf("a time before now: code %d, %q", code, errOut)
	}
	code, _, errOut := h.as(t, "use-anna", "instance", "wait", id, "--timeout", "1s")
	for _, text := range []string{"attempt 1 of 5 failed: a network is in use", ", next attempt at 2026-05-01", "is not done after 1s; it continues", "okara instance wait " + id} {
		if code != cli.ExitPartly || !strings.Contains(errOut, text) {
			t.Errorf("wait: %d, without %q: %s", code, text, errOut)
		}
	}
	if code, _, errOut := h.as(t, "use-anna", "instance", "retry", id); code != cli.ExitOK {
		t.Errorf("retry: %d %s", code, errOut)
	}
	h.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "a network is in use", State: true, Resources: 1})
	if code, out, errOut := h.as(t, "use-anna", "instance", "cancel", id); code != cli.ExitOK || out != id+" destroy_failed\n" {
		t.Errorf("cancel: %d %s %s", code, out, errOut)
	}
}

// TestInstanceInterrupted interrupts only the waiting, not the instance, and says so.
func TestInstanceInterrupted(t *testing.T) {
	h := newPortalUsers(t)
	id := h.create(t, "use-anna", "lab/vpc")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errOut lockedBuffer
	anna := h.user(t, "use-anna")
	done := make(chan int, 1)
	go func() { done <- anna.start(ctx, &out, &errOut, "instance", "wait", id) }()
	for !strings.Contains(errOut.String(), id+" provisioning") {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if code := <-done; code != cli.ExitInterrupted || !strings.Contains(errOut.String(), "continues") || !strings.Contains(errOut.String(), "okara instance wait "+id) {
		t.Errorf("%d %s", code, errOut.String())
	}
	must.Equal(t, "the instance", h.Store.Record(t, id).Phase, lifecycle.Provisioning)
}

// TestInstanceComplete completes ids and templates, and prints nothing without a server.
func TestInstanceComplete(t *testing.T) {
	h := newPortalUsers(t)
	id := h.create(t, "use-anna", "lab/vpc")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"__complete", "instance", "show", ""}, id + "\tlab/vpc"},
		{[]string{"__complete", "instance", "create", "lab/p"}, "lab/planned\t\nlab/pool\t"},
	} {
		code, out, errOut := h.as(t, "use-anna", tt.args...)
		if code != cli.ExitOK || !strings.HasPrefix(strings.ReplaceAll(out, "\t\n", "\n"), strings.ReplaceAll(tt.want, "\t\n", "\n")[:10]) {
			t.Errorf("%v: %d %q %q", tt.args, code, out, errOut)
		}
	}
	h.Close()
	if _, out, _ := h.as(t, "use-anna", "__complete", "instance", "show", ""); out != ":4\n" {
		t.Errorf("without a server: %q", out)
	}
}

// TestParameters reads parameter values from a command line.
func TestParameters(t *testing.T) {
	file := newFile(t, "secret", "p w\n")
	got, err := parseParameters([]string{"a=text", "b=3", `c=["x"]`, `d:="3"`, "e=@" + file, "f=", "g=true"})
	want := map[string]json.RawMessage{
		"a": json.RawMessage(`"text"`), "b": json.RawMessage("3"), "c": json.RawMessage(`["x"]`), "d": json.RawMessage(`"3"`),
		"e": json.RawMessage(`"p w"`), "f": json.RawMessage(`""`), "g": json.RawMessage("true"),
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"a", "=x", ":=x", "a:=x", "a=@" + file + "x", "a=@" + newFile(t, "large", strings.Repeat("x", maxParameterFile+1))} {
		if got, err := parseParameters([]string{bad}); err == nil {
			t.Errorf("%.40s: %v", bad, got)
		}
	}
}

// TestFooterCommands runs what the footers of the pages name, or asks for its help if it changes
// something.
func TestFooterCommands(t *testing.T) {
	d := portaltest.NewPages(t, nil)
	d.Results.Append("what the tool said\n")
	instance := "instances/" + d.Launch(t, "anna", `{"template":"lab/vpc"}`)
	anna := newHome(t, map[string]string{"OKARA_SERVER": d.Pages.URL, "OKARA_TOKEN": d.Tokens["anna"]})
	for page, more := range map[string]string{
		"templates": "", "templates/lab/vpc": "", "instances": "", instance: "", instance + "/runs/1": "", "approvals": "", "run/lab/vpc": "--help",
		instance + "/extend": "--help", instance + "/rename": "--help", instance + "/transfer": "--help", instance + "/destroy": "--help",
	} {
		_, footer, ok := strings.Cut(d.Shows(t, "anna", page), "on the command line: <code>okara ")
		words, _, _ := strings.Cut(footer, "</code>")
		if code, _, errOut := anna.run(t, strings.Fields(words+" "+more)...); !ok || code != cli.ExitOK {
			t.Errorf("%s: okara %s: exit %d\n%s", page, words, code, errOut)
		}
	}
}
