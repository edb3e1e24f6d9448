// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend/format"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

func keyOf(organization, workspace string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(organization + "\x00" + workspace))
}

// TestRemoteWorkspace: commands get the stable id of a workspace with runs here.
func TestRemoteWorkspace(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	if id != c.read("prod") || id != "ws-"+keyOf("acme", "prod") {
		t.Errorf("ids %s and %s", id, c.read("prod"))
	}
	got := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id, nil).item()
	if a := got.Attributes; a["execution-mode"] != "remote" || a["operations"] != true || a["structured-run-output-enabled"] != false {
		t.Errorf("attributes %v", a)
	}
	if may := got.Attributes["permissions"].(object); may["can-queue-run"] != true || may["can-queue-apply"] != true {
		t.Errorf("permissions %v", may)
	}
	c.create("local")
	if one, other := c.read("local"), c.read("local"); one == other {
		t.Error("commands of a local workspace share an id")
	}
	if got := c.want(http.StatusOK, http.MethodGet, "organizations/acme/entitlement-set", nil).item(); got.Attributes["operations"] != true {
		t.Errorf("entitlements %v", got.Attributes)
	}
	run := c.run(id, nil)
	f.status(tfe.RunPlanning)
	if got := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id, nil).item(); relationID(t, got, "current-run") != run.ID {
		t.Errorf("the current run is %s", got.Relationships["current-run"].Data)
	}
	f.fail = oci.ErrUnavailable
	c.want(http.StatusServiceUnavailable, http.MethodGet, "workspaces/"+id, nil)
}

// TestRecords: an act is one record, also if its client hangs up, or it fails.
func TestRecords(t *testing.T) {
	var log bytes.Buffer
	took := func() (got []string) {
		for d := json.NewDecoder(&log); d.More(); {
			var r struct {
				Msg, Action, Detail, Digest, Outcome string
				Run                                  int
			}
			must.Succeed(t, d.Decode(&r))
			if r.Msg == "change" {
				if strings.HasPrefix(r.Action, "run") {
					r.Action += fmt.Sprintf(" %d", r.Run)
				}
				got = append(got, strings.TrimSpace(r.Action+" "+r.Detail+regexp.MustCompile(`^sha256:.*`).ReplaceAllString(r.Digest, "DIGEST")+strings.TrimPrefix(r.Outcome, "done")))
			}
		}
		return got
	}
	audit := slog.New(slog.NewJSONHandler(&log, nil))
	cut := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, hangUp := context.WithCancel(r.Context())
			if r.Method != http.MethodGet && r.Method != http.MethodPut { // what is uploaded has no effect yet
				hangUp()
			}
			defer hangUp()
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	}
	for name, wrap := range map[string]func(http.Handler) http.Handler{"stays": nil, "hangs up": cut} {
		c, f, id := newRemote(t, setup{audit: audit, wrap: wrap})
		again := newWorkspace("prod")
		again["data"].(object)["attributes"].(object)["execution-mode"] = "remote"
		c.want(http.StatusCreated, http.MethodPost, workspaces, again)
		tool := c
		c.tool = ""
		patch := func(attributes object) {
			c.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, object{"data": object{"attributes": attributes}})
		}
		patch(object{"auto-apply": true, "terraform-version": "1.12.6", "description": "d"})
		patch(object{"auto-apply": true, "speculative-enabled": true})
		patch(object{"auto-apply": false})
		c.want(http.StatusNoContent, http.MethodPost, "workspaces/"+id+"/relationships/tags", object{"data": []object{{"type": "tags", "attributes": object{"name": "eu"}}}})
		body := runBody(id, c.configure(id), nil)
		run := c.want(http.StatusCreated, http.MethodPost, "runs", body).item()
		c.want(http.StatusCreated, http.MethodPost, "runs", body)
		f.status(tfe.RunPlanned)
		c.want(http.StatusAccepted, http.MethodPost, "runs/"+run.ID+"/actions/apply", nil)
		f.status(tfe.RunApplied)
		command := tool.create("local")
		locked := []string{"create"}
		if wrap == nil { // a client that hangs up gets no lock
			tool.lock(http.StatusOK, command)
			tool.lock(http.StatusOK, command)
			tool.want(http.StatusOK, http.MethodPost, "workspaces/"+command+"/actions/unlock", nil)
			locked = append(locked, "lock", "unlock")
		}
		set := c.want(http.StatusCreated, http.MethodPost, "organizations/acme/varsets", object{"data": object{"type": "varsets", "attributes": object{"name": "a set"}}}).item()
		uses := object{"data": []object{{"type": "workspaces", "id": id}}}
		for _, method := range []string{http.MethodPost, http.MethodPost, http.MethodDelete, http.MethodDelete} {
			c.want(http.StatusNoContent, method, "varsets/"+set.ID+"/relationships/workspaces", uses)
		}
		c.want(http.StatusOK, http.MethodPatch, "varsets/"+set.ID, object{"data": object{"type": "varsets", "attributes": object{"name": "a set"}}})
		c.want(http.StatusNoContent, http.MethodDelete, "varsets/"+set.ID, nil)
		c.want(http.StatusCreated, http.MethodPost, "workspaces/"+id+"/vars", object{"data": object{"type": "vars", "attributes": object{"key": "a", "value": "b", "category": "terraform"}}})
		c.want(http.StatusNoContent, http.MethodDelete, "workspaces/"+id, nil)
		want := slices.Concat([]string{
			"create", "update terraform-version=1.12.6, auto-apply=true, description", "update auto-apply=false", "update tags", "run 1 DIGEST", "run-apply 1",
		}, locked, []string{
			"variables-create set a set", "variables-update set a set", "variables-update set a set", "variables-delete set a set", "variable-create terraform a", "delete",
		})
		must.Match(t, name+": recorded", took(), want)
	}
	h, _ := newHandler(t, newRegistry(t), setup{audit: audit, via: &ocitest.Fault{Times: -1, Do: ocitest.Refuse}})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/api/v2/"+workspaces+"/prod", nil)
	r.Header.Set("Authorization", "Bearer "+tokenOf("runner"))
	for name, h := range map[string]http.Handler{"stays": h, "hangs up": cut(h)} {
		h.ServeHTTP(httptest.NewRecorder(), r)
		must.Match(t, name+": a failure", took(), []string{"write DELETE /api/v2/organizations/{organization}/workspaces/{workspace}failed"})
	}
}

