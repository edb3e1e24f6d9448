// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/auditlog"
	"github.com/seed-141914ff/okara/internal/cli"
)

// doorRow matches a row of the table of docs/operate/audit.md: an interface, and how its
// changes are recorded.
var doorRow = regexp.MustCompile("(?m)^\\| (`/[^`]+`|the server itself)[^|]*\\| ([^|]+) \\|$")

// shownElsewhere lists the interfaces that need more than a server to test, with the tests
// that use them.
var shownElsewhere = map[string]string{
	"`/hooks/github`":   "TestHook in registry",
	"the server itself": "TestOwnActs in instances/portal",
}

// TestAuditDoors uses the interfaces that docs/operate/audit.md lists, with real clients and
// a real server with its own registry: each change is one record with actor, action, source
// address and outcome, and a refused request is no record of a change.
//
// Shows: mistakes 39 | changes through `/v2/` or backend `http`, and those that the server made
// itself, were not in the audit log; refused requests were logged as changes | each interface
// writes its records, with an outcome; the test covers the table of `docs/operate/audit.md`
func TestAuditDoors(t *testing.T) {
	d := newDoors(t)
	walk := map[string]func(){
		"`/v1/`": func() {
			d.okara("publish", "module", d.module, "net/vpc/aws", "1.0.0", "--server", d.url)
			d.okara("publish", "module", d.module, "net/vpc/aws", "1.1.0", "--server", d.url)
			for _, verb := range []string{"deprecate", "yank"} {
				d.okara(verb, "net/vpc/aws@1.0.0", "--server", d.url)
				d.wants(verb, "module", "net/vpc/aws", "1.0.0")
				d.okara(verb, "net/vpc/aws@1.0.0", "--undo", "--server", d.url)
				d.wants("un"+verb, "module", "net/vpc/aws", "1.0.0")
			}
			d.wants("publish", "module", "net/vpc/aws", "1.1.0")
		},
		"`/v2/`": func() {
			d.okara("publish", "module", d.module, "net/dns/aws", "1.0.0", "--registry", d.host)
			d.wants("publish", "module", "net/dns/aws", "1.0.0")
			d.okara("yank", "net/dns/aws@1.0.0", "--delete-tag", "--registry", d.host)
			d.wants("yank", "module", "net/dns/aws", "1.0.0")
			d.wants("delete", "module", "net/dns/aws", "1.0.0")
			for serial, version := range []string{"1", "2", "3"} {
				d.okara("state", "push", d.host+"/state/app", d.state(serial+1), "-w", "dev")
				d.wants("write", "state", "app/dev", version)
			}
			d.okara("state", "prune", d.host+"/state/app", "-w", "dev", "--keep", "1", "--yes")
			d.wants("delete", "state", "app", "")
		},
		"`/state/`": func() {
			const info = `{"ID":"lock-1","Operation":"apply","Who":"anna","Created":"2026-11-22T12:00:00Z"}`
			d.ask("LOCK", "/state/web/dev", info, http.StatusOK)
			d.wants("lock", "state", "web/dev", "")
			d.ask(http.MethodPost, "/state/web/dev?ID=lock-1", d.text(1), http.StatusOK)
			d.wants("write", "state", "web/dev", "1")
			before := d.count()
			d.ask(http.MethodPost, "/state/web/dev?ID=lock-2", d.text(2), http.StatusConflict)
			d.ask(http.MethodPost, "/state/web/dev?ID=lock-1", d.text(1), http.StatusOK) // again
			if now := d.count(); now != before {
				t.Errorf("a refused write and a repeated one are %d changes", now-before)
			}
			d.ask("UNLOCK", "/state/web/dev", info, http.StatusOK)
			d.wants("unlock", "state", "web/dev", "")
			d.ask("LOCK", "/state/web/dev", info[:1]+strings.Replace(info[1:], "lock-1", "lock-3", 1), http.StatusOK)
			d.ask("UNLOCK", "/state/web/dev", "", http.StatusOK)
			d.wants("force-unlock", "state", "web/dev", "")
			d.ask(http.MethodDelete, "/state/web/dev", "", http.StatusOK)
			d.wants("delete", "state", "web/dev", "")
		},
		"`/api/v2/`": func() {
			d.okara("workspace", "create", "acme/prod", "--server", d.url)
			d.wants("create", "state", "acme/prod", "")
			d.okara("workspace", "delete", "acme/prod", "--server", d.url, "--yes")
			d.wants("delete", "state", "acme/prod", "")
		},
		"`/api/v1/`": func() {
			d.ask(http.MethodPost, "/ui/login", "token="+serveToken, http.StatusSeeOther)
			d.wants("login", "*", "", "")
		},
	}
	page, err := os.ReadFile("../../docs/operate/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := doorRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(walk)+len(shownElsewhere) {
		t.Errorf("docs/operate/audit.md has %d doors, and this test knows %d", len(rows), len(walk)+len(shownElsewhere))
	}
	for _, row := range rows {
		door, actions := row[1], row[2]
		if shownElsewhere[door] != "" {
			continue
		}
		t.Run(door, func(t *testing.T) {
			d.t, d.made = t, nil
			through := walk[door]
			if through == nil {
				t.Fatal("nothing goes through this door")
			}
			through()
			for _, action := range d.made {
				if !strings.Contains(actions, "`"+action+"`") && !strings.Contains(string(page), "`"+action+"`") {
					t.Errorf("docs/operate/audit.md does not name %q", action)
				}
			}
		})
	}
	// A refused token is identified by its ID.
	d.t = t
	d.token = serveToken + "x"
	d.ask(http.MethodGet, "/v1/catalog", "", http.StatusUnauthorized)
	d.token = serveToken
	d.each("what=decisions&decision=denied&actor=ci", func(e auditlog.Entry) bool { return e.Mode == "refused" && e.Subject == "ci" })
}

