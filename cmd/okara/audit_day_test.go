// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/cli"
	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/tofutest"
)

const dayConfig = `
instances {
  templates = %q
  unsealed  = true
}
executor "local" {
  program   = %q
  isolation = "wrap"
  wrap      = ["env"]
}
`

const dayTemplate = `
template "sandbox/net" {
  title = "A network"
  module {
    address = "net/dns/aws"
    version = "~> 1.0"
  }
  per_owner = 1
  approval  = "request"
  ttl {
    default = "1h"
    max     = "8h"
  }
}
`

// TestRecordOfADay lets five people do thirty things to a server with its own registry,
// and more, by every door: /v2/ with commands, the wrapper and a plain push, the API, backend
// "http", the cloud block, pages. Each act is one line, from which a stranger could tell the day.
//
// Shows: mistakes 39 | changes through `/v2/` or backend `http`, and those that the server made
// itself, were not in the audit log; refused requests were logged as changes | one act by any door
// is one record, with who, what, to what and the outcome
func TestRecordOfADay(t *testing.T) {
	d := newDay(t)
	info := func(id string) string {
		return `{"ID":"` + id + `","Operation":"OperationTypeApply","Who":"carla","Created":"2026-11-22T12:00:00Z"}`
	}
	workspace := func(path, body string, want int) {
		var doc struct{ Data struct{ ID string } }
		must.Succeed(t, json.Unmarshal([]byte(d.ask(http.MethodGet, "/api/v2/organizations/acme/workspaces/prod", "", http.StatusOK)), &doc))
		d.ask(http.MethodPost, "/api/v2/workspaces/"+doc.Data.ID+"/actions/"+path, body, want)
	}
	app := d.host + "/state/app"
	for _, act := range []struct {
		who, line string
		do        func()
	}{
		// Commands over /v2/.
		{"anna", "publish module net/dns/aws 1.0.0", func() { d.okara("publish", "module", d.module, "net/dns/aws", "1.0.0", "--registry", d.host) }},
		{"anna", "publish module net/dns/aws 1.1.0", func() { d.okara("publish", "module", d.module, "net/dns/aws", "1.1.0", "--registry", d.host) }},
		{"ben", "deprecate module net/dns/aws 1.0.0", func() { d.okara("deprecate", "net/dns/aws@1.0.0", "--registry", d.host) }},
		{"anna", "yank module net/dns/aws 1.1.0", func() { d.okara("yank", "net/dns/aws@1.1.0", "--registry", d.host) }},
		{"anna", "unyank module net/dns/aws 1.1.0", func() { d.okara("yank", "net/dns/aws@1.1.0", "--undo", "--registry", d.host) }},
		{"carla", "write state app/dev 1 push", func() { d.okara("state", "push", app, d.state(1), "-w", "dev") }},
		{"carla", "write state app/dev 2 push", func() { d.okara("state", "push", app, d.state(2), "-w", "dev") }},
		{"dora", "restore state app/dev 3 from 1", func() { d.okara("state", "restore", app, "1", "-w", "dev") }},
		{"carla", "delete state app/dev 4", func() { d.okara("state", "delete", app, "-w", "dev", "--yes") }},
		{"dora", "prune state app/dev 3 versions: 1-3", func() { d.okara("state", "prune", app, "-w", "dev", "--keep", "1", "--yes") }},
		{"ben", "push module net/dns/aws tag mine", func() {
			manifest := d.ask(http.MethodGet, "/v2/modules/net/dns/aws/manifests/1.0.0", "", http.StatusOK)
			d.ask(http.MethodPut, "/v2/modules/net/dns/aws/manifests/mine", manifest, http.StatusCreated)
		}},
		// The wrapper.
		{"dora", "lock state root/default; dora write state root/default 1; dora unlock state root/default", d.apply},
		// Commands over the API of the server.
		{"anna", "publish module net/vpc/aws 1.0.0", func() { d.okara("publish", "module", d.module, "net/vpc/aws", "1.0.0", "--server", d.url) }},
		{"ben", "yank module net/vpc/aws 1.0.0", func() { d.okara("yank", "net/vpc/aws@1.0.0", "--server", d.url) }},
		{"ben", "unyank module net/vpc/aws 1.0.0", func() { d.okara("yank", "net/vpc/aws@1.0.0", "--undo", "--server", d.url) }},
		{"dora", "deprecate module net/vpc/aws 1.0.0", func() { d.okara("deprecate", "net/vpc/aws@1.0.0", "--server", d.url) }},
		// Backend "http".
		{"carla", "lock state web/dev lock-1", func() { d.ask("LOCK", "/state/web/dev", info("lock-1"), http.StatusOK) }},
		{"carla", "write state web/dev 1 lock-1; carla write state web/dev lock-2 refused", func() {
			d.ask(http.MethodPost, "/state/web/dev?ID=lock-1", d.text(1), http.StatusOK)
			d.ask(http.MethodPost, "/state/web/dev?ID=lock-2", d.text(2), http.StatusConflict)
			d.ask(http.MethodPost, "/state/web/dev?ID=lock-1", d.text(1), http.StatusOK) // again
		}},
		{"carla", "unlock state web/dev lock-1", func() { d.ask("UNLOCK", "/state/web/dev", info("lock-1"), http.StatusOK) }},
		{"dora", "lock state web/dev lock-3", func() { d.ask("LOCK", "/state/web/dev", info("lock-3"), http.StatusOK) }},
		{"anna", "force-unlock state web/dev lock-3", func() { d.ask("UNLOCK", "/state/web/dev", "", http.StatusOK) }},
		{"anna", "delete state web/dev 100003", func() { d.ask(http.MethodDelete, "/state/web/dev", "", http.StatusOK) }},
		{"dora", "lock state web/dev lock-4", func() { d.ask("LOCK", "/state/web/dev", info("lock-4"), http.StatusOK) }},
		{"anna", "force-unlock state web/dev lock-4", func() { d.okara("state", "unlock", d.host+"/state/web", "-w", "dev", "--id", "lock-4", "--yes") }},
		{"carla", "write state app/sealed 1 push", func() { d.okara("state", "push", app, d.state(1), "-w", "sealed", "--key", d.key("old")) }},
		{"dora", "push state app/sealed 1", func() { // the server has no key to check what it is
			d.okara("state", "rekey", app, "-w", "sealed", "--key", d.key("old"), "--new-key", d.key("new"))
		}},
		{"gina", "push state app/sealed 1", func() { // who may not read the variables beside it
			d.okara("state", "rekey", app, "-w", "sealed", "--key", d.key("new"), "--new-key", d.key("next"), "--all-versions")
		}},
		// The API of the cloud block.
		{"dora", "create state acme/prod", func() { d.okara("workspace", "create", "acme/prod", "--server", d.url) }},
		{"dora", "lock state acme/prod", func() { workspace("lock", `{"reason":"later"}`, http.StatusOK) }},
		{"anna", "force-unlock state acme/prod", func() { workspace("force-unlock", "", http.StatusOK) }},
		{"dora", "delete state acme/prod", func() { d.okara("workspace", "delete", "acme/prod", "--server", d.url, "--yes") }},
		// Pages and instances.
		{"anna", "login *", func() { d.ask(http.MethodPost, "/ui/login", "token="+dayToken("anna"), http.StatusSeeOther) }},
		{"emil", "create instance sandbox/net/ID", func() {
			d.lead()
			d.okara("instance", "create", "sandbox/net", "--server", d.url)
			d.okara("instance", "create", "sandbox/net", "--server", d.url) // is there already
		}},
		{"anna", "reject instance sandbox/net/ID", func() {
			page := "/ui/instances/" + d.instance() + "/reject"
			key := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(d.ask(http.MethodGet, page, "", http.StatusOK))
			d.ask(http.MethodPost, page, url.Values{"key": key[1:], "reason": {"no"}}.Encode(), http.StatusSeeOther)
		}},
		{"emil", "create instance sandbox/net/ID", func() { d.okara("instance", "create", "sandbox/net", "--server", d.url) }},
		{"emil", "destroy instance sandbox/net/ID", func() { d.okara("instance", "destroy", d.instance(), "--server", d.url) }},
	} {
		d.want = append(d.want, strings.Split(act.who+" "+act.line, "; ")...)
		d.as(act.who)
		act.do()
		d.as("anna")
		if got := d.lines(); len(got) != len(d.want) {
			t.Errorf("%s %s: %d records, want %d", act.who, act.line, len(got), len(d.want))
			d.want = got // so that the next act is judged by itself
		}
	}
	must.Match(t, "the record of the day", d.lines(), d.want)
	page := must.Get(os.ReadFile("../../docs/operate/audit.md"))(t)
	for _, line := range d.want {
		if action := strings.Fields(line)[1]; !strings.Contains(string(page), "`"+action+"`") {
			t.Errorf("docs/operate/audit.md does not name %q", action)
		}
	}
	// A refused token is identified by its ID.
	d.token = dayToken("ben") + "x"
	d.ask(http.MethodGet, "/v1/catalog", "", http.StatusUnauthorized)
	d.as("anna")
	refused := func(e auditlog.Entry) bool { return e.Mode == "refused" && e.Subject == "ben" }
	if !slices.ContainsFunc(d.records("what=decisions&decision=denied"), refused) {
		t.Error("a refused token is not among the decisions")
	}
}