// TestPermissions: what a workspace says of its caller's permissions is what is decided.
func TestPermissions(t *testing.T) {
	c, _, _ := newRemote(t, setup{})
	variable := object{"data": object{"type": "vars", "attributes": object{"key": "a", "value": "b", "category": "terraform"}}}
	for _, mode := range []string{"local", "remote"} {
		id := c.create("dev-" + mode)
		c.want(http.StatusOK, http.MethodPatch, "workspaces/"+id, object{"data": object{"attributes": object{"execution-mode": mode}}})
		for _, caller := range []string{"dev", "devrunner", "devwriter"} {
			by := c.as(caller)
			may := by.want(http.StatusOK, http.MethodGet, "workspaces/"+id, nil).item().Attributes["permissions"].(object)
			for permission, request := range map[string]struct {
				path string
				body any
			}{
				"can-queue-run": {"configuration-versions", object{}}, "can-update-variable": {"vars", variable}, "can-lock": {"actions/lock", object{}}, "can-force-unlock": {"actions/force-unlock", object{}},
			} {
				if got := by.do(http.MethodPost, "workspaces/"+id+"/"+request.path, request.body).status != http.StatusForbidden; got != may[permission] {
					t.Errorf("%s, %s: %s is %v, and the request is allowed: %v", mode, caller, permission, may[permission], got)
				}
			}
		}
	}
}

// TestModeRefused refuses mode remote on a server that executes no runs.
func TestModeRefused(t *testing.T) {
	c := newTool(t, newServer(t, newRegistry(t), setup{})).as("runner")
	id := c.create("prod")
	body := object{"data": object{"attributes": object{"execution-mode": "remote"}}}
	got := c.want(http.StatusUnprocessableEntity, http.MethodPatch, "workspaces/"+id, body)
	if !strings.Contains(got.doc().Errors[0].Detail, "hint: ") {
		t.Errorf("no way out: %s", got.body)
	}
	for _, request := range []string{"POST workspaces/" + id + "/configuration-versions", "POST runs", "GET workspaces/" + id + "/runs"} {
		method, path, _ := strings.Cut(request, " ")
		c.want(http.StatusNotFound, method, path, nil)
	}
}

