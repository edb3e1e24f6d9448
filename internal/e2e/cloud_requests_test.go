// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// recorder passes requests on and remembers their shapes.
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

// TestCloudRequests runs every command of the tools and wants exactly the requests
// that the server is made for, and of the server no more at the registry than it is
// allowed.
func TestCloudRequests(t *testing.T) { eachTool(t, testCloudRequests) }

func testCloudRequests(t *testing.T, c *cloud) {
	var asked atomic.Int64
	registry := towards(t, c.registry())
	_, addr := c.serve("one", inFront(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		registry.ServeHTTP(w, r)
	}), "127.0.0.1:0")
	r := &recorder{proxy: towards(t, addr)}
	at := inFront(t, r.ServeHTTP)
	for _, block := range []string{"cloud", `backend "remote"`} {
		folder := strings.Fields(block)[0]
		c.folder(folder, block, `name = "`+folder+`"`, "true")
		for _, cmd := range cloudCommands(block == "cloud") {
			asked.Store(0)
			began := time.Now()
			c.must(folder, at, cmd.args...)
			most := cmd.budget
			if time.Since(began) > sameList {
				most += 2
			}
			if n := int(asked.Load()); n > most {
				t.Errorf("%s %v cost %d requests at the registry, want at most %d", block, cmd.args, n, most)
			}
			got := strings.ReplaceAll(strings.Join(r.take(), "\n"), "workspaces/"+folder, "workspaces/NAME")
			if want := strings.Join(cmd.sends, "\n"); got != want {
				t.Errorf("%s %v sent\n%s\nwant\n%s", block, cmd.args, got, want)
			}
		}
	}
}

// sameList is for how long a server shows a workspace to a command by one list, and
// locks it by that: a command that is slower costs two lists more.
const sameList = 2 * time.Second

// cloudCommand is a command of the tools, what it sends, and how much the server may ask
// the registry for it.
type cloudCommand struct {
	args, sends []string
	budget      int
}

func cloudCommands(cloud bool) []cloudCommand {
	begin := []string{"GET ping", "GET organizations/acme/entitlement-set"}
	read, lock := "GET organizations/acme/workspaces/NAME", "POST workspaces/*/actions/lock"
	current, download, unlock := "GET workspaces/*/current-state-version", "GET state-versions/*/download", "POST workspaces/*/actions/unlock"
	made := []string{read, "POST organizations/acme/workspaces", current}
	write := []string{"POST workspaces/*/state-versions", "PUT uploads/*", "GET state-versions/*"}
	outputs := []string{read, current, download}
	if cloud { // which sends a second copy, and asks for outputs
		made = []string{read, "POST organizations/acme/workspaces", "PATCH workspaces/*", current}
		write = []string{"POST workspaces/*/state-versions", "PUT uploads/*", "PUT uploads/*", "GET state-versions/*"}
		outputs = []string{read, "GET workspaces/*/current-state-version-outputs"}
	}
	join := func(parts ...any) []string {
		list := slices.Clone(begin)
		for _, p := range parts {
			switch p := p.(type) {
			case string:
				list = append(list, p)
			case []string:
				list = append(list, p...)
			}
		}
		return list
	}
	plan := join(read, read, lock, current, download, unlock)
	change := join(read, read, lock, current, download, begin, write, unlock) // the tools begin twice
	return []cloudCommand{
		{[]string{"init"}, join(made), 11},
		{[]string{"apply", "-auto-approve"}, join(read, read, lock, current, current, write, unlock), 20}, // the first of a server, which finds out what the registry can
		{[]string{"plan"}, plan, 9},
		{[]string{"apply", "-auto-approve"}, plan, 9},
		{[]string{"apply", "-auto-approve", "-var", "text=second"}, join(read, read, lock, current, download, write, unlock), 14},
		{[]string{"refresh", "-var", "text=second"}, plan, 9},
		{[]string{"console"}, join(read, lock, current, download, unlock), 9},
		{[]string{"state", "list"}, join(read, current, download), 5},
		{[]string{"state", "pull"}, join(read, current, download), 5},
		{[]string{"output"}, join(outputs), 5},
		{[]string{"state", "mv", "terraform_data.one", "terraform_data.two"}, change, 14},
		{[]string{"state", "rm", "terraform_data.two"}, change, 14},
		{[]string{"import", "-var", "text=second", "terraform_data.one", "x"}, join(read, read, lock, current, download, read, read, write, unlock), 17},
		{[]string{"workspace", "show"}, nil, 0},
	}
}