// day is a server, and the people who use it.
type day struct {
	t           *testing.T
	c           *person
	url, host   string
	token       string
	module      string
	want        []string
	transparent *http.Client
}

func dayToken(who string) string { return "oks_" + who + "_0123456789abcdefghijklmno" }

func newDay(t *testing.T) *day {
	d := &day{t: t, c: newPerson(t)}
	var tokens strings.Builder
	for _, who := range []string{"anna", "ben", "carla", "dora"} {
		fmt.Fprintln(&tokens, dayToken(who), "admin:*:** admin:instance:** publish:*:** write:state:** run:state:** use:instance:** approve:instance:**")
	}
	fmt.Fprintln(&tokens, dayToken("emil"), "use:instance:sandbox/*")
	fmt.Fprintln(&tokens, dayToken("gina"), "write:state:app")
	config := d.c.file("okara.hcl", fmt.Sprintf(dayConfig, filepath.Dir(d.c.file("templates/net.hcl", dayTemplate)), tofutest.Tofu(t)))
	server := newServeProcess(t, nil, "--token-file", d.c.file("tokens", tokens.String()), "--config", config)
	t.Cleanup(func() { _ = server.cmd.Wait() }) // the end of the test kills it
	d.url = server.url
	d.host = strings.TrimPrefix(d.url, "http://")
	d.module = filepath.Dir(d.c.file("vpc/main.tf", "# x\n"))
	d.transparent = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return d
}