// TestConfigurationUpload stores an upload once: repeating it has no effect, and other
// bytes are refused.
//
// Shows: cloud 29
func TestConfigurationUpload(t *testing.T) {
	clock := &clock{}
	c, _, id := newRemote(t, setup{clock: clock})
	nobody := c.as("")
	cv, upload := c.announceConfiguration(id, object{"speculative": true})
	status := func(cv string) any {
		t.Helper()
		return c.want(http.StatusOK, http.MethodGet, "configuration-versions/"+cv, nil).item().Attributes["status"]
	}
	must.Equal(t, "before it came it", status(cv), "pending")
	for name, b := range map[string][]byte{
		"no archive": []byte("text"), "empty": {}, "link out": tarGz(t, tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "../y"}, ""),
		"device": tarGz(t, tar.Header{Name: "x", Typeflag: tar.TypeChar}, ""), "parent": folder(t, "../x", ""),
	} {
		if got := nobody.do(http.MethodPut, upload, b); got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: status %d: %s", name, got.status, got.body)
		}
	}
	must.Equal(t, "after what was refused it", status(cv), "pending")
	for range 2 {
		nobody.want(http.StatusOK, http.MethodPut, upload, folder(t, "main.tf", "one"))
	}
	must.Equal(t, "it", status(cv), "uploaded")
	nobody.want(http.StatusConflict, http.MethodPut, upload, folder(t, "main.tf", "two"))
	must.Equal(t, "after another upload it", status(cv), "uploaded")
	_, late := c.announceConfiguration(id, nil)
	nobody.want(http.StatusForbidden, http.MethodPut, late[:len(late)-2], folder(t, "main.tf", ""))
	clock.advance(11 * time.Minute)
	nobody.want(http.StatusGone, http.MethodPut, late, folder(t, "main.tf", ""))
	c.want(http.StatusNotFound, http.MethodGet, "configuration-versions/"+otherKey(cv)+"0", nil)
}

// TestTooManyConfigurations bounds unused uploads, which are kept for a day.
//
// Shows: cloud 29
func TestTooManyConfigurations(t *testing.T) {
	clock := &clock{}
	c, f, id := newRemote(t, setup{clock: clock})
	_, spare := c.announceConfiguration(id, nil)
	c.run(id, nil) // this run still needs its upload
	for range 20 {
		c.configure(id)
	}
	c.want(http.StatusConflict, http.MethodPost, "workspaces/"+id+"/configuration-versions", `{}`)
	c.as("").want(http.StatusConflict, http.MethodPut, spare, folder(t, "main.tf", ""))
	clock.advance(25 * time.Hour)
	var last string
	for range 2 { // each request deletes some
		last = c.configure(id)
	}
	repo := must.Get(f.Repository(acmeProd(), record))(t)
	left := must.Get(format.Configurations(t.Context(), repo, record))(t)
	kept := 0
	for _, l := range left {
		if strings.Contains(last, l.ID) || l.ID == f.new[0].Configuration {
			kept++
		}
	}
	if len(left) != 3 || kept != 2 { // the upload of the run, and the new ones
		t.Errorf("left are %v", left)
	}
}

// TestRacingUploads sends two configurations to one address at once, through two
// servers: if both are accepted, neither is run.
//
// Shows: cloud 29
func TestRacingUploads(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	two := newServer(t, f.host, setup{change: func(o *tfe.Options) { o.Runs, o.RunTime = f, time.Hour }})
	for range 5 {
		cv, upload := c.announceConfiguration(id, nil)
		_, token, _ := strings.Cut(upload, "/uploads/")
		var status [2]int
		var group sync.WaitGroup
		for i, base := range []string{c.base, two} {
			body := folder(t, "main.tf", base)
			group.Go(func() {
				status[i] = c.as("").do(http.MethodPut, base+"/api/v2/uploads/"+token, body).status
			})
		}
		group.Wait()
		got := c.want(http.StatusOK, http.MethodGet, "configuration-versions/"+cv, nil).item().Attributes["status"]
		slices.Sort(status[:])
		switch {
		case got == "uploaded" && status == [2]int{http.StatusOK, http.StatusConflict}:
		case got == "errored" && status[1] == http.StatusConflict:
			c.want(http.StatusConflict, http.MethodPost, "runs", runBody(id, cv, nil))
		default:
			t.Errorf("answered %v, and it is %v", status, got)
		}
	}
}

