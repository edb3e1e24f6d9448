// SPDX-License-Identifier: Apache-2.0

package tfe_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seed-141914ff/okara/internal/ocitest"
)

// TestRegistryAway: no answer, or no registry's, is never "not found".
//
// Shows: cloud 10
func TestRegistryAway(t *testing.T) {
	host := newRegistry(t)
	tool := newTool(t, newServer(t, host, setup{}))
	tool.create("prod")
	tool.apply("prod", stateOf("a", 1))
	id := tool.read("prod")
	for name, fault := range map[string]struct {
		do     ocitest.Act
		passes bool // and so the request may be repeated
	}{
		"connection refused": {ocitest.Refuse, true},
		"500":                {ocitest.Status(500, 0), true},
		"429":                {ocitest.Status(429, 1), true},
		"HTML":               {ocitest.Respond("text/html", "<html>sign in</html>"), true},
		"denied":             {ocitest.Status(403, 0), false},
		"unauthorized":       {ocitest.Status(401, 0), false},
	} {
		t.Run(name, func(t *testing.T) {
			broken := tool.at(newServer(t, host, setup{via: &ocitest.Fault{Times: -1, Do: fault.do}}))
			broken.t = t
			for _, request := range requests(id) {
				method, path, _ := strings.Cut(request, " ")
				var body any
				if strings.HasSuffix(path, "/state-versions") && method == http.MethodPost {
					body = announce(stateOf("a", 2))
				}
				got := broken.do(method, path, body)
				if got.status == http.StatusNotFound || got.status < 400 || got.status >= 500 && !fault.passes {
					t.Errorf("%s: %d %s", request, got.status, got.body)
				}
				if fault.passes && method == http.MethodGet && got.status < 500 && got.status != http.StatusTooManyRequests {
					t.Errorf("%s: %d %s", request, got.status, got.body)
				}
			}
			broken.want(broken.do(http.MethodGet, workspaces, nil).status, http.MethodGet, workspaces, nil)
		})
	}
}

// TestFaults answers each request of an apply once with 500, before and after it took
// effect. The tool repeats it, and the result is as if nothing had happened.
//
// Shows: cloud 9 | each request to the registry fails once, before or after it took effect; each
// request of a tool is repeated
func TestFaults(t *testing.T) {
	for name, act := range map[string]ocitest.Act{"before": ocitest.Status(500, 0), "after": ocitest.StatusAfter(500)} {
		t.Run(name, func(t *testing.T) {
			for nth := 1; ; nth++ {
				host := newRegistry(t)
				fault := &ocitest.Fault{Nth: nth, Do: act}
				tool := newTool(t, newServer(t, host, setup{}))
				if !throughLife(tool, fault) {
					t.Errorf("request %d", nth)
				}
				if fault.Seen() < nth {
					if nth < 20 {
						t.Fatalf("a life had %d requests", nth-1)
					}
					t.Logf("%d requests", nth-1)
					return
				}
			}
		})
	}
}

// throughLife leads a workspace through its life by via: are all changes there?
func throughLife(tool client, via http.RoundTripper) bool {
	tool.t.Helper()
	plain := tool
	plain.via = &http.Transport{} // another process has its own connection
	tool.via = via
	made := tool.begin("prod")
	if a := made.send(http.MethodPost, workspaces, newWorkspace("prod", "net")); a.status != http.StatusCreated {
		tool.t.Errorf("create: %d %s", a.status, a.body)
		return false
	}
	tool.apply("prod", stateOf("a", 1))
	tool.apply("prod", stateOf("a", 2))
	cmd := tool.begin("prod").read()
	cmd.must(http.StatusNoContent, http.MethodPost, "workspaces/"+cmd.id+"/relationships/tags", newTags("eu"))
	got := plain.want(http.StatusOK, http.MethodGet, workspaces+"/prod", nil).item()
	if len(got.Attributes["tag-names"].([]any)) != 2 || got.Attributes["locked"] != false {
		tool.t.Errorf("the workspace is %+v", got)
	}
	if state := plain.begin("prod").read().state(); state != stateOf("a", 2) {
		tool.t.Errorf("the state is %s", state)
		return false
	}
	if a := cmd.send(http.MethodDelete, workspaces+"/prod", nil); a.status != http.StatusNoContent && a.status != http.StatusNotFound {
		tool.t.Errorf("delete: %d %s", a.status, a.body)
	}
	return plain.do(http.MethodGet, workspaces+"/prod", nil).status == http.StatusNotFound
}