// as lets somebody do what follows.
func (d *day) as(who string) {
	d.token = dayToken(who)
	d.c.env = map[string]string{"OKARA_REGISTRY": d.host, "OKARA_TOKEN": d.token, "OKARA_USERNAME": who, "OKARA_PASSWORD": d.token}
}

// lead waits until the server answers about instances.
func (d *day) lead() {
	d.t.Helper()
	waitFor(d.t, "a server leads", func() bool {
		code, _, errOut := d.c.run(d.t, "instance", "create", "sandbox/net", "--ttl", "99h", "--server", d.url) // never allowed
		return code == cli.ExitUsage || strings.Contains(errOut, "99h") || strings.Contains(errOut, "at most")
	})
}

// instance returns the newest instance.
func (d *day) instance() string {
	d.t.Helper()
	_, out, _ := d.c.run(d.t, "instance", "list", "--server", d.url)
	id := regexp.MustCompile(`(?m)^([a-z2-9]{10})\b`).FindStringSubmatch(out)
	if id == nil {
		d.t.Fatalf("no instance in\n%s", out)
	}
	return id[1]
}

// lines returns the records of changes, oldest first, as sentences.
func (d *day) lines() (lines []string) {
	d.t.Helper()
	id := regexp.MustCompile(`[a-z2-9]{10}$`)
	for _, e := range slices.Backward(d.records("")) {
		if e.ClientIP != "127.0.0.1" || e.Outcome == "" || e.Time.IsZero() {
			d.t.Errorf("a record without address, outcome or time: %+v", e)
		}
		from := e.From
		if from != "" {
			from = "from " + from
		}
		lock := e.Lock
		if !strings.HasPrefix(lock, "lock-") {
			lock = "" // of a command: random
		}
		address := e.Address
		if e.Kind == "instance" {
			address = id.ReplaceAllString(address, "ID")
		}
		detail := e.Detail
		if e.Outcome != "done" {
			detail = e.Outcome
		} else if detail != "push" && !strings.HasPrefix(detail, "tag ") && !strings.HasSuffix(detail, "1-3") {
			detail = ""
		}
		lines = append(lines, strings.Join(strings.Fields(strings.Join([]string{e.Subject, e.Action, e.Kind, address, e.Version, from, lock, detail}, " ")), " "))
	}
	return lines
}