// TestRun takes a run through all its stages.
//
// Shows: cloud 25
func TestRun(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	run := c.run(id, object{
		"auto-apply": true, "refresh": false, "is-destroy": true, "target-addrs": []string{"a.b[\"c\"]"}, "message": "why",
		"variables": []object{{"key": "a", "value": `"x\n}"`}, {"key": "b", "value": `{ k = [1, -2, null, "$${c}"], "l" = true }`}},
	})
	n := f.new[0]
	if !n.AutoApply || !n.NoRefresh || !n.Destroy || n.Targets[0] != `a.b["c"]` || n.Message != "why" || n.By.Subject != "runner" || n.Manifest == "" || n.Archive == "" || n.Size == 0 {
		t.Errorf("queued: %+v", n)
	}
	for name, want := range map[string]string{"a": `"x\n}"`, "b": `{"k":[1,-2,null,"${c}"],"l":true}`} {
		if got := string(n.Variables[name]); got != want {
			t.Errorf("variable %s is %s, want %s", name, got, want)
		}
	}
	got := c.want(http.StatusOK, http.MethodGet, "runs/"+run.ID+"?include=workspace,plan", nil)
	for _, name := range []string{"workspace", "plan", "apply", "configuration-version"} {
		if relationID(t, got.item(), name) == "" {
			t.Errorf("no relation %s", name)
		}
	}
	if text := string(got.body); !strings.Contains(text, `"type":"workspaces","id":"`+id+`","attributes"`) || !strings.Contains(text, `"type":"plans"`) {
		t.Errorf("not included: %s", text)
	}
	if events := c.want(http.StatusOK, http.MethodGet, "runs/"+run.ID+"/run-events", nil).items(); len(events) != 0 {
		t.Errorf("events %v", events)
	}
	act := func(status int, action string) {
		t.Helper()
		c.want(status, http.MethodPost, "runs/"+run.ID+"/actions/"+action, object{"comment": "c"})
	}
	actions := func() string {
		t.Helper()
		var can []string
		a := c.want(http.StatusOK, http.MethodGet, "runs/"+run.ID, nil).item().Attributes["actions"].(object)
		for _, name := range []string{"is-cancelable", "is-confirmable", "is-discardable", "is-force-cancelable"} {
			if a[name] == true {
				can = append(can, strings.TrimSuffix(strings.TrimPrefix(name, "is-"), "able"))
			}
		}
		return strings.Join(can, " ")
	}
	for _, step := range []struct {
		change func(*tfe.Run)
		can    string
		wrong  []string
	}{
		{func(r *tfe.Run) {}, "cancel discard", []string{"apply", "force-cancel"}},
		{func(r *tfe.Run) { r.Status = tfe.RunPlanning }, "cancel", []string{"apply", "discard", "force-cancel"}},
		{func(r *tfe.Run) { r.Cancelled = true }, "force-cancel", []string{"apply"}},
		{func(r *tfe.Run) { r.Status, r.Cancelled, r.Plan = tfe.RunApplied, false, "sha256:p" }, "", []string{"apply", "discard", "cancel", "force-cancel"}},
		{func(r *tfe.Run) { r.Status = tfe.RunPlanned }, "confirm discard", []string{"cancel", "force-cancel"}},
	} {
		f.move(step.change)
		must.Equal(t, "it can", actions(), step.can)
		for _, action := range step.wrong {
			act(http.StatusConflict, action)
		}
	}
	act(http.StatusAccepted, "apply")
	if d := f.acts[0]; d.Plan != "sha256:p" || d.By.Subject != "runner" || d.Comment != "c" {
		t.Errorf("decided: %+v", d)
	}
	act(http.StatusConflict, "discard")
	c.want(http.StatusConflict, http.MethodPost, "workspaces/"+id+"/actions/force-unlock", nil)
	f.status(tfe.RunPlanned)
	c.want(http.StatusConflict, http.MethodDelete, "workspaces/"+id, nil)
	c.read("prod")
	f.status(tfe.RunApplied)
	c.want(http.StatusNoContent, http.MethodDelete, "workspaces/"+id, nil)
	c.want(http.StatusNotFound, http.MethodGet, "runs/"+run.ID, nil)
}

