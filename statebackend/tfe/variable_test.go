// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-141914ff/okara/internal/access"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
	"github.com/seed-141914ff/okara/statebackend/tfe"
)

// written records the requests that write to the registry.
type written struct {
	mu  sync.Mutex // guards all
	all bytes.Buffer
}

func (w *written) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.all.Write(b)
		w.mu.Unlock()
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// variableServer returns a server that can store sensitive variables and executes no runs.
func variableServer(t *testing.T, host string) client {
	t.Helper()
	return newScript(t, newServer(t, host, setup{change: func(o *tfe.Options) { o.Sealer = newSealer(t, "k") }})).as("runner")
}

func newVariable(key, value, category string, more object) object {
	attributes := object{"key": key, "value": value, "category": category}
	maps.Copy(attributes, more)
	return object{"data": object{"type": "vars", "attributes": attributes}}
}

func (c client) variable(path, key, value, category string, more object) item {
	c.t.Helper()
	return c.want(http.StatusCreated, http.MethodPost, path, newVariable(key, value, category, more)).item()
}

func keys(items []item) string {
	var list []string
	for _, i := range items {
		value, _ := i.Attributes["value"].(string)
		list = append(list, i.Attributes["category"].(string)+" "+i.Attributes["key"].(string)+"="+value)
	}
	return strings.Join(list, ", ")
}

// TestVariables stores variables as hashicorp/tfe and go-tfe do. Another process reads them;
// sensitive values are nowhere.
func TestVariables(t *testing.T) {
	host := newRegistry(t)
	spy := &written{}
	c := newScript(t, newServer(t, host, setup{via: spy, change: func(o *tfe.Options) { o.Sealer = newSealer(t, "k") }})).as("runner")
	id := c.create("prod")
	if !regexp.MustCompile(`^ws-[a-zA-Z0-9]{16}$`).MatchString(id) {
		t.Fatalf("tfe_variable does not take %s", id)
	}
	vars := "workspaces/" + id + "/vars"
	const secret = "a-secret-that-nobody-sees"
	plain := c.variable(vars, "size", "3", "terraform", object{"description": "how many", "hcl": true})
	hidden := c.variable(vars, "token", secret, "env", object{"sensitive": true})
	if v, ok := hidden.Attributes["value"]; !ok || v != nil {
		t.Errorf("the value of a sensitive variable is %v", v)
	}
	other := variableServer(t, host)
	must.Equal(t, "another process", keys(other.want(http.StatusOK, http.MethodGet, vars, nil).items()), "env token=, terraform size=3")
	one := other.want(http.StatusOK, http.MethodGet, vars+"/"+plain.ID, nil).item()
	if one.Attributes["description"] != "how many" || one.Attributes["hcl"] != true || relationID(t, one, "configurable") != id {
		t.Errorf("one variable is %+v", one)
	}
	patch := func(status int, of item, attributes object) reply {
		t.Helper()
		return other.want(status, http.MethodPatch, vars+"/"+of.ID, object{"data": object{"type": "vars", "id": of.ID, "attributes": attributes}})
	}
	if got := patch(http.StatusOK, plain, object{"value": "4"}).item().Attributes; got["value"] != "4" || got["hcl"] != true {
		t.Errorf("changed to %v", got)
	}
	patch(http.StatusUnprocessableEntity, hidden, object{"sensitive": false})
	patch(http.StatusUnprocessableEntity, hidden, object{"key": "LOGGED"})
	patch(http.StatusUnprocessableEntity, plain, object{"category": "env"})
	patch(http.StatusOK, hidden, object{"value": secret + "2"})
	for name, body := range map[string]object{
		"taken": newVariable("size", "1", "terraform", nil), "a category": newVariable("a", "1", "policy-set", nil), "no name": newVariable("a b", "1", "terraform", nil),
		"an expression": newVariable("b", "upper(\""+secret+"\")", "terraform", object{"hcl": true}), "no variable of processes": newVariable("A=B", "1", "env", nil),
		"large": newVariable("c", strings.Repeat("x", 65<<10), "env", nil),
	} {
		if got := c.want(http.StatusUnprocessableEntity, http.MethodPost, vars, body); bytes.Contains(got.body, []byte(secret)) {
			t.Errorf("%s: the value is in %s", name, got.body)
		}
	}
	for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))[:20]} {
		if all := spy.all.Bytes(); len(all) == 0 || bytes.Contains(all, []byte(form)) {
			t.Errorf("the registry has it in clear, or none of %d bytes", len(all))
		}
	}
	c.want(http.StatusNoContent, http.MethodDelete, vars+"/"+hidden.ID, nil)
	c.want(http.StatusNotFound, http.MethodGet, vars+"/"+hidden.ID, nil)
	c.want(http.StatusNotFound, http.MethodDelete, vars+"/"+hidden.ID, nil)
	otherID := c.create("dev-a")
	c.want(http.StatusNotFound, http.MethodGet, "workspaces/"+otherID+"/vars/"+plain.ID, nil)
	// They are deleted with the workspace, and do not return with its name.
	c.want(http.StatusNoContent, http.MethodDelete, "workspaces/"+id, nil)
	c.want(http.StatusNotFound, http.MethodGet, vars, nil)
	c.create("prod")
	again := func() {
		t.Helper()
		if got := c.want(http.StatusOK, http.MethodGet, vars, nil).items(); len(got) > 0 {
			t.Errorf("a workspace that is made again has %s", keys(got))
		}
	}
	again()
	// The same if a program without support for variables deleted it.
	c.variable(vars, "size", "3", "terraform", nil)
	repo := must.Get(oci.OpenRepo(host+"/state/acme", oci.Options{PlainHTTP: true}))(t)
	must.Succeed(t, statebackend.New(repo, statebackend.Options{}).Workspaces().MarkDeleted(t.Context(), "prod", "another"))
	c.create("prod")
	again()
}

