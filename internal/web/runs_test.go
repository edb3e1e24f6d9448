// SPDX-License-Identifier: Apache-2.0

package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/instances/lifecycle"
	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
)

// planText is the output of a plan, with hostile text that tries to escape from a page.
const planText = "\x1b[1mOpenTofu will perform the following actions:\x1b[0m\n\n  # aws_vpc.main will be created\n  + resource \"aws_vpc\" \"main\" {\n      + id = (known after apply)\n    }\n\n</pre><script>alert(1)</script>\nPlan: 1 to add, 0 to change, 0 to destroy.\n"

// runs enqueues runs: applied, failed, waiting for a decision, queued.
func (w *whole) runs(t *testing.T, organization, workspace string) (waiting string) {
	t.Helper()
	r := w.api
	id := r.Enqueue(t, organization, workspace, lifecycle.Ask{Key: "1", Message: "first </title>"})
	w.api.Results.Begin() // every run has the same log
	w.api.Results.Append(planText)
	plan := lifecycle.Result{Outcome: lifecycle.Done, Plan: "sha256:" + strings.Repeat("a1", 32), Changes: true, Counts: &lifecycle.Counts{Add: 1}}
	w.api.Store.Finish(t, id, plan)
	must.Get(r.Do(t.Context(), access.Caller{Subject: "boss"}, lifecycle.Confirm{ID: id, N: 1, Plan: plan.Plan}))(t)
	w.api.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.Done})
	r.Enqueue(t, organization, workspace, lifecycle.Ask{Key: "2", Speculative: true})
	w.api.Store.Finish(t, id, lifecycle.Result{Outcome: lifecycle.RunFailed, Error: "plan failed with exit status 1"})
	r.Enqueue(t, organization, workspace, lifecycle.Ask{Key: "3"})
	w.api.Store.Finish(t, id, plan)
	r.Enqueue(t, organization, workspace, lifecycle.Ask{Key: "4", Destroy: true})
	return "runs/" + organization + "/" + workspace + "/" + id + "."
}

// hiddenFields matches the hidden fields of a page's forms.
var hiddenFields = regexp.MustCompile(`<input type="hidden" name="(key|plan)" value="([^"]+)">`)

// form returns the fields that the forms of a page send.
func (v *visitor) form(t *testing.T, path string) url.Values {
	t.Helper()
	_, body := visit(t, v.Client, v.base+path, "")
	form := url.Values{}
	for _, m := range hiddenFields.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], m[2])
	}
	return form
}

// TestRunPages: who may run decides, who may read sees.
func TestRunPages(t *testing.T) {
	w := newWholeOf(t, "", map[string][]string{
		reader: {"read:state:shop"}, publisher: {"read:state:shop", "run:state:shop/default"}, wrong: {"read:state:other", "run:state:other"},
	})
	w.put(t, "shop", "default", shopState(1, "db.small"))
	at := w.runs(t, "shop", "default")
	w.start(t)
	callers := map[string]*visitor{}
	for _, caller := range []string{reader, publisher, wrong} {
		callers[caller] = w.login(t, caller)
	}
	shows := func(caller, path string, has ...string) string {
		t.Helper()
		a := callers[caller].get(t, "/ui/"+path)
		if a.status != http.StatusOK {
			t.Fatalf("%s: %s: %d\n%s", caller, path, a.status, a.body)
		}
		for _, text := range has {
			if !strings.Contains(a.body, text) {
				t.Errorf("%s: %s does not say %q\n%s", caller, path, text, a.body[strings.Index(a.body, "<main"):])
			}
		}
		return a.body
	}
	shows(reader, "states", `href="./runs"`)
	shows(reader, "states/shop/default", `href="./../../runs/shop/default"`)
	shows(reader, "runs", "shop/default", "waiting for confirmation", "applied")
	shows(reader, "runs/shop/default", "Run 4", "destroy", "plan failed with exit status 1", "1 added, 0 changed, 0 destroyed", "first &lt;/title&gt;", `href="./../../states/shop/default"`)
	shows(reader, at+"1", "Confirmed by", "boss", `class="plan-add"`, "Apply</h2>")
	body := shows(reader, at+"3", "The plan is ready", "1 to add", `class="plan-add"`, "&lt;script&gt;")
	if strings.Contains(body, `action="`+"./../../../"+at) {
		t.Error("who may only read is offered to decide")
	}
	shows(reader, at+"4", "Other runs of this workspace are ahead of it")
	for _, path := range []string{"runs/shop/default", at + "3", at + "3/log/plan"} {
		if a := callers[wrong].get(t, "/ui/"+path); a.status != http.StatusForbidden {
			t.Errorf("a stranger asks for %s: %d", path, a.status)
		}
	}
	if a := callers[wrong].get(t, "/ui/runs"); strings.Contains(a.body, "shop") {
		t.Error("a stranger is told of the runs of others")
	}
	for _, path := range []string{at + "9", at + "03", "runs/shop/default/x", "runs/shop/other/" + strings.Split(at, "/")[3] + "3"} {
		if a := callers[reader].get(t, "/ui/"+path); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	decide := func(caller, run, act string, status int, say string) {
		t.Helper()
		form := callers[publisher].form(t, "/ui/"+at+run)
		if act == "cancel" {
			form.Set("plan", "sha256:never-shown")
		}
		resp, _ := visit(t, callers[caller].Client, w.URL+"/ui/"+at+run+"/"+act, form.Encode())
		if resp.StatusCode != status || !strings.Contains(callers[caller].get(t, "/ui/"+at+run).body, say) {
			t.Errorf("%s: %s of run %s: %d", caller, act, run, resp.StatusCode)
		}
	}
	decide(reader, "3", "confirm", http.StatusForbidden, "waiting for confirmation")
	decide(publisher, "4", "cancel", http.StatusSeeOther, "cancelled")
	stale := callers[publisher].form(t, "/ui/"+at+"3")
	stale.Set("plan", "sha256:00")
	visit(t, callers[publisher].Client, w.URL+"/ui/"+at+"3/confirm", stale.Encode())
	shows(publisher, at+"3", "The plan has changed", "waiting for confirmation")
	decide(publisher, "3", "confirm", http.StatusSeeOther, "being applied")
	shows(publisher, at+"3", "Apply</h2>", "Cancel")
	log := w.api.Audit.String()
	if strings.Contains(log, "never-shown") {
		t.Errorf("who cancels writes what they like into the audit log:\n%s", log)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"run-apply"`) && strings.Contains(line, "sha256:"+strings.Repeat("a1", 32)) {
			return
		}
	}
	t.Errorf("nobody wrote down who confirmed which plan:\n%s", log)
}
