// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
)

// recorder forwards requests and records their shapes.
type recorder struct {
	proxy *httputil.ReverseProxy

	mu   sync.Mutex // guards sent
	sent []string
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	part := strings.Split(strings.TrimPrefix(req.URL.Path, "/api/v2/"), "/")
	for i, p := range part {
		if strings.HasPrefix(p, "ws-") || strings.HasPrefix(p, "sv-") || strings.HasPrefix(p, "wsout-") || i > 0 && part[i-1] == "uploads" {
			part[i] = "*"
		}
	}
	r.mu.Lock()
	r.sent = append(r.sent, req.Method+" "+strings.Join(part, "/"))
	r.mu.Unlock()
	r.proxy.ServeHTTP(w, req)
}

// take returns the shapes since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent := r.sent
	r.sent = nil
	return sent
}

// TestCloudRequests runs every command of the tools and requires exactly the expected requests,
// and bounds the requests of the server to the registry.
//
// Shows: cloud 2 | every command and `terraform_remote_state`: exactly the expected requests, and
// how many requests to the registry they cause; what the tools refuse themselves
func TestCloudRequests(t *testing.T) { eachTool(t, testCloudRequests) }

func testCloudRequests(t *testing.T, c *cloud) {
	w := watch(c)
	for _, block := range []string{"cloud", `backend "remote"`} {
		kind := strings.Fields(block)[0]
		s := shapesOf(block == "cloud", c.tool == c.set.tofu)
		s.newest = strings.Contains(versionOf(t, c.tool), "Terraform v1.16")
		c.folder(kind, block, `name = "`+kind+`"`, "true")
		w.wants(kind, s.commands()...)
		w.raise(kind)
		w.wants(kind, s.push())
		w.lock(kind)
		w.wants(kind, s.forceUnlock("acme/"+kind))
		w.unnamed(kind, block == "cloud")

		many, selects, prefix := kind+"-many", `tags = ["many"]`, ""
		if block != "cloud" {
			selects, prefix = `prefix = "many-"`, "many-"
		}
		c.folder(many, block, selects, "true")
		w.create(prefix+"first", "many")
		c.env = []string{"TF_WORKSPACE=first"} // the tool cannot ask for one
		c.must(many, w.at, "init")
		c.env = nil
		w.wants(many, s.workspaces()...)

		c.must(kind, w.at, "apply", "-auto-approve") // the state is empty since the destroy
		w.reader(kind+"-reader", kind)
		w.wants(kind+"-reader", reading()...)
	}
}

// unnamed runs commands for many workspaces in a folder that names one: `cloud` selects it.
func (w *watched) unnamed(folder string, cloud bool) {
	w.t.Helper()
	for _, args := range [][]string{{"workspace", "list"}, {"workspace", "select", folder}} {
		if cloud {
			w.wants(folder, cloudCommand{args, begin, 0})
		} else {
			w.refuses(folder, "workspaces not supported", args...)
		}
	}
	w.refuses(folder, "workspaces not supported", "workspace", "new", "other")
	why := "workspaces not supported"
	if cloud {
		why = "doesn't exist"
	}
	w.refuses(folder, why, "workspace", "delete", "other")
}

// watched is a server with counted requests, got and sent.
type watched struct {
	*cloud
	recorder
	client *tfe.Client // past the recorder
	at     string      // before the recorder
	asked  recorder    // before the registry
}

func watch(c *cloud) *watched {
	c.t.Helper()
	w := &watched{cloud: c}
	w.asked.proxy = towards(c.t, c.registry())
	_, addr := c.serve("one", inFront(c.t, w.asked.ServeHTTP), "127.0.0.1:0")
	w.proxy = towards(c.t, addr)
	w.at = inFront(c.t, w.ServeHTTP)
	client := must(tfe.NewClient(&tfe.Config{Address: "http://" + addr, BasePath: "/api/v2/", Token: "any"}))(c.t)
	w.client = client
	return w
}

// workspaceName matches the name in the shape of a request.
var workspaceName = regexp.MustCompile(`(organizations/acme/workspaces/)[^/\s]+`)

// anew resets counts and closes the connection, by which the server recognizes a command.
func (w *watched) anew() {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	w.take()
	w.asked.take()
}

// states returns requests to the registry since the last call, without the queue's and, each half minute, the search's.
func (w *watched) states() []string {
	return slices.DeleteFunc(w.asked.take(), regexp.MustCompile(` /v2/(queue|catalog)/`).MatchString)
}