// TestVariablesByThemselves: as older clients name them, of this workspace only.
func TestVariablesByThemselves(t *testing.T) {
	host := newRegistry(t)
	c := variableServer(t, host)
	id, dev := c.create("prod"), c.create("dev-a")
	body := func(workspace, key string) object {
		v := newVariable(key, "1", "terraform", nil)
		v["data"].(object)["relationships"] = object{"workspace": object{"data": object{"type": "workspaces", "id": workspace}}}
		return v
	}
	made := c.want(http.StatusCreated, http.MethodPost, "vars", body(id, "a")).item()
	if !regexp.MustCompile(`^var-[a-zA-Z0-9]{16}$`).MatchString(made.ID) || relationID(t, made, "configurable") != id {
		t.Errorf("made is %+v", made)
	}
	other := variableServer(t, host)
	filter := "vars?filter[organization][name]=acme&filter[workspace][name]="
	must.Equal(t, "the workspace", keys(other.want(http.StatusOK, http.MethodGet, filter+"prod", nil).items()), "terraform a=1")
	other.want(http.StatusUnprocessableEntity, http.MethodGet, "vars", nil)
	at := "vars/" + made.ID
	if got := other.want(http.StatusOK, http.MethodGet, at, nil).item(); got.Attributes["key"] != "a" || relationID(t, got, "configurable") != id {
		t.Errorf("it is %+v", got)
	}
	change := object{"data": object{"type": "vars", "attributes": object{"value": "2"}}}
	for caller, status := range map[string]int{"": http.StatusUnauthorized, "other": http.StatusNotFound, "dev": http.StatusNotFound, "reader": http.StatusForbidden, "ci": http.StatusForbidden} {
		by := other.as(caller)
		by.want(status, http.MethodPatch, at, change)
		by.want(status, http.MethodDelete, at, nil)
		if status != http.StatusForbidden {
			by.want(status, http.MethodGet, at, nil)
		}
	}
	for caller, status := range map[string]int{"": http.StatusUnauthorized, "other": http.StatusForbidden, "ci": http.StatusForbidden, "devrunner": http.StatusNotFound} {
		other.as(caller).want(status, http.MethodPost, "vars", body(id, "b"))
	}
	other.as("devrunner").want(http.StatusForbidden, http.MethodPost, "vars", body(dev, "b")) // may run but not write
	other.want(http.StatusNotFound, http.MethodPost, "vars", body("", "b"))
	other.as("dev").want(http.StatusForbidden, http.MethodGet, filter+"prod", nil)
	other.want(http.StatusOK, http.MethodPatch, at, change)
	must.Equal(t, "changed to", c.want(http.StatusOK, http.MethodGet, at, nil).item().Attributes["value"], "2")
	c.want(http.StatusNoContent, http.MethodDelete, at, nil)
	c.want(http.StatusNotFound, http.MethodGet, at, nil)
	// A variable of a set belongs only to the set.
	set := c.want(http.StatusCreated, http.MethodPost, "organizations/acme/varsets", object{"data": object{"type": "varsets", "attributes": object{"name": "all", "global": true}}}).item()
	of := c.variable("varsets/"+set.ID+"/relationships/vars", "c", "1", "terraform", nil)
	c.want(http.StatusNotFound, http.MethodGet, "vars/"+of.ID, nil)
	// A caller that may read some workspaces sees no others through a shared set.
	c.want(http.StatusNoContent, http.MethodPost, "varsets/"+set.ID+"/relationships/workspaces", object{"data": []object{{"type": "workspaces", "id": id}, {"type": "workspaces", "id": dev}}})
	if got := string(c.as("dev").want(http.StatusOK, http.MethodGet, "varsets/"+set.ID, nil).body); strings.Contains(got, id) || !strings.Contains(got, dev) {
		t.Errorf("who may read %s alone gets %s", dev, got)
	}
}