// TestRunRefused refuses runs that are not supported, and queues a repeated request once.
//
// Shows: cloud 29
func TestRunRefused(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	cv := c.configure(id)
	pending, _ := c.announceConfiguration(id, nil)
	local := c.create("local")
	for name, tt := range map[string]struct {
		status int
		body   any
	}{
		"no workspace":            {404, runBody("", cv, nil)},
		"no configuration":        {422, runBody(id, "", nil)},
		"not uploaded":            {422, runBody(id, pending, nil)},
		"of another workspace":    {404, runBody(local, cv, nil)},
		"of another record":       {422, runBody(id, strings.Replace(cv, record, "zbcdefgh23", 1), nil)},
		"reference":               {422, runBody(id, cv, object{"variables": []object{{"key": "a", "value": "var.b"}}})},
		"name of a variable":      {422, runBody(id, cv, object{"variables": []object{{"key": "a b", "value": "1"}}})},
		"address":                 {422, runBody(id, cv, object{"target-addrs": []string{"a\nb"}})},
		"101 addresses":           {422, runBody(id, cv, object{"replace-addrs": strings.Split(strings.Repeat("a.b,", 101), ",")})},
		"generated configuration": {422, runBody(id, cv, object{"allow-config-generation": true})},
		"destroy and refresh":     {422, runBody(id, cv, object{"is-destroy": true, "refresh-only": true})},
		"large":                   {413, strings.Repeat(" ", 1<<20)},
	} {
		if got := c.do(http.MethodPost, "runs", tt.body); got.status != tt.status {
			t.Errorf("%s: status %d, want %d: %s", name, got.status, tt.status, got.body)
		}
	}
	c.want(http.StatusConflict, http.MethodPost, "workspaces/"+local+"/configuration-versions", `{}`)
	if len(f.new) != 0 {
		t.Fatalf("queued: %+v", f.new)
	}
	first := c.want(http.StatusCreated, http.MethodPost, "runs", runBody(id, cv, nil)).item().ID
	if again := c.want(http.StatusCreated, http.MethodPost, "runs", runBody(id, cv, nil)).item().ID; again != first || len(f.new) != 1 {
		t.Errorf("repeated it is %s, not %s", again, first)
	}
	for range 9 {
		c.run(id, nil)
	}
	c.want(http.StatusConflict, http.MethodPost, "runs", runBody(id, c.configure(id), nil))
}

// TestRunRights requires the right to run for all changes, and the right to read for the
// rest, whether or not the object exists.
//
// Shows: cloud 29
func TestRunRights(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	run := c.run(id, nil)
	large := strings.Repeat("x", 10<<20)
	for request, reads := range map[string]bool{
		"POST workspaces/" + id + "/configuration-versions": false, "POST runs/" + run.ID + "/actions/apply": false,
		"POST runs/" + run.ID + "/actions/discard": false, "POST runs/" + run.ID + "/actions/cancel": false, "POST runs/" + run.ID + "/actions/force-cancel": false,
		"GET runs/" + run.ID: true, "GET runs/" + run.ID + "/run-events": true, "GET plans/" + relationID(t, run, "plan"): true,
		"GET applies/" + relationID(t, run, "apply"): true, "GET configuration-versions/" + relationID(t, run, "configuration-version"): true,
		"GET workspaces/" + id + "/runs": true, "GET organizations/acme/runs/queue": true, "GET organizations/acme/capacity": true,
	} {
		method, path, _ := strings.Cut(request, " ")
		var body any
		if !reads {
			body = large
		}
		for caller, may := range map[string]bool{"other": false, "reader": reads, "ci": reads} {
			if got := c.as(caller).do(method, path, body); (got.status == http.StatusForbidden) == may {
				t.Errorf("%s %s: status %d", caller, request, got.status)
			}
		}
		c.as("").want(http.StatusUnauthorized, method, path, body)
		if got := c.as("runner").do(method, path+"x", nil); got.status != http.StatusNotFound && !strings.Contains(path, "organizations") {
			t.Errorf("%sx: status %d", request, got.status)
		}
	}
	for _, caller := range []string{"ci", "reader"} { // callers without the right to run
		c.as(caller).want(http.StatusForbidden, http.MethodPost, "runs", large)
	}
	c.as("devrunner").want(http.StatusForbidden, http.MethodPost, "runs", runBody(id, c.configure(id), nil))
	if len(f.new) != 1 || len(f.acts) != 0 {
		t.Errorf("done: %+v %+v", f.new, f.acts)
	}
}