// doors is a server, and its clients.
type doors struct {
	t           *testing.T
	c           homeUser
	url, host   string
	token       string
	module      string
	made        []string // actions that were recorded
	transparent *http.Client
}

func newDoors(t *testing.T) *doors {
	d := &doors{t: t, c: newClientHome(t), token: serveToken}
	tokens := d.c.file(t, "tokens", serveToken+" admin:*:** publish:*:** write:state:**\n")
	d.url, _, _ = newServerIn(t, nil, "--storage", filepath.Join(t.TempDir(), "store"), "--token-file", tokens)
	d.host = strings.TrimPrefix(d.url, "http://")
	d.module = filepath.Dir(d.c.file(t, "vpc/main.tf", "# x\n"))
	d.c.env = map[string]string{"OKARA_TOKEN": serveToken, "OKARA_USERNAME": "ci", "OKARA_PASSWORD": serveToken, "OKARA_REGISTRY": d.host}
	d.transparent = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return d
}

func (d *doors) okara(args ...string) {
	d.t.Helper()
	if code, out, errOut := d.c.run(d.t, args...); code != cli.ExitOK {
		d.t.Fatalf("okara %s: exit %d\n%s%s", strings.Join(args, " "), code, out, errOut)
	}
}

func (d *doors) ask(method, path, body string, want int) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "token=") {
		req.Header.Del("Authorization")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := d.transparent.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		d.t.Fatalf("%s %s: status %d, want %d, %v\n%s", method, path, resp.StatusCode, want, err, text)
	}
	return string(text)
}

// records returns the records that a query of the audit log finds.
func (d *doors) records(query string) []auditlog.Entry {
	d.t.Helper()
	var doc struct{ Records []auditlog.Entry }
	if err := json.Unmarshal([]byte(d.ask(http.MethodGet, "/api/v1/audit?"+query, "", http.StatusOK)), &doc); err != nil {
		d.t.Fatal(err)
	}
	return doc.Records
}

func (d *doors) count() int { return len(d.records("")) }

// each requires that a query finds a record that fits.
func (d *doors) each(query string, fits func(auditlog.Entry) bool) {
	d.t.Helper()
	all := d.records(query)
	if !slices.ContainsFunc(all, fits) {
		text, _ := json.MarshalIndent(all, "", " ")
		d.t.Errorf("no such record for %s among\n%s", query, text)
	}
}

// wants requires a change with actor, action, source address and outcome.
func (d *doors) wants(action, kind, address, version string) {
	d.t.Helper()
	d.made = append(d.made, action)
	d.each("action="+action, func(e auditlog.Entry) bool {
		return e.Kind == kind && e.Address == address && (version == "" || e.Version == version) &&
			e.Subject == "ci" && e.ClientIP == "127.0.0.1" && e.Outcome == "done" && !e.Time.IsZero()
	})
}

func (d *doors) text(serial int) string {
	return `{"version":4,"terraform_version":"1.12.6","serial":` + string(rune('0'+serial)) + `,"lineage":"a","outputs":{},"resources":[]}`
}

func (d *doors) state(serial int) string {
	return d.c.file(d.t, "state"+string(rune('0'+serial))+".json", d.text(serial))
}