// wants runs commands in a folder, and checks the requests of each.
func (w *watched) wants(folder string, commands ...cloudCommand) {
	w.t.Helper()
	for _, cmd := range commands {
		w.anew()
		began := time.Now()
		w.must(folder, w.at, cmd.args...)
		most := cmd.budget
		if time.Since(began) > sameList {
			most += 2
		}
		asked := w.states()
		if slices.ContainsFunc(asked, func(s string) bool { return strings.HasPrefix(s, "PUT ") }) {
			most += 3 // for the index of what states use: a list, the new version, and that of the command before if it is late
		}
		w.t.Logf("%s: %v: %d requests at the registry", folder, cmd.args, len(asked))
		if len(asked) > most {
			w.t.Errorf("%s: %v cost %d requests at the registry, want at most %d\n%s", folder, cmd.args, len(asked), most, strings.Join(asked, "\n"))
		}
		w.sentIs(folder, cmd.args, cmd.sends)
	}
}

// sentIs checks the requests since the last call.
func (w *watched) sentIs(folder string, args, want []string) {
	w.t.Helper()
	got := workspaceName.ReplaceAllString(strings.Join(w.take(), "\n"), "${1}NAME")
	if want := strings.Join(want, "\n"); got != want {
		w.t.Errorf("%s: %v sent\n%s\nwant\n%s", folder, args, got, want)
	}
}

// refuses runs a command that the tool itself refuses for a reason, without a request for it.
func (w *watched) refuses(folder, why string, args ...string) {
	w.t.Helper()
	w.anew()
	if out, err := w.run(folder, w.at, args...); err == nil || !strings.Contains(out, why) {
		w.t.Errorf("%s: %v: %v, want %q in\n%s", folder, args, err, why, out)
	}
	if asked := w.states(); len(asked) > 0 {
		w.t.Errorf("%s: %v is refused by the tool, and cost\n%s", folder, args, strings.Join(asked, "\n"))
	}
	w.sentIs(folder, args, begin)
}

var serialOf = regexp.MustCompile(`"serial": *[0-9]+`)

// raise writes the state of a folder to raised.tfstate, with a higher serial.
func (w *watched) raise(folder string) {
	w.t.Helper()
	state := w.must(folder, w.at, "state", "pull")
	raised := serialOf.ReplaceAllString(state, `"serial": 1000`)
	if raised == state {
		w.t.Fatalf("%s: a state without a serial:\n%s", folder, state)
	}
	succeed(w.t, os.WriteFile(filepath.Join(w.dir, folder, "raised.tfstate"), []byte(raised), 0o600))
}