// TestRunLists shows waiting runs to callers that may read them.
//
// Shows: cloud 25
func TestRunLists(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	done := c.run(id, nil)
	f.status(tfe.RunPlannedAndFinished)
	waits := c.run(id, nil)
	ids := func(c client, path string) (list []string) {
		t.Helper()
		for _, i := range c.want(http.StatusOK, http.MethodGet, path, nil).items() {
			list = append(list, i.ID)
		}
		return list
	}
	script := c
	script.tool = ""
	must.Match(t, "runs", ids(script, "workspaces/"+id+"/runs"), []string{waits.ID, done.ID})
	must.Match(t, "what a tool waits for", ids(c, "workspaces/"+id+"/runs"), []string{waits.ID})
	f.running = 3
	queue := c.want(http.StatusOK, http.MethodGet, "organizations/acme/runs/queue", nil).items()
	if len(queue) != 1 || queue[0].ID != waits.ID || queue[0].Attributes["position-in-queue"] != 4.0 {
		t.Errorf("the queue is %+v", queue)
	}
	if got := ids(c.as("dev"), "organizations/acme/runs/queue"); len(got) != 0 {
		t.Errorf("who may not read it sees %v", got)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "organizations/acme/capacity", nil).item().Attributes; got["pending"] != 1.0 || got["running"] != 3.0 {
		t.Errorf("the capacity is %v", got)
	}
}

// TestRunLog reads logs in parts of all sizes: first the start, last the end.
//
// Shows: cloud 25
// Shows: cloud 29
func TestRunLog(t *testing.T) {
	clock := &clock{}
	c, f, id := newRemote(t, setup{clock: clock})
	run := c.run(id, nil)
	f.logs = map[tfe.Phase]string{tfe.PhasePlan: "<b>\x02a\x03</b>\n", tfe.PhaseApply: "done\n"}
	address := func(kind, relation string) string {
		t.Helper()
		return c.want(http.StatusOK, http.MethodGet, kind+"/"+relationID(t, run, relation), nil).item().Attributes["log-read-url"].(string)
	}
	plan, apply := address("plans", "plan"), address("applies", "apply")
	read := func(address, query string) string {
		t.Helper()
		got := c.as("").want(http.StatusOK, http.MethodGet, address+"?"+query, nil)
		if got.header.Get("Content-Type") != "text/plain; charset=utf-8" || got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("header %v", got.header)
		}
		return string(got.body)
	}
	must.Equal(t, "while it grows", read(plan, "limit=65536&offset=0"), "\x02<b>?a?</b>\n")
	f.whole = true
	for address, want := range map[string]string{plan: "\x02<b>?a?</b>\n\x03", apply: "\x02acme/prod\n" + run.ID + "\n\ndone\n\x03"} {
		for limit := 1; limit < len(want)+2; limit++ {
			got := ""
			for {
				part := read(address, "limit="+strconv.Itoa(limit)+"&offset="+strconv.Itoa(len(got)))
				if part == "" {
					break
				}
				if got += part; len(part) > limit || len(got) > len(want) {
					t.Fatalf("with %d bytes at once: %q", limit, got)
				}
			}
			if got != want {
				t.Fatalf("with %d bytes at once: %q, want %q", limit, got, want)
			}
		}
	}
	nobody := c.as("")
	nobody.want(http.StatusBadRequest, http.MethodGet, plan+"?offset=-1", nil)
	nobody.want(http.StatusBadRequest, http.MethodGet, plan+"?limit=x", nil)
	nobody.want(http.StatusForbidden, http.MethodGet, plan[:len(plan)-1], nil)
	_, upload := c.announceConfiguration(id, nil)
	nobody.want(http.StatusForbidden, http.MethodGet, strings.Replace(upload, "/uploads/", "/logs/", 1), nil)
	nobody.want(http.StatusForbidden, http.MethodPut, strings.Replace(plan, "/logs/", "/uploads/", 1), folder(t, "main.tf", ""))
	f.fail = errors.Join(oci.ErrUnavailable)
	nobody.want(http.StatusServiceUnavailable, http.MethodGet, plan, nil)
	f.fail = nil
	clock.advance(76 * time.Minute)
	nobody.want(http.StatusGone, http.MethodGet, plan, nil)
}