// TestVariablesAtOnce creates variables from two processes at once: none is lost.
func TestVariablesAtOnce(t *testing.T) {
	host := newRegistry(t)
	servers := []client{variableServer(t, host), variableServer(t, host)}
	vars := "workspaces/" + servers[0].create("prod") + "/vars"
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			if got := servers[i%2].do(http.MethodPost, vars, newVariable("v"+string(rune('a'+i)), "1", "terraform", nil)); got.status != http.StatusCreated {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
	all.Wait()
	if got := servers[0].want(http.StatusOK, http.MethodGet, vars, nil).items(); len(got) != 12 {
		t.Errorf("%d variables: %s", len(got), keys(got))
	}
}

// TestVariableRequests: one list and what is new; additions read nothing again.
func TestVariableRequests(t *testing.T) {
	host := newRegistry(t)
	count := &ocitest.Count{}
	with := func() client {
		return newScript(t, newServer(t, host, setup{via: count})).as("runner")
	}
	c := with()
	vars := "workspaces/" + c.create("prod") + "/vars"
	const many = 40
	for i := range many {
		c.variable(vars, fmt.Sprintf("v%d", i), "1", "terraform", nil)
	}
	fresh := with()
	for _, tt := range []struct {
		name string
		do   func()
		want map[string]int
	}{
		{"forget", func() {}, nil},
		{"an addition", func() { c.variable(vars, "one", "1", "terraform", nil) }, map[string]int{"GET tags": 3, "PUT manifest": 1}}, // one list is that of the workspace
		{"a list", func() { c.want(http.StatusOK, http.MethodGet, vars, nil) }, map[string]int{"GET tags": 2}},
		{"find the workspace", func() { fresh.want(http.StatusOK, http.MethodGet, strings.TrimSuffix(vars, "/vars"), nil) }, nil},
		{"a list of what is not known", func() { fresh.want(http.StatusOK, http.MethodGet, vars, nil) }, map[string]int{"GET tags": 2, "GET manifest": many + 1}},
		{"once more", func() { fresh.want(http.StatusOK, http.MethodGet, vars, nil) }, map[string]int{"GET tags": 2}},
	} {
		tt.do()
		got := count.Take()
		delete(got, "GET ping")
		if tt.want != nil && !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestVariablesOfOneKey: of two at once never both stay; who got a success finds its variable.
func TestVariablesOfOneKey(t *testing.T) {
	host := newRegistry(t)
	servers := []client{variableServer(t, host), variableServer(t, host)}
	vars := "workspaces/" + servers[0].create("prod") + "/vars"
	var all sync.WaitGroup
	var made atomic.Int32
	for i := range 8 {
		all.Go(func() {
			got := servers[i%2].do(http.MethodPost, vars, newVariable("region", "1", "terraform", nil))
			switch got.status {
			case http.StatusCreated:
				made.Add(1)
			case http.StatusUnprocessableEntity:
			default:
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
	all.Wait()
	stay := servers[0].want(http.StatusOK, http.MethodGet, vars, nil).items()
	if len(stay) > 1 || len(stay) != int(made.Load()) {
		t.Errorf("%d were made, %d stay: %s", made.Load(), len(stay), keys(stay))
	}
	if len(stay) == 0 {
		servers[1].want(http.StatusCreated, http.MethodPost, vars, newVariable("region", "1", "terraform", nil))
	}
}

// TestVariableRights requires the right to write, and on a server with runs also to run.
func TestVariableRights(t *testing.T) {
	c, _, id := newRemote(t, setup{})
	c.tool = ""
	vars := "workspaces/" + id + "/vars"
	made := c.variable(vars, "a", "1", "terraform", nil)
	for _, caller := range []string{"reader", "ci", "dev", "other"} {
		c.as(caller).want(http.StatusForbidden, http.MethodPost, vars, newVariable("b", "1", "terraform", nil))
		c.as(caller).want(http.StatusForbidden, http.MethodDelete, vars+"/"+made.ID, nil)
	}
	c.as("ci").want(http.StatusForbidden, http.MethodDelete, "workspaces/"+id, nil) // with its variables
	c.as("reader").want(http.StatusOK, http.MethodGet, vars, nil)
	c.as("other").want(http.StatusForbidden, http.MethodGet, vars, nil)
	c.want(http.StatusUnprocessableEntity, http.MethodPost, vars, newVariable("PATH", "/", "env", nil))
	if got := c.want(http.StatusUnprocessableEntity, http.MethodPost, vars, newVariable("b", "12345678", "env", object{"sensitive": true})); !strings.Contains(string(got.body), "no state keys") {
		t.Errorf("without state keys it says %s", got.body)
	}
	// A set belongs to the whole organization.
	sets := "organizations/acme/varsets"
	set := object{"data": object{"type": "varsets", "attributes": object{"name": "all", "global": true}}}
	for _, caller := range []string{"reader", "ci", "dev", "devrunner"} {
		c.as(caller).want(http.StatusForbidden, http.MethodPost, sets, set)
	}
	at := "varsets/" + c.want(http.StatusCreated, http.MethodPost, sets, set).item().ID
	for _, caller := range []string{"reader", "ci", "dev", "other"} {
		for _, path := range []string{at, at + "/relationships/vars"} {
			if got := c.as(caller).do(http.MethodPatch, path, set).status; got < 400 {
				t.Errorf("%s: status %d", caller, got)
			}
		}
		if got := c.as(caller).do(http.MethodPost, at+"/relationships/vars", newVariable("b", "1", "terraform", nil)).status; got != http.StatusForbidden && got != http.StatusNotFound {
			t.Errorf("%s: status %d", caller, got)
		}
	}
}

// TestVariablesOfAProject: who may change some workspaces cannot get, or take, a project's
// variables by moving one.
func TestVariablesOfAProject(t *testing.T) {
	host := newRegistry(t)
	c := variableServer(t, host)
	project := func(name string) object {
		return object{"project": object{"data": object{"type": "projects", "id": "prj-" + base64.RawURLEncoding.EncodeToString([]byte("acme\x00"+name))}}}
	}
	inside := func(workspace, name string) object {
		body := newWorkspace(workspace)
		maps.Copy(body["data"].(object)["relationships"].(object), project(name))
		return body
	}
	prod := c.want(http.StatusCreated, http.MethodPost, workspaces, inside("prod", "safe")).item()
	set := c.want(http.StatusCreated, http.MethodPost, "organizations/acme/varsets", object{"data": object{"type": "varsets", "attributes": object{"name": "its"}}}).item()
	c.variable("varsets/"+set.ID+"/relationships/vars", "token", "t", "env", nil)
	c.want(http.StatusNoContent, http.MethodPost, "varsets/"+set.ID+"/relationships/projects", object{"data": []object{{"type": "projects", "id": relationID(t, prod, "project")}}})

	dev := c.as("devwriter")
	id := dev.create("dev-a")
	move := func(c client, status int, name string) {
		t.Helper()
		c.want(status, http.MethodPatch, "workspaces/"+id, object{"data": object{"type": "workspaces", "relationships": project(name)}})
	}
	move(dev, http.StatusForbidden, "safe")
	dev.want(http.StatusForbidden, http.MethodPost, workspaces, inside("dev-b", "safe"))
	must.Equal(t, "the workspace", keys(dev.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/all-vars", nil).items()), "")
	move(dev, http.StatusOK, "other")
	move(c, http.StatusOK, "safe")
	move(dev, http.StatusOK, "safe") // unchanged
	move(dev, http.StatusForbidden, "other")
	dev.want(http.StatusForbidden, http.MethodDelete, "workspaces/"+id, nil) // a new one would be in no project
	move(c, http.StatusOK, "other")
	dev.want(http.StatusNoContent, http.MethodDelete, "workspaces/"+id, nil)
}

// TestVariableSets: which variables of sets are in effect.
func TestVariableSets(t *testing.T) {
	host := newRegistry(t)
	c := variableServer(t, host)
	body := newWorkspace("prod")
	id := c.want(http.StatusCreated, http.MethodPost, workspaces, body).item().ID
	newSet := func(name string, attributes object) item {
		t.Helper()
		attributes["name"] = name
		return c.want(http.StatusCreated, http.MethodPost, "organizations/acme/varsets", object{"data": object{"type": "varsets", "attributes": attributes}}).item()
	}
	all, its := newSet("all", object{"global": true, "description": "for all"}), newSet("its", object{})
	if !regexp.MustCompile(`^varset-[a-zA-Z0-9]{16}$`).MatchString(its.ID) {
		t.Errorf("tfe_variable does not take %s", its.ID)
	}
	c.want(http.StatusUnprocessableEntity, http.MethodPost, "organizations/acme/varsets", object{"data": object{"type": "varsets", "attributes": object{"name": "its"}}})
	varsOf := func(set item) string { return "varsets/" + set.ID + "/relationships/vars" }
	c.variable(varsOf(all), "region", "north", "terraform", nil)
	c.variable(varsOf(all), "zone", "a", "terraform", nil)
	region := c.variable(varsOf(its), "region", "south", "terraform", nil)
	counting := func(want string) {
		t.Helper()
		must.Equal(t, "counting", keys(variableServer(t, host).want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/all-vars", nil).items()), want)
	}
	counting("terraform region=north, terraform zone=a")
	uses := func(status int, method, kind, id string) {
		t.Helper()
		c.want(status, method, "varsets/"+its.ID+"/relationships/"+kind, object{"data": []object{{"type": kind, "id": id}}})
	}
	uses(http.StatusNoContent, http.MethodPost, "workspaces", id)
	counting("terraform region=south, terraform zone=a")
	if got := c.want(http.StatusOK, http.MethodGet, "varsets/"+its.ID, nil).item(); !strings.Contains(string(got.Relationships["workspaces"].Data), id) || !strings.Contains(string(got.Relationships["vars"].Data), region.ID) {
		t.Errorf("the set is %+v", got)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "workspaces/"+id+"/varsets", nil).names(); !slices.Equal(got, []string{"all", "its"}) {
		t.Errorf("the workspace uses %v", got)
	}
	uses(http.StatusNoContent, http.MethodDelete, "workspaces", id)
	counting("terraform region=north, terraform zone=a")
	project := c.want(http.StatusOK, http.MethodGet, "organizations/acme/projects", nil).items()[0].ID
	uses(http.StatusNoContent, http.MethodPost, "projects", project)
	counting("terraform region=south, terraform zone=a")
	if got := c.want(http.StatusOK, http.MethodGet, "projects/"+project+"/varsets", nil).names(); !slices.Equal(got, []string{"all", "its"}) {
		t.Errorf("the project uses %v", got)
	}
	uses(http.StatusUnprocessableEntity, http.MethodPost, "workspaces", "ws-0123456789abcdef")
	c.want(http.StatusOK, http.MethodPatch, "varsets/"+all.ID, object{"data": object{"type": "varsets", "id": all.ID, "attributes": object{"priority": true}}})
	counting("terraform region=north, terraform zone=a")
	c.want(http.StatusNoContent, http.MethodDelete, "varsets/"+all.ID, nil)
	counting("terraform region=south")
	c.want(http.StatusNotFound, http.MethodGet, "varsets/"+all.ID, nil)
	// Replace all uses of the set at once.
	to := object{"data": object{"type": "varsets", "id": its.ID, "relationships": object{"workspaces": object{"data": []object{{"type": "workspaces", "id": id}}}, "projects": object{"data": []object{}}}}}
	if got := c.want(http.StatusOK, http.MethodPatch, "varsets/"+its.ID+"?include=workspaces", to).item(); string(got.Relationships["projects"].Data) != "[]" || !strings.Contains(string(got.Relationships["workspaces"].Data), id) {
		t.Errorf("the set is %+v", got)
	}
}

// TestVariablesOfRun gives a run the variables of its workspace, and hides sensitive ones.
func TestVariablesOfRun(t *testing.T) {
	host := newRegistry(t)
	f := newFakeRuns(host)
	c := newScript(t, newServer(t, host, setup{change: func(o *tfe.Options) { o.Runs, o.Sealer = f, newSealer(t, "k") }})).as("runner")
	body := newWorkspace("prod")
	body["data"].(object)["attributes"].(object)["execution-mode"] = "remote"
	id := c.want(http.StatusCreated, http.MethodPost, workspaces, body).item().ID
	const secret = "a-secret-that-nobody-sees"
	vars := "workspaces/" + id + "/vars"
	c.variable(vars, "size", "3", "terraform", nil)
	c.variable(vars, "list", "[1]", "terraform", object{"hcl": true})
	c.variable(vars, "TOKEN", secret, "env", object{"sensitive": true})
	run := c.run(id, object{"variables": []object{{"key": "size", "value": "7"}}})
	n := f.new[0]
	if string(n.Variables["size"]) != "7" || string(n.Variables["list"]) != "[1]" || n.Environment["TOKEN"] != secret || !slices.Contains(n.Masked, secret) {
		t.Errorf("the run has %s, %v, masked %v", n.Variables, n.Environment, n.Masked)
	}
	if got := c.want(http.StatusOK, http.MethodGet, "runs/"+run.ID, nil); bytes.Contains(got.body, []byte(secret)) {
		t.Errorf("the run shows %s", got.body)
	}
}

// TestShortIDs finds a workspace by an id never issued here.
func TestShortIDs(t *testing.T) {
	host := newRegistry(t)
	c := newScript(t, newServer(t, host, setup{}))
	id := c.create("prod")
	long := "ws-" + keyOf("acme", "prod")
	for _, ask := range []string{id, long} {
		if got := c.want(http.StatusOK, http.MethodGet, "workspaces/"+ask, nil).item().ID; got != ask {
			t.Errorf("asked by %s it is %s", ask, got)
		}
	}
	tool := c
	tool.tool = "1.12.6"
	if got := tool.read("prod"); !strings.HasPrefix(got, long+".") {
		t.Errorf("a tool gets %s", got)
	}
	fresh := func() (client, *ocitest.Count) {
		count := &ocitest.Count{}
		return newScript(t, newServer(t, host, setup{via: count})), count
	}
	by, count := fresh()
	must.Equal(t, "a process that never saw it finds", by.want(http.StatusOK, http.MethodGet, "workspaces/"+id, nil).item().Attributes["name"], "prod")
	count.Take()
	by.want(http.StatusOK, http.MethodGet, "workspaces/"+id, nil)
	if got := count.Total(); got != 1 {
		t.Errorf("found before, it takes %d requests, want the list alone", got)
	}
	// A caller that may not read a workspace cannot tell whether it exists.
	for _, by := range []client{c, by} {
		for _, path := range []string{"workspaces/" + id, "workspaces/" + id + "/vars", "workspaces/ws-0123456789abcdef"} {
			by.as("dev").want(http.StatusNotFound, http.MethodGet, path, nil)
			by.as("").want(http.StatusUnauthorized, http.MethodGet, path, nil)
		}
	}
	none, count := fresh()
	none.want(http.StatusNotFound, http.MethodGet, "workspaces/ws-0123456789abcdef", nil)
	none.as("").want(http.StatusUnauthorized, http.MethodGet, "workspaces/"+id, nil)
	none.as("other").want(http.StatusNotFound, http.MethodGet, "workspaces/"+id, nil)
	if got := count.Total(); got != 0 {
		t.Errorf("ids of nothing that the caller may see take %d requests", got)
	}
}

// TestNewOrganization finds a workspace in an organization made since.
func TestNewOrganization(t *testing.T) {
	host := newRegistry(t)
	var mu sync.Mutex // guards the two
	all, listed := []string{"acme"}, []string{}
	entered := make(chan struct{})
	served := func() client {
		return newScript(t, newServer(t, host, setup{change: func(o *tfe.Options) {
			o.Organizations = func(context.Context, access.Grant) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(listed), nil
			}
			o.Renew = func() {
				mu.Lock()
				defer mu.Unlock()
				listed = slices.Clone(all)
			}
			o.Wrote = func(_ context.Context, name string) <-chan struct{} {
				go func() {
					mu.Lock()
					defer mu.Unlock()
					if name == "other" && len(all) == 1 {
						all = append(all, name)
						close(entered)
					}
				}()
				return entered
			}
		}})).as("admin")
	}
	c, far := served(), served()
	far.want(http.StatusNotFound, http.MethodGet, "workspaces/ws-0123456789abcdef", nil)
	id := c.want(http.StatusCreated, http.MethodPost, "organizations/other/workspaces", newWorkspace("prod")).item().ID
	must.Equal(t, "found", far.want(http.StatusOK, http.MethodGet, "workspaces/"+id, nil).item().Attributes["name"], "prod")
}