// lock locks a workspace like a script would.
func (w *watched) lock(name string) {
	w.t.Helper()
	found, err := w.client.Workspaces.Read(w.t.Context(), "acme", name)
	if err == nil {
		_, err = w.client.Workspaces.Lock(w.t.Context(), found.ID, tfe.WorkspaceLockOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// create makes a workspace with a tag.
func (w *watched) create(name, tag string) {
	w.t.Helper()
	must(w.client.Workspaces.Create(w.t.Context(), "acme", tfe.WorkspaceCreateOptions{Name: &name, Tags: []*tfe.Tag{{Name: tag}}}))(w.t)
}

// remoteState outputs the output of a workspace that a `cloud` block may also use.
const remoteState = `data "terraform_remote_state" "of" {
  backend = "remote"
  config = {
    hostname     = "okara.test"
    organization = "acme"
    workspaces   = { name = %q }
  }
}

output "text" {
  value = data.terraform_remote_state.of.outputs.text
}
`

func (w *watched) reader(folder, workspace string) {
	w.t.Helper()
	succeed(w.t, os.Mkdir(filepath.Join(w.dir, folder), 0o755))
	succeed(w.t, os.WriteFile(filepath.Join(w.dir, folder, "main.tf"), fmt.Appendf(nil, remoteState, workspace), 0o644))
}

// sameList is how long one tag list serves a command; a slower one costs two more.
const sameList = 2 * time.Second

// cloudCommand is a command, its requests, and the most of the server for it.
type cloudCommand struct {
	args, sends []string
	budget      int
}

// The shapes of requests.
const (
	read     = "GET organizations/acme/workspaces/NAME"
	list     = "GET organizations/acme/workspaces"
	lock     = "POST workspaces/*/actions/lock"
	current  = "GET workspaces/*/current-state-version"
	download = "GET state-versions/*/download"
	unlock   = "POST workspaces/*/actions/unlock"
)

// begin are the first requests of each process of a tool.
var begin = []string{"GET ping", "GET organizations/acme/entitlement-set"}

// join puts requests after the first ones.
func join(parts ...[]string) []string {
	return slices.Concat(append([][]string{begin}, parts...)...)
}

// shapes are requests in which `cloud` and backend "remote" differ.
type shapes struct {
	made, write, outputs, tags, deleted []string

	newest, cloud bool // newest: of Terraform 1.16
}

func shapesOf(cloud, tofu bool) shapes {
	if !cloud {
		return shapes{
			made:    []string{read, "POST organizations/acme/workspaces"},
			write:   []string{"POST workspaces/*/state-versions", "PUT uploads/*", "GET state-versions/*"},
			outputs: []string{read, current, download},
			deleted: []string{"DELETE organizations/acme/workspaces/NAME"},
		}
	}
	s := shapes{ // sends a second copy, requests outputs, and only deletes workspaces without resources
		made:    []string{read, "POST organizations/acme/workspaces", "PATCH workspaces/*"},
		write:   []string{"POST workspaces/*/state-versions", "PUT uploads/*", "PUT uploads/*", "GET state-versions/*"},
		outputs: []string{read, "GET workspaces/*/current-state-version-outputs"},
		deleted: []string{read, "POST organizations/acme/workspaces/NAME/actions/safe-delete"},
		cloud:   true,
	}
	if !tofu { // Terraform's tags may have values
		s.tags = []string{"GET workspaces/*/tag-bindings"}
	}
	return s
}

func versionOf(t *testing.T, tool string) string {
	t.Helper()
	cmd := exec.Command(tool, "version")
	cmd.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+os.DevNull)
	return string(must(cmd.Output())(t))
}

// change returns the requests of a command that writes a state.
func (s shapes) change() []string {
	return join([]string{read, read, lock, current, download}, s.write, []string{unlock})
}

// commands returns the commands for one workspace, selected by name.
func (s shapes) commands() []cloudCommand {
	look := []string{read, current, download}
	console, shown := []string{read, lock, current, download, unlock}, slices.Concat(look, look)
	if s.newest { // does not lock for the console
		console = look
	}
	if s.newest && s.cloud {
		console, shown = slices.Concat(look, []string{read, read}), slices.Concat(look, []string{read, read}, look)
	}
	plan := join([]string{read, read, lock, current, download, unlock})
	move := join([]string{read, read, lock, current, download}, begin, s.write, []string{unlock}) // the tools send the first requests twice
	return []cloudCommand{
		{[]string{"init"}, join(s.made, []string{current}), 11},
		{[]string{"apply", "-auto-approve"}, join([]string{read, read, lock, current, current}, s.write, []string{unlock}), 20}, // the first of a server, which probes the registry
		{[]string{"plan"}, plan, 9},
		{[]string{"apply", "-auto-approve"}, plan, 9},
		{[]string{"apply", "-auto-approve", "-var", "text=second"}, s.change(), 14},
		{[]string{"refresh", "-var", "text=second"}, plan, 9},
		{[]string{"console"}, join(console), 9},
		{[]string{"state", "list"}, join(look), 5},
		{[]string{"state", "pull"}, join(look), 5},
		{[]string{"state", "show", "terraform_data.one"}, join(shown), 9},
		{[]string{"show"}, join(look), 5},
		{[]string{"taint", "terraform_data.one"}, s.change(), 14},
		{[]string{"untaint", "terraform_data.one"}, s.change(), 14},
		{[]string{"output"}, join(s.outputs), 5},
		{[]string{"state", "mv", "terraform_data.one", "terraform_data.two"}, move, 14},
		{[]string{"state", "rm", "terraform_data.two"}, move, 14},
		{[]string{"import", "-var", "text=second", "terraform_data.one", "x"}, join([]string{read, read, lock, current, download, read, read}, s.write, []string{unlock}), 17},
		{[]string{"destroy", "-auto-approve"}, s.change(), 14},
		{[]string{"workspace", "show"}, nil, 0},
	}
}

// push stores the state written by raise.
func (s shapes) push() cloudCommand {
	return cloudCommand{[]string{"state", "push", "raised.tfstate"}, s.change(), 14}
}

// forceUnlock costs a list more: it also ends what was claimed since the first.
func (s shapes) forceUnlock(id string) cloudCommand {
	return cloudCommand{[]string{"force-unlock", "-force", id}, join([]string{read, "POST workspaces/*/actions/force-unlock"}), 20} // it copies the head, as the next holder would
}

// workspaces returns the commands of a folder with many workspaces, one of them "first".
func (s shapes) workspaces() []cloudCommand {
	return []cloudCommand{
		{[]string{"workspace", "list"}, join([]string{list}), 1},
		{[]string{"workspace", "new", "second"}, join([]string{list}, s.made, s.tags), 7},
		{[]string{"workspace", "select", "first"}, join([]string{list}), 1},
		{[]string{"plan"}, join([]string{read, read}, s.tags, []string{lock, current, unlock}), 9},
		{[]string{"workspace", "delete", "second"}, join([]string{list, read}, s.tags, []string{lock, current, unlock}, s.deleted), 22},
	}
}

// reading returns the commands of a folder that reads the outputs of another.
func reading() []cloudCommand {
	return []cloudCommand{
		{[]string{"init"}, nil, 0},
		{[]string{"plan"}, join([]string{read, current, download}), 5},
	}
}