// TestPhaseStatus ends readers of a log when nothing follows, and not before.
func TestPhaseStatus(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	run := c.run(id, nil)
	for _, tt := range []struct {
		status      tfe.RunStatus
		plan        string
		planned     string
		appliedThen string
	}{
		{tfe.RunPending, "", "pending", "pending"}, {tfe.RunPlanning, "", "running", "pending"}, {tfe.RunErrored, "", "errored", "errored"},
		{tfe.RunCanceled, "", "canceled", "canceled"}, {tfe.RunPlannedAndFinished, "", "finished", "unreachable"}, {tfe.RunPlanned, "p", "finished", "pending"},
		{tfe.RunDiscarded, "p", "finished", "unreachable"}, {tfe.RunDiscarded, "", "unreachable", "unreachable"}, {tfe.RunConfirmed, "p", "finished", "queued"},
		{tfe.RunApplying, "p", "finished", "running"}, {tfe.RunApplied, "p", "finished", "finished"}, {tfe.RunErrored, "p", "finished", "errored"},
		{tfe.RunCanceled, "p", "finished", "canceled"},
	} {
		f.move(func(r *tfe.Run) { r.Status, r.Plan = tt.status, tt.plan })
		plan := c.want(http.StatusOK, http.MethodGet, "plans/"+relationID(t, run, "plan"), nil).item().Attributes["status"]
		apply := c.want(http.StatusOK, http.MethodGet, "applies/"+relationID(t, run, "apply"), nil).item().Attributes["status"]
		if plan != tt.planned || apply != tt.appliedThen {
			t.Errorf("%s with plan %q: %v and %v", tt.status, tt.plan, plan, apply)
		}
	}
}

// TestPlanJSON shows a plan to readers, without sensitive values.
func TestPlanJSON(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	plan := relationID(t, c.run(id, object{"save-plan": true}), "plan")
	c.want(http.StatusNotFound, http.MethodGet, "plans/"+plan+"/json-output", nil)
	f.plan = []byte(`{
		"plan": {"format_version": "1.2", "output_changes": {"a": {"before": "s3cret", "after": "s3cret2", "after_sensitive": true, "before_sensitive": true}},
			"resource_changes": [{"address": "x.y", "change": {"before": null, "after": {"big": 12345678901234567890, "list": ["open", "s3cret"], "n": 7, "on": false, "off": false},
				"after_sensitive": {"list": [false, true], "n": true, "on": true}}}]},
		"schemas": {"format_version": "1.0", "provider_schemas": {"p": {}}}}`)
	whole := c.want(http.StatusOK, http.MethodGet, "plans/"+plan+"/json-output", nil)
	if !bytes.Contains(whole.body, []byte("s3cret2")) || !bytes.HasPrefix(whole.body, []byte(`{"format_version"`)) {
		t.Errorf("the plan is %s", whole.body)
	}
	redacted := c.as("reader").want(http.StatusOK, http.MethodGet, "plans/"+plan+"/json-output-redacted", nil).body
	for _, want := range []string{
		`"plan_format_version":"1.2"`, `"provider_format_version":"1.0"`, `"provider_schemas":{"p":{}}`, "12345678901234567890", `["open","sensitive, new"]`,
		`"before":"sensitive, old"`, `"after":"sensitive, new"`, `"n":1`, `"on":true`, `"off":false`,
	} {
		if !bytes.Contains(redacted, []byte(want)) {
			t.Errorf("the plan lacks %s: %s", want, redacted)
		}
	}
	if bytes.Contains(redacted, []byte("s3cret")) {
		t.Errorf("the plan tells a secret: %s", redacted)
	}
	c.as("other").want(http.StatusForbidden, http.MethodGet, "plans/"+plan+"/json-output", nil)
	c.as("").want(http.StatusUnauthorized, http.MethodGet, "plans/"+plan+"/json-output-redacted", nil)
}

// TestRunLogAtEnd: a reader waits at the end of an incomplete log.
func TestRunLogAtEnd(t *testing.T) {
	c, f, id := newRemote(t, setup{})
	plan := relationID(t, c.run(id, nil), "plan")
	f.logs[tfe.PhasePlan] = "abc"
	address := c.want(http.StatusOK, http.MethodGet, "plans/"+plan, nil).item().Attributes["log-read-url"].(string)
	if got := c.as("").want(http.StatusOK, http.MethodGet, address+"?limit=10&offset=4", nil); len(got.body) > 0 {
		t.Errorf("behind its end it has %q", got.body)
	}
	if !slices.Equal(f.offsets, []int64{3}) {
		t.Errorf("it was read at %v, want 3", f.offsets)
	}
}