// apply applies a root module whose state is in the server's own registry.
func (d *day) apply() {
	d.t.Helper()
	dir := filepath.Dir(d.c.file("root/main.tf", fmt.Sprintf(`terraform {
  backend "oci" {
    repository = %q
  }
}

resource "terraform_data" "one" {
  input = "one"
}
`, d.host+"/state/root")))
	for _, args := range [][]string{{"tofu", "init"}, {"tofu", "apply", "-auto-approve"}} {
		cmd := exec.CommandContext(d.t.Context(), "okara", args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + d.c.home, "PATH=" + filepath.Dir(tofutest.Tofu(d.t)) + string(os.PathListSeparator) + os.Getenv("PATH"), "CHECKPOINT_DISABLE=1"}
		for k, v := range d.c.env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			d.t.Fatalf("okara %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func (d *day) okara(args ...string) {
	d.t.Helper()
	if code, out, errOut := d.c.run(d.t, args...); code != cli.ExitOK {
		d.t.Fatalf("okara %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errOut)
	}
}

func (d *day) ask(method, path, body string, want int) string {
	d.t.Helper()
	req := must.Get(http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body)))(d.t)
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Content-Type", "application/json")
	switch {
	case strings.HasPrefix(path, "/v2/"):
		req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
	case strings.HasPrefix(path, "/api/v2/"):
		req.Header.Set("Content-Type", "application/vnd.api+json")
	}
	if strings.HasPrefix(path, "/ui/") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if path == "/ui/login" {
		req.Header.Del("Authorization")
	}
	resp := must.Get(d.transparent.Do(req))(d.t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		d.t.Fatalf("%s %s: status %d, want %d, %v\n%s", method, path, resp.StatusCode, want, err, text)
	}
	return string(text)
}

// records returns the records that a query of the audit log finds.
func (d *day) records(query string) []auditlog.Entry {
	d.t.Helper()
	var doc struct{ Records []auditlog.Entry }
	must.Succeed(d.t, json.Unmarshal([]byte(d.ask(http.MethodGet, "/api/v1/audit?"+query, "", http.StatusOK)), &doc))
	return doc.Records
}

func (d *day) text(serial int) string {
	return `{"version":4,"terraform_version":"1.12.6","serial":` + string(rune('0'+serial)) + `,"lineage":"a","outputs":{},"resources":[]}`
}

func (d *day) key(name string) string {
	return d.c.file(name+".key", fmt.Sprintf("%064x", name))
}

func (d *day) state(serial int) string {
	return d.c.file("state"+string(rune('0'+serial))+".json", d.text(serial))
}
